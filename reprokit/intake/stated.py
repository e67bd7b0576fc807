"""Facts of a report that a reader states, a person or a language model; each is held against the report. Pure.

A value that is not in the text is left out, and said so: a model can choose among what a report says, and can invent
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from reprokit.core.redaction import STANDS
from reprokit.core.text import one_line
from reprokit.environment import wording
from reprokit.environment.axes import BY_NAME
from reprokit.intake import commands
from reprokit.intake.commands import CommandLine
from reprokit.intake.environment_forms import ROLES, BlockReader, system_of
from reprokit.intake.environment_model import EnvironmentBlock, Rank, same_version
from reprokit.intake.facts import (
    CommandFact,
    ContrastFact,
    Fact,
    FailureFact,
    GpuFact,
    ProgramFact,
    SourceFact,
    VariableFact,
    VersionFact,
)
from reprokit.intake.pieces import ParsedReport, ReportPiece

_LONGEST = 100_000
"""Most characters that the commands and programs stated have together."""
_EDGE = re.compile(r"\s{0,3}(?:`{3,}|~{3,})[\w+-]{0,20}\s*$")
"""The edge of a fenced block, which readers count as its first or last line."""
_MARKUP = re.compile(r"^\s{0,3}`{1,3}(?=[^`])|(?<=[^`])`{1,3}\s*$")
"""What stands around code in its own line: of a fence, or of code within a sentence."""
_NEAR = 3
"""Lines, that of a release and those above it, which may name the system of which it is."""


@dataclass(frozen=True, kw_only=True)
class StatedVersion:
    """A version of the environment."""

    role: str
    """An axis, or ``package NAME``."""
    value: str
    line: int
    works: bool


@dataclass
class StatedFacts:
    """Facts that the report has, in the form in which drafts use them."""

    versions: list[StatedVersion] = field(default_factory=list)
    programs: list[ReportPiece] = field(default_factory=list)
    commands: list[CommandLine] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    sources: list[tuple[str, str, str]] = field(default_factory=list)
    """(address, folder, what is checked out), as of ``git clone``."""
    contrasts: list[ContrastFact] = field(default_factory=list)
    failure: FailureFact | None = None
    gpu: int = 0
    """The line that names a GPU; 0 for none."""
    refused: list[str] = field(default_factory=list)
    """What the report does not have, one sentence each."""


def check_facts(facts: Sequence[Fact | str], report: ParsedReport, repository: str) -> StatedFacts:
    """The facts of :func:`.facts.parse_answer` that a report has. ``repository``: the address of its project."""
    found = StatedFacts()
    seen = SeenLines(report.lines)
    parts: dict[str, list[ProgramFact]] = {}
    for fact in _present_facts(facts, report, seen, repository, found.refused):
        match fact:
            case VersionFact():
                _add_version(found, fact, seen)
            case GpuFact():
                found.gpu = found.gpu or fact.line
            case VariableFact():
                found.env[fact.name] = fact.value
            case CommandFact():
                text = fact.text.strip() or report.lines_of(fact.line, fact.last)
                text = "\n".join(commands.PROMPT.sub("", line, count=1).strip() for line in text.split("\n"))
                found.commands += commands.split_roles(text, fact.line, commands.role_of(text, sure=True) or "run")
            case ProgramFact():
                parts.setdefault(fact.name, []).append(fact)
            case ContrastFact():
                found.contrasts.append(fact)
            case SourceFact():
                git = fact.git or repository
                found.sources.append((git, git.rstrip("/").rpartition("/")[2].removesuffix(".git"), fact.ref))
            case FailureFact():
                found.failure = found.failure or fact
    found.programs = [_program(report, name, some) for name, some in parts.items()]
    return found


class SeenLines:
    """The lines of a report, and how values are found in them: in small letters with single blanks."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._folded = [" ".join(line.split()).lower() for line in lines]

    def nearest(self, value: str, line: int) -> int:
        """The line nearest to one that has a value, not within a longer version; 0 where none has."""
        wanted = " ".join(value.split()).lower()
        if not wanted:
            return line
        has = (number for number, text in enumerate(self._folded, 1) if wanted in text)
        if re.match("[0-9]", wanted):
            whole = re.compile(rf"(?:(?<![\d.])|\bv\.){re.escape(wanted)}(?!\d|\.\d)")
            has = (number for number in has if whole.search(self._folded[number - 1]))
        return min(has, key=lambda number: abs(number - line), default=0)

    def as_written(self, text: str, line: int) -> str:
        """A text as the report writes it, with its capitals and blanks."""
        found = []
        for part in text.split("\n"):
            near = self.lines[self.nearest(part, line) - 1]
            words = r"\s+".join(map(re.escape, part.split()))
            hit = None if part.strip() in near else re.search(words, near, re.IGNORECASE)
            found.append(hit[0] if hit else part)
        return "\n".join(found)

    def names(self, name: str) -> bool:
        """Whether a report names something, as an index or as people call it: ``cv2`` for ``opencv-python``."""
        names = {name, *(one for one, role in ROLES.items() if role == f"package {name}")}
        text = "\n".join(map(_squeeze, self._folded))
        return any(one in text for one in {_squeeze(one) for one in names} - {""})

    def names_system(self, fact: VersionFact) -> bool:
        """Whether the line of a fact names that system, in whatever words."""
        words = re.findall(r"[a-z]+|\d+(?:\.\d+)*", fact.value.lower())
        near = "\n".join(self.lines[max(0, fact.line - 3) : fact.line + 2])
        return wording.os(near) == fact.value or all(word in near.lower() for word in words)


def _squeeze(text: str) -> str:
    return re.sub(r"[\s._/-]", "", text.lower())


def _present_facts(
    facts: Sequence[Fact | str], report: ParsedReport, seen: SeenLines, repository: str, refused: list[str]
) -> Iterator[Fact]:
    """The facts that a report has, as it writes them; the sentences about the others go to ``refused``."""
    size = 0
    for number, fact in enumerate(facts, 1):
        if isinstance(fact, str):
            refused.append(fact)
            continue
        fact = _join_lines(fact, report.lines) if isinstance(fact, CommandFact) else fact
        why = _why_absent(fact, seen, repository)
        if not why and isinstance(fact, (CommandFact, ProgramFact)):
            size += len(report.lines_of(fact.line, fact.last)) + len(getattr(fact, "text", ""))
            why = f"the facts before it have {_LONGEST} characters" if size > _LONGEST else ""
        if why:
            refused.append(f"Fact {number} ({fact.fact}) is left out: {why}.")
            continue
        if isinstance(fact, (VariableFact, CommandFact, ContrastFact, FailureFact)):
            texts = {key: getattr(fact, key, "") for key in ("text", "value", "fails", "works", "name")}
            written = {key: seen.as_written(text, fact.line) for key, text in texts.items() if text}
            fact = fact.model_copy(update=written)
        yield fact


def _join_lines(fact: CommandFact, lines: Sequence[str]) -> CommandFact:
    """A command that is stated as one line, by the lines over which backslashes continue it in the report."""
    last = max(fact.line, fact.last)
    while last < min(len(lines), fact.line + commands.MOST) and lines[last - 1].rstrip().endswith("\\"):
        last += 1
    joined = " ".join(re.sub(r"\\\n>?", " ", "\n".join(lines[fact.line - 1 : last])).split())
    whole = last > fact.line and " ".join(fact.text.split()) in joined
    return fact.model_copy(update={"text": "", "last": last}) if whole else fact


def _why_no_version(fact: VersionFact, seen: SeenLines) -> str:
    name = _name(fact)
    if not (_axis(name) or re.fullmatch(r"[a-z0-9]([a-z0-9._+-]*[a-z0-9+])?", name)):
        return f"{name!r} is not the name of a package, a program or an axis"
    if not re.fullmatch(r"\w[^\n]{0,80}", fact.value.strip().lstrip("=")):
        return f"{one_line(fact.value, 80)!r} is not a version"
    return "" if _axis(name) or seen.names(name) else f"the report does not name {name!r}"


def _why_absent(fact: Fact, seen: SeenLines, repository: str) -> str:
    """Why a report does not have a fact; '' where it does."""
    count, last = len(seen.lines), getattr(fact, "last", 0)
    if fact.line > count or last > count or (last and last < fact.line):
        return f"there are no lines {fact.line} to {max(last, fact.line)} of the {count} of the report"
    text = "".join(seen.lines[fact.line - 1 : max(fact.line, last)])
    if isinstance(fact, (CommandFact, ProgramFact)) and not text.strip():
        return f"there is nothing in line {fact.line}"
    why, values = _needed_texts(fact, seen, repository)
    missing = next((value for value in values if value and not seen.nearest(value, fact.line)), "")
    return why or (f"the report does not have {one_line(missing, 80)!r}" if missing else "")


def _needed_texts(fact: Fact, seen: SeenLines, repository: str) -> tuple[str, Sequence[str]]:
    """(why a fact cannot be one, '' where it can; the texts that the report must have)."""
    match fact:
        case VersionFact():
            own = fact.of == "os" and seen.names_system(fact)
            return _why_no_version(fact, seen), () if own else (fact.value,)
        case VariableFact():
            named = re.fullmatch(r"[A-Za-z_]\w*", fact.name, re.ASCII)
            why = "" if named else f"{fact.name!r} is not the name of a variable"
            why = (
                f"the value of {fact.name} was removed from the report as private" if STANDS.search(fact.value) else why
            )
            return why, (fact.name, fact.value)
        case SourceFact():
            address = re.sub(r"^\w+://|\.git$", "", fact.git.rstrip("/"))
            own = repository.lower().endswith(address.lower())
            no_address = f"{one_line(fact.git, 80) or 'it'} is not an address of a repository: add it to sources"
            return "" if "/" in (address or repository) else no_address, ("" if own else address, fact.ref)
        case ContrastFact():
            same = fact.fails.strip() == fact.works.strip()
            return "both values are the same" if same else "", (fact.fails, fact.works)
        case CommandFact() | FailureFact():
            lines = [part for part in fact.text.split("\n") if part.strip()]
            long = f"its text has more than {commands.MOST} lines; name them by line and last"
            return long if len(lines) > commands.MOST else "", lines
    return "", ()


# -- versions ----------------------------------------------------------------------------------------------------------


def _add_version(found: StatedFacts, fact: VersionFact, seen: SeenLines) -> None:
    name = _name(fact)
    axis = _axis(name) if not fact.of.startswith("package ") or name in BY_NAME else ""
    known = ROLES.get(name, "")
    if not axis and not fact.of.startswith("package ") and not known.startswith("package "):
        return  # a program that nothing installs
    role = axis or (known if known.startswith("package ") else f"package {name}")
    at = seen.nearest(fact.value, fact.line) or fact.line
    value = re.sub(r"(?<=[\w.])\s+\(.*\)$", "", fact.value.strip().lstrip("vV="))
    if role == "os":
        value = _system(fact.value, seen.lines[max(0, at - _NEAR) : at])
    elif role in BY_NAME:
        value = BY_NAME[role].wording.read(value) or value
    one = StatedVersion(role=role, value=value, line=at, works=fact.works)
    if value and not any((other.role, other.value) == (role, value) for other in found.versions):
        found.versions.append(one)


def _name(fact: VersionFact) -> str:
    """What a version is of: ``torch`` for ``package torch``."""
    of = re.sub(r"\s*\([^()]*\)$", "", fact.of.strip().lower())
    return re.sub(r"^(?:package|program) (?=\S)", "", of)


def _axis(name: str) -> str:
    """The axis that a name is of (``gcc`` for ``g++``); '' for a package or a program."""
    if name in BY_NAME["os"].wording.keys:
        return "os"
    found = name if name in BY_NAME else ROLES.get(name, "")
    return found if found in BY_NAME else ""


def _system(value: str, near: Sequence[str]) -> str:
    """A system as the axis writes it, of the nearest line where the value is only a release; '' for no distribution."""
    lines = reversed(near) if re.match(r"\s*[0-9]", value) else ()
    written = (wording.os(f"{wording.family(line)} {value.strip()}") for line in lines)
    none = system_of(value) in ("windows", "macos") or not re.search("[0-9]", value)
    return wording.os(value) or next(filter(None, written), "" if none else value.strip().lower())


def _program(report: ParsedReport, name: str, parts: Sequence[ProgramFact]) -> ReportPiece:
    lines = [
        (number, _MARKUP.sub("", line))
        for one in parts
        for number, line in enumerate(report.lines_of(one.line, one.last).split("\n"), one.line)
        if not _EDGE.match(line)
    ]
    text = "\n".join(line for _, line in lines)
    first = lines[0][0] if lines else parts[0].line
    lead = name if re.fullmatch(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*", name, re.ASCII) else ""
    return ReportPiece(kind="fenced", text=text, line=first, info=parts[0].language.lower(), lead=lead)


def add_versions(found: StatedFacts, has: Sequence[EnvironmentBlock]) -> list[EnvironmentBlock]:
    """Environments with the versions stated: of the first where it fails, and one more for each where it works."""
    fails = [one for one in found.versions if not one.works]
    result = list(has) or ([EnvironmentBlock(kind="stated", first=fails[0].line, last=fails[0].line)] if fails else [])
    taken: set[str] = set()
    for one in fails:
        if any(same_version(_value(block, one.role), one.value) for block in result if _value(block, one.role)):
            taken.add(one.role)
        elif one.role in taken:  # it fails with both
            result.append(_with_version(result[0], one))
        else:
            taken.add(one.role)
            lacks = [at for at, block in enumerate(result) if not _value(block, one.role)]
            for at in lacks or [0]:
                result[at] = _with_version(result[at], one)
    works = [one for one in found.versions if one.works]
    return [*result, *(_with_version(result[0], one) for one in works if result)]


def _value(block: EnvironmentBlock, role: str) -> str:
    name, _, package = role.partition(" ")
    return block.packages.get(package, "") if package else block.axes.get(name, "")


def _with_version(block: EnvironmentBlock, one: StatedVersion) -> EnvironmentBlock:
    """An environment with another version of one thing."""
    name, _, package = one.role.partition(" ")
    into = BlockReader(Rank.STATED)
    if package:
        into.package(package, one.value, f"line {one.line}")
    else:
        into.claim(name, one.value, f"line {one.line}")
    new = into.block("stated", one.line, one.line, {})
    return replace(
        block,
        kind=block.kind if block.kind.endswith("stated") else f"{block.kind}+stated",
        claims=(*(claim for claim in block.claims if claim.axis not in new.axes), *new.claims),
        packages={**block.packages, **new.packages},
        remarks=(*block.remarks, f"{one.role} {one.value}: line {one.line}{', where it works' if one.works else ''}"),
    )
