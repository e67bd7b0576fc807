"""The time limit of a trial whose reader is slow, with a program and a clock of this test's own."""

from __future__ import annotations

import math
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.core.errors import EngineError
from reprokit.engine.stream import AWAY, FULL, TAIL, Pace
from reprokit.engine.venv import processes
from reprokit.evidence.text import CUT_MARK


class Paced:
    """A pace of 10 seconds that began at 0, and what came out of it."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.pace = Pace(10.0, 0.0, self.got.append)

    def reads(self, size: int, at: float, *, late: bool = True) -> Paced:
        self.pace.looked(size, at, late=late)
        return self


def test_a_reader_that_waits_for_the_program_takes_nothing_from_its_time() -> None:
    assert Paced().reads(10, 9.0, late=False).reads(0, 9.2, late=False).pace.left(9.5) == 0.5


def test_time_in_which_the_output_waited_is_given_back() -> None:
    assert Paced().reads(FULL, 4.0).pace.left(4.0) == 10.0, "the pipe was full: since when, no one knows"
    assert Paced().reads(1, 4.0).pace.left(4.0) == 10.0, "so long away"
    assert Paced().reads(0, 25.0).pace.left(25.0) == 10.0, "what it found is the end"
    assert Paced().reads(1, AWAY / 2).pace.left(0.0) == 10.0, "a few bytes fit into any pipe"


def test_a_flood_that_is_read_too_slowly_ends_with_its_own_time() -> None:
    paced = Paced()
    moment, signalled = 0.0, None
    while signalled is None:
        moment += 0.25
        paced.reads(FULL, moment).pace.pass_on(b"x" * FULL)
        signalled = moment if paced.pace.left(moment) <= 0 else None
    assert 20 <= signalled <= 30.5, "at most its limit of reading slowly, and then its limit of reading only"
    paced.pace.close()
    paced.pace.check(timed_out=True)
    with pytest.raises(EngineError, match=r"were not read.*resources\.timeout"):
        paced.pace.check(timed_out=False)


@given(st.lists(st.binary(min_size=1, max_size=40).map(lambda piece: piece * 8000), max_size=12))
def test_nothing_is_lost_or_reordered_unless_a_line_says_so(pieces: list[bytes]) -> None:
    whole = Paced()
    for piece in pieces:
        whole.pace.pass_on(piece)
    whole.pace.close()
    assert b"".join(whole.got) == b"".join(pieces)
    whole.pace.check(timed_out=False)

    paced = Paced().reads(FULL, 20.0)
    paced.pace.looked(FULL, 20.1, late=True)
    for piece in pieces:
        paced.pace.pass_on(piece)
    paced.pace.close()
    came, printed = b"".join(paced.got), b"".join(pieces)
    if len(printed) < TAIL:
        assert came == printed
    elif came != printed:
        line, _, tail = came.removeprefix(b"\n").partition(b"\n")
        assert CUT_MARK.fullmatch(line.decode())
        assert printed.endswith(tail)
        assert len(tail) >= TAIL
        gone = printed[: len(printed) - len(tail)]
        assert line == b"[reprokit: %d bytes (%d lines) cut]" % (len(gone), gone.count(b"\n"))


def program(script: str, folder: Path) -> processes.HostProcess:
    return processes.HostProcess(command=["sh", "-c", script], environ={"PATH": os.environ["PATH"]}, folder=folder)


@pytest.mark.system
def test_a_sink_that_stalls_makes_no_time_out(tmp_path: Path) -> None:
    def stalls(_: bytes) -> None:
        time.sleep(5)

    ended = processes.run(program("echo x; sleep 0.2; exit 7", tmp_path), stalls, threading.Event(), timeout=4.0)
    assert (ended.code, ended.timed_out) == (7, False)
    ended = processes.run(program("echo x; exec sleep 60", tmp_path), stalls, threading.Event(), timeout=1.0)
    assert ended.timed_out


def test_a_program_without_a_limit_is_never_stopped() -> None:
    pace = Pace(math.inf, 0.0, lambda _: None)
    pace.looked(FULL, 1e9, late=True)
    assert pace.left(1e9) == math.inf
