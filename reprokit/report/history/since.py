"""A moment as people type it: ``7d``, ``2026-01-31``, ``yesterday``, ``monday``. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_SPAN = re.compile(r"([0-9]{1,5}) ?(h|d|w|minute|hour|day|week)s?( ago)?")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")


def moment(text: str, now: datetime) -> str | None:
    """The moment as records have it (RFC 3339 in UTC, milliseconds), or None where the text is neither span nor date.

    ``7d``, ``12h`` and ``2 weeks ago`` are before ``now``; ``today``, ``yesterday`` and the last ``monday`` (``mon``)
    begin at midnight; a date or time without a zone is in UTC, as runs are listed. Raises ValueError for what looks
    like a date and is not.
    """
    word = text.strip().lower()
    midnight = now.astimezone(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [day for day in _WEEKDAYS if word in (day, day[:3])]
    if span := _SPAN.fullmatch(word):
        at = now - timedelta(**{_UNITS[span[2][0]]: int(span[1])})
    elif word in ("now", "today", "yesterday"):
        at = now if word == "now" else midnight - timedelta(days=word == "yesterday")
    elif days:
        at = midnight - timedelta(days=(midnight.weekday() - _WEEKDAYS.index(days[0])) % 7)
    elif _DATE.fullmatch(text):
        at = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
        at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    else:
        return None
    return stamp(at)


def stamp(at: datetime) -> str:
    """A time as records have it."""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
