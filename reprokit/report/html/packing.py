"""Cells of a run in one file: each value once, and of each cell where its values stand."""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Mapping
from typing import Any

from reprokit.report.html.writing import FREE, NAMES, Clean, Folder, cleaned, script, scripted

SHARED_FROM = 1500
"""Characters from which on a value of a cell is written once for all cells that have the same."""
CELLS = 100
"""Cells whose numbers lie so close that one file has them: a file is small, and ten thousand cells are few files."""
KEPT = 50_000
"""Values that are remembered with what they became."""
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
        self._folder.text(f"data/{key}.js", scripted(key, f'{{{about},"values":[{",".join(at)}]}}'))

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
        return cleaned({name: value}, self._clean)[name]

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
