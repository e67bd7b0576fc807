"""The files that a captured command needs, below the folder in which it ran, and the git checkout that has them."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 64 * 1024
"""Most bytes of one file."""
MOST_TOTAL = 256 * 1024
MOST_FILES = 40

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]{1,200})"', re.MULTILINE)
_C = frozenset({".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".cu", ".cuh", ".inl", ".S"})
_BUILDS = ("GNUmakefile", "makefile", "Makefile", "CMakeLists.txt")
"""What make and CMake read, which name the other files."""
NAMED = re.compile(r"(?<![\w./+*-])[\w./+*-]{1,200}\.[A-Za-z]\w{0,7}")
"""Text that may be the name or pattern of a file in a Makefile, a shell script or a log."""
_LOG = 200_000
"""Characters at the end of a log that are searched for names of files."""


@dataclass
class GatheredFiles:
    """The files found."""

    texts: dict[str, str] = field(default_factory=dict)
    """Path below the folder -> text."""
    modules: set[str] = field(default_factory=set)
    """Imported modules that are not among them."""
    left_out: list[str] = field(default_factory=list)
    """Needed files that do not fit in a case, each with the reason."""


def files_named(words: Sequence[str], folder: Path) -> Iterator[Path]:
    """The files below ``folder`` that a command's words name: arguments, ``-m`` modules, inputs of make and CMake."""
    for number, word in enumerate(words):
        for candidate in (word, word.partition("=")[2]):
            path = folder / candidate
            if candidate and _is_file(path):
                yield path
        if number and words[number - 1] == "-m":
            yield from _module(word, folder)
        if Path(word).name in ("make", "gmake", "cmake"):
            yield from (folder / name for name in _BUILDS if _is_file(folder / name))


def gather(start: Iterable[Path], folder: Path, *, since: float = float("inf")) -> GatheredFiles:
    """The texts of the files ``start`` and of all files below ``folder`` that they import or include.

    ``since``: when the command began, in seconds since 1970: newer files that are not text are its outputs and ignored.
    """
    found = GatheredFiles()
    root = folder.resolve()
    waiting = list(dict.fromkeys(start))
    seen: set[Path] = set()
    total = 0
    while waiting:
        path = waiting.pop(0)
        real = path.resolve()
        if real in seen or not real.is_relative_to(root) or not _is_file(real) or _installed(real.relative_to(root)):
            continue
        seen.add(real)
        name = str(real.relative_to(root))
        text, why = _read(real)
        if not why and (total + len(text) > MOST_TOTAL or len(found.texts) >= MOST_FILES):
            why = f"the files would be more than {MOST_FILES}, or {MOST_TOTAL // 1024} KiB"
        if why and real.stat().st_mtime >= since:
            continue
        if why:
            found.left_out.append(f"{name} ({why})")
            continue
        total += len(text)
        found.texts[name] = text
        waiting += _needed(real, text, root, found)
    return found


def _needed(path: Path, text: str, root: Path, found: GatheredFiles) -> Iterator[Path]:
    if path.suffix == ".py" or (text.startswith("#!") and "python" in text.split("\n", 1)[0]):
        for module in imports(text):
            local = [*_module(module, path.parent), *_module(module, root)]
            yield from local
            if not local:
                found.modules.add(module.lstrip(".").partition(".")[0])
        yield from (place / name for name in _constants(text) for place in (root, path.parent))
        if path.name.startswith("test_") or path.stem.endswith("_test"):
            yield from (place / "conftest.py" for place in path.parents if place.is_relative_to(root))
    elif path.suffix in _C:
        places = (path.parent, root / "include", root / "src", root)
        yield from (place / name for name in _INCLUDE.findall(text) for place in places)
    elif path.name in _BUILDS or path.suffix in (".sh", ".mk", ".cmake") or text.startswith("#!"):
        yield from _mentioned(re.sub(r"\$\{\w+\}/", "", text), path.parent)


def files_in_log(log: str, folder: Path) -> Iterator[Path]:
    """The files below ``folder`` that a log names, such as those in messages of a compiler or build."""
    yield from _mentioned(log[-_LOG:], folder)


def _mentioned(text: str, folder: Path) -> Iterator[Path]:
    """The files that a text names, also by a pattern with ``*`` or by their object file."""
    for name in dict.fromkeys(NAMED.findall(text)):
        if name.startswith(("/", "*", "..")) and not name.startswith("*."):
            continue
        if name.endswith(".o"):
            yield from (folder / f"{name[:-2]}{suffix}" for suffix in _C)
        elif "*" in name:
            yield from sorted(folder.glob(name))[:MOST_FILES]
        else:
            yield folder / name


def _constants(text: str) -> Iterator[str]:
    """The texts in Python code that may be names of files."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMED.fullmatch(node.value):
            yield node.value


def imports(text: str) -> set[str]:
    """The modules that Python code imports, anywhere in it; for code that does not parse, those of its import lines."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {found for line in re.findall(r"^\s*(?:import|from)\s+([\w.]+)", text, re.MULTILINE) for found in [line]}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            joint = "" if base.endswith(".") or not base else "."
            found.update([base, *(f"{base}{joint}{alias.name}" for alias in node.names)])
    return found - {"", "."}


def _module(name: str, folder: Path) -> Iterator[Path]:
    """The files of a module below ``folder``, with the packages above it; ``..`` goes up, as in Python."""
    dots = len(name) - len(name.lstrip("."))
    for _ in range(dots - 1):
        folder = folder.parent
    parts = [part for part in name.lstrip(".").split(".") if part]
    if not parts or not all(part.isidentifier() for part in parts):
        return
    for depth in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:depth])
        if _is_file(place.with_suffix(".py")):
            yield place.with_suffix(".py")
            return
        if not place.is_dir():
            return
        yield from (place / file for file in ("__init__.py", "__main__.py") if _is_file(place / file))


def _installed(path: Path) -> bool:
    """Whether a file belongs to an environment, a cache or git, which may be below the folder."""
    return any(part in ("site-packages", "dist-packages", "node_modules", "__pycache__", ".git") for part in path.parts)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long or invalid
        return False


def _read(path: Path) -> tuple[str, str]:
    """(text of a file, '') or ('', why a case cannot hold it)."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            return "", f"{size / 1024:.0f} KiB, more than {MOST_BYTES // 1024}"
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return "", "not text"
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"
    return ("", "not text") if "\0" in text else (text, "")


# -- the checkout ----------------------------------------------------------------------------------------------------

MOST_PATCH = 256 * 1024
"""Most characters of a patch."""
_SCP = re.compile(r"(?:[\w.-]+@)?(?P<host>github\.com|gitlab\.com|gitee\.com|bitbucket\.org):(?P<path>[\w./~-]+)")
_DIFF = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-relative", "--src-prefix=a/", "--dst-prefix=b/")
_PUBLIC = re.compile(r"(?:https?|git)://\S+|ssh://\S+|[\w.-]+@[\w.-]+:\S+")


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A checkout at ``root``."""

    root: Path
    url: str = ""
    """An address that others can fetch."""
    commit: str = ""
    folder: str = ""
    """Where the command ran, below the root."""
    patch: str = ""
    """Changes of tracked files."""
    tracked: frozenset[str] = frozenset()
    """The files that git tracks, relative to the folder."""
    why_not: str = ""
    """Why a case cannot use it as a source, '' if it can."""

    @property
    def name(self) -> str:
        """The name of the repository, as git would clone it."""
        return re.sub(r"[^\w.-]", "-", self.url.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git"))


def find_checkout(folder: Path) -> Checkout | None:
    """The checkout that contains ``folder``; None where there is none, or no git."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    if not top:
        return None
    root = Path(top.strip())
    commit = (_git(folder, "rev-parse", "--verify", "-q", "HEAD") or "").strip()
    if not commit:
        return Checkout(root=root, why_not="the checkout has no commit yet")
    remote, url = _remote(folder)
    if not url:
        return Checkout(root=root, why_not="the checkout has no remote that others can fetch from")
    if not (_git(folder, "branch", "-r", "--contains", commit, "--list", f"{remote}/*") or "").strip():
        return Checkout(
            root=root, why_not=f"the commit {commit[:12]} is on no branch of {remote}, as far as git knows; push it"
        )
    patch = _git(folder, *_DIFF) or ""
    if len(patch) > MOST_PATCH or "\nGIT binary patch\n" in patch or "\nBinary files " in patch:
        return Checkout(root=root, why_not="the changes since the commit are too large, or binary, for a patch")
    tracked = (_git(folder, "ls-files", "-z") or "").split("\0")
    where = str(folder.resolve().relative_to(root.resolve()))
    return Checkout(
        root=root,
        url=url,
        commit=commit,
        folder="" if where == "." else where,
        patch=patch,
        tracked=frozenset(filter(None, tracked)),
    )


def _remote(folder: Path) -> tuple[str, str]:
    """Name and address of the remote: that of the branch, else origin, else the first; '' where others cannot fetch."""
    names = (_git(folder, "remote") or "").split()
    upstream = (_git(folder, "rev-parse", "--abbrev-ref", "@{upstream}") or "").partition("/")[0]
    for name in [one for one in (upstream, "origin", *names[:1]) if one in names]:
        url = (_git(folder, "config", "--get", f"remote.{name}.url") or "").strip()
        if found := _SCP.fullmatch(url):  # others do not have this user's SSH key
            return name, f"https://{found['host']}/{found['path'].removesuffix('.git')}"
        if _PUBLIC.fullmatch(url):
            return name, url
    return "", ""


def _git(folder: Path, *words: str) -> str | None:
    """The output of a git command in ``folder``; None where it fails."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
