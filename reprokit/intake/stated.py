"""Facts of a report that a reader states, a person or a language model; each is held against the report. Pure.

Rules know the ways of writing that they were made for; a reader understands a sentence. What a reader states is taken
only where the report has it: a value that is not in the text is left out, and said so. So a model can choose among what
a report says, and can invent nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from shlex import quote

from reprokit.core.redaction import STANDS
from reprokit.core.text import one_line
from reprokit.environment import wording
from reprokit.environment.axes import BY_NAME
from reprokit.intake import commands, projects, scripts
from reprokit.intake.commands import CommandLine, Shell
from reprokit.intake.environments import pairs
from reprokit.intake.environments.mentions import Mention
from reprokit.intake.facts_file import (
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
from reprokit.intake.installing import Installed
from reprokit.intake.pieces import ParsedReport, ReportPiece
from reprokit.intake.projects import Project
from reprokit.intake.stated_failures import lines_of

_LONGEST = 100_000
"""Most characters that the commands and programs stated have together."""


@dataclass
class StatedFacts:
    """Facts that the report has, in the form in which drafts use them. ``refused``: the others, one sentence each."""

    mentions: list[Mention] = field(default_factory=list)
    programs: list[ReportPiece] = field(default_factory=list)
    shells: list[Shell] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    sources: list[tuple[str, str, str]] = field(default_factory=list)
    """(address, folder, what is checked out), as of ``git clone``."""
    packages: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)
    """Names of programs, which no index of Python has."""
    contrasts: list[ContrastFact] = field(default_factory=list)
    failure: FailureFact | None = None
    gpu: int = 0
    """The line that names a GPU; 0 for none."""
    refused: list[str] = field(default_factory=list)


def held(facts: Sequence[Fact | str], report: ParsedReport, url: str = "") -> StatedFacts:
    """The facts of :func:`.facts_file.load` that a report has, each on the line nearest to the one that is named.

    ``url``: the address of the report.
    """
    found = StatedFacts()
    seen = tuple(" ".join(line.split()).lower() for line in report.lines)
    several = _several(facts)
    shell = Shell(ReportPiece(kind="fenced", text=report.text, line=1, info="bash", heading="command"))
    parts: dict[str, list[ProgramFact]] = {}
    for fact in _kept(facts, report, seen, url, found.refused):
        if isinstance(fact, VersionFact):
            _version(found, fact, report.lines, seen)
        elif isinstance(fact, GpuFact):
            found.gpu = found.gpu or fact.line
        elif isinstance(fact, VariableFact) and fact.name in several:  # each for the commands that follow it
            shell.lines.append(CommandLine(text=f"export {fact.name}={quote(fact.value)}", line=fact.line, role="run"))
        elif isinstance(fact, VariableFact):
            found.env[fact.name] = fact.value
        elif isinstance(fact, CommandFact):
            shell.lines += _command(report, fact, found.refused)
        elif isinstance(fact, ProgramFact):
            parts.setdefault(fact.name, []).append(fact)
        elif isinstance(fact, ContrastFact):
            found.contrasts.append(fact)
        elif isinstance(fact, SourceFact):
            found.sources.append(_source(fact))
        else:
            found.failure = found.failure or fact
    found.programs = [_program(report, name, some) for name, some in parts.items()]
    while shell.lines and shell.lines[-1].text.startswith("export "):  # of no command
        found.env |= commands.exported(shell.lines.pop().text)
    if found.programs:  # which was typed there
        shell.lines = [
            one for one in shell.lines if not re.fullmatch(r"(?:i?python|pypy)[\d.]*|node|julia|R", one.text)
        ]
    found.shells = [shell] if shell.lines else []
    return found


def _several(facts: Sequence[Fact | str]) -> set[str]:
    """The variables that commands have with different values."""
    values = {(one.name, one.value) for one in facts if isinstance(one, VariableFact)}
    counts = Counter(name for name, _ in values if any(isinstance(one, CommandFact) for one in facts))
    return {name for name, count in counts.items() if count > 1}


def _home(fact: SourceFact, facts: Sequence[Fact | str], report: ParsedReport, url: str) -> Project | None:
    """The project of a commit stated alone: what has that version, is nearest on its line, or is the report's own."""
    linked = {one.name.lower(): one for one in projects.linked(report.text)}
    line = "".join(report.lines[fact.line - 1 : fact.line])[:1000]
    at, size = line.lower().find(fact.ref.lower()), len(fact.ref)
    words = re.finditer(r"[A-Za-z][\w.+-]*\w", line if at >= 0 else "", re.ASCII)
    near = sorted(words, key=lambda word: max(at - word.end(), word.start() - at - size))
    same = [_name(one) for one in facts if isinstance(one, VersionFact) and one.value.strip() == fact.ref]
    named = [projects.known(name) or linked.get(name.lower()) for name in (*same, *(word[0] for word in near))]
    titled = projects.known_in(report.title)
    about = [projects.of_url(url), *(titled if len(titled) == 1 else ())]
    return next(filter(None, [*named, *([] if projects.names_other(line) else about)]), None)


def _kept(
    facts: Sequence[Fact | str], report: ParsedReport, seen: Sequence[str], url: str, refused: list[str]
) -> Iterator[Fact]:
    """The facts that a report has; the sentences about the others go to ``refused``."""
    size = 0
    for number, fact in enumerate(facts, 1):
        if isinstance(fact, str):
            refused.append(fact)
            continue
        home = _home(fact, facts, report, url) if isinstance(fact, SourceFact) and not fact.git else None
        fact = fact.model_copy(update={"git": home.git}) if home else fact
        fact = _continued(fact, report.lines) if isinstance(fact, CommandFact) else fact
        why = _absent(fact, report.lines, seen, home)
        if not why and isinstance(fact, (CommandFact, ProgramFact)):
            size += sum(len(line) + 1 for line in report.lines[fact.line - 1 : max(fact.line, fact.last)])
            size += len(fact.text) if isinstance(fact, CommandFact) else 0
            why = f"the facts before it have {_LONGEST} characters" if size > _LONGEST else ""
        if why:
            refused.append(f"Fact {number} ({fact.fact}) is left out: {why}.")
        else:
            yield fact.model_copy(update=_verbatim(fact, report.lines, seen))


def _continued(fact: CommandFact, lines: Sequence[str]) -> CommandFact:
    """A command that is stated as one line, by the lines over which the report has it."""
    last = fact.line
    while last < min(len(lines), fact.line + commands.MOST) and lines[last - 1].rstrip().endswith("\\"):
        last += 1
    joined, text = (
        " ".join(re.sub(r"\\\n>?", " ", one).split()) for one in ("\n".join(lines[fact.line - 1 : last]), fact.text)
    )
    return fact.model_copy(update={"text": "", "last": last}) if last > fact.line and text in joined else fact


def _verbatim(fact: Fact, lines: Sequence[str], seen: Sequence[str]) -> dict[str, str]:
    """The texts of a fact as the report writes them, with its capitals and blanks."""
    texts = {key: getattr(fact, key) for key in _VERBATIM.get(type(fact), ())}
    return {
        key: "\n".join(_written(one, lines[_nearest(one, fact.line, seen) - 1]) for one in text.split("\n"))
        for key, text in texts.items()
        if text.strip()
    }


def _written(text: str, line: str) -> str:
    words = "" if text.strip() in line else r"\s+".join(map(re.escape, text.split()))
    found = re.search(words, line, re.IGNORECASE) if words else None
    return text[: len(text) - len(text.lstrip())] + found[0] if found else text


_VERBATIM: Mapping[type, tuple[str, ...]] = {
    VariableFact: ("name", "value"), CommandFact: ("text",), ContrastFact: ("fails", "works"), FailureFact: ("text",),
}  # fmt: skip


def _command(report: ParsedReport, fact: CommandFact, refused: list[str]) -> list[CommandLine]:
    """The commands of a fact, without prompts; a sentence about what no shell reads goes to ``refused``."""
    text = fact.text.strip() or lines_of(report, fact.line, fact.last)
    text = "\n".join(commands.PROMPT.sub("", line, count=1).strip() for line in text.split("\n"))
    if _FOREIGN.match(text[:1000]) or _CONSOLE.match(report.lines[fact.line - 1]):
        refused.append(f"Line {fact.line} is typed into a program, not into a shell: {one_line(text, 60)!r}.")
        return []
    return list(commands.parts(text, fact.line, commands.role_of(text, lenient=True, sure=True) or "run"))


_CONSOLE = re.compile(
    r"[ \t]{0,8}(?:>>>|\.\.\.|In ?\[\d{0,4}\]:(?! ?[!%])|\(\w{0,4}db\)"
    r"|[*\w]{0,20}(?:julia|scala|ghci|irb|Prelude|Main|mysql|sqlite|SQL)"
    r"(?:\([^()\n]{0,40}\))?[:\d]{0,12}>)(?:\s|$)"
)
"""What consoles of other programs than shells print before what is typed."""
_FOREIGN = re.compile(
    r"(?!\w+\(\)\s*\{)[A-Za-z_][\w.:]*\(|[\w.$@%]+ (?:<-|=|:=|[-+*/.]=|=>) |[$@%]?\w+(?:->|::)\w|[$@%]\w+\s*="
    r"|(?:my|our|let|var|const|def|use|using|library|from|import) [^-].*(?:[;)]|\bimport\b.*|=.*)\s*$"
    r"|(?i:select|insert|update|delete|create|drop|alter) .*;\s*$"
)
"""A statement of R, Perl, Python, SQL and their like."""


def _source(fact: SourceFact) -> tuple[str, str, str]:
    known = None if "/" in fact.git else projects.known(fact.git)
    git = known.git if known else fact.git
    return git, git.rstrip("/").rpartition("/")[2].removesuffix(".git"), fact.ref


def _version(found: StatedFacts, fact: VersionFact, lines: Sequence[str], seen: Sequence[str]) -> None:
    name = _name(fact)
    called, kind = pairs.ROLES.get(name, ""), fact.of.lower().removesuffix(name)
    package = "package" in kind or (
        called.startswith("package ") and kind.strip() not in ("program", "compiler", "tool")
    )
    package = package and not _MODULE.fullmatch(_KIND_WORDS.sub("", fact.of.strip().lower()))
    # ``py`` is Python, and a package; cudatoolkit one of conda with the CUDA that others of it load
    axis = _axis(name) if not package or name in BY_NAME or called == "built" else ""
    role = axis or (called if package and called.startswith("package ") else f"package {name}")
    if re.search(r"\b(?:kernel|linux|driver)$", name):
        return  # a container has those of its host
    (found.packages if package else found.other).add(role.removeprefix("package "))
    at = _nearest(fact.value, fact.line, seen) or fact.line
    value = re.sub(r"(?<=[\w.])\s+\(.*\)$", "", fact.value.strip().lstrip("vV="))
    if role == "os":
        value = _system(fact.value, lines[max(0, at - _NEAR) : at])
    elif role in BY_NAME:
        tag = re.fullmatch(r"cu(\d{1,2})(\d)", value) if role == "cuda" else None
        value = tag.expand(r"\1.\2") if tag else BY_NAME[role].wording.read(value) or value
    if re.fullmatch(r"[0-9a-f]{7,40}", value) and (known := projects.known(name)):
        found.sources.append((known.git, known.name, value))
        return
    first = next((one for one in found.mentions if one.role == role and one.fails is not False), None)
    if first and first.version == value:
        return
    if first and not fact.works:  # it fails with both
        found.mentions[found.mentions.index(first)] = replace(first, fails=True)
    found.mentions.append(
        Mention(
            role=role, version=value, line=at, words=one_line(lines[at - 1], 200), named=True, sure=True,
            fails=False if fact.works else True if first else None,
        )
    )  # fmt: skip


def _name(fact: VersionFact) -> str:
    """What a version is of: ``torch`` for ``package torch``, ``wob`` for ``o.org/wob/v2``, ``o-wob`` for ``o/wob``."""
    of = re.sub(r"\s*\([^()]*\)$", "", fact.of.strip().lower())
    of = of if _axis(of) else _KIND_WORDS.sub("", of).strip()
    module = _MODULE.fullmatch(of)
    repository = re.fullmatch(r"([\w-]+)/([\w-]+)", of)
    return module[1] if module else repository.expand(r"\1-\2") if repository else of


_MODULE = re.compile(r"(?:@[\w.-]+/|(?:[\w-]+\.)+[\w-]+[:/](?:[\w.-]+[:/])*?)([\w.-]+?)(?:/v\d+)?")
"""What Go, npm and Maven call a module: ``o.org/wob/v2``, ``@o/wob``, ``org.o:wob``."""
_KIND_WORDS = re.compile(
    r"^(?:(?:python |pip |conda )?package|program|compiler|library|framework|tool|language|system|module)s?[ :]+(?=\S)"
)
"""What models write before a name, whatever they were asked to write there."""


def _axis(name: str) -> str:
    """The axis that a name is of (``gcc`` for ``g++``); '' for a package or a program."""
    if name in BY_NAME["os"].wording.keys:
        return "os"
    found = "gcc" if name in ("cc", "c++", "cxx") else name if name in BY_NAME else pairs.ROLES.get(name, "")
    found = "cuda" if found == "built" else found
    return found if found in BY_NAME else ""


def _names(name: str, seen: Sequence[str]) -> bool:
    """Whether a report names something, as an index or as people call it: ``cv2`` for ``opencv-python``."""
    bare = name.removesuffix("-gpu")
    names = {bare, *(one for one, role in pairs.ROLES.items() if role in (f"package {name}", f"package {bare}"))}
    text = _folded_lines(tuple(seen))
    return any(one in text for one in {_folded(one) for one in names} - {""})


@lru_cache(maxsize=2)
def _folded_lines(seen: tuple[str, ...]) -> str:
    return "\n".join(map(_folded, seen))


def _folded(text: str) -> str:
    return re.sub(r"[\s._/-]", "", text.lower())


_NEAR = 3
"""Lines, that of a release and those above it, which may name the system of which it is."""


def _system(value: str, near: Sequence[str]) -> str:
    """A system as the axis writes it, of the nearest line where the value is only a release."""
    bare = value.strip()
    written = [*reversed(near), *(f"{wording.family(line)} {bare}" for line in reversed(near))]
    of_line = (one for line in written for one in (wording.packaged(line), wording.os(line)))
    return wording.os(value) or next((one for one in of_line if one.endswith(f"-{bare}")), bare.lower())


def _program(report: ParsedReport, name: str, parts: Sequence[ProgramFact]) -> ReportPiece:
    first = parts[0]
    text = "\n".join(lines_of(report, one.line, one.last) for one in parts)
    lead = name if re.fullmatch(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*", name, re.ASCII) else ""
    return ReportPiece(
        kind="fenced", text=text, line=first.line, info=first.language.lower(), heading="reproduce", lead=lead
    )


def _absent(fact: Fact, lines: Sequence[str], seen: Sequence[str], home: Project | None) -> str:
    """Why a report does not have a fact; '' where it does. ``seen``: its lines in small letters with single blanks.

    ``home``: the project of a commit or branch that is stated without one.
    """
    last = getattr(fact, "last", 0)
    if fact.line > len(lines) or last > len(lines) or (last and last < fact.line):
        return f"there are no lines {fact.line} to {max(last, fact.line)} of the {len(lines)} of the report"
    if isinstance(fact, VersionFact):
        why, values = _of_version(fact, lines, seen)
    elif isinstance(fact, VariableFact):
        why = _of_variable(fact)
        values = (fact.name, fact.value)
    elif isinstance(fact, SourceFact):
        why, values = _of_source(fact, seen, home)
    elif isinstance(fact, ContrastFact):
        why = "both values are the same" if fact.fails.strip() == fact.works.strip() else ""
        values = tuple(filter(None, (fact.fails, fact.works)))
    else:
        why, values = _of_lines(fact, lines)
    missing = None if why else next((value for value in values if not _nearest(value, fact.line, seen)), None)
    return why if missing is None else f"the report does not have {one_line(missing, 80)!r}"


def _of_variable(fact: VariableFact) -> str:
    if STANDS.search(fact.value):
        return f"the value of {fact.name} was removed from the report as private"
    return "" if re.fullmatch(r"[A-Za-z_]\w*", fact.name, re.ASCII) else f"{fact.name!r} is not the name of a variable"


def _of_version(fact: VersionFact, lines: Sequence[str], seen: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """(why a version cannot be one, what of it the report must have)."""
    name = _name(fact)
    if not (_axis(name) or re.fullmatch(r"[a-z0-9]([a-z0-9._+-]*[a-z0-9+])?", name)):
        return f"{name!r} is not the name of a package, a program or an axis", ()
    if not re.fullmatch(r"\w[^\n]{0,80}", fact.value.strip().lstrip("=")):
        return f"{one_line(fact.value, 80)!r} is not a version", ()
    if not (_axis(name) or _names(name, seen)):
        return f"the report does not name {name!r}", ()
    return "", () if fact.of == "os" and _names_system(fact, lines) else (fact.value,)


def _of_source(fact: SourceFact, seen: Sequence[str], home: Project | None) -> tuple[str, tuple[str, ...]]:
    """(why a tree cannot be one, what of it the report must have): its address, unless a known project is named."""
    if _FILE.search(fact.git):
        return f"{one_line(fact.git, 80)} is a file, and no repository of Git", ()
    if not fact.git:
        return f"the report does not say of which repository {fact.ref or 'it'} is: add it to sources", ()
    if home:
        return "", (fact.ref,) if fact.ref else ()
    known = projects.at(fact.git) if "/" in fact.git else projects.known(fact.git)
    if "/" not in fact.git and not known:
        return f"it is not known of which address {fact.git} is", ()
    named = known and any(_names(name, seen) for name in known.names)
    address = re.sub(r"^\w+://|\.git$", "", fact.git.rstrip("/"))
    return "", (*(() if named else (address,)), *((fact.ref,) if fact.ref else ()))


_FILE = re.compile(r"\.(?:rpm|deb|zip|whl|tar(?:\.\w+)?|tgz)$")
"""The end of the address of a file."""


def _of_lines(fact: Fact, lines: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """(why lines cannot be of a command, a program or a failure, what of their text the report must have)."""
    text = fact.text if isinstance(fact, (CommandFact, FailureFact)) else ""
    values = tuple(dict.fromkeys(part for part in text.split("\n") if part.strip()))
    if len(values) > commands.MOST:
        return f"its text has more than {commands.MOST} lines; name them by line and last", ()
    written = "".join(lines[fact.line - 1 : max(fact.line, getattr(fact, "last", 0))])
    if isinstance(fact, (CommandFact, ProgramFact)) and not written.strip(" >"):
        return f"there is nothing in line {fact.line}", ()
    return "", values


def _names_system(fact: VersionFact, lines: Sequence[str]) -> bool:
    """Whether the line of a fact names that system, in whatever words."""
    words = re.findall(r"[a-z]+|\d+(?:\.\d+)*", fact.value.lower())
    near = "\n".join(lines[max(0, fact.line - 3) : fact.line + 2])
    return wording.os(near) == fact.value or all(word in near.lower() for word in words)


def _nearest(value: str, line: int, seen: Sequence[str]) -> int:
    """The line nearest to one that has a value, not within a longer version; 0 where none has."""
    wanted = " ".join(value.split()).lower()
    if not wanted:
        return line
    has = (number for number, text in enumerate(seen, 1) if wanted in text)
    if wanted[0].isdigit():
        whole = re.compile(rf"(?:(?<![\d.])|\bv\.){re.escape(wanted)}(?!\d|\.\d)")
        has = (number for number in has if whole.search(seen[number - 1]))
    return min(has, key=lambda number: abs(number - line), default=0)


def with_setup(stated: StatedFacts, read: Sequence[Shell]) -> list[Shell]:
    """The shells stated, behind what others of the report install or clone."""
    ran = {line.text for shell in stated.shells for line in shell.lines}
    setup = [replace(one, lines=[line for line in one.of("setup") if line.text not in ran]) for one in read]
    return [*(one for one in setup if one.lines), *stated.shells]


def with_sources(stated: StatedFacts, installed: Installed) -> Installed:
    """What is installed, with the repositories stated, each once, at what is stated to be checked out of it."""
    refs = {git.removesuffix(".git").lower(): ref for git, _, ref in stated.sources}
    cloned = [git.removesuffix(".git").lower() for git, _, _ in installed.clones]
    clones = [
        (git, folder, branch or refs.get(key, ""))
        for key, (git, folder, branch) in zip(cloned, installed.clones, strict=True)
    ]
    more = [one for one in stated.sources if one[0].removesuffix(".git").lower() not in cloned]
    return replace(installed, clones=(*clones, *more))


def files(stated: StatedFacts, has: Mapping[str, str]) -> dict[str, str]:
    """The programs stated that no file of a case has, such as those in languages without a row in the table."""
    texts = {one.lead or f"repro.{re.sub('[^a-z0-9]', '', one.info) or 'txt'}": one.text for one in stated.programs}
    case = "".join("".join(text.split()) for text in has.values())
    return {name: f"{text}\n" for name, text in texts.items() if name not in has and not _within(text, case)}


def _within(text: str, case: str) -> bool:
    """Whether the longest line of a program is in the texts of a case. ``case``: without blanks."""
    return "".join(max(text.split("\n"), key=len).lstrip(">.").split()) in case


def programs(pieces: Sequence[ReportPiece], stated: StatedFacts) -> list[ReportPiece]:
    """The pieces in which programs are looked for: those stated, and all of the report that is not a program."""
    plain = [one for one in pieces if not one.code or (one.info and one.info not in scripts.languages())]
    return sorted([*plain, *stated.programs], key=lambda one: one.line)
