"""Outputs of a trial as numbers: .npy, .npz, .safetensors, .json, .png and text. Pure.

A file may be untrusted: only plain arrays of numbers are read, nothing is unpickled, and whatever is damaged, of an
unknown kind, or larger than :data:`MOST` once unpacked is :class:`Unreadable`.
"""

from __future__ import annotations

import io
import math
import re
import struct
import sys
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from reprokit.core import json_text
from reprokit.evidence.png import pixels

MOST = 64 << 20
"""Bytes of the outputs of one trial, and of what a packed one holds."""
MOST_TEXT = 8 << 20
"""Bytes of a document, whose numbers take many times as much once they are read."""
MOST_MEMBERS = 1000
NUMBER = "number"
"""The dtype of numbers that are written out, in JSON and in text: whole ones are exact, others are float64."""
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", NUMBER)

_NPY_HEADER = re.compile(
    r"\{'descr': '([<>|=]?)([a-z]\d{1,2})', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), \} *\n"
)
_NPY = {
    "b1": "bool",
    **{f"{kind}{size}": f"{name}{8 * size}" for kind, name in (("i", "int"), ("u", "uint")) for size in (1, 2, 4, 8)},
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
}
_SAFETENSORS = {
    "BOOL": "bool",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    **{f"{short}{bits}": f"{name}{bits}" for short, name in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)},
}
_CODES = {
    "bool": "B",
    "uint8": "B",
    "int8": "b",
    "uint16": "H",
    "int16": "h",
    "uint32": "I",
    "int32": "i",
    "uint64": "Q",
    "int64": "q",
    "float32": "f",
    "float64": "d",
    "complex64": "f",
    "complex128": "d",
    "float16": "H",
    "bfloat16": "H",
}
"""The element of :mod:`array` in which a dtype is stored; a complex number takes two."""
_IN_TEXT = re.compile(
    r"(?<![\w.])[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w])|(?:nan|inf|infinity)\b)", re.IGNORECASE
)
_LONGEST_NUMBER = 400


class Unreadable(Exception):
    """Why an output cannot be read, in words that follow its name."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """Numbers of one ``dtype`` in the order of C, of a ``shape``.

    ``raw``: their bytes, for a quick comparison; b'' where they have none. ``places``: where each number is, of a
    document; () where its index says it. ``words``: of a document, what is beside its numbers, as (place, text).
    """

    dtype: str
    shape: tuple[int, ...]
    values: Sequence[Any]
    raw: bytes = b""
    places: Sequence[str] = ()
    words: tuple[tuple[str, str], ...] = ()

    def place(self, index: int) -> str:
        """Where the number ``index`` is: ``[0, 2]``, ``$.loss[3]`` or ``line 4, number 1``."""
        if self.places:
            return self.places[index]
        found = []
        for size in reversed(self.shape):
            index, at = divmod(index, size)
            found.append(at)
        return f"[{', '.join(map(str, reversed(found)))}]"


class _Complex(Sequence[complex]):
    """Pairs of floats as complex numbers."""

    def __init__(self, parts: Sequence[float]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts) // 2

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self))
            return [self[one] for one in range(start, stop)]
        return complex(self._parts[2 * at], self._parts[2 * at + 1])


def read(name: str, data: bytes) -> dict[str, Tensor]:
    """The tensors of an output by their names: of a file that holds one, '' is its name. Raises Unreadable."""
    suffix = name.rpartition(".")[2].lower()
    return _READERS.get(suffix, _text)(data)


def _single(reader: Callable[[bytes], Tensor]) -> Callable[[bytes], dict[str, Tensor]]:
    return lambda data: {"": reader(data)}


def _npy(data: bytes) -> Tensor:
    if data[:6] != b"\x93NUMPY" or len(data) < 12:
        raise Unreadable("is not a .npy file")
    size = 2 if data[6] == 1 else 4
    start = 8 + size
    length = int.from_bytes(data[8:start], "little")
    header = _NPY_HEADER.fullmatch(data[start : start + min(length, 10_000)].decode("latin-1"))
    dtype = _NPY.get(header[2]) if header else None
    if header is None or dtype is None:
        raise Unreadable("is not a plain array of numbers: objects, texts, dates and structures are not compared")
    shape = tuple(int(part) for part in header[4].replace(" ", "").split(",") if part)
    big = header[1] == ">" or (header[1] == "=" and sys.byteorder == "big")
    tensor = _tensor(dtype, shape, data[start + length :], big=big)
    return _in_c_order(tensor) if header[3] == "True" and len(shape) > 1 else tensor


def _tensor(dtype: str, shape: tuple[int, ...], raw: bytes, *, big: bool = False) -> Tensor:
    values = array(_CODES[dtype])
    each = values.itemsize * (2 if dtype.startswith("complex") else 1)
    if math.prod(shape) * each != len(raw):
        raise Unreadable(f"is damaged: {len(raw)} bytes of numbers, where {dtype} of shape {shape} takes other")
    values.frombytes(raw)
    if big != (sys.byteorder == "big"):
        values.byteswap()
        raw = values.tobytes()
    return Tensor(dtype=dtype, shape=shape, values=_of_dtype(dtype, values), raw=raw)


def _of_dtype(dtype: str, values: array[Any]) -> Sequence[Any]:
    if dtype == "float16":
        return array("f", (one for (one,) in struct.iter_unpack("=e", values.tobytes())))
    if dtype == "bfloat16":
        wide = array("I", (one << 16 for one in values))
        return memoryview(wide.tobytes()).cast("f")
    return _Complex(values) if dtype.startswith("complex") else values


def _in_c_order(tensor: Tensor) -> Tensor:
    strides = [math.prod(tensor.shape[:axis]) for axis in range(len(tensor.shape))]
    order = (sum(map(int.__mul__, at, strides)) for at in product(*map(range, tensor.shape)))
    return Tensor(dtype=tensor.dtype, shape=tensor.shape, values=[tensor.values[one] for one in order])


def _npz(data: bytes) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    left = MOST
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS:
                raise Unreadable(f"holds more than {MOST_MEMBERS} arrays")
            for member in members:
                with archive.open(member) as stream:
                    content = stream.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise Unreadable(f"holds more than {MOST >> 20} MiB of arrays")
                found[member.filename.removesuffix(".npy")] = _npy(content)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise Unreadable(f"is damaged: {error}") from None
    return found


def _safetensors(data: bytes) -> dict[str, Tensor]:
    length = int.from_bytes(data[:8], "little")
    try:
        header = json_text.loads(data[8 : 8 + length]) if 8 + length <= len(data) else None
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise Unreadable("is not a .safetensors file")
    body, found, left = memoryview(data)[8 + length :], {}, MOST
    if len(header) > MOST_MEMBERS:
        raise Unreadable(f"holds more than {MOST_MEMBERS} arrays")
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            sizes = all(type(one) is int and one >= 0 for one in (*shape, start, end))
        except (TypeError, KeyError, ValueError):
            sizes = False
        if not sizes:
            raise Unreadable("is damaged: its header does not describe tensors")
        if dtype not in _SAFETENSORS:
            raise Unreadable(f"has the tensor {name[:80]!r} of the type {str(dtype)[:20]}, which is not compared")
        content = bytes(body[start:end])
        left -= len(content)
        if left < 0:  # the same bytes may be named again and again
            raise Unreadable(f"holds more than {MOST >> 20} MiB of arrays")
        found[name] = _tensor(_SAFETENSORS[dtype], shape, content)
    return found


def _png(data: bytes) -> Tensor:
    try:
        image = pixels(data, MOST)
    except ValueError as error:
        raise Unreadable(str(error)) from None
    dtype = "uint8" if image.depth == 8 else "uint16"
    return _tensor(dtype, (image.height, image.width, image.channels), image.data, big=image.depth == 16)


def _json(data: bytes) -> Tensor:
    _check_document(data)
    try:
        document = json_text.loads(data)
    except ValueError as error:
        raise Unreadable(f"is not JSON: {error}") from None
    numbers: list[Any] = []
    places: list[str] = []
    words: list[tuple[str, str]] = []
    for place, value in _leaves(document):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers.append(value)
            places.append(place)
            words.append((place, "a number"))
        else:
            words.append((place, repr(value)))
    return Tensor(dtype=NUMBER, shape=(len(numbers),), values=numbers, places=places, words=tuple(words))


def _leaves(document: Any) -> Iterator[tuple[str, Any]]:
    """What is in a document beside its lists and mappings, in the order of keys, with its place."""
    todo = [("$", document)]
    while todo:
        place, value = todo.pop()
        if isinstance(value, dict) and value:
            todo += [(f"{place}.{key}", value[key]) for key in sorted(value, reverse=True)]
        elif isinstance(value, list) and value:
            todo += [(f"{place}[{at}]", value[at]) for at in reversed(range(len(value)))]
        else:
            yield place, value


def _check_document(data: bytes) -> None:
    if len(data) > MOST_TEXT:
        raise Unreadable(f"is larger than the {MOST_TEXT >> 20} MiB of a text that are compared: write a .npy")


def _text(data: bytes) -> dict[str, Tensor]:
    _check_document(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Unreadable("is neither text nor of a kind that is compared: .npy, .npz, .safetensors, .json, .png")
    numbers: list[Any] = []
    places: list[str] = []
    words = []
    for at, line in enumerate(text.splitlines(), 1):
        found = [one for one in _IN_TEXT.finditer(line) if len(one[0]) <= _LONGEST_NUMBER]
        numbers += [_number(one[0]) for one in found]
        places += [f"line {at}, number {number}" for number in range(1, len(found) + 1)]
        beside, end = [], 0
        for one in found:
            beside += [line[end : one.start()], "#"]
            end = one.end()
        words.append((f"line {at}", " ".join("".join([*beside, line[end:]]).split())))
    tensor = Tensor(dtype=NUMBER, shape=(len(numbers),), values=numbers, places=places, words=tuple(words))
    return {"": tensor}


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() else float(text)


_READERS: dict[str, Callable[[bytes], dict[str, Tensor]]] = {
    "npy": _single(_npy),
    "npz": _npz,
    "safetensors": _safetensors,
    "json": _single(_json),
    "png": _single(_png),
}
