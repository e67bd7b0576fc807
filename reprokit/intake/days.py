"""Of which day a report is, and whether its packages can come as they were then. ``data/days.yaml`` has the rows."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Any

from reprokit.environment.axes.operating_system import DEFAULT as DEFAULT_OS
from reprokit.environment.catalog import OURS
from reprokit.environment.versions import NONE
from reprokit.intake.table import table

FIRST = date(2010, 1, 1)
HEAD = 20_000
"""Characters of a text, and ten times as many of a page, in which it says when it was created."""
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*==\s*(?P<version>\{\{[^}]*\}\}|[^\s;,]+)")
_AXIS = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True, kw_only=True)
class ReportDay:
    """The day of a report, and why, in words."""

    day: date
    why: str

    @property
    def limit(self) -> str:
        """The day after: what was there on that day is before it."""
        return (self.day + timedelta(days=1)).isoformat()


def of_page(data: bytes) -> str:
    """The day on which a saved page or a mail says that it was created, ``2021-05-04``; '' for none."""
    text = data[: 10 * HEAD].decode("utf-8", "replace")
    if sent := re.match(r"(?:[\w-]{1,60}:.*\r?\n(?:[ \t].*\r?\n){0,20}){0,60}?Date: ?(?P<when>.+)", text):
        found = email.utils.parsedate(sent["when"].strip())
        return f"{found[0]:04}-{found[1]:02}-{found[2]:02}" if found else ""
    return next(_days("pages", text), ("", 0))[0] if re.search(r"<(?:html|!doctype)\b", text[:3000], re.I) else ""


def of_report(text: str, created: str, today: date) -> ReportDay | None:
    """The day of a report from its text. ``created``: when it was, by the server or the page that it is from."""
    head = text[:HEAD]
    if day := _plausible(created, today):
        return ReportDay(day=day, why=f"the report was created on {day}")
    for found, at in _days("created", head):
        if day := _plausible(found, today):
            return ReportDay(day=day, why=f"line {head.count(chr(10), 0, at) + 1} says that it was created on {day}")
    return None


def fits(found: ReportDay, matrix: Mapping[str, Any], pip: Iterable[str]) -> bool:
    """Whether what a draft pins was released by then, as far as that is known; so was each Python of its cells."""
    values = {name: list(one) for name, one in matrix.items() if isinstance(one, (list, tuple))}
    systems = values.get("os") or [DEFAULT_OS]
    own = [value for name in systems if name in OURS.releases() for value in OURS.releases()[name].pythons[:1]]
    pins = [("python", value) for value in values.get("python") or own if value != NONE]
    for text in pip:
        for pin in _PIN.finditer(str(text)):
            axis = _AXIS.fullmatch(pin["version"])
            pins += [(pin["name"], value) for value in (values.get(axis[1], []) if axis else [pin["version"]])]
    return all(found.day >= day for name, version in pins if (day := _released(name, str(version))))


def _released(name: str, version: str) -> date | None:
    rows = table("days")["released"].get(re.sub(r"[-_.]+", "-", name).lower().removesuffix("-gpu"), {})
    day: date | None = rows.get(".".join(version.split("+")[0].split(".")[:2]))
    return day


def _plausible(text: str, today: date) -> date | None:
    try:
        day = date.fromisoformat(text[:10])
    except ValueError:
        return None
    return day if FIRST <= day <= today else None


def _days(kind: str, text: str) -> Iterator[tuple[str, int]]:
    """The days that the rows of a kind read, as 2021-05-04, and where: row by row."""
    for pattern in _patterns(kind):
        for found in pattern.finditer(text):
            named = found.groupdict()
            if named.get("day"):
                digits = re.sub(r"\D", "", named["day"])
                yield f"{digits[:4]}-{digits[4:6]}-{digits[6:]}", found.start()
            else:
                month = _MONTHS.index(named["month"].lower()) + 1
                yield f"{named['year']}-{month:02}-{int(named['date']):02}", found.start()


@cache
def _patterns(kind: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row["pattern"], re.ASCII) for row in table("days")[kind])
