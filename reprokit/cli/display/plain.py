"""Progress as plain lines: for CI logs, pipes and terminals without cursor control."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence

from reprokit.case.matrix import label
from reprokit.cli.display.output import Output
from reprokit.core.terminal import plain
from reprokit.core.text import seconds
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.report.labels import case_names, expectation, short_reason
from reprokit.run.listener import Listener
from reprokit.run.task import Task

LONGEST = 64 * 1024
"""Bytes of a line of output after which it is shown as several."""
UNLIMITED = 10_000
"""Columns of output that no terminal shows: what reads it cuts nothing, and misses what was cut."""


def columns() -> int:
    """Columns that a table may take: what COLUMNS says, else those of the terminal; in a pipe or a file any number."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else UNLIMITED


def labels(tasks: Sequence[Task] | Sequence[CellRecord]) -> dict[int, str]:
    """Number -> label of each task: the case's id where there are several, without axes that are equal in all cells."""
    ids = {task.number: task.case_id if isinstance(task, CellRecord) else task.case.id for task in tasks}
    several = len(set(ids.values())) > 1
    fixed = set.intersection(*(set(task.cell.items()) for task in tasks)) if len(tasks) > 1 else set()
    named = {}
    for task in tasks:
        varying = {name: value for name, value in task.cell.items() if (name, value) not in fixed}
        words = [ids[task.number]] if several else []
        if varying or not several:
            words.append(label(varying or task.cell))
        if task.variant == "fix":
            words.append("[fix]")
        tried = task.details.tried if isinstance(task, CellRecord) else task.tried
        named[task.number] = tried or " ".join(words)
    return named


class PlainListener(Listener):
    """One line per event that matters; with ``verbose`` the output of builds and containers too, each line named."""

    def __init__(self, out: Output, *, verbose: bool = False) -> None:
        self._out = out
        self._verbose = verbose
        self._lock = threading.Lock()
        self._labels: dict[int, str] = {}
        self._states: dict[int, str] = {}
        self._partial: dict[int, bytes] = {}
        self._verdicts: dict[int, Verdict | None] = {}
        self._total = ""

    def planned(self, run_id: str, tasks: Sequence[Task]) -> None:
        """Print what is about to run."""
        self._labels = labels(tasks)
        self._total = f"/{len(tasks)}"
        names = case_names(task.case.id for task in tasks)
        self._out.line(
            f"{f'run {run_id}' if run_id else 'images'}: {names}, {len(tasks)} cell{'s' if len(tasks) != 1 else ''}"
        )

    def appended(self, names: Mapping[int, str]) -> None:
        """More tasks; each gets a line when its state changes."""
        self._labels = {**self._labels, **names}

    def state(self, numbers: Sequence[int], state: str, text: str = "") -> None:
        """A line where the state's kind changes; build steps only when verbose."""
        shown = f"{state} {text}".strip() if self._verbose else state
        changed = [number for number in numbers if self._states.get(number) != shown]
        for number in changed:
            self._states[number] = shown
        if not changed or state == "queued":
            return
        if state == "building" and not self._verbose:
            count = f" (image of {len(numbers)} cells)" if len(numbers) > 1 else ""
            self._out.line(f"{state}{count}: {self._labels.get(numbers[0], '')} ...")
        else:
            self._out.line(f"{shown}: {self._labels.get(changed[0], '')}")

    def build_ended(self, numbers: Sequence[int], took: float, *, failed: bool = False) -> None:
        """How long the build took."""
        how = f"build failed after {seconds(took)}" if failed else f"built in {seconds(took)}"
        self._out.line(f"{how}: {self._labels.get(numbers[0], '')}")

    def build_output(self, numbers: Sequence[int], text: str) -> None:
        """The output of a build, when verbose."""
        if self._verbose and text:
            lines = plain(text).rstrip("\n").splitlines()
            self._out.offer("".join(f"  build | {line}\n" for line in lines), len(lines))

    def output(self, number: int, data: bytes) -> None:
        """The output of a container, when verbose, in whole lines."""
        if not self._verbose:
            return
        with self._lock:
            lines, end, rest = (self._partial.pop(number, b"") + data).rpartition(b"\n")
            if len(rest) > LONGEST:
                lines, end, rest = lines + end + rest, b"\n", b""
            self._partial[number] = rest
            if end:
                self._offer(number, lines)

    def _offer(self, number: int, lines: bytes) -> None:
        """Show lines of a container, of which the last has no line end."""
        before = f"  #{number} | "
        text = plain(lines.removesuffix(b"\r").decode(errors="replace"))
        self._out.offer("{}{}\n".format(before, text.replace("\n", f"\n{before}")), text.count("\n") + 1)

    def decided(self, record: CellRecord) -> None:
        """The verdict in one line, with the reason."""
        rest = self._partial.pop(record.number, b"")
        if self._verbose and rest:
            self._offer(record.number, rest)
        took = f", {seconds(record.seconds)}" if record.seconds is not None else ""
        name = self._labels.get(record.number, "")
        self._verdicts[record.number] = record.verdict
        verdict = f"{record.verdict} ({expectation(record)}{took})"
        # The number by which `show` knows the cell, whichever is decided first.
        self._out.line(f"[{record.number}{self._total}] {name}: {verdict}: {short_reason(record)}")

    def repeated(self, record: CellRecord) -> None:
        """A line where the verdict is another one now."""
        if self._verdicts.get(record.number) is not record.verdict:
            self._verdicts[record.number] = record.verdict
            name = self._labels.get(record.number, "")
            verdict = f"{record.verdict} ({expectation(record)})"
            self._out.line(f"[{record.number}{self._total}] {name}: now {verdict}: {short_reason(record)}")

    def note(self, text: str) -> None:
        """A line of its own."""
        self._out.line(f"note: {text}")
