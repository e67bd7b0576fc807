"""The pixels of a PNG: what a trial wrote may be hostile, and little of the format is needed. Pure."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Channels by the colour type: gray, RGB, and both with alpha."""


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """An image of ``depth`` 8 or 16 bits; ``data``: its rows from the top, of 16 bits the high byte first."""

    width: int
    height: int
    channels: int
    depth: int
    data: bytes


def pixels(data: bytes, most: int) -> Pixels:
    """Read a PNG. Raises ValueError, in words that follow its name, for what is damaged, or holds more than ``most``
    bytes, and for palettes, interlacing and less than 8 bits.
    """
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR" or len(data) < 33:
        raise ValueError("is not a PNG")
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if depth not in (8, 16) or colour not in _CHANNELS or interlaced:
        raise ValueError("is a PNG with a palette, interlaced, or of less than 8 bits: write gray, RGB or RGBA")
    step = _CHANNELS[colour] * depth // 8
    stride = width * step
    size = (stride + 1) * height
    if not size or size > most:
        raise ValueError(f"has {width} x {height} pixels, which is zero, or more than {most >> 20} MiB")
    unpacker = zlib.decompressobj()
    try:
        packed = unpacker.decompress(b"".join(_chunks(data)), size)
    except zlib.error as error:
        raise ValueError(f"is damaged: {error}") from None
    if len(packed) != size:
        raise ValueError("is damaged: pixels are missing")
    return Pixels(width=width, height=height, channels=_CHANNELS[colour], depth=depth, data=_rows(packed, stride, step))


def _chunks(data: bytes) -> list[bytes]:
    """What the chunks of the image hold."""
    found, at = [], 8
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            found.append(data[at + 8 : at + 8 + length])
        at += 12 + length
    return found


def _rows(packed: bytes, stride: int, step: int) -> bytes:
    """The rows without the filters that PNG puts before packing."""
    rows, above = bytearray(), bytearray(stride)
    for start in range(0, len(packed), stride + 1):
        row = bytearray(packed[start + 1 : start + 1 + stride])
        _unfilter(packed[start], row, above, step)
        rows += row
        above = row
    return bytes(rows)


def _unfilter(kind: int, row: bytearray, above: bytearray, step: int) -> None:
    if kind == 0:
        return
    for at in range(len(row)):
        left = row[at - step] if at >= step else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = above[at]
        elif kind == 3:
            guess = (left + above[at]) // 2
        elif kind == 4:
            guess = _paeth(left, above[at], above[at - step] if at >= step else 0)
        else:
            raise ValueError("is damaged: a row has an unknown filter")
        row[at] = (row[at] + guess) & 255


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    to_left, to_above, to_corner = abs(guess - left), abs(guess - above), abs(guess - corner)
    if to_left <= to_above and to_left <= to_corner:
        return left
    return above if to_above <= to_corner else corner
