"""Where case texts come from: files, folders, standard input, and what a caller fetches. Writes nothing."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from reprokit.core.errors import Problem, UsageError
from reprokit.core.files import open_regular
from reprokit.core.near_match import nearest

MAX_BYTES = 8 * 1024**2
"""Largest case file."""

YAML_SUFFIXES = (".yaml", ".yml")
_KEYS = re.compile(r"^(schema|id|title|matrix|environment|command|resources|expect)\s*:", re.MULTILINE)
MARKDOWN_SUFFIXES = (".md", ".markdown")

_STREAM = re.compile(r"/dev/(?:stdin|fd/[0-9]+)|/proc/self/fd/[0-9]+")
"""What is read to its end, whatever it is: a shell's ``<(command)`` too. Any other pipe may have no writer, ever."""

LOCK_SUFFIX = ".lock.yaml"
"""Suffix of lock files, which are beside cases and are not cases."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text and where it is from. ``optional``: found in a folder, so that it need not hold a case (Markdown only).

    ``markdown``: it is Markdown, whatever its name.
    """

    path: str
    text: str
    optional: bool = False
    markdown: bool = False


Fetch = Callable[[str], Text | Problem]
"""What gets the text at a web address: this room opens no connection."""


def read(source: str, stdin: TextIO | None = None, fetch: Fetch | None = None) -> Iterator[Text | Problem]:
    """The texts that ``source`` names. A file that is not text becomes a Problem, so that others are still read.

    Raises UsageError when there is nothing of that name, or it cannot be read.
    """
    if source == "-":
        yield _stdin(stdin)
    elif source.lower().startswith(("http://", "https://")):
        if fetch is None:
            raise UsageError(f"{source}: a case at a web address is not read here; save it as a file")
        yield fetch(source)
    elif "://" in source:
        raise UsageError(f"{source}: only http:// and https:// addresses can be read, and bundles at s3://BUCKET/KEY")
    elif Path(source).is_dir():
        yield from _folder(Path(source))
    else:
        if is_lock(source):
            case = source[: -len(LOCK_SUFFIX)] + ".yaml"
            raise UsageError(f"{source}: is the lock of a case and none itself; name the case: {case}")
        yield _file(Path(source))


def _stdin(stdin: TextIO | None) -> Text | Problem:
    if stdin is None:
        stdin = sys.stdin
    raw = getattr(stdin, "buffer", None)
    if isinstance(raw, io.IOBase):
        return decode("<stdin>", raw.read(MAX_BYTES + 1))
    text = stdin.read(MAX_BYTES + 1)
    return decode("<stdin>", text.encode("utf-8", "surrogatepass"))


def _file(path: Path, *, optional: bool = False) -> Text | Problem:
    return decode(str(path), data(path, MAX_BYTES + 1), optional=optional)


def data(path: Path, most: int) -> bytes:
    """The first ``most`` bytes of a file. Raises UsageError where there is none, or it cannot be read."""
    try:
        with path.open("rb") if _STREAM.fullmatch(str(path)) else open_regular(path) as stream:
            found: bytes = stream.read(most)
            return found
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file or folder{_near_file(path)}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None


def _near_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    name = nearest(path.name, names, cutoff=0.7)
    return f" (did you mean {str(path.parent / name)!r}?)" if name else ""


def _folder(folder: Path) -> Iterator[Text | Problem]:
    found = False
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            suffix = Path(name).suffix.lower()
            if suffix in (*YAML_SUFFIXES, *MARKDOWN_SUFFIXES) and not name.startswith(".") and not is_lock(name):
                item = _file(Path(parent, name), optional=suffix in MARKDOWN_SUFFIXES)
                if suffix in MARKDOWN_SUFFIXES or isinstance(item, Problem) or looks_like_case(item.text):
                    found = True
                    yield item
    if not found:
        raise UsageError(f"{folder}: no case in this folder (looked for *.yaml, *.yml and *.md with a case)")


def is_lock(name: str) -> bool:
    """Whether a file of that name is a lock."""
    return name.lower().endswith(LOCK_SUFFIX)


def looks_like_case(text: str) -> bool:
    """Whether YAML in a folder means to be a case, rather than a workflow or another tool's file.

    A case with a mistake in its ``schema`` line must still be reported, so any three of a case's keys will do.
    """
    return "reprokit/v" in text or len(set(_KEYS.findall(text))) >= 3


def decode(path: str, data: bytes, *, optional: bool = False) -> Text | Problem:
    """The text of what was read at ``path``."""
    if re.search("[\x00-\x1f\x7f-\x9f]", path):  # it would make lines of a message, and colours
        message = "its name has a line end or another control character"
        return Problem(path=ascii(path), line=1, column=1, message=message, hint="rename the file")
    if len(data) > MAX_BYTES:
        message = f"more than {MAX_BYTES // 1024**2} MiB is not a case file"
        return Problem(path=path, line=1, column=1, message=message, hint="large data belongs in a dataset")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = re.split("\r\n|[\r\n\x85\u2028\u2029]", data[: error.start].decode("utf-8", "replace"))  # YAML's lines
        line, column = len(before), len(before[-1]) + 1
        message = f"not UTF-8: the byte 0x{data[error.start]:02x}"
        return Problem(path=path, line=line, column=column, message=message, hint="save the file as UTF-8")
    return Text(path=path, text=text.removeprefix("\ufeff"), optional=optional)
