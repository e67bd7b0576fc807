"""The files that a captured command needs: those that it and its traceback name, and what they import or include.

Only files below the folder in which the command ran, so that nothing else of the machine gets into a case.
"""

from __future__ import annotations

import ast
import re
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
class Gathered:
    """The files found. ``texts``: path below the folder -> text. ``modules``: imported modules that are not among them.

    ``left_out``: needed files that do not fit in a case, each with the reason.
    """

    texts: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)


def named(words: Sequence[str], folder: Path) -> Iterator[Path]:
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


def gather(start: Iterable[Path], folder: Path, *, since: float = float("inf")) -> Gathered:
    """The texts of the files ``start`` and of all files below ``folder`` that they import or include.

    ``since``: when the command began, in seconds since 1970: newer files that are not text are its outputs and ignored.
    """
    found = Gathered()
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


def _needed(path: Path, text: str, root: Path, found: Gathered) -> Iterator[Path]:
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


def in_log(log: str, folder: Path) -> Iterator[Path]:
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
