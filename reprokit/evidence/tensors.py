"""Outputs of a trial as numbers. A file may be untrusted: only plain arrays of numbers are read, nothing is
unpickled, and what is damaged, of an unknown kind, or larger than :data:`MOST` once unpacked is :class:`Unreadable`.
Pure.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reprokit.core import json_text
from reprokit.core.version import install_line

if TYPE_CHECKING:
    import numpy

MOST = 64 << 20
"""Bytes of the outputs of one trial, and of what a packed one holds."""
MOST_TEXT = 8 << 20
"""Bytes of a document, whose numbers take many times as much once they are read."""
MOST_MEMBERS = 1000
NUMBER = "number"
"""The dtype of numbers that are written out, in JSON and in text: whole ones are exact, others are float64."""
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", NUMBER)

_DTYPES = {
    "BOOL": "bool",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    **{f"{short}{bits}": f"{name}{bits}" for short, name in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)},
}
"""What safetensors calls a dtype -> our name."""
_PLAIN = (*_DTYPES.values(), "complex64", "complex128")
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


def read(name: str, data: bytes) -> dict[str, Tensor]:
    """The tensors of an output by their names: of a file that holds one, '' is its name. Raises Unreadable."""
    suffix = name.rpartition(".")[2].lower()
    try:
        return _READERS.get(suffix, _text)(data)
    except ImportError:
        again = "then judge the run again: reprokit store rejudge RUN"
        raise Unreadable(f"is not read without the extra 'compare': {install_line('compare')}; {again}") from None


def _single(reader: Callable[[bytes], Tensor]) -> Callable[[bytes], dict[str, Tensor]]:
    return lambda data: {"": reader(data)}


def _npy(data: bytes) -> Tensor:
    from numpy.lib import format as npy_format

    stream = io.BytesIO(data)
    try:
        version = npy_format.read_magic(stream)
        # Version 3 differs from 2 in the names of fields, and structures are refused below.
        header = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, in_fortran, kind = header(stream)
    except Exception as error:  # of a hostile header, whatever Python's own parser and tokenizer raise
        raise Unreadable(f"is not a .npy file: {str(error)[:200]}") from None
    if kind.hasobject or kind.fields or kind.subdtype or kind.name not in _PLAIN:
        raise Unreadable("is not a plain array of numbers: objects, texts, dates and structures are not compared")
    return _tensor(kind.name, shape, data[stream.tell() :], stored=kind, order="F" if in_fortran else "C")


def _tensor(name: str, shape: Sequence[int], raw: bytes, *, stored: Any = "", order: Any = "C") -> Tensor:
    """The numbers in ``raw``, which are ``stored`` as a dtype of NumPy in an order."""
    import numpy

    kind = numpy.dtype(stored or {"bfloat16": "<u2"}.get(name, name))
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(raw):
        raise Unreadable(f"is damaged: {len(raw)} bytes of numbers, where {name} of shape {tuple(shape)} takes other")
    found = numpy.frombuffer(raw, kind).reshape(shape, order=order).ravel()
    found = found.astype(kind.newbyteorder("="), copy=False)
    return Tensor(dtype=name, shape=tuple(shape), values=_values(name, found), raw=found.tobytes())


def _values(name: str, found: numpy.ndarray[Any, Any]) -> Sequence[Any]:
    """The numbers as those of Python, without an object for each where there can be millions."""
    if name == "bfloat16":  # the upper half of a float32; NumPy has no such dtype
        found = (found.astype("uint32") << 16).view("float32")
    elif name == "float16":  # memoryview reads it from Python 3.12 on alone
        found = found.astype("float32")
    elif name == "bool":
        found = found.view("uint8")
    return found.tolist() if name.startswith("complex") else memoryview(found)


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
    from safetensors import SafetensorError, deserialize

    try:
        entries = deserialize(data)
    except (SafetensorError, ValueError) as error:
        raise Unreadable(f"is not a .safetensors file: {str(error)[:200]}") from None
    if len(entries) > MOST_MEMBERS:
        raise Unreadable(f"holds more than {MOST_MEMBERS} arrays")
    found = {}
    for name, entry in entries:
        if entry["dtype"] not in _DTYPES:
            raise Unreadable(f"has the tensor {name[:80]!r} of the type {entry['dtype']}, which is not compared")
        found[name] = _tensor(_DTYPES[entry["dtype"]], entry["shape"], bytes(entry["data"]))
    return found


def _png(data: bytes) -> Tensor:
    import png

    try:
        image = png.Reader(bytes=data)
        image.preamble()
        if image.bitdepth not in (8, 16) or image.colormap or image.interlace:
            raise Unreadable("is a PNG with a palette, interlaced, or of less than 8 bits: write gray, RGB or RGBA")
        shape, deep = (image.height, image.width, image.planes), image.bitdepth == 16
        size = math.prod(shape) << deep
        if not size or size > MOST:
            raise Unreadable(f"has {image.width} x {image.height} pixels, which is zero, or more than {MOST >> 20} MiB")
        packed = b"".join(body for kind, body in png.Reader(bytes=data).chunks() if kind == b"IDAT")
        # pypng unpacks a chunk whole, whatever it grows to; each row has a byte for its filter.
        if len(zlib.decompressobj().decompress(packed, size + image.height + 1)) != size + image.height:
            raise Unreadable("is damaged: it holds fewer or more pixels than it says")
        rows = [bytes(row) for row in image.read()[2]]
    except (png.Error, zlib.error, ValueError, EOFError) as error:
        raise Unreadable(f"is not a PNG, or is damaged: {str(error)[:200]}") from None
    return _tensor("uint16" if deep else "uint8", shape, b"".join(rows))


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
    return int(text) if re.fullmatch("[-+]?[0-9]{1,400}", text) else float(text)


_READERS: dict[str, Callable[[bytes], dict[str, Tensor]]] = {
    "npy": _single(_npy),
    "npz": _npz,
    "safetensors": _safetensors,
    "json": _single(_json),
    "png": _single(_png),
}
