"""What logs, paths and dumps show of the environment that failed, where no block of it does. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reprokit.environment import wording
from reprokit.intake.environments import EnvironmentBlock, Rank, ReportedValue, lines
from reprokit.intake.environments.reading import BlockReader
from reprokit.intake.table import table


def system_of(merged: Sequence[EnvironmentBlock], paths: str) -> EnvironmentBlock | None:
    """The system that paths show, where no block names one. ``paths``: as :func:`.grouping.system_of` finds it."""
    if not paths or any(found.system or "os" in found.axes for found in merged):
        return None
    if paths in ("windows", "macos"):
        return EnvironmentBlock(kind="paths", first=1, last=1, system=paths)
    into = BlockReader(Rank.STATED)
    into.claim("os", paths, paths, Rank.BUILT)
    return into.found("stated", 1, 1, {})


_DUMPED = re.compile(rf"(?P<name>(?:{'|'.join(table()['variables'])})[A-Z0-9_]{{2,60}})=(?P<value>[\w.,:+-]{{1,80}})")
"""A line of a dump of variables: of a name that frameworks read, and of no value with a path."""


def dumped(split: Sequence[lines.ReportLine]) -> EnvironmentBlock | None:
    """The environment variables of a dump, two lines or more below each other, as ``collect_env`` of vLLM ends in."""
    found: dict[str, str] = {}
    first = 0
    for above, line in pairwise(split):
        hits = [_DUMPED.fullmatch(one.text.strip()) for one in (above, line)]
        names = [re.match(r"[A-Z][A-Z0-9_]{2,60}=", one.text.strip()) for one in (above, line)]
        if all(names):
            first = first or above.number
            found |= {hit["name"]: hit["value"] for hit in hits if hit}
    return EnvironmentBlock(kind="stated", first=first, last=first, env=found) if found else None


@dataclass(frozen=True)
class VersionPattern:
    """A row of the table ``shown``: what lines of logs, paths and commands show of an axis."""

    axis: str
    pattern: re.Pattern[str]
    form: str

    def values(self, text: str) -> dict[str, int]:
        """The values in a text, with the place of the first."""
        found: dict[str, int] = {}
        for hit in self.pattern.finditer(text):
            version = ".".join(group for group in hit.groups() if group)
            if self.form == "packaged":
                version = wording.packaged(version)
            elif self.axis == "os":
                version = self.form.format(version)
            if version:
                found.setdefault(version, hit.start())
        return found


SHOWN = tuple(VersionPattern(row["axis"], re.compile(row["pattern"]), row.get("as", "")) for row in table()["shown"])


def shown(merged: Sequence[EnvironmentBlock], text: str) -> Iterator[EnvironmentBlock]:
    """The one version that logs, paths, wheels, packages and commands show, where nothing else does."""
    taken = set()
    for row in SHOWN:
        axis = row.axis
        other = axis == "os" and any(found.system in ("windows", "macos") for found in merged)
        if other or axis in taken or any(re.search(r"[.-]\d", found.axes.get(axis, "")) for found in merged):
            continue
        hits = row.values(text)
        if len(hits) != 1:
            continue
        taken.add(axis)
        ((version, at),) = hits.items()
        line = text.count("\n", 0, at) + 1
        quote = f"line {line}"
        remark = f"{axis} {version} is from the output, paths or commands in the report (first in {quote})"
        claim = ReportedValue(axis=axis, version=version, rank=Rank.STATED, quote=quote)
        yield EnvironmentBlock(kind="paths", first=line, last=line, claims=(claim,), remarks=(remark,))
