"""Frames and lines of an attached container."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reprokit.engine.stream import Demux, LineMerger

PIECES = st.lists(st.tuples(st.sampled_from([1, 2]), st.text("ab\n", max_size=12).map(str.encode)), max_size=30)


def framed(pieces: list[tuple[int, bytes]]) -> bytes:
    return b"".join(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for stream, data in pieces)


@given(PIECES, st.integers(1, 7))
def test_frames_come_apart_however_they_are_cut(pieces: list[tuple[int, bytes]], step: int) -> None:
    wire = framed(pieces)
    demux = Demux()
    got = {1: b"", 2: b""}
    for start in range(0, len(wire), step):
        for stream, data in demux.feed(wire[start : start + step]):
            got[stream] += data
    for stream in (1, 2):
        assert got[stream] == b"".join(data for of, data in pieces if of == stream)


@given(PIECES, st.integers(0, 5))
def test_lines_stay_whole_and_nothing_is_lost(pieces: list[tuple[int, bytes]], limit: int) -> None:
    merger = LineMerger(limit=1000)
    out = b"".join(merger.feed(stream, data) for stream, data in pieces) + merger.flush()
    sent = {of: b"".join(data for stream, data in pieces if stream == of) for of in (1, 2)}
    lines = sorted(out.split(b"\n"))
    whole = [line for stream in (1, 2) for line in sent[stream].split(b"\n")]
    # Every line of either stream, unbroken; empty last pieces aside.
    assert sorted(filter(None, lines)) == sorted(filter(None, whole))
    small = LineMerger(limit=limit)
    cut = b"".join(small.feed(stream, data) for stream, data in pieces) + small.flush()
    assert cut.replace(b"\n", b"").count(b"a") == sum(data.count(b"a") for data in sent.values())


def test_an_unfinished_line_waits_for_its_end() -> None:
    merger = LineMerger()
    assert merger.feed(1, b"half") == b""
    assert merger.pending
    assert merger.feed(2, b"Traceback\n") == b"Traceback\n"
    assert merger.feed(1, b" done\nnext") == b"half done\n"
    assert merger.flush() == b"next"
    assert not merger.pending


def test_a_line_that_had_to_go_out_is_broken_off_before_the_other_stream_speaks() -> None:
    merger = LineMerger()
    merger.feed(1, b"50%")
    assert merger.flush() == b"50%"
    assert merger.feed(1, b" 60%\n") == b" 60%\n"
    merger.feed(1, b"70%")
    merger.flush()
    assert merger.feed(2, b"Traceback (most recent call last):\n") == b"\nTraceback (most recent call last):\n"


def test_the_carry_is_bounded() -> None:
    merger = LineMerger(limit=10)
    assert merger.feed(1, b"x" * 10) == b""
    assert merger.feed(1, b"y") == b"x" * 10 + b"y"
