"""Which environment blocks of a report describe the same environment, and in which of them it failed. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from reprokit.environment import versions, wording
from reprokit.intake.environments import (
    EnvironmentBlock,
    Rank,
    ReportedValue,
    find,
    lines,
    mentions,
    merge,
    pairs,
    same_version,
    together,
)
from reprokit.intake.environments.mentions import Mention
from reprokit.intake.environments.reading import BlockReader, system
from reprokit.intake.failure import Shown
from reprokit.intake.pieces import ParsedReport

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

    def add(self, block: EnvironmentBlock, statement: GroupReading | None = None) -> None:
        """Add an environment."""
        self.groups.append([block])
        self.merged.append(block)
        self.statements.append(statement)

    def fill(self, block: EnvironmentBlock) -> None:
        """Add what else is known of the environment that failed, which keeps its lines."""
        if not self.groups:
            self.add(block)
            return
        group = self.groups[self.failing]
        group.append(replace(block, first=group[0].first, last=group[0].last))
        self.merged[self.failing] = merge(group)


def read(report: ParsedReport, shown: Shown | None, paths: str = "") -> ReportedEnvironments:
    """The environments of a report: its blocks, then what sentences and paths say. ``paths``: of :func:`system_of`."""
    split = lines.split(report.text)
    blocks = find(report.text)
    groups = together(blocks[:MOST])
    result = ReportedEnvironments(groups, statements([line.raw for line in split], groups), found=len(blocks))
    result.failing = failing(groups, shown, result.statements)
    result.merged = [merge(group) for group in groups]
    pasted = [(piece.line, piece.last) for piece in report.pieces if piece.code]
    read = [(one.first, one.last) for one in blocks if one.kind != "typed"]
    prose = list(lines.without(split, pasted + read))
    own = mentions.own_names(report.text) | mentions.titled(report.title)
    said = list(islice(mentions.find(prose, own, report.title), _MENTIONS))
    of_code = {number for first, last in pasted for number in range(first, last + 1)}
    code = [line for line in lines.without(split, read) if line.number in of_code and not line.edge]
    said += islice(mentions.printed(code, own), _MENTIONS)
    compared = _from_sentences(result, said)
    _from_system(result, prose, paths, report.title)
    _from_devices(result, split)
    _without_axis(result, prose)
    _from_paths(result, report.text)
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
    nameless = _role_of({one.version for one in said if not one.role}, has)
    for one in said:
        role = one.role or (nameless if one.fails is not None else "")
        if role and f"{role}-gpu".partition(" ")[2] in has.packages:  # people leave that out
            role = f"{role}-gpu"
        if role:
            by_role.setdefault(role, []).append(one)
    stated = EnvironmentBlock(kind="stated", first=0, last=0)
    compared = []
    for role, found in list(by_role.items())[:_SAID]:
        fine = [one for one in found if one.fails is False]
        neutral = [one for one in found if one.fails is None and one.named]
        bad = [one for one in found if one.fails]
        bad = bad or ([] if {one.version for one in fine} & {one.version for one in neutral} else neutral)
        thing = _Said(role, _value(has, role), fine, bad)
        if not thing.value and bad and (bad[0].fails or len({one.version for one in bad}) == 1):
            thing.value = bad[0].version
            stated = _with(replace(stated, first=bad[0].line), role, bad[0])
        if thing.value and (fine or bad):
            compared.append(thing)
    if stated.first:
        result.fill(stated)
    return compared[:_COMPARED]


def _compare(result: ReportedEnvironments, said: _Said) -> None:
    """Add the environments in which something has another version: where it works, and where it fails, too."""
    here = result.merged[result.failing]
    fine = [one for one in said.fine if not same_version(one.version, said.value)]
    bad = [one for one in said.bad if one.fails and not same_version(one.version, said.value)]
    if said.fine and not fine:  # the environment that the report describes is the one in which it works
        if not bad or result.statements[result.failing]:
            return
        result.statements[result.failing] = _statement_of(said.fine[0])
        result.add(_with(here, said.role, bad[0]), _statement_of(bad[0]))
        result.failing = len(result.groups) - 1
        return
    below = [one for one in fine if versions.order(one.version) < versions.order(said.value)]
    good = max(below or fine, key=lambda one: versions.order(one.version), default=None)
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
"""Most versions in sentences that are read."""
_SAID = 64
"""Most things whose versions sentences name."""
_COMPARED = 3
"""Most things that sentences compare by version."""


def _role_of(nameless: set[str], has: EnvironmentBlock) -> str:
    """What the versions without a name are of: the only thing of the failing environment that has one of them."""
    roles = [f"package {name}" for name, version in has.packages.items() if version in nameless]
    roles += [axis for axis, version in has.axes.items() if any(same_version(version, text) for text in nameless)]
    return roles[0] if len(roles) == 1 else ""


_NAMED_SYSTEM = re.compile(r"\b(?:on|in|under|using|with) (?:an? |my |the )?(\w+(?: linux)?)", re.IGNORECASE | re.ASCII)
_SYSTEM = re.compile(
    r"(?<![A-Za-z])(?:ubuntu|debian|centos|rhel|rocky|almalinux|fedora|opensuse"
    r"|red ?hat(?: ?enterprise)?(?: ?linux)?(?: ?server)?|suse linux enterprise server|alpine|amazon|windows|win"
    r"|mac ?os(?: x)?|os x)(?: (?:gnu/)?linux)?[ -]?(?:server |lts |rawhide/)?v?\d[\d.]{0,8}"
    r"|\b(?:ubuntu|debian)[ -](?:bionic|focal|jammy|noble|buster|bullseye|bookworm|trixie)\b"
    r"|\b(?:on|under|using) (?:my |a )?(?:windows|mac(?:os|book)?|os x)\b|\bmicrosoft windows\b"
    r"|\b(?:windows (?:machine|server|pc|laptop|desktop|host)|macbook|darwin kernel"
    r"|mac ?os (?:big sur|catalina|high sierra|mojave|monterey|sequoia|sonoma|ventura)|mac (?:m[1-5]|mini|studio|pro)"
    r"|apple (?:silicon|m[1-5]))\b",
    re.IGNORECASE | re.ASCII,
)


def _from_system(result: ReportedEnvironments, prose: Sequence[lines.ReportLine], paths: str, title: str) -> None:
    """Take the one system that sentences name, or that paths show, where no block names one."""
    if any(found.system in ("windows", "macos") or "os" in found.axes for found in result.merged):
        return
    linux = any(found.system for found in result.merged)  # as pandas says: "OS: Linux"
    named: dict[str, int] = {}
    for line in prose:
        for hit in _SYSTEM.finditer(line.text):
            if mentions.fails(mentions.clause_of(line.text, hit.start())) is not False:
                named.setdefault(hit[0].lower(), line.number)
    if any(wording.os(text) for text in named):  # of several systems, the one that a container can have
        named = {text: at for text, at in named.items() if system(text) == "linux"}
    kinds = {system(text) for text in named}
    if linux and kinds - {"linux"}:
        return
    into = BlockReader(Rank.STATED)
    if len(kinds) == 1 and named:
        text = max(named, key=len)
        into.system(text)
        releases = {release for one in named if (release := wording.os(one))}
        if len(releases) == 1:
            into.claim("os", releases.pop(), text)
        result.fill(into.found("stated", named[text], named[text], {}))
    elif paths and not named and not linux:
        result.fill(EnvironmentBlock(kind="paths", first=1, last=1, system=paths))
    elif not named:
        words = [(hit[1], line.number) for line in prose for hit in _NAMED_SYSTEM.finditer(line.text)]
        families = {name: at for text, at in (*words, (title, 1)) if (name := wording.family(text))}
        if len(families) == 1:
            ((name, at),) = families.items()
            into.claim("os", name, name, Rank.BUILT)
            result.fill(into.found("stated", at, at, {}))


_DEVICE = re.compile(
    r"(?:(?:nvidia|geforce|tesla|quadro|amd|radeon|instinct) ?){0,3}\b(?:[RG]TX ?A?\d{3,4}(?: ?(?:ti|super|max-q))?"
    r"|(?:tesla |nvidia )[A-Z]{1,2}\d{1,4}\w{0,3}|titan ?(?:x|xp|v|rtx)\b|A100|A800|H100|H200|H800|B200|V100|P100|K80"
    r"|A10G?|A40|A6000|A5000|L40S?|T4|GB10|GB200|[345]0[5-9]0 ?(?:ti|super|d)?|jetson(?: \w+)?|MI\d{3}[AX]?"
    r"|radeon(?: \w+){1,2})(?![\w.])",
    re.IGNORECASE,
)


def _from_devices(result: ReportedEnvironments, split: Sequence[lines.ReportLine]) -> None:
    """Take the first GPU that any line names, where no block names one."""
    if any(found.gpus for found in result.merged):
        return
    for line in split:
        if hit := _DEVICE.search(unicodedata.normalize("NFKC", line.text)):
            gpus = (hit[0].strip(),)
            result.fill(EnvironmentBlock(kind="stated", first=line.number, last=line.number, gpus=gpus))
            return


_NO_AXIS = re.compile(
    r"(?<![\w./-])(?P<name>driver|rocm|hip|jetpack|l4t|vulkan(?: ?sdk)?|msvc|visual studio|docker|kernel|open ?mpi|icc"
    r"|icpc|oneapi|node(?:\.?js)?|java|jdk|bazel|ninja|llvm|qt|boost|openssl|glslang|mkl|tensorrt|xcode|ndk)"
    r"(?: version)?(?: \([^()]{1,30}\))?[ :：=v-]{0,4}(?P<version>\d[\d.]*\d)(?![\w.]*\w)",
    re.IGNORECASE,
)
"""What belongs to an environment and has no axis in a case."""


def _without_axis(result: ReportedEnvironments, prose: Sequence[lines.ReportLine]) -> None:
    """Name in a comment what else the report says of the environment, for which a case has no axis."""
    here = result.merged[result.failing] if result.merged else None
    found = {"driver": here.driver} if here and here.driver else {}
    texts = [f"{key}: {value}" for key, value in (here.values.items() if here else ())] + [line.text for line in prose]
    for hit in (hit for text in texts[:_MENTIONS] for hit in _NO_AXIS.finditer(text[:_LINE])):
        if hit["name"].lower() not in (here.packages if here else ()):
            found.setdefault(hit["name"], hit["version"])
    if found:
        named = ", ".join(f"{name} {version}" for name, version in list(found.items())[:_LISTED])
        remark = f"also reported, and not an axis of a case: {named}"
        if here:
            result.merged[result.failing] = replace(here, remarks=(*here.remarks, remark))
        else:
            result.fill(EnvironmentBlock(kind="stated", first=1, last=1, remarks=(remark,)))


_LINE, _LISTED = 400, 8
"""Characters of a line that are searched for them, and most of them that are listed."""

_PYTHON_IN_PATH = re.compile(
    r"--python[= ]([23]\.\d{1,2})\b|\bpython=([23]\.\d{1,2})\b|(?:^|[\s`$/])python([23]\.\d{1,2})[ \t]"
    r"|major=([23]), minor=(\d{1,2}),|[/\\][Pp]ython[-/]?([23]\.\d{1,2})(?:[/\\]|\.\d)|[/\\]Python([23])(\d{1,2})[/\\]"
    r"|-cp([23])(\d{1,2})-cp\d|cpython-([23])(\d{1,2})[.m-]",
    re.MULTILINE,
)
_IN_PATH = (
    ("python", _PYTHON_IN_PATH, "{}"),
    ("cuda", re.compile(r"/cuda-(\d{1,2}\.\d)(?![\d.])"), "{}"),
    ("cmake", re.compile(r"/cmake-(\d\.\d{1,2})(?![\d.])"), "{}"),
    ("os", re.compile(r"(?:ubuntu[\d.]{0,8}~|#\d{1,4}~)(\d\d\.\d\d)(?![\d])"), "ubuntu-{}"),
    ("os", re.compile(r"\+deb(\d\d)u\d"), "debian-{}"),
    ("os", re.compile(r"-\d[\w.]{0,40}\.el(\d{1,2})(?:_\d{1,2})?\.(?:x86_64|aarch64|noarch)"), "rhel-{}"),
    ("os", re.compile(r"-\d[\w.]{0,40}\.fc(\d\d)\.(?:x86_64|aarch64|noarch)"), "fedora-{}"),
)
"""(axis, pattern, value) of the names of files and packages."""


def _from_paths(result: ReportedEnvironments, text: str) -> None:
    """Take the one version that paths, wheels, packages and commands show, where nothing else does."""
    for axis, pattern, form in _IN_PATH:
        other = axis == "os" and any(found.system in ("windows", "macos") for found in result.merged)
        if other or any("." in found.axes.get(axis, "") for found in result.merged):
            continue
        hits = list(pattern.finditer(text))
        shown = {".".join(group for group in hit.groups() if group) for hit in hits}
        if len(shown) != 1:
            continue
        line = text.count("\n", 0, hits[0].start()) + 1
        version = form.format(shown.pop())
        quote = f"line {line}"
        claim = ReportedValue(axis=axis, version=version, rank=Rank.STATED, quote=quote)
        remark = f"{axis} {version} is from the paths or commands in the report (first in {quote})"
        result.fill(EnvironmentBlock(kind="paths", first=line, last=line, claims=(claim,), remarks=(remark,)))


def system_of(text: str) -> str:
    """``windows`` or ``macos`` where a text, with its home directories, has paths of such a system, else ''."""
    if re.search(r"(?<![\w/])/Users/\w", text):
        return "macos"
    return "windows" if re.search(r"(?<!\w)[A-Z]:\\\w[^\n]{0,200}?\\", text) else ""


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

    Only the nearest line with words counts, unless it says both, is a question, or belongs to another environment.
    """
    spans = [(found.first, found.last) for group in groups for found in group]
    return [_statement(lines, group[0].first, spans) for group in groups]


def _statement(lines: Sequence[str], first: int, spans: Sequence[tuple[int, int]]) -> GroupReading | None:
    for number in range(first - 1, max(0, first - 1 - _NEAR), -1):
        text = lines[number - 1].strip().strip("*#`~-_: ：>")
        if any(begin <= number <= end for begin, end in spans):
            return None
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
