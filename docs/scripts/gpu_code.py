"""Counts the GPU code in wheels, for data/architectures.yaml: ``python -m docs.scripts.gpu_code WHEEL ...``.

A wheel is a file or an address, whose libraries are read by HTTP ranges (package ``remotezip``, extra ``data``) and
never stored. A library holds its GPU code in fat binaries: a header of 16 bytes, then entries, each a header and a
payload. Only headers are read, so that compressed payloads need nothing. NVIDIA does not document the layout: it is
that of https://github.com/n-eiling/cuda-fatbin-decompression (fatbin-decompress.h), and what the flags mean was
measured with ``ptxas`` and ``fatbinary`` of CUDA 13.0.
"""

from __future__ import annotations

import os
import struct
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable
from typing import IO, Any

from reprokit.core.terminal import echo

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
CHUNK = 1 << 20
_HEADER = struct.Struct("<HHIQIIHHIIIQQQ")
_KINDS = {1: "compute", 2: "sm"}
_FLAGS = {0x100000: "a", 0x200000: "f"}
"""Code for that architecture alone (``sm_90a``), and for its family (``sm_100f``)."""


class _Reader:
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._held = b""

    def take(self, size: int) -> bytes:
        """The next bytes, fewer only at the end."""
        parts = [self._held]
        had = len(self._held)
        while had < size and (chunk := self._stream.read(CHUNK)):
            parts.append(chunk)
            had += len(chunk)
        data = b"".join(parts)
        self._held = data[size:]
        return data[:size]

    def skip(self, size: int) -> None:
        while size and (data := self.take(min(size, CHUNK))):
            size -= len(data)

    def find(self, text: bytes) -> bool:
        """Whether ``text`` follows somewhere; what is taken next is behind it."""
        while (at := self._held.find(text)) < 0:
            chunk = self._stream.read(CHUNK)
            if not chunk:
                return False
            self._held = self._held[-len(text) :] + chunk
        self._held = self._held[at + len(text) :]
        return True


def count(stream: IO[bytes]) -> Counter[str]:
    """``sm_86`` (machine code) and ``compute_86`` (PTX) -> how many entries of fat binaries in a library are of it."""
    found: Counter[str] = Counter()
    reader = _Reader(stream)
    while reader.find(MAGIC):
        left = int.from_bytes(reader.take(8), "little")
        while left >= _HEADER.size:
            header = reader.take(_HEADER.size)
            if len(header) < _HEADER.size:
                break
            kind, _, size, payload, _, _, _, _, arch, _, _, flags, _, _ = _HEADER.unpack(header)
            if size < _HEADER.size or size + payload > left:  # these bytes are not a fat binary
                break
            if kind in _KINDS:
                suffix = "".join(letter for bit, letter in _FLAGS.items() if flags & bit)
                found[f"{_KINDS[kind]}_{arch}{suffix}"] += 1
            reader.skip(size - _HEADER.size + payload)
            left -= size + payload
    return found


def of_wheel(wheel: str) -> Counter[str]:
    """What all libraries of a wheel hold together; ``wheel``: a path or an address."""
    opened: Any = zipfile.ZipFile
    how: dict[str, Any] = {}
    if wheel.startswith("https://"):
        from remotezip import RemoteZip

        opened = RemoteZip
        how["verify"] = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE") or True
    found: Counter[str] = Counter()
    with opened(wheel, **how) as archive:
        for entry in archive.infolist():
            if entry.filename.rpartition("/")[2].endswith(".so") or ".so." in entry.filename:
                with archive.open(entry) as stream:
                    found += count(stream)
    return found


def main(wheels: Iterable[str]) -> None:
    """Print the row of each wheel."""
    for wheel in wheels:
        name, release = wheel.rpartition("/")[2].split("-")[:2]
        code = of_wheel(wheel)
        cells = ", ".join(f"{arch}: {code[arch]}" for arch in sorted(code, key=lambda arch: (len(arch), arch)))
        echo(f'{name.replace("_", "-")}:\n  "{release}": {{{cells}}}')


if __name__ == "__main__":
    main(sys.argv[1:])
