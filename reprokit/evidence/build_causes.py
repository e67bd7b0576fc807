"""Causes of failed builds: the rows of data/build_causes.yaml, and what a pattern alone cannot read. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from reprokit.evidence.build_log import BuildLog
from reprokit.evidence.observation import last_exception, observe

DATA = Path(__file__).parent / "data" / "build_causes.yaml"
MOST = 4
"""Sides of a conflict that are named."""
FEW = 25
"""Lines of a program that only says why it does not go on."""

CauseWords = Mapping[str, Any]
"""What the texts of a row are filled with."""


@dataclass(frozen=True, kw_only=True)
class BuildCause:
    """Why a step failed: a sentence without a full stop.

    ``put``: what to put into the case, as ``KEY: VALUE``, where the log proves that it is missing. ``advice``: what to
    do otherwise, where that is certain.
    """

    sentence: str
    put: str = ""
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class CauseRow:
    """A cause, with the keys that the head of data/build_causes.yaml explains."""

    name: str
    say: str
    log: tuple[re.Pattern[str], ...] = ()
    also: tuple[re.Pattern[str], ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    inner: bool = False
    last: bool = False
    every: str = ""
    subject: bool = False
    command: str = ""
    status: int = 0
    read: str = ""
    put: str = ""
    advice: str = ""

    def words(self, log: BuildLog) -> CauseWords | None:
        """The words that the output has for the texts; None where it shows another cause."""
        command = re.search(self.command, log.at.command) if self.command and log.at else None
        if (self.command and command is None) or (self.subject and not log.subject):
            return None
        if self.status and self.status not in (log.status, log.at.status if log.at else 0):
            return None
        found = READERS[self.read](log) if self.read else self._search((log.inner if self.inner else log.text) + "\n")
        if found is None or any(not re.search(pattern, found[group]) for group, pattern in self.where.items()):
            return None
        return {**found, **(_groups(command) if command else {})}

    def _search(self, text: str) -> CauseWords | None:
        found: dict[str, Any] = {}
        for pattern in self.log:
            matches = list(pattern.finditer(text)) if self.last or self.every else [pattern.search(text)]
            match = matches[-1 if self.last else 0] if matches else None
            if match is None:
                return None
            found |= _groups(match)
            if self.every:
                found["all"] = list(dict.fromkeys(_groups(one)[self.every] for one in matches if one))
        for pattern in self.also:
            match = pattern.search(text)
            found |= _groups(match) if match else dict.fromkeys(_names(pattern), "")
        return found


def find(log: BuildLog) -> BuildCause | None:
    """The first cause that the output shows, None where no row knows it."""
    for row in rows():
        if (words := row.words(log)) is not None:
            return say(row, {**_context(log, words), **words})
    return None


def say(row: CauseRow, words: CauseWords) -> BuildCause:
    """The texts of a row. Raises jinja2.UndefinedError for a word that the row does not have."""
    sentence, put, advice = (_texts().from_string(text).render(words) for text in (row.say, row.put, row.advice))
    return BuildCause(sentence=sentence, put=put, advice=" ".join(advice.split()))


@cache
def rows() -> tuple[CauseRow, ...]:
    """All causes, in the order in which they count."""
    return tuple(map(_row, _data()["causes"]))


@cache
def _data() -> Mapping[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: Mapping[str, Any] = yaml.load(DATA.read_text("utf-8"), Loader=loader)
    return found


def _row(fields: Mapping[str, Any]) -> CauseRow:
    patterns = {key: _patterns(fields[key]) for key in ("log", "also") if key in fields}
    return CauseRow(**{**fields, **patterns})


def _patterns(texts: str | Sequence[str]) -> tuple[re.Pattern[str], ...]:
    each = [texts] if isinstance(texts, str) else texts
    return tuple(re.compile("".join(text.splitlines()), re.M) for text in each)


def _groups(match: re.Match[str]) -> dict[str, str]:
    """What a match says by the names of its groups: ``url1`` and ``url2`` are ``url``, '' where none took part."""
    found: dict[str, str] = dict.fromkeys(_names(match.re), "")
    for name, value in match.groupdict().items():
        found[name.rstrip("0123456789")] = found[name.rstrip("0123456789")] or value or ""
    return found


def _names(pattern: re.Pattern[str]) -> set[str]:
    return {name.rstrip("0123456789") for name in pattern.groupindex}


@cache
def _texts() -> Environment:
    texts = Environment(undefined=StrictUndefined, autoescape=False)
    texts.filters["package"] = _package
    return texts


def _package(names: str, table: str) -> str:
    """What to put into the case for one or more names, '' where that is not known of all."""
    axes = _data()["packages"]["axes"]
    packages = []
    for name in re.split(r", ", names):
        own = name.rpartition("-linux-gnu-")[2]
        if table == "programs" and (axis := next((axis for axis, brings in axes.items() if own in brings), "")):
            return f"matrix.{axis}: [VERSION]"
        packages += [package for package, brings in _data()["packages"][table].items() if _brings(brings, name)][:1]
    return f"environment.apt: [{', '.join(packages)}]" if len(packages) == len(names.split(", ")) else ""


def _brings(names: Sequence[str], name: str) -> bool:
    return any(name == each or (each.endswith("/") and name.startswith(each)) for each in names)


_GIT = re.compile(r"fatal: unable to access '(?P<url>[^']+)'")
_URL = re.compile(r"(?:https?|git|ftp|ssh)://[^\s'\"|;)]+")
_POOL = re.compile(r"host='([^']+)', port=(\d+)")
_ADDRESS = re.compile(r"https?://([^/\s'\")]+)")


def _context(log: BuildLog, words: CauseWords) -> CauseWords:
    """What all texts may say beside the groups of their patterns."""
    git, host = _GIT.search(log.text), _host(log)
    server = words.get("peer", "").replace("(", "").replace(")", "") or host
    if re.search(r"pip\._vendor|/simple/", log.text):
        server = f"the package index at {server}" if server else "a package index"
    return {
        "subject": log.subject,
        "building": log.building,
        "who": log.who,
        "program": log.program,
        "host": host,
        "server": server or "the server",
        "asked": _asked(log, words.get("line", "")) or host,
        "wanting": f" (git asks for {git['url'].rstrip('/')})" if git else "",
    }


def _asked(log: BuildLog, line: str) -> str:
    """The address that the failing command asked for, as far as it is printed or stands in its line."""
    for text in (line, log.at.command if log.at else "", *(reversed(log.lines) if not log.at else ())):
        if found := _URL.search(text):
            return found[0].rstrip("/.,:")
    return ""


def _host(log: BuildLog) -> str:
    """The host that did not serve: as git or pip name it, else the one that the failing command names."""
    if git := _GIT.search(log.text):
        return git["url"]
    if pool := _POOL.search(log.text):
        return f"{pool[1]}:{pool[2]}"
    command = _ADDRESS.search(log.at.command if log.at else log.step)
    return command[1] if command else ""


def _sides_of_conflict(log: BuildLog) -> CauseWords | None:
    """Both sides of a conflict that pip explains."""
    block = re.search(r"^The conflict is caused by:\n((?:    .+\n?)+)", log.text + "\n", re.M)
    if block is None:
        return None
    sides = list(dict.fromkeys(filter(None, (_side(line.strip()) for line in block[1].splitlines()))))
    more = f", and {len(sides) - MOST} more" if len(sides) > MOST else ""
    return {"sides": " and ".join(sides[:MOST]) + more}


def _side(line: str) -> str:
    if asked := re.fullmatch(r"The user requested (?P<constraint>\(constraint\) )?(?P<what>.+)", line):
        who = "a constraint allows only" if asked["constraint"] else "the case asks for"
        return f"{who} {asked['what']}"
    if needs := re.fullmatch(r"(?P<who>\S+ \S+) depends on (?P<what>.+)", line):
        return f"{needs['who']} needs {needs['what'].replace(' and ', ',')}"
    return ""


def _solver_of_uv(log: BuildLog) -> CauseWords | None:
    pattern = r"(?:×|error:) No solution found when resolving dependencies.*?\n((?: .*\n?)+)"
    if (solver := re.search(pattern, log.text + "\n")) is None:
        return None
    words = " ".join(re.sub(r"╰─▶|^ *cause:|│", " ", solver[1], flags=re.M).split()).rstrip(".")
    return {"why": words[:1].lower() + words[1:]}


_HOW = {"Conflicts": "conflicts with", "Depends": "needs", "PreDepends": "needs", "Breaks": "breaks"}


def _unmet_of_apt(log: BuildLog) -> CauseWords | None:
    block = re.search(r"The following packages have unmet dependencies:\n((?: .+\n?)+)", log.text)
    if block is None:
        return None
    found = re.findall(rf"([\w.+-]+) : ({'|'.join(_HOW)}): (.+)", block[1])
    said = [f"{package} {_HOW[how]} {what.strip()}" for package, how, what in found]
    return {"why": "; ".join(said[:3]) or " ".join(block[1].split())}


_NO_FILE = re.compile(
    r"ERROR: Could not find a version that satisfies the requirement (?P<what>.+?) (?:\(from [^()]*\) )?"
    r"\(from versions: (?P<versions>[^)]*)\)"
)


def _missing_distribution(log: BuildLog) -> CauseWords | None:
    """``what`` the index has no file of, the ``python`` that it would need, and which versions are ``near``."""
    found = None
    for found in _NO_FILE.finditer(log.text):  # noqa: B007 (the last one is what is wanted)
        pass
    if found is None:
        return None
    what = found["what"].partition(";")[0].strip()
    try:
        asked: Requirement | None = Requirement(what)
    except InvalidRequirement:
        asked = None
    versions = sorted(filter(None, map(_version, found["versions"].split(", "))))
    # pip names no package where it says what it ignored, and says so just before: an earlier line is of another one.
    before = "\n".join(log.text[: found.start()].splitlines()[-3:])
    return {"what": what, "python": _other_python(before, asked), "near": _near(asked, versions)}


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _other_python(text: str, asked: Requirement | None) -> str:
    """What the asked version demands of Python, where pip says that it is therefore passed over."""
    for found in re.findall(r"different python version: (.*)", text):
        for entry in found.split("; "):
            version, _, python = entry.partition(" Requires-Python ")
            known = _version(version)
            if known and asked and asked.specifier and asked.specifier.contains(known, prereleases=True):
                return str(python.strip())
    return ""


def _near(asked: Requirement | None, versions: list[Version]) -> str:
    """The versions around the one that is asked for, in words; '' where the index has none."""
    final = [one for one in versions if not one.is_prerelease] or versions
    pins = [known for one in (asked.specifier if asked else ()) if (known := _version(one.version.rstrip(".*")))]
    if not final:
        return ""
    if not pins:
        return f"it has {final[0]} to {final[-1]}"
    below, above = [one for one in final if one < pins[0]], [one for one in final if one > pins[0]]
    near = [str(one) for one in (*below[-1:], *above[:1])]
    return f"the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(near)}" if near else f"it has {final[-1]}"


def _last_exception_of_build(log: BuildLog) -> CauseWords | None:
    """What the exception ``said`` that a program ended with, and the ``module`` that it did not find."""
    if log.at and log.at.command and "Traceback" not in log.text:
        return None
    seen = last_exception(observe(log.inner)) or last_exception(observe(log.text))
    if seen is None or (seen.type == "CalledProcessError" and not log.subject):
        return None
    module = re.search(r"No module named '(?P<name>[\w.]+)'", seen.message)
    said = f"{seen.type}: {seen.message.splitlines()[0]}" if seen.message else seen.type
    return {"said": said, "module": module["name"] if module else ""}


_STEPS = re.compile(r"(?:running|creating|writing|reading|copying|adding|warning:|no previously-included) ?")


def _last_words_of_build(log: BuildLog) -> CauseWords | None:
    """What the program said last that pip started to build a package."""
    if not log.subject:
        return None
    said = [line for line in log.inner.splitlines() if line.strip() and not _STEPS.match(line)]
    errors = [line.partition(": ")[2] for line in said if re.match(r"(?:error|ERROR|Error): ", line)]
    # A program that refuses to go on says why first; one that fails on its way says it last.
    words = errors[-1:] or (said[:2] if len(said) <= FEW else said[-2:])
    return {"said": " ".join(words).strip()} if words else None


def _line_of_case(log: BuildLog) -> CauseWords | None:
    if log.at is None:
        return None
    said = log.lines[-2].strip() if len(log.lines) > 1 and log.text else ""
    return {"status": log.at.status, "said": said}


READERS: Mapping[str, Callable[[BuildLog], CauseWords | None]] = {
    "sides_of_conflict": _sides_of_conflict,
    "solver_of_uv": _solver_of_uv,
    "unmet_of_apt": _unmet_of_apt,
    "missing_distribution": _missing_distribution,
    "last_exception_of_build": _last_exception_of_build,
    "last_words_of_build": _last_words_of_build,
    "line_of_case": _line_of_case,
}
"""What rows name as ``read``."""
