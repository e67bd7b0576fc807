"""A bug of a data set, whatever kind it comes from, the checks of what a data set says, and its files.

The data set is untrusted: names, paths, commits and patches are checked, and nothing of it is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.case import units
from reprokit.case.tree import Loc
from reprokit.core.files import open_regular
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
class Bug:
    """What a case needs of a bug."""

    key: str
    """Its name in its data set."""
    case_id: str
    title: str
    description: str
    tags: tuple[str, ...]
    url: str
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
    notes: Mapping[Loc, tuple[str, ...]] = field(default_factory=dict)
    """Comments by their place in the case."""


@dataclass(frozen=True, kw_only=True)
class BugEntry:
    """An entry of a data set that was chosen: ``read`` makes the bug of it, or raises WrongBug."""

    key: str
    read: Callable[[], Bug]


@dataclass(frozen=True, kw_only=True)
class PipChanges:
    """What the user asks for instead of what bugs name: ``instead`` of it or beside it, and ``without`` these."""

    instead: tuple[Requirement, ...] = ()
    without: tuple[str, ...] = ()


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


def changed(patch: str, where: str) -> tuple[str, ...]:
    """The files that a patch changes, by its headers. Raises WrongBug for one that leads out of its tree, or for none.

    Whether its hunks fit is known when git applies it, which never writes outside of the tree either.
    """
    found: dict[str, None] = {}
    for line in patch.split("\n"):
        if named := _HEADER.fullmatch(line):
            name = next(filter(None, named.groups())).partition("\t")[0]
            name = _unquoted(name) if name.startswith('"') else name
            if name != "/dev/null":
                found[path(name[2:] if name.startswith(("a/", "b/")) else name, where)] = None
    if not found:
        raise WrongBug(f"{where}: it is not a patch: it changes no file")
    return tuple(found)


def _unquoted(text: str) -> str:
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
        with open_regular(file) as stream:
            data = stream.read(MOST + 1)
    except OSError as error:
        raise WrongBug(f"{where}: it cannot be read: {error.strerror}") from None
    if len(data) > MOST:
        raise WrongBug(f"{where}: it has more than {MOST} bytes")
    return _decode(data).replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes) -> str:
    """The text in ``data``: UTF-8, or UTF-16 and UTF-32 by their mark, or Latin-1."""
    if (found := decode_marked(data)) is not None:
        return found
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
