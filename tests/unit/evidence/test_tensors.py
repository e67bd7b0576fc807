"""Outputs as numbers: each kind of file, as its own writers write it, and damaged or hostile ones."""

from __future__ import annotations

import contextlib
import io
import json
import re
import struct
import sys
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.core.version import install_line
from reprokit.evidence import tensors
from reprokit.evidence.tensors import Unreadable, read

for library in ("numpy", "png", "safetensors"):
    pytest.importorskip(library)


def npy(descr: str, shape: str, body: bytes, *, order: bool = False, version: int = 1) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    size = 2 if version == 1 else 4
    header += b" " * (-(9 + size + len(header)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(size, "little") + header + body


@pytest.mark.parametrize(
    ("descr", "body", "values"),
    [
        ("<f8", struct.pack("<2d", 1.5, -2.0), [1.5, -2.0]),
        (">f4", struct.pack(">2f", 1.5, -2.0), [1.5, -2.0]),
        ("<f2", struct.pack("<2e", 1.5, 65504.0), [1.5, 65504.0]),
        (">i8", struct.pack(">2q", -(2**63), 2**63 - 1), [-(2**63), 2**63 - 1]),
        ("<u8", struct.pack("<2Q", 0, 2**64 - 1), [0, 2**64 - 1]),
        ("|u1", b"\x00\xff", [0, 255]),
        ("|b1", b"\x00\x01", [0, 1]),
        ("<c8", struct.pack("<4f", 1, 2, 3, 4), [1 + 2j, 3 + 4j]),
        (">c16", struct.pack(">4d", 1, 2, 3, 4), [1 + 2j, 3 + 4j]),
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_npy(descr: str, body: bytes, values: list[object], version: int) -> None:
    found = read("x.npy", npy(descr, "(2,)", body, version=version))[""]
    assert list(found.values) == values
    assert found.shape == (2,)


def test_npy_in_the_order_of_fortran_without_dimensions_and_empty() -> None:
    body = bytes([1, 4, 2, 5, 3, 6])
    found = read("x.npy", npy("|u1", "(2, 3)", body, order=True))[""]
    assert list(found.values) == [1, 2, 3, 4, 5, 6]
    assert found.place(4) == "[1, 1]"
    assert read("x.npy", npy("|u1", "()", b"\x07"))[""].shape == ()
    assert len(read("x.npy", npy("<f8", "(0, 3)", b""))[""].values) == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        npy("|O", "(1,)", b"cos\nsystem\n."),
        npy("<U5", "(1,)", b" " * 20),
        npy("<f8", "(3,)", b" " * 16),
        npy("<f8", "(" + "9, " * 2000 + ")", b""),
        npy("<f8", "(" + "9" * 5000 + ",)", b""),
        npy("<f16", "(1,)", b" " * 16),
        b"\x93NUMPY\x01\x00\xff\xff{",
    ],
)
def test_an_npy_of_anything_but_plain_numbers_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read("x.npy", data)


def test_npz() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy("|u1", "(1,)", b"\x01"))
        archive.writestr("b.npy", npy("|u1", "(1,)", b"\x02"))
    found = read("x.npz", packed.getvalue())
    assert {name: list(one.values) for name, one in found.items()} == {"a": [1], "b": [2]}


def test_what_grows_when_it_is_unpacked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "MOST", 1000)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(100_000))
    with pytest.raises(Unreadable, match="more than"):
        read("x.npz", packed.getvalue())
    same = {str(at): {"dtype": "U8", "shape": [900], "data_offsets": [0, 900]} for at in range(2)}
    header = json.dumps(same).encode()
    with pytest.raises(Unreadable, match="offset"):  # the same bytes for two tensors
        read("x.safetensors", len(header).to_bytes(8, "little") + header + bytes(900))


def test_safetensors() -> None:
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "h": {"dtype": "BF16", "shape": [1], "data_offsets": [8, 10]},
        }
    ).encode()
    body = struct.pack("<2f", 1.5, -1.0) + b"\xc0\x3f"
    found = read("x.safetensors", len(header).to_bytes(8, "little") + header + body)
    assert {name: list(one.values) for name, one in found.items()} == {"w": [1.5, -1.0], "h": [1.5]}


@pytest.mark.parametrize(
    "header", [b"[]", b"{", b'{"a": 1}', b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}']
)
def test_damaged_safetensors(header: bytes) -> None:
    with pytest.raises(Unreadable):
        read("x.safetensors", len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(Unreadable):
        read("x.safetensors", b"\xff" * 8 + header)


def test_json_and_text() -> None:
    found = read("x.json", b'{"b": [1, 2.5], "a": {"n": NaN, "t": true}}')[""]
    assert found.places == ["$.a.n", "$.b[0]", "$.b[1]"]
    assert ("$.a.t", "True") in found.words
    text = read("x.txt", b"loss 0.5 at 12\nv1.2.3 on x86_64: nan -1e-3\n")[""]
    assert [str(one) for one in text.values] == ["0.5", "12", "nan", "-0.001"]
    assert text.place(3) == "line 2, number 2"
    assert text.words[0] == ("line 1", "loss # at #")


def png(rows: list[bytes], width: int, colour: int, depth: int = 8) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = struct.pack(">IIBBBBB", width, len(rows), depth, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )


def test_png_with_each_filter() -> None:
    rows = [b"\x00\x0a\x14\x1e", b"\x01\x0a\x0a\x0a", b"\x02\x01\x01\x01", b"\x03\x01\x01\x01", b"\x04\x01\x01\x01"]
    found = read("x.png", png(rows, 3, 0))[""]
    assert found.shape == (5, 3, 1)
    assert list(found.values) == [10, 20, 30, 10, 20, 30, 11, 21, 31, 6, 14, 23, 7, 15, 24]
    wide = read("x.png", png([b"\x00\x01\x00"], 1, 0, depth=16))[""]
    assert (wide.dtype, list(wide.values)) == ("uint16", [256])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        png([b"\x00\x01"], 1, 3),
        png([b"\x09\x01"], 1, 0),
        png([b"\x00"], 1, 0),
        png([b"\x00\x01" + bytes(9)], 1, 0),
        png([b"\x00"], 0, 0),
        png([b"\x00" * 10] * 10, 2**31 - 1, 0),
    ],
)
def test_a_png_that_is_damaged_or_of_another_kind(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read("x.png", data)


@given(st.sampled_from(["npy", "npz", "safetensors", "json", "png", "txt"]), st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(kind: str, data: bytes) -> None:
    starts = {"npy": b"\x93NUMPY\x01\x00", "npz": b"PK\x03\x04", "png": png([b"\x00\x01"], 1, 0)[:40]}
    for text in (data, starts.get(kind, b"") + data):
        with contextlib.suppress(Unreadable):
            read(f"x.{kind}", text)


@pytest.mark.parametrize(("library", "suffix"), [("numpy.lib", "npy"), ("png", "png"), ("safetensors", "safetensors")])
def test_without_the_extra_what_needs_it_says_what_to_install(
    library: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unreadable, match=re.escape(install_line("compare"))):
        read(f"x.{suffix}", png([b"\x00\x01"], 1, 0))
    assert list(read("x.json", b"[1]")[""].values) == [1]
