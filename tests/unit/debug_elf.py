"""A debug file that needs no compiler: one function over all addresses of a file, and the build id of that file."""

from __future__ import annotations

import platform
import struct

MACHINES = {"x86_64": 62, "aarch64": 183}
EXTENT = 0x800_0000


def debug_file(build_id: str, function: str) -> bytes:
    """An ELF file as ``objcopy --only-keep-debug`` makes it of a file that was linked with ``--build-id``."""
    identity = bytes.fromhex(build_id)
    note = struct.pack("<III", 4, len(identity), 3) + b"GNU\0" + identity + b"\0" * (-len(identity) % 4)
    names = b"\0" + function.encode() + b"\0"
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0) + struct.pack("<IBBHQQ", 1, 0x12, 0, 2, 0x100, EXTENT - 0x100)
    titles = b"\0.note.gnu.build-id\0.text\0.symtab\0.strtab\0.shstrtab\0.debug_info\0"
    contents = [note, symbols, names, titles]
    places, at = [], 64
    for data in contents:
        places.append(at)
        at += len(data) + -len(data) % 8

    def section(title: str, kind: int, flags: int, address: int, data: int, size: int, *rest: int) -> bytes:
        name = titles.index(b"\0" + title.encode() + b"\0") + 1 if title else 0
        return struct.pack("<IIQQQQIIQQ", name, kind, flags, address, data, size, *rest)

    table = b"".join(
        (
            section("", 0, 0, 0, 0, 0, 0, 0, 0, 0),
            section(".note.gnu.build-id", 7, 2, 0, places[0], len(note), 0, 0, 4, 0),
            section(".text", 8, 6, 0x100, places[1], EXTENT - 0x100, 0, 0, 16, 0),
            section(".symtab", 2, 0, 0, places[1], len(symbols), 4, 1, 8, 24),
            section(".strtab", 3, 0, 0, places[2], len(names), 0, 0, 1, 0),
            section(".shstrtab", 3, 0, 0, places[3], len(titles), 0, 0, 1, 0),
            section(".debug_info", 1, 0, 0, places[3], 0, 0, 0, 1, 0),
        )
    )
    machine = MACHINES[platform.machine()]
    head = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 3, machine, 1, 0, 0, at, 0, 64, 0, 0, 64, 7, 5)
    body = b"".join(data + b"\0" * (-len(data) % 8) for data in contents)
    return head + body + table
