"""A moment as people type it: ``7d``, ``2026-01-31``, or a run after which to look. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_SPAN = re.compile(r"([0-9]{1,5})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")


def moment(text: str, now: datetime) -> str | None:
    """The moment as records have it (RFC 3339 in UTC, milliseconds), or None where the text is neither span nor date.

    ``7d``, ``12h`` and ``2w`` are before ``now``; a date or time without a zone is in UTC, as runs are listed.
    Raises ValueError for what looks like a date and is none.
    """
    if span := _SPAN.fullmatch(text):
        at = now - timedelta(**{_UNITS[span[2]]: int(span[1])})
    elif _DATE.fullmatch(text):
        at = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
        at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    else:
        return None
    return stamp(at)


def stamp(at: datetime) -> str:
    """A time as records have it."""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
