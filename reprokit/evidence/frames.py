"""Which frames of a traceback tell where a program failed. Own code lies in no folder of an interpreter or of
packages; of libraries, whose inside changes with the versions that a case compares, the function that was called
counts alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from reprokit.evidence.model import Frame

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TOP = 3
"""Frames that count, from where it failed outwards."""

_PACKAGE = re.compile(r"^.*/(?:site|dist)-packages/")
_STANDARD = re.compile(r"(?:^|/)(?:lib(?:64)?/(?:python|pypy)\d[\d.]*t?|[Ll]ib)/|^<frozen |/python\d+\.zip/")
_MADE_UP = re.compile(r"^<(?!string>|stdin>|ipython)")
"""Code that has no file: what numpy, attrs and the decorator package generate, and not in every version."""
_INLINED = re.compile(r"^<(?:list|dict|set)comp>$")
"""Python 3.12 and later run a comprehension in the frame around it."""


def passed_through(kind: str) -> re.Pattern[str]:
    """What the names of frames begin with that say nothing about a failure: ``python`` or ``native`` ones."""
    text = (Path(__file__).parent / "data" / "passed_through.yaml").read_text("utf-8")
    return re.compile("|".join(f"(?:{pattern})" for pattern in yaml.load(text, LOADER)[kind]))


_PASSED = passed_through("python")


def file_matches(wanted: str, file: str) -> bool:
    """Whether a file is the one that a signature names by its last path parts."""
    return file == wanted or file.endswith("/" + wanted.lstrip("/"))


def relevant_frames(frames: Sequence[Frame], *, message: bool = True) -> tuple[tuple[str, ...], str]:
    """Return the frames that tell a failure, innermost first, as ``file:function``, and the one to name it by.

    A file is its last part, since folders differ from one environment to the next (``package/__init__.py`` keeps its
    package); no line numbers. ``message`` false: the exception says nothing, so that where inside of a library it was
    raised is all there is to tell it by.
    """
    kinds = [(kind(frame), frame) for frame in frames if not _INLINED.match(frame.function)]
    last_own = max((at for at, (of, _) in enumerate(kinds) if of == "own"), default=-1)
    called = [frame for of, frame in kinds[last_own + 1 :] if of == "package"]
    own = _distinct(frame for of, frame in reversed(kinds) if of == "own")
    if not message:
        inner = _distinct(reversed(called))
        shown = (inner + own)[:TOP]
    else:
        shown = own or _distinct(reversed(called)) or _distinct(frame for _, frame in reversed(kinds))
        inner = _distinct(called)[:1] if own else []
    return (*inner[:TOP], *(name for name in shown[:TOP] if name not in inner)), (own or shown or [""])[0]


def kind(frame: Frame) -> str:
    """``own``, ``package`` (installed), or ``other``: the interpreter's, generated, or only passed through."""
    if package := _PACKAGE.match(frame.file):
        return "other" if _PASSED.match(f"{frame.file[package.end() :]}:{frame.function}") else "package"
    return "other" if _STANDARD.search(frame.file) or _MADE_UP.match(frame.file) else "own"


def _distinct(frames: Iterable[Frame]) -> list[str]:
    """Each frame once, in order: a recursion is as deep as its data."""
    return list(dict.fromkeys(name(frame) for frame in frames))


def name(frame: Frame) -> str:
    """``file:function`` of a frame, the file by its last part; a package's ``__init__.py`` keeps the package."""
    parts = frame.file.replace("\\", "/").rsplit("/", 2)
    keep = 2 if parts[-1] in ("__init__.py", "__main__.py") else 1
    return f"{'/'.join(parts[-keep:])}:{frame.function}" if frame.function else "/".join(parts[-keep:])
