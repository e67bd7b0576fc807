"""Counting the GPU code in a library: fat binaries among other bytes, at the edges of chunks, and cut off."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest

from docs.scripts import gpu_code
from reprokit.environment.catalog import OURS

FATBIN = 0xBA55ED50


def entry(kind: int, arch: int, *, flags: int = 0x11, size: int = 64, payload: bytes = b"p" * 24) -> bytes:
    # kind, -, header, payload, compressed, -, minor, major, arch, name, length of name, flags, -, uncompressed
    header = struct.pack("<HHIQIIHHIIIQQQ", kind, 257, size, len(payload), 0, 0, 1, 8, arch, 0, 0, flags, 0, 0)
    return header + b"\0" * (size - 64) + payload


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", FATBIN, 1, 16, len(body)) + body


LIBRARY = b"\x7fELF....".join(
    (
        b"",
        fatbin(entry(2, 80), entry(2, 90, flags=0x100011), entry(1, 90, size=80)),
        fatbin(entry(2, 80), entry(2, 100, flags=0x1200011, size=112)),
        b"",
    )
)


def test_machine_code_and_ptx_are_counted_by_architecture() -> None:
    assert gpu_code.count(io.BytesIO(LIBRARY)) == {"sm_80": 2, "sm_90a": 1, "compute_90": 1, "sm_100f": 1}


@pytest.mark.parametrize("chunk", [1, 7, 64, 97])
def test_it_does_not_matter_where_chunks_end(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(gpu_code, "CHUNK", chunk)
    assert gpu_code.count(io.BytesIO(LIBRARY)) == {"sm_80": 2, "sm_90a": 1, "compute_90": 1, "sm_100f": 1}


def test_what_looks_like_a_fat_binary_in_a_payload_is_not_counted() -> None:
    assert gpu_code.count(io.BytesIO(fatbin(entry(2, 86, payload=fatbin(entry(2, 35)))))) == {"sm_86": 1}


@pytest.mark.parametrize("bytes_left", [3, 17, 40, 90, 200])
def test_a_library_that_is_cut_off_or_hostile_ends(bytes_left: int) -> None:
    gpu_code.count(io.BytesIO(LIBRARY[:bytes_left]))
    lying = fatbin(entry(2, 80)).replace(struct.pack("<I", 64), struct.pack("<I", 2**32 - 1))
    assert gpu_code.count(io.BytesIO(lying)) == {}
    gpu_code.count(io.BytesIO(struct.pack("<IHHQ", FATBIN, 1, 16, 2**63) + b"\0" * bytes_left))


def test_all_libraries_of_a_wheel_count_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = tmp_path / "some_framework-1.2.3-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("some/lib/liba.so", LIBRARY)
        archive.writestr("some/lib/libb.so.1", fatbin(entry(2, 80)))
        archive.writestr("some/data.bin", fatbin(entry(2, 35)))
    gpu_code.main([str(wheel)])
    assert capsys.readouterr().out == 'some-framework:\n  "1.2.3": {sm_80: 3, sm_90a: 1, sm_100f: 1, compute_90: 1}\n'


def test_the_table_is_of_releases_that_are_known() -> None:
    measured = OURS.table("architectures")
    assert all(set(rows) <= set(OURS.builds()[package]) for package, rows in measured.items())
    assert OURS.gpu_code("paddlepaddle-gpu", "2.6.2")["sm_90"] < 20
    assert OURS.gpu_code("paddlepaddle-gpu", "2.0.0") == {}
