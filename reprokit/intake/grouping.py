"""Which environment blocks of a report describe the same environment, and in which of them it failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from reprokit.environment import versions
from reprokit.intake import beside as around
from reprokit.intake.environments import (
    EnvironmentBlock,
    Rank,
    find,
    lines,
    mentions,
    merge,
    pairs,
    same_version,
    together,
)
from reprokit.intake.environments.mentions import Mention
from reprokit.intake.environments.reading import BlockReader
from reprokit.intake.pieces import ParsedReport
from reprokit.intake.shown import Shown

MOST = 64
"""Most environment blocks of one report that are read."""


@dataclass
class ReportedEnvironments:
    """The environments of a report. ``groups``: the blocks of each, ``statements``: what the report says of each.

    ``failing``: the index of the one in which it failed; ``found``: how many blocks the text has in all.
    """

    groups: list[list[EnvironmentBlock]]
    statements: list[GroupReading | None]
    failing: int = 0
    found: int = 0
    merged: list[EnvironmentBlock] = field(default_factory=list)
    own: frozenset[str] = frozenset()
    """What the report imports, installs, or shows in paths of installed packages, in small letters."""

    def add(self, block: EnvironmentBlock, statement: GroupReading | None = None) -> None:
        """Add an environment."""
        self.groups.append([block])
        self.merged.append(block)
        self.statements.append(statement)

    def replace(self, one: Mention) -> None:
        """Let the environment that failed have the version of one thing that a reader states."""
        if not self.groups:
            self.add(EnvironmentBlock(kind="stated", first=one.line, last=one.line))
        has = self.merged[self.failing]
        if not same_version(_value(has, one.role), one.version) or not _value(has, one.role):
            spans = replace(_with(has, one.role, one), kind=has.kind, first=has.first, last=has.last)
            self.merged[self.failing] = spans
            self.groups[self.failing] = [spans]

    def fill(self, block: EnvironmentBlock) -> None:
        """Add what else is known of the environment that failed, which keeps its lines."""
        if not self.groups:
            self.add(block)
            return
        group = self.groups[self.failing]
        group.append(replace(block, first=group[0].first, last=group[0].last))
        self.merged[self.failing] = merge(group)


def read(
    report: ParsedReport,
    shown: Shown | None,
    paths: str = "",
    stated: Sequence[Mention] | None = None,
) -> ReportedEnvironments:
    """The environments of a report: its blocks, then what pasted lines and paths show.

    ``paths``: of :func:`system_of`; ``stated``: what a reader states.
    """
    split = lines.split(report.text)
    blocks = find(report.text)
    groups = together(blocks[:MOST])
    result = ReportedEnvironments(groups, statements([line.raw for line in split], groups), found=len(blocks))
    result.failing = failing(groups, shown, result.statements)
    result.merged = [merge(group) for group in groups]
    read = [(one.first, one.last) for one in blocks if one.kind != "typed"]
    of_code = {number for piece in report.pieces if piece.code for number in range(piece.line, piece.last + 1)}
    result.own = mentions.own_names(report.text)
    if stated is None:
        rest = list(lines.without(split, read))
        code = [line for line in rest if line.number in of_code and not line.edge]
        said = list(mentions.answers([line for line in rest if line.number not in of_code]))
        said += islice(mentions.printed(code, result.own), _MENTIONS)
    else:
        said = list(stated)
        for one in {one.role: one for one in reversed(stated) if one.fails is not False}.values():
            result.replace(one)
    compared = _from_sentences(result, said)
    for found in (
        around.system_of(result.merged, paths),
        around.dumped(split),
    ):
        if found:
            result.fill(found)
    for found in around.shown(result.merged, report.text):
        result.fill(found)
    for thing in compared:
        _compare(result, thing)
    return result


def _value(found: EnvironmentBlock, role: str) -> str:
    name, _, package = role.partition(" ")
    return found.packages.get(package, "") if package else found.axes.get(name, "")


def _with(found: EnvironmentBlock, role: str, one: Mention) -> EnvironmentBlock:
    """An environment with another version of one thing."""
    name, _, package = role.partition(" ")
    into = BlockReader(Rank.STATED)
    if package:
        into.package(package, one.version, one.words)
    else:
        into.claim(name, one.version, one.words)
    new = into.found("stated", one.line, one.line, {})
    kept = [claim for claim in found.claims if claim.axis not in new.axes]
    return replace(
        found,
        kind="stated",
        first=one.line,
        last=one.line,
        values={key: one.version if pairs.role(key) == role else value for key, value in found.values.items()},
        claims=(*kept, *new.claims),
        packages={**found.packages, **new.packages},
    )


@dataclass
class _Said:
    """What sentences say of one thing. ``value``: its version where it fails; ``fine``, ``bad``: where it does not."""

    role: str
    value: str
    fine: list[Mention]
    bad: list[Mention]


def _from_sentences(result: ReportedEnvironments, said: Sequence[Mention]) -> list[_Said]:
    """Take what sentences say and no block names; the result is what they compare."""
    has = result.merged[result.failing] if result.merged else EnvironmentBlock(kind="stated", first=1, last=1)
    by_role: dict[str, list[Mention]] = {}
    for one in said:
        by_role.setdefault(one.role, []).append(one)
    stated = EnvironmentBlock(kind="stated", first=0, last=0)
    compared = []
    for role, found in list(by_role.items())[:_SAID]:
        fine = [one for one in found if one.fails is False]
        neutral = [one for one in found if one.fails is None and one.named]
        neutral = [one for one in neutral if one.sure] or neutral
        bad = [one for one in found if one.fails]
        bad = bad or ([] if {one.version for one in fine} & {one.version for one in neutral} else neutral)
        thing = _Said(role, _value(has, role), fine, bad)
        if not thing.value and bad and (bad[0].fails or len({one.version for one in bad}) == 1):
            same = (one for one in found if one.fails is not False and same_version(one.version, bad[0].version))
            first = max(same, key=lambda one: one.version.count("."))  # ``since 2.1``, and 2.1.4 elsewhere
            thing.value = first.version
            stated = _with(replace(stated, first=first.line), role, first)
        if thing.value and (fine or any(not same_version(one.version, thing.value) for one in bad)):
            compared.append(thing)
    if stated.first:
        result.fill(stated)
    return compared[:_COMPARED]


def _other(said: _Said) -> list[Mention]:
    """What works with another version of a thing than the one that fails."""
    return [one for one in said.fine if not same_version(one.version, said.value)]


def _compare(result: ReportedEnvironments, said: _Said) -> None:
    """Add the environments in which something has another version: where it works, and where it fails, too."""
    here = result.merged[result.failing]
    fine = _other(said)
    bad = [one for one in said.bad if one.fails and not same_version(one.version, said.value)]
    if said.fine and not fine:  # the environment that the report describes is the one in which it works
        if not bad or result.statements[result.failing]:
            return
        result.statements[result.failing] = _statement_of(said.fine[0])
        result.add(_with(here, said.role, bad[0]), _statement_of(bad[0]))
        result.failing = len(result.groups) - 1
        return
    good = max(fine, key=lambda one: versions.order(one.version), default=None)
    for one in ([good] if good else []) + bad[:_COMPARED]:
        if any(same_version(text, one.version) for other in result.merged if (text := _value(other, said.role))):
            continue
        if beside := _stated_in(result, one):  # the same sentence names several things
            result.merged[beside] = _with(result.merged[beside], said.role, one)
            result.groups[beside] = [result.merged[beside]]
            continue
        changed = _with(here, said.role, one)
        if (changed.axes, changed.packages) != (here.axes, here.packages):
            result.add(changed, _statement_of(one))
            reason = next((other for other in said.bad if other.fails), None)
            if reason and result.statements[result.failing] is None:
                result.statements[result.failing] = _statement_of(reason)


def _stated_in(result: ReportedEnvironments, one: Mention) -> int:
    """The index of the environment that a sentence about other versions describes already; 0 for none."""
    for at, (found, said) in enumerate(zip(result.merged, result.statements, strict=True)):
        same = said is not None and (said.words, said.fails) == (one.words, one.fails)
        if same and found.kind == "stated" and at != result.failing:
            return at
    return 0


def _statement_of(one: Mention) -> GroupReading:
    return GroupReading(line=one.line, words=one.words, fails=bool(one.fails))


_MENTIONS = 1000
"""Most versions that are read from pasted lines."""
_SAID = 64
"""Most things whose versions a reader states."""
_COMPARED = 3
"""Most things that are compared by version."""


def system_of(text: str) -> str:
    """``windows``, ``macos`` or ``ubuntu`` where a text, with its homes and prompts, is from such a system, else ''."""
    if re.search(
        r"(?<![\w/])/Users/\w|/usr/local/Cellar/|/opt/homebrew/|\b[Dd]arwin[_/-](?:arm64|amd64|x86_64)\b", text
    ):
        return "macos"
    if re.search(r"(?<!\w)(?:[A-Z]:\\\w[^\n]{0,200}?\\|[A-Za-z]:[\\/]\w[^\s\n]{0,200}?\.(?:exe|dll|bat)\b)", text):
        return "windows"
    return "ubuntu" if re.search(r"^ubuntu@|(?<![\w/])/home/ubuntu/", text, re.MULTILINE) else ""


def failing(
    groups: Sequence[Sequence[EnvironmentBlock]], shown: Shown | None, statements: Sequence[GroupReading | None]
) -> int:
    """The index of the environment in which it failed: the last one before the failure in the text, else the first.

    Among those that the report says fail, or else among those that it does not say work. ``statements``: the result of
    :func:`statements`.
    """
    numbers = range(len(groups))
    fail = [number for number in numbers if (one := statements[number]) and one.fails]
    fine = {number for number in numbers if (one := statements[number]) and not one.fails}
    of = fail or [number for number in numbers if number not in fine] or list(numbers)
    before = [number for number in of if shown and groups[number][0].first <= shown.line]
    return next(iter(before[-1:] or of), 0)


@dataclass(frozen=True, kw_only=True)
class GroupReading:
    """A statement of the report about an environment. ``words``: the text; ``fails``: whether it says that it fails."""

    line: int
    words: str
    fails: bool


_NEAR = 4
"""Most lines above an environment that are searched for words about it."""


def statements(lines: Sequence[str], groups: Sequence[Sequence[EnvironmentBlock]]) -> list[GroupReading | None]:
    """For each environment, what the line above it says: that it fails there, or that it does not; None for neither.

    Only the nearest line with words counts, unless it says both or is a question.
    """
    return [_statement(lines, group[0].first) for group in groups]


def _statement(lines: Sequence[str], first: int) -> GroupReading | None:
    for number in range(first - 1, max(0, first - 1 - _NEAR), -1):
        text = lines[number - 1].strip().strip("*#`~-_: ：>")
        if not re.search(r"\w{3}|[\u4e00-\u9fff]{2}", text) or re.fullmatch(r"\w+", text, re.ASCII):
            continue
        fails = mentions.fails(text[:400])
        return None if fails is None else GroupReading(line=number, words=text, fails=fails)
    return None


def comments(groups: Sequence[Sequence[EnvironmentBlock]], statements: Sequence[GroupReading | None]) -> list[str]:
    """What the report says about each environment, in its own words; [] for a single environment that fails."""
    if len(groups) < 2 and not any(one and not one.fails for one in statements):
        return []
    return [
        f"line {one.line} about the environment in line {group[0].first}: {one.words}"
        for group, one in zip(groups, statements, strict=True)
        if one
    ]


def reproduces(cells: Sequence[Mapping[str, str]], statements: Sequence[GroupReading | None]) -> str:
    """``expect.reproduces`` according to the report: the failing cells, where it says of all others that they work.

    Written with the axes in which cells differ; '' where the report leaves a cell out, or says both about one.
    """
    fail = [cell for cell, one in zip(cells, statements, strict=True) if one and one.fails]
    fine = [cell for cell, one in zip(cells, statements, strict=True) if one and not one.fails]
    if not fail or not fine or len(fail) + len(fine) < len(cells) or any(cell in fine for cell in fail):
        return ""
    names = [name for name in fail[0] if len({cell.get(name) for cell in cells}) > 1]
    short = [{name: cell[name] for name in names if name in cell} for cell in fail]
    return f"[{', '.join('{' + ', '.join(f'{k}: {v!r}' for k, v in cell.items()) + '}' for cell in short)}]"
