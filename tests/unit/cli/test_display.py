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
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from reprokit.cli.display import live, output
from reprokit.cli.display.live import LiveListener
from reprokit.cli.display.output import BACKLOG, Output
from reprokit.cli.display.plain import LONGEST, PlainListener
from reprokit.cli.display.screen import Screen
from reprokit.core.terminal import plain


def test_a_build_is_shown_with_its_step_and_both_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    listener = LiveListener(Console(file=io.StringIO(), width=100, force_terminal=True))

    def shown() -> str:
        console = Console(file=io.StringIO(), width=100)
        console.print(listener._render())
        return console.file.getvalue()  # type: ignore[attr-defined]

    listener.appended({1: "gcc=12", 2: "gcc=11"})
    listener.state([1], "building", "3/9 pip install torch==2.1.0")
    now[0] += 0.5
    assert "3/9 pip install torch==2.1.0" in shown()
    listener.state([1], "building", "4/9 apt-get install cmake")
    now[0] += 75
    [row] = [line for line in shown().splitlines() if "gcc=12" in line]
    assert row.partition("building")[2].split() == "1 min 15 s 1 min 15 s, 4/9 apt-get install cmake".split()  # noqa: SIM905
    listener.build_ended([1], 75.5)
    now[0] += 600
    [row] = [line for line in shown().splitlines() if "gcc=12" in line]
    assert row.split("built")[1].split() == ["in", "1", "min", "15", "s"], "the clock has stopped"


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
