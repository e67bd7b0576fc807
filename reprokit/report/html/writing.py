"""The files of a report: data as scripts, cells packed into few of them, and a folder that is replaced whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import marshal
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from reprokit.core.errors import UsageError

FORMAT = "reprokit-report/v1"
MARKER = "reprokit-report.json"
OURS = ("data", "assets", "index.html", ".nojekyll", MARKER)
"""What a report consists of, in the order in which it is put in place. Anything else beside it is not ours."""
LAST = ("data/overview.js", "index.html")  # what leads to all other files
STAGE = ".reprokit-new-"

Clean = Callable[[str], str]  # what every text of the data passes through before it is written
NAMES = ("id", "name", "case", "run", "verdict", "expected", "outcome", "status", "variant")
"""Keys of what pages find each other by, and of words of ours: these stay what they are."""
FREE = ("cell", "facts", "packages", "image")
"""Keys of mappings whose own keys are free, such as variables and axes: there :data:`NAMES` are not names."""


def name(text: str) -> str:
    """A file's name for an id: the id itself where that is a name on every system, else its start and a hash."""
    if re.fullmatch(r"(?!(con|prn|aux|nul|com\d|lpt\d)$)[a-z0-9][a-z0-9-]{0,99}", text):
        return text
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
    return f"id-{slug or 'x'}.{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def script(key: str, value: object) -> str:
    """A data file's text: one call, in which nothing of the value can end a script element or a line of JavaScript."""
    return script_json(key, json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def script_json(key: str, plain: str) -> str:
    """:func:`script` of a value that is JSON already."""
    for character in "<\u2028\u2029":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    # Of an object in a script that key is not a key, but what the object inherits from.
    plain = re.sub(r'(?<=[{,])"__proto__":', '["__proto__"]:', plain)
    return f"reprokit.data({json.dumps(key)},{plain});\n".encode("utf-8", "backslashreplace").decode()


def clean_texts(value: Any, clean: Clean, names: Collection[str] = NAMES) -> Any:
    """The same data with every text in it cleaned, but for keys and what is under one of ``names``."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {
            key: one if key in names and isinstance(one, str) else clean_texts(one, clean, () if key in FREE else names)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [clean_texts(one, clean, names) for one in value]
    return value


class Folder:
    """A report that is being written, beside the one that is there. See :func:`replacing`."""

    def __init__(self, stage: Path, clean: Clean) -> None:
        self._stage = stage
        self._clean = clean
        self._made: set[Path] = set()
        self.bytes = 0
        self.files = 0

    def data(self, key: str, value: Mapping[str, Any]) -> None:
        """Write ``data/KEY.js``."""
        self.text(f"data/{key}.js", script(key, clean_texts(value, self._clean)))

    def text(self, path: str, text: str) -> None:
        """Write a file as it is."""
        whole = self._stage / path
        if whole.parent not in self._made:
            whole.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(whole.parent)
        content = text.encode("utf-8", "replace")
        whole.write_bytes(content)
        self.files += 1
        self.bytes += len(content)


@contextlib.contextmanager
def replacing(target: Path, clean: Clean) -> Iterator[Folder]:
    """A new report for the folder ``target``: put in place when the block ends without an error, removed otherwise.

    What lies in the folder beside the report stays. Raises UsageError for a folder that holds something, and no report.
    """
    check(target)
    target.mkdir(parents=True, exist_ok=True)
    handle = os.open(target, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # two that write the same report do so one after the other
        for left in target.glob(f"{STAGE}*"):  # of one that was killed
            shutil.rmtree(left)
        stage = Path(tempfile.mkdtemp(dir=target, prefix=STAGE))
        try:
            (stage / "new").mkdir()
            folder = Folder(stage / "new", clean)
            yield folder
            folder.text(MARKER, json.dumps({"format": FORMAT}) + "\n")
            _swap(stage, target)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    finally:
        os.close(handle)


def is_ours(path: str) -> bool:
    """Whether a file of the folder is one of a report's."""
    return path.partition("/")[0] in OURS


def check(target: Path) -> None:
    """Whether a report may be written there. Raises UsageError, which says what to do."""
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file: name a folder for the report")
    others = [each.name for each in target.iterdir() if not each.name.startswith(STAGE)]
    if others and not (target / MARKER).is_file():
        raise UsageError(
            f"{target} holds {sorted(others)[0]} and is not a report of reprokit (it has no {MARKER}): "
            "name another folder, or empty this one"
        )


def _swap(stage: Path, target: Path) -> None:
    """Put the new files where the old ones are; each is renamed, so that a reader finds one or the other."""
    (stage / "old").mkdir()
    for each in OURS:
        new, there = stage / "new" / each, target / each
        if there.exists():
            there.rename(stage / "old" / each)
        if new.exists():
            new.rename(there)


SHARED_FROM = 1500  # characters from which on a value of a cell is written once for all cells that have the same
CELLS = 100
"""Cells whose numbers lie so close that one file has them: a file is small, and ten thousand cells are few files."""
KEPT = 50_000  # values that are remembered with what they became
_PLAIN = (str, int, float, type(None))

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _key(value: Any) -> bytes | str:
    """What equal values have in common, and others do not. Marshalling takes a third of the time of JSON."""
    try:
        return marshal.dumps(value, 2)  # later versions tell objects from each other that are equal
    except ValueError:  # not made of Python's own types
        return _encode(value)


class Packer:
    """Writes the data of cells to a folder. What many cells have in common is cleaned and encoded once."""

    def __init__(self, folder: Folder, clean: Clean) -> None:
        self._folder = folder
        self._clean = clean
        self._texts: dict[tuple[str, object, type], str] = {}
        self._shared: set[str] = set()

    def write(self, key: str, cells: Mapping[int, Mapping[str, Any]]) -> None:
        """Write ``data/KEY.js``: ``{cells, columns, values}``, the data of ``cells`` by their numbers.

        ``columns``: of each name the position in ``values`` for each of the ``cells``, -1 where the cell is without it;
        one position instead where all cells have the same.
        """
        at: dict[str, int] = {}
        columns: dict[str, list[int]] = {}
        for row, data in enumerate(cells.values()):
            for name, value in data.items():
                column = columns.setdefault(name, [])
                column += [-1] * (row - len(column))
                column.append(at.setdefault(self._text(name, value), len(at)))
        for column in columns.values():
            column += [-1] * (len(cells) - len(column))
        short = {name: column[0] if len({*column}) == 1 else column for name, column in columns.items()}
        about = f'"cells":{_encode(list(cells))},"columns":{_encode(short)}'
        self._folder.text(f"data/{key}.js", script_json(key, f'{{{about},"values":[{",".join(at)}]}}'))

    def _text(self, name: str, value: Any) -> str:
        """What stands for a value of that name: itself, or where a large one is kept."""
        # Words of ours stay as they are, so that the same text under another name may become something else.
        where = name if name in NAMES or name in FREE else ""
        key = (where, value if isinstance(value, _PLAIN) else _key(value), type(value))
        if key not in self._texts:
            if len(self._texts) >= KEPT:
                self._texts.clear()
            plain = _encode(value)
            large = len(plain) >= SHARED_FROM
            self._texts[key] = self._share(name, value, plain) if large else self._small(name, value, plain)
        return self._texts[key]

    def _cleaned(self, name: str, value: Any) -> Any:
        return clean_texts({name: value}, self._clean)[name]

    def _small(self, name: str, value: Any, plain: str) -> str:
        shown = self._cleaned(name, value)
        return plain if shown == value else _encode(shown)

    def _share(self, name: str, value: Any, plain: str) -> str:
        digest = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:16]
        if digest not in self._shared:
            self._shared.add(digest)
            key = f"shared/{digest}"
            self._folder.text(f"data/{key}.js", script(key, self._cleaned(name, value)))
        return _encode({"$shared": digest})
