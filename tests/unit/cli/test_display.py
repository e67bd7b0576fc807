"""What is shown of builds while they run: the table of a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from reprokit.cli.display import live
from reprokit.cli.display.live import LiveListener


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
