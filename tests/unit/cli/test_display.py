"""What is shown while a run goes on: the table of a terminal, and lines whose reader is slow."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from reprokit.cli.display import output
from reprokit.cli.display import plain as plain_display
from reprokit.cli.display.live import LiveListener, print_table
from reprokit.cli.display.output import BACKLOG, Output
from reprokit.cli.display.plain import LONGEST, PlainListener
from reprokit.cli.display.screen import Screen
from reprokit.core.terminal import plain, visible
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, ImageRecord


class Clock:
    """The monotonic clock of the display, which a test turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(plain_display.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def cell(number: int, verdict: Verdict, **values: object) -> CellRecord:
    base = CellRecord(
        number=number, case_id="c", case_path="c.yaml", case_digest="d", cell={"os": "debian-12", "n": str(number)},
        verdict=verdict, expected=Verdict.NOT_REPRODUCED, reason="it said so", seconds=1.0,
    )  # fmt: skip
    return replace(base, **values)  # type: ignore[arg-type]


def screen_of(listener: LiveListener, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(listener._render())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def live_listener(height: int = 30) -> LiveListener:
    return LiveListener(Console(file=io.StringIO(), width=100, height=height, force_terminal=True))


def test_a_build_is_shown_with_its_step_and_both_clocks(clock: Clock) -> None:
    listener = live_listener()
    listener.appended({1: "gcc=12", 2: "gcc=11", 3: "gcc=10"})
    listener.state([1, 3], "building", "3/9 pip install torch==2.1.0")
    clock.now += 0.5
    assert "3/9 pip install torch==2.1.0" in "\n".join(screen_of(listener))
    listener.state([1, 3], "building", "4/9 apt-get install cmake")
    clock.now += 75
    [row] = [line for line in screen_of(listener) if "gcc=12 and 1 more" in line]
    assert row.partition("building")[2].split() == "1 min 15 s 1 min 15 s, 4/9 apt-get install cmake".split()  # noqa: SIM905
    assert screen_of(listener)[-1] == "0 cells decided; 1 image building for 2 cells, 1 waiting; 1 min 15 s"
    listener.build_ended([1, 3], 75.5)
    assert screen_of(listener)[-1] == "0 cells decided; 3 waiting; 1 min 15 s"


def test_what_departs_stays_on_the_screen_and_the_rest_are_numbers(clock: Clock) -> None:
    listener = live_listener(height=14)
    listener._total = 500
    listener.appended({number: f"n={number}" for number in range(1, 501)})
    for number in range(1, 301):
        listener.state([number], "running")
        listener.decided(cell(number, Verdict.REPRODUCED if number % 100 == 7 else Verdict.NOT_REPRODUCED))
    listener.state([301], "running", "trial 2/3")
    clock.now += 60
    shown = screen_of(listener)
    assert [line.split()[0] for line in shown[1:-1]] == ["7", "107", "207", "301"]
    assert "it said so" in shown[1]
    assert shown[-1] == "300 of 500 cells decided (3 depart); 1 running, 199 waiting; 1 min 00 s, about 40 s left"
    for number in range(301, 401):
        listener.decided(cell(number, Verdict.REPRODUCED))
        listener.state([number + 100], "running")
    shown = screen_of(listener)
    assert len(shown) <= 14
    assert (sum("  running" in line for line in shown), sum("!" in line for line in shown)) == (5, 5)
    assert "193 rows not shown" in " ".join(shown[-2:])


REASONS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=200)


@given(
    st.lists(st.tuples(st.sampled_from(list(Verdict)), st.lists(REASONS, min_size=1, max_size=30)), max_size=30),
    st.sampled_from([80, 100, 110]),
)
def test_every_reason_is_shown_in_full_however_narrow_the_terminal(
    outcomes: list[tuple[Verdict, list[str]]], width: int
) -> None:
    cells = [cell(number, verdict, reason=" ".join(words)) for number, (verdict, words) in enumerate(outcomes, 1)]
    console = Console(file=io.StringIO(), width=width)
    print_table(console, cells)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    shown = re.sub(r"\s", "", "".join(lines))
    counted = len(cells) - sum(one.verdict is Verdict.CANCELLED for one in cells) > 20
    for one in cells:
        if one.verdict is not Verdict.CANCELLED and not (counted and one.verdict is Verdict.NOT_REPRODUCED):
            assert re.sub(r"\s", "", visible(one.reason)) in shown
    assert all(cell_len(line) <= width for line in lines)


def test_of_many_cells_the_table_shows_those_that_failed_and_counts_the_rest() -> None:
    console = Console(file=io.StringIO(), width=80)
    kinds = {7: Verdict.REPRODUCED, 3: Verdict.FLAKY, 5: Verdict.BUILD_FAILED}
    verdicts = [kinds.get(number % 50, Verdict.NOT_REPRODUCED) for number in range(500)]
    cells = [cell(number, verdict, reason=f"r{number}") for number, verdict in enumerate(verdicts)]
    cells += [cell(number, Verdict.CANCELLED, reason="stopped before it was decided") for number in range(500, 700)]
    print_table(console, cells)
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    numbers = [int(line.split()[0]) for line in shown[2:32]]
    assert set(numbers) == {number for number in range(500) if number % 50 in kinds}
    assert [line.split()[2] for line in shown[2:32]] == ["!"] * 20 + ["?"] * 10
    assert shown[32] == "and 470 not-reproduced, as expected; --json has them all"
    assert "stopped before it was decided" not in "\n".join(shown)
    assert "200 stopped before a verdict" in "".join(shown[-2:])
    assert sum("reproduced, expected not-reproduced" in line for line in shown) == 10


def test_without_a_terminal_a_line_is_of_a_cell_that_ended_and_says_how_far_it_is(clock: Clock) -> None:
    stream = io.StringIO()
    listener = PlainListener(Output(stream))
    listener._total = 3
    listener.appended({1: "n=1", 2: "n=2", 3: "n=3"})
    listener.state([1, 2, 3], "building", "1/9 pip")
    listener.build_ended([1, 2, 3], 20.0)
    for number in (2, 1):
        listener.state([number], "running", "trial 1/3")
    listener.decided(cell(2, Verdict.NOT_REPRODUCED))
    listener.decided(cell(1, Verdict.REPRODUCED))
    listener.state([2], "confirming", "trial 2")
    listener.repeated(cell(2, Verdict.NOT_REPRODUCED))
    listener.repeated(cell(2, Verdict.FLAKY, reason="1 of 3 trials failed"))
    listener.decided(cell(3, Verdict.CANCELLED))
    assert stream.getvalue().splitlines() == [
        "built in 20.0 s: n=1 (image of 3 cells)",
        "[1/3] #2 n=2: not-reproduced, as expected (1.0 s): it said so",
        "[2/3] #1 n=1: reproduced, expected not-reproduced (1.0 s): it said so",
        "note: confirming changed #2 n=2: flaky, expected not-reproduced (was not-reproduced): 1 of 3 trials failed",
    ]


def test_a_failed_build_of_hundreds_of_cells_is_one_row_and_one_reason(clock: Clock) -> None:
    cells = [cell(number, Verdict.BUILD_FAILED, reason="pip: no torch 9") for number in range(1, 501)]
    cells += [cell(501, Verdict.BUILD_FAILED, reason="E: no gcc"), cell(502, Verdict.NOT_REPRODUCED)]
    stream, live = io.StringIO(), live_listener()
    plain_lines = PlainListener(Output(stream))
    plain_lines._total = 502
    for listener in (plain_lines, live):
        listener.appended({one.number: f"n={one.number}" for one in cells})
        for one in (*cells[:499], cells[500], cells[499], cells[501]):
            listener.decided(one)
    assert stream.getvalue().splitlines() == [
        "[1/502] #1 n=1: build-failed (1.0 s): pip: no torch 9",
        "[500/502] #2-499: build-failed, for the same reason as #1",
        "[500/502] #501 n=501: build-failed (1.0 s): E: no gcc",
        "[502/502] #500: build-failed, for the same reason as #1",
        "[502/502] #502 n=502: not-reproduced, as expected (1.0 s): it said so",
    ]
    assert [line.split()[0] for line in screen_of(live)[1:-1]] == ["1", "501"]
    assert "n=1 and 499 more" in screen_of(live)[1]
    console = Console(file=io.StringIO(), width=100)
    print_table(console, cells)
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split()[0] for line in shown[2:5]] == ["1", "501", "and"]
    assert shown[4].startswith("and 1 not-reproduced, as expected;")


def test_without_a_terminal_silence_is_broken_by_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_display, "QUIET", 0.05)
    stream = io.StringIO()
    said = threading.Event()
    monkeypatch.setattr(stream, "flush", said.set)
    listener = PlainListener(Output(stream))
    said.clear()
    listener.appended({1: "n=1", 2: "n=2"})
    listener.state([1], "building", "3/9 pip install torch")
    with listener:
        assert said.wait(60)
    line = stream.getvalue().splitlines()[0]
    assert line.startswith("... 0 cells decided; 1 image building for 1 cell, 1 waiting; ")
    assert "; longest: n=1, building 3/9 pip install torch, for " in line


def test_builds_that_run_side_by_side_take_the_time_of_the_clock(clock: Clock) -> None:
    listener = PlainListener(Output(io.StringIO()))
    clock.now += 100
    listener.build_ended([1], 100.0)
    clock.now += 10
    listener.build_ended([2], 90.0)
    images = [ImageRecord(tag=tag, id=tag, built=tag != "c", seconds=100.0) for tag in "abcc"]
    cells = [cell(number, Verdict.REPRODUCED, image=image) for number, image in enumerate(images)]
    cells[0] = replace(cells[0], details=replace(cells[0].details, repeats=3))
    took = "took 1 min 50 s; built 2 images in 1 min 50 s, reused 1; 3 trials more to confirm 1 cell"
    assert listener.took(cells) == took


@pytest.fixture
def unread() -> Iterator[tuple[TextIO, int]]:
    """The writing end of a pipe as a stream, and its reading end, which no one has read from yet."""
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w", encoding="utf-8")
    yield stream, reading
    with contextlib.suppress(OSError):
        os.close(reading)
    stream.close()


def read_all(stream: TextIO, descriptor: int, out: Output) -> str:
    """What arrives at the reading end until all is written."""
    read: list[bytes] = []

    def follow() -> None:
        while data := os.read(descriptor, 1 << 20):
            read.append(data)

    reader = threading.Thread(target=follow)
    reader.start()
    out.drain()
    stream.close()
    reader.join()
    return b"".join(read).decode()


def test_a_reader_that_pauses_stops_nothing_and_misses_no_verdict(unread: tuple[TextIO, int]) -> None:
    out = Output(unread[0])
    listener = PlainListener(out, verbose=True)
    lines = [f"line {number} ".ljust(999, ".") for number in range(3 * BACKLOG // 1000)]
    for start in range(0, len(lines), 100):
        listener.output(1, "\n".join([*lines[start : start + 100], ""]).encode())
    listener.note("after the flood")
    listener.output(1, b"last\n")
    shown = read_all(*unread, out).splitlines()
    place = shown.index("note: after the flood")
    missed = re.fullmatch(
        r"\.\.\. ([\d,]+) lines not shown: the terminal or pipe was slower than the program; "
        r"the logs of trials have them",
        shown[place - 1],
    )
    assert missed
    assert shown[: place - 1] == [f"  #1 | {line}" for line in lines[: place - 1]], "nothing is reordered"
    assert place - 1 + int(missed[1].replace(",", "")) == len(lines)
    assert len(shown[: place - 1]) * 1000 >= BACKLOG
    assert shown[place + 1].startswith("... 1 line not shown: ")


def test_what_is_missed_at_the_end_is_said(unread: tuple[TextIO, int]) -> None:
    out = Output(unread[0])
    listener = PlainListener(out, verbose=True)
    for _ in range(3):
        listener.output(1, (b"x" * 999 + b"\n") * (BACKLOG // 1000))
    assert "lines not shown" in read_all(*unread, out).splitlines()[-1]


def test_an_interrupted_command_does_not_wait_for_its_reader(
    unread: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PATIENCE", 0.01)
    screen = Screen(unread[0], verbose=True)
    with contextlib.suppress(KeyboardInterrupt), screen.progress() as listener:
        listener.output(1, b"x" * 1_000_000)
        raise KeyboardInterrupt
    screen.say("done")  # waits for no one either


def test_a_reader_that_has_gone_is_not_an_error(unread: tuple[TextIO, int]) -> None:
    os.close(unread[1])
    screen = Screen(unread[0])
    screen.say("x")
    screen.say("y")


def test_a_line_without_end_is_shown_in_parts() -> None:
    stream = io.StringIO()
    listener = PlainListener(Output(stream), verbose=True)
    for _ in range(LONGEST // 1024 * 3):
        listener.output(1, b"x" * 1024)
    lines = stream.getvalue().splitlines()
    assert all(line.startswith("  #1 | xxx") for line in lines)
    assert len(lines) == 2


@given(st.lists(st.binary(max_size=30), max_size=30))
def test_shown_lines_are_those_of_the_program(pieces: list[bytes]) -> None:
    stream = io.StringIO()
    listener = PlainListener(Output(stream), verbose=True)
    for piece in pieces:
        listener.output(7, piece)
    whole = b"".join(pieces)
    expected = plain(whole.rpartition(b"\n")[0].removesuffix(b"\r").decode(errors="replace")).split("\n")
    assert stream.getvalue() == "".join(f"  #7 | {line}\n" for line in expected if b"\n" in whole)
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f]", stream.getvalue())


def test_lines_without_a_terminal_need_no_rich() -> None:
    program = "import sys; import reprokit.cli.run_command, reprokit.cli.display.screen; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
