"""Frames and lines of an attached container."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reprokit.engine.stream import Demux, LineMerger, Turns

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


@given(PIECES, st.lists(st.floats(0, 2), min_size=30, max_size=30))
def test_turns_keep_each_stream_whole_and_in_order(pieces: list[tuple[int, bytes]], steps: list[float]) -> None:
    turns, now, out = Turns(limit=20), 0.0, []
    for (stream, data), step in zip(pieces, steps, strict=False):
        now += step
        out += turns.due(now) + turns.feed(stream, data, now)
    out += turns.flush()
    for of in (1, 2):
        assert b"".join(d for s, d in out if s == of) == b"".join(d for s, d in pieces if s == of)


def test_what_arrives_in_the_middle_of_the_other_stream_waits_for_its_pause() -> None:
    turns = Turns(quiet=0.25)
    assert turns.feed(2, b"Traceback\n", 0.0) == [(2, b"Traceback\n")]
    assert turns.feed(1, b"buffered 1\n", 0.001) == []
    assert turns.feed(2, b"ValueError\n", 0.002) == [(2, b"ValueError\n")]
    assert turns.feed(1, b"buffered 2\n", 0.003) == []
    assert turns.due(0.2) == []
    assert turns.wait(0.2) == 0.252 - 0.2
    assert turns.due(0.26) == [(1, b"buffered 1\n"), (1, b"buffered 2\n")]
    assert turns.wait(0.26) is None


def test_a_stream_that_never_pauses_does_not_hold_the_other_for_ever() -> None:
    turns = Turns(quiet=0.25, patience=1.0, limit=100)
    turns.feed(1, b"busy\n", 0.0)
    turns.feed(2, b"error\n", 0.1)
    out = []
    for tick in range(2, 13):
        out += turns.feed(1, b"busy\n", tick / 10)
    assert (2, b"error\n") in out
    turns.feed(1, b"x" * 90, 2.0)
    assert turns.feed(1, b"x" * 90, 2.0)
