"""A bug of a data set, whatever kind it comes from: the checks of what a data set says, the case, and its file.

The data set is untrusted: names, paths, commits and patches are checked, texts are escaped for templates, and nothing
of it is executed.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.case import units
from reprokit.case.tree import Loc
from reprokit.core import redaction
from reprokit.core.errors import CaseError
from reprokit.core.files import read_regular, write
from reprokit.core.redaction import Omitted
from reprokit.environment import versions
from reprokit.environment.axes.operating_system import DEFAULT
from reprokit.environment.cases import load_text, schema_line
from reprokit.environment.catalog import OURS
from reprokit.intake.draft import Draft, clean_title, literal, render
from reprokit.intake.matrix import conda_axes, why_unavailable
from reprokit.intake.report_text import decode_marked

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HEADER = re.compile(
    r'(?:--- |\+\+\+ )(.+)|(?:rename|copy) (?:from|to) (.+)|diff --git (?:a/(.+) b/\3|("a/.+") "b/.+")'
)
_NOT_IMPORTED = ("setup", "test", "tests", "testing")
_TEST = re.compile(r"(?:^|[:.])(test\w*)(?:\[.*)?$", re.DOTALL)


class WrongBug(ValueError):
    """An entry of a data set from which no case can be written; the message says where and why."""


@dataclass(frozen=True, kw_only=True)
class DatasetItem:
    """What an entry of a data set says of itself."""

    key: str
    """Its name in its data set."""
    case_id: str
    title: str
    description: str
    tags: tuple[str, ...]
    url: str
    notes: Mapping[Loc, tuple[str, ...]] = field(default_factory=dict)
    """Comments by their place in the case."""

    def draft(self) -> Draft:
        """Its case: the tests fail, and pass with the fix."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Bug(DatasetItem):
    """A bug in a repository, whose tree the case fetches."""

    folder: str
    """Where its repository is put, below workdir."""
    git: str
    buggy: str
    fixed: str = ""
    """The commit of the fix; else the fix is ``fix_patch`` over ``buggy``."""
    fix_patch: str = ""
    test_patch: str = ""
    """The tests that show the bug; else they are ``test_files`` of the commit ``fixed``."""
    test_files: tuple[str, ...] = ()
    python: str = ""
    pip: tuple[Any, ...] = ()
    """What ``environment.pip`` takes."""
    pip_before: str = ""
    """The day of the packages, and of the tools that build them, where no version is named; '' for the newest."""
    setup: str = ""
    """Shell that is run in the folder while the image is built."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    """Shell that runs the tests in the folder."""
    tests: tuple[str, ...] = ()
    """Names of the tests."""
    packages: tuple[str, ...] = ()
    """The modules that the fix changes."""

    def draft(self) -> Draft:
        """The case: the tests fail at the buggy commit, and pass with the fix."""
        return _draft_of(self)


@dataclass(frozen=True, kw_only=True)
class BugEntry:
    """An entry of a data set that was chosen: ``read`` makes the bug of it, or raises WrongBug."""

    key: str
    read: Callable[[], DatasetItem]


@dataclass(frozen=True, kw_only=True)
class DatasetKind:
    """A kind of data set: what a module of :mod:`.importing` defines."""

    name: str
    """As it is typed."""
    takes: str
    """What PATH and BUG are, for the help."""
    entries: Callable[[Path, Sequence[str], Path | None], Iterator[BugEntry]]
    """The chosen entries of the data set at a path (all where none is chosen), with the file of --specs. Raises
    UsageError where the path is not such a data set, or has no such bug."""
    specs: str = ""
    """What the file of --specs has, '' for a kind that takes none."""


def commit(text: str, where: str) -> str:
    """A commit in hexadecimal digits. Raises WrongBug."""
    if not _COMMIT.fullmatch(text):
        raise WrongBug(f"{where}: {text[:60]!r} is not a commit: 7 to 40 hexadecimal digits are expected")
    return text


def name(text: str, where: str) -> str:
    """A name that may be a folder and part of a file's name. Raises WrongBug."""
    if not _NAME.fullmatch(text):
        raise WrongBug(
            f"{where}: {text[:60]!r} is not a name: letters, digits, dots, dashes and underscores are expected"
        )
    return text


def path(text: str, where: str) -> str:
    """A path within a repository. Raises WrongBug for one that leads out of it, or into its .git."""
    try:
        found = units.below_workdir(text)
    except ValueError as error:
        raise WrongBug(f"{where}: {text[:100]!r} is not a path within the repository: {error}") from None
    if ".git" in found.lower().split("/") or not found.isprintable():
        raise WrongBug(f"{where}: {text[:100]!r} is not a path of a file that a repository has")
    return found


def changed_files(patch: str, where: str) -> tuple[str, ...]:
    """The files that a patch changes, by its headers. Raises WrongBug for one that leads out of its tree, or for none.

    Whether its hunks fit is known when git applies it, which never writes outside of the tree either.
    """
    found: dict[str, None] = {}
    for line in patch.split("\n"):
        if named := _HEADER.fullmatch(line):
            name = next(filter(None, named.groups())).partition("\t")[0]
            name = _unquote(name) if name.startswith('"') else name
            if name != "/dev/null":
                found[path(name[2:] if name.startswith(("a/", "b/")) else name, where)] = None
    if not found:
        raise WrongBug(f"{where}: it is not a patch: it changes no file")
    return tuple(found)


def _unquote(text: str) -> str:
    """A quoted path of git's: octal numbers are bytes of UTF-8."""
    data = re.sub(r"\\([0-7]{3})", lambda one: chr(int(one[1], 8)), text.strip('"')).replace('\\"', '"')
    return data.encode("latin-1", "replace").decode("utf-8", "replace")


def address(text: str, where: str) -> str:
    """The address of a repository, over https alone: what a data set names is fetched by this host. Raises WrongBug."""
    if not re.fullmatch(r"https://[A-Za-z0-9.-]+(?::\d+)?(?:/[A-Za-z0-9._~-]+){1,10}/?", text):
        raise WrongBug(f"{where}: {text[:100]!r} is not the https:// address of a repository")
    return text


def requirement(text: str, where: str) -> Requirement:
    """What pip installs by its name. Raises WrongBug."""
    try:
        found = Requirement(text)
    except InvalidRequirement:
        raise WrongBug(f"{where}: {text[:100]!r} is not a requirement of pip") from None
    if found.url:
        raise WrongBug(f"{where}: {text[:100]!r} is installed from an address: only packages of the index are imported")
    return found


def same_package(one: str, other: str) -> bool:
    """Whether two names are of one package."""
    return canonicalize_name(one) == canonicalize_name(other)


def test_name(identifier: str) -> str:
    """The function in the id of a test (``a.py::T::test_x[1]``, ``a.T.test_x``, ``test_x (a.T)``); '' for none."""
    found = _TEST.search(re.sub(r" \([\w.]+\)$", "", identifier))
    return found[1] if found else ""


def top_modules(paths: Sequence[str]) -> tuple[str, ...]:
    """The importable modules, at the top, of the Python files at those paths: ``src/a/b.py`` and ``a.py`` are ``a``."""
    parts = (one.removeprefix("src/").removeprefix("lib/").partition("/")[0] for one in paths if one.endswith(".py"))
    found = (part.removesuffix(".py") for part in parts)
    return tuple(dict.fromkeys(one for one in found if re.fullmatch(r"[A-Za-z_]\w*", one) and one not in _NOT_IMPORTED))


# -- files of a data set: regular, of limited size, in any encoding, and within its folder --------------------------

MOST = 4_000_000
"""Most bytes of a file about one bug."""


def read_text(folder: Path, file: Path, *, missing: str | None = None) -> str:
    """The text of ``file``, with line feeds alone; ``missing`` where there is none. Raises WrongBug.

    A symbolic link that leads out of ``folder`` is refused: cases are passed on, and files of this host are not.
    """
    if not file.is_file() and missing is not None and not file.is_symlink():
        return missing
    where = str(file)
    if not file.resolve().is_relative_to(folder.resolve()):
        raise WrongBug(f"{where}: it is a link that leads out of the data set")
    try:
        data = read_regular(file, MOST)
    except OSError as error:
        raise WrongBug(f"{where}: it cannot be read: {error.strerror}") from None
    return _decode(data).replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes) -> str:
    """The text in ``data``: UTF-8, or UTF-16 and UTF-32 by their mark, or Latin-1."""
    if (found := decode_marked(data)) is not None:
        return found
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


# -- the case ----------------------------------------------------------------------------------------------------------

WORKDIR = "/workspace"
LONGEST = 20_000
"""Most characters of a description."""
APT = ("build-essential", "python3-dev", "git")
"""What data sets take for granted: a compiler, for packages without a wheel for the interpreter, and git."""
_NAMES = 500
"""Characters of the names of tests, and of modules, in a signature: the size of patterns is limited."""
_FIXED = ".fixed"
"""Where the tree of the fix is while an image is built, if tests are taken from it."""


def _draft_of(bug: Bug) -> Draft:
    """The case of a bug: the tests fail at the buggy commit, and pass with the fix."""
    cell, another = python(bug.python)
    tests: dict[str, Any] = {}
    if bug.test_files:
        tests = {bug.folder + "-tests": {"git": bug.git, "ref": bug.fixed, "path": _FIXED}}
    source = {"git": bug.git, "ref": bug.buggy, "path": literal(bug.folder)}
    environment: dict[str, Any] = {"apt": list(APT)} if bug.pip or bug.setup else {}
    if bug.pip:
        environment["pip"] = [_escape_step(step) for step in bug.pip]
    if bug.pip_before and environment:
        environment["pip_before"] = bug.pip_before
    if setup := _setup(bug):
        environment["setup"] = literal(setup)
    parts: dict[str, Any] = {
        "matrix": {axis: [value] for axis, value in cell.items()},
        "environment": environment,
        "sources": {bug.folder: source | ({"patch": literal(bug.test_patch)} if bug.test_patch else {}), **tests},
        "files": {name: literal(text) for name, text in bug.files.items()},
        "env": {name: literal(value) for name, value in bug.env.items()},
        "command": literal(f"cd {shlex.quote(bug.folder)}\n{bug.command}"),
        "resources": {"timeout": "10m"},
        "expect": {"failure": _failure(bug), "reproduces": "all"},
        "fix": _fix(bug),
    }
    notes: dict[Loc, tuple[str, ...]] = dict(bug.notes)
    if "apt" in environment:
        notes[("environment", "apt")] = ("Data sets take these for granted: packages without a wheel are compiled.",)
    if another:
        notes[("matrix",)] = (another,)
    return describe(bug, parts, notes)


def describe(entry: DatasetItem, parts: Mapping[str, Any], notes: Mapping[Loc, tuple[str, ...]]) -> Draft:
    """The case with those parts and what an entry says of itself, without what looks secret or private."""
    omitted: list[Omitted] = []

    def public(text: str, where: str) -> str:
        scrubbed = redaction.scrub(text, where=where)
        omitted.extend(scrubbed.omitted)
        return scrubbed.text

    data: dict[str, Any] = {
        "id": entry.case_id,
        "title": clean_title(public(entry.title, "title")) or entry.case_id,
        "description": public(entry.description, "description")[:LONGEST],
        "report": {"url": entry.url} if entry.url else {},
        "tags": list(entry.tags),
        **parts,
    }
    return Draft(
        data={key: value for key, value in data.items() if value not in ({}, [], "")},
        notes=notes,
        omitted=tuple(omitted),
    )


def python(asked: str) -> tuple[dict[str, str], str]:
    """(the axes of a cell with the Python that a data set names, what is to be said of it; '' for nothing).

    The system is one whose own packages have that series, before one for which uv or conda have it: its compilers and
    libraries are of the same years, and what serves them is the index of the system alone.
    """
    if not asked:
        return {"os": DEFAULT}, "The data set names no Python: this is the one of the release."
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}", asked):
        return {"os": DEFAULT}, f"The data set asks for Python {asked[:40]!r}, which is not a version: it is left out."
    releases = {name: release for name, release in OURS.releases().items() if release.bootstraps}
    series = ".".join(asked.split(".")[:2])
    # Of Ubuntu 18.04 and 20.04 the one whose python3 is of the series, as more of its packages are for that.
    own = sorted(
        (place, name)
        for name, release in releases.items()
        for place, version in enumerate(release.pythons)
        if versions.matches(series, version)
    )
    chosen = [({"os": name, "python": series}, False) for _, name in own]
    for conda, value, os in itertools.product((False, True), (asked, series), (DEFAULT, *reversed(releases))):
        chosen.append(({"os": os, "python": value}, conda))
    for cell, conda in chosen:
        if not why_unavailable(cell) and bool(conda_axes(cell)) is conda:
            has = versions.newest(cell["python"], releases[cell["os"]].pythons) or series
            why = f"The data set asks for Python {asked}: this is {has}, of the same series."
            return cell, "" if asked in (has, cell["python"]) else why
    return {"os": DEFAULT, "python": asked}, f"Python {asked} is not available: name another one."


def _escape_step(step: Any) -> Any:
    if isinstance(step, str):
        return literal(step)
    if isinstance(step, dict):
        return {key: _escape_step(value) for key, value in step.items()}
    return [_escape_step(item) for item in step]


def _setup(bug: Bug) -> str:
    lines = []
    if bug.test_files:
        files = shlex.join(dict.fromkeys(map(_test_folder, bug.test_files)))
        lines = [
            "# The tests of the fix with the files that they use, over those of the buggy commit.",
            f"(cd {_FIXED} && cp -r --parents -- {files} {shlex.quote(f'../{bug.folder}/')})",
            f"rm -rf {_FIXED}",
        ]
    if bug.setup:
        lines += [f"cd {shlex.quote(bug.folder)}", bug.setup]
    return "\n".join(lines) + "\n" if lines else ""


def _test_folder(file: str) -> str:
    """The outermost folder of tests that has a test file, else the file.

    Of 229 bugs of BugsInPy, the fixes of 16 change data or helpers there that the data set does not name.
    """
    parents = [str(parent) for parent in PurePosixPath(file).parents if parent.name in ("test", "tests", "testing")]
    return parents[-1] if parents else file


def _failure(bug: Bug) -> dict[str, str]:
    """Of pytest and unittest: one of the tests fails, or what they import of the project is not there.

    Every one of the tests fails at the buggy commit, so the first ones do where a pattern cannot hold all.
    """
    if not bug.tests:
        return {"exit_code": "nonzero"}
    names = "|".join(re.escape(one) for one in _first(bug.tests, _NAMES))
    patterns = [rf"^(?:FAILED|FAIL:|ERROR:|_+) (?:\S*[:.])?(?:{names})\b"]
    if bug.packages:
        modules = "|".join(re.escape(one) for one in _first(bug.packages, _NAMES // 10))
        # Of a module of the project that does not exist: a project that cannot be imported at all is not the bug.
        patterns.append(rf"Error: No module named '(?:{modules})\.")
        patterns.append(rf"Error: (?:cannot import name \S+ from|module) '(?:{modules})[.']")
    return {"exit_code": "nonzero", "output": f"/{'|'.join(patterns)}/"}


def _first(texts: Sequence[str], most: int) -> list[str]:
    """The first of the texts, each once, which have at most so many characters together, and at least one."""
    found = list(dict.fromkeys(texts))
    while len(found) > 1 and sum(map(len, found)) > most:
        found.pop()
    return found


def _fix(bug: Bug) -> dict[str, Any]:
    if bug.fixed:
        return {"summary": f"The commit of the fix, {bug.fixed[:12]}", "sources": {bug.folder: {"ref": bug.fixed}}}
    patch = bug.test_patch.rstrip("\n") + "\n" + bug.fix_patch
    return {"summary": "The patch of the fix", "sources": {bug.folder: {"patch": literal(patch.lstrip("\n"))}}}


# -- files -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of an entry: the file that was written, or why there is none."""

    key: str
    file: Path | None = None
    draft: Draft | None = None
    why_not: str = ""
    sources: tuple[str, ...] = ()


def write_cases(entries: Iterable[BugEntry], out: Path, *, force: bool) -> Iterator[Imported]:
    """Write the case of each entry to ``out``, and say what became of it. A file that exists is kept, unless forced."""
    written: dict[str, str] = {}
    for entry in entries:
        try:
            bug = entry.read()
            file = out / f"{bug.case_id}.yaml"
            if file.name in written:
                raise WrongBug(f"its case would have the id {bug.case_id}, which {written[file.name]} has")
            draft = bug.draft()
            text = schema_line(file) + render(draft)
            case = load_text(str(file), text).case
            if file.exists() and not force:
                raise WrongBug(f"{file} exists already: overwrite it with --force, or name another folder with --out")
            write(file, text)
        except WrongBug as error:
            yield Imported(key=entry.key, why_not=str(error))
        except CaseError as error:
            yield Imported(key=entry.key, why_not=f"its case would not be valid: {error}")
        except OSError as error:
            yield Imported(key=entry.key, why_not=f"{out} cannot be written: {error.strerror}")
        else:
            written[file.name] = entry.key
            yield Imported(key=entry.key, file=file, draft=draft, sources=tuple(case.sources))
