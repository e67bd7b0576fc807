"""What the cells of a run do and came to, and that as plain lines: for CI logs, pipes and dumb terminals."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reprokit.case.matrix import label
from reprokit.cli.display.output import Output
from reprokit.core.terminal import plain
from reprokit.core.text import build_times, pluralize, seconds, whole_number
from reprokit.evidence.records import CellRecord
from reprokit.report.labels import DEPARTS, INCONCLUSIVE, LEFT, case_names, ranges, rank, short_reason, verdict_words
from reprokit.run.listener import Listener
from reprokit.run.task import Task

LONGEST = 64 * 1024
"""Bytes of a line of output after which it is shown as several."""
UNLIMITED = 10_000
"""Columns of output that no terminal shows: what reads it cuts nothing, and misses what was cut."""
LONG_ID = 24
"""Characters of a case's id that a terminal shows where a run has several cases."""
QUIET = 30.0
"""Seconds without a line after which one says what is going on."""
MOST_SHARED = 10
"""Lines for what cells have in common."""
ENOUGH = 5
"""Cells that have to end before what is left is estimated."""


def columns() -> int:
    """Columns that a table may take: what COLUMNS says, else those of the terminal; in a pipe or a file any number."""
    if asked := whole_number(os.environ.get("COLUMNS", "")):
        return asked
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else UNLIMITED


def _case_id(task: Task | CellRecord) -> str:
    return task.case_id if isinstance(task, CellRecord) else task.case.id


def _fixed_axes(tasks: Sequence[Task] | Sequence[CellRecord]) -> dict[str, set[tuple[str, str]]]:
    """Id of a case -> the axes that are equal in all of its cells."""
    fixed: dict[str, set[tuple[str, str]]] = {}
    for task in tasks:
        items = set(task.cell.items())
        fixed[_case_id(task)] = fixed.get(_case_id(task), items) & items
    return fixed


def shared_axes(tasks: Sequence[Task] | Sequence[CellRecord]) -> list[str]:
    """In words, once, what no label says: the axes that are equal in all cells, and in all cells of a case."""
    fixed = _fixed_axes(tasks)
    some = {"in all cells": set.intersection(*fixed.values()) if len(tasks) > 1 else set()}
    if 1 < len(fixed) <= MOST_SHARED:
        some |= {f"in all cells of {name}": items - some["in all cells"] for name, items in fixed.items()}
    return [f"{where}: {label(dict(sorted(items)))}" for where, items in some.items() if items]


def labels(tasks: Sequence[Task] | Sequence[CellRecord], *, short: bool = False) -> dict[int, str]:
    """Number -> label of each task: its case's id where there are several, and the axes that vary in the case.

    ``short``: long ids are cut, where that leaves them different.
    """
    fixed = _fixed_axes(tasks)
    cut = {name: f"{name[: LONG_ID - 1]}…" if short and len(name) > LONG_ID else name for name in fixed}
    ids = cut if len(set(cut.values())) == len(fixed) else {name: name for name in fixed}
    named = {}
    for task in tasks:
        name = _case_id(task)
        varying = {axis: value for axis, value in task.cell.items() if (axis, value) not in fixed[name]}
        words = [ids[name]] if len(fixed) > 1 else []
        words += [label(varying or task.cell)] if varying or len(fixed) == 1 else []
        words += ["[fix]"] if task.variant == "fix" else []
        tried = task.details.tried if isinstance(task, CellRecord) else task.tried
        named[task.number] = tried or " ".join(words)
    return named


@dataclass(frozen=True, kw_only=True)
class Doing:
    """What cells do, one object for all that do it together. ``since``, ``at``: when its kind and its text began."""

    kind: str
    text: str = ""
    since: float
    at: float


class Tracker(Listener):
    """Keeps what each cell does and came to."""

    SHORT = False  # whether long ids of cases are cut

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._total = 0
        self._labels: dict[int, str] = {}
        self._states: dict[int, Doing] = {}
        self._records: dict[int, CellRecord] = {}
        self._builds: list[tuple[float, float]] = []
        self._began = time.monotonic()
        self._ended = 0

    def planned(self, run_id: str, tasks: Sequence[Task]) -> None:
        """The run begins."""
        self._total = len(tasks)
        self._began = time.monotonic()
        self.appended(labels(tasks, short=self.SHORT))

    def appended(self, names: Mapping[int, str]) -> None:
        """More cells."""
        with self._lock:
            self._labels = {**self._labels, **names}
        self.state(list(names), "queued")

    def state(self, numbers: Sequence[int], state: str, text: str = "") -> None:
        """The state of cells changes; their clock restarts when the kind of state does, that of a step when it does."""
        now = time.monotonic()
        with self._lock:
            before = self._states.get(numbers[0]) if numbers else None
            since = before.since if before and before.kind == state else now
            at = before.at if before and (before.kind, before.text) == (state, text) else now
            self._states |= dict.fromkeys(numbers, Doing(kind=state, text=text, since=since, at=at))

    def build_ended(self, numbers: Sequence[int], took: float, *, failed: bool = False) -> None:
        """The cells of the image wait for their turn; those of a failed build are decided right after."""
        now = time.monotonic()
        with self._lock:
            self._builds.append((now - took, now))
        self.state(numbers, "queued")

    def decided(self, record: CellRecord) -> None:
        """A cell has its verdict."""
        with self._lock:
            before = self._states.pop(record.number, None)
            new = record.number not in self._records
            self._records[record.number] = record
            # What is taken over, and what no host serves, took no time.
            self._ended += new and record.seconds is not None and not record.reused_from and before is not None

    def repeated(self, record: CellRecord) -> None:
        """A cell has one more trial."""
        before = self._records.get(record.number)
        Tracker.decided(self, record)
        if before is None or before.verdict is not record.verdict:
            was = f" (was {before.verdict})" if before else ""
            self.note(f"confirming changed {self._name_verdict(record)}{was}: {short_reason(record, bound=False)}")

    def _name_verdict(self, record: CellRecord) -> str:
        # By its number `show` knows the cell, whichever is decided first.
        return f"#{record.number} {self._labels.get(record.number, '')}: {verdict_words(record)}"

    def progress(self) -> str:
        """``12 of 500 cells decided (2 depart); 4 running, 483 waiting; 1 min 20 s, about 12 min left``."""
        now = time.monotonic()
        with self._lock:
            count = Counter(state.kind for state in self._states.values())
            images = len({id(state) for state in self._states.values() if state.kind == "building"})
            ranks = Counter(map(rank, self._records.values()))
            done = len(self._records) - ranks[LEFT]
        found = [f"{ranks[DEPARTS]} depart{'s' * (ranks[DEPARTS] == 1)}"] if ranks[DEPARTS] else []
        found += [f"{ranks[INCONCLUSIVE]} inconclusive"] if ranks[INCONCLUSIVE] else []
        of = f" of {self._total}" if self._total else ""
        words = [f"{done}{of} cells decided" + (f" ({', '.join(found)})" if found else "")]
        doing = [f"{count[kind]} {kind}" for kind in ("running", "confirming") if count[kind]]
        if images:
            doing.append(f"{pluralize(images, 'image')} building for {pluralize(count['building'], 'cell')}")
        waiting = count["queued"] + count["waiting"]
        doing += [f"{waiting} waiting"] if waiting else []
        elapsed, left = now - self._began, self._total - done
        estimate = elapsed / self._ended * left if self._ended >= ENOUGH and left > 0 else 0.0
        rough = f"{estimate / 60:.0f} min" if estimate >= 60 else f"{estimate:.0f} s"
        clock = seconds(elapsed) + (f", about {rough} left" if estimate else "")
        return "; ".join(filter(None, [*words, ", ".join(doing), clock]))

    def took(self, cells: Sequence[CellRecord]) -> str:
        """What the run took, by the clock on the wall: of builds, and in all."""
        images = {cell.image.tag for cell in cells if cell.image and not cell.reused_from}
        total, end = 0.0, 0.0
        for start, stop in sorted(self._builds):
            total += max(0.0, stop - max(start, end))
            end = max(end, stop)
        built = len({cell.image.tag for cell in cells if cell.image and cell.image.built and not cell.reused_from})
        words = [f"took {seconds(time.monotonic() - self._began)}"]
        words += filter(None, [build_times(min(built, len(self._builds)), total, len(images) - built)])
        if repeats := sum(cell.details.repeats for cell in cells):
            some = sum(bool(cell.details.repeats) for cell in cells)
            words.append(f"{pluralize(repeats, 'trial')} more to confirm {pluralize(some, 'cell')}")
        return "; ".join(words)


class PlainListener(Tracker):
    """A line per cell that ends; with ``verbose`` what begins, and the output of builds and containers, too."""

    def __init__(self, out: Output, *, verbose: bool = False) -> None:
        super().__init__()
        self._out = out
        self._verbose = verbose
        self._partial: dict[int, bytes] = {}
        # Of inconclusive cells, by case, verdict and reason: the one that is shown, and those that wait for a line.
        self._alike: dict[tuple[str, str, str], tuple[int, list[int]]] = {}
        self._over = threading.Event()
        self._last = time.monotonic()
        self._watcher = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> PlainListener:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()
        self._show_alike()

    def _watch(self) -> None:
        while not self._over.wait(max(0.1, self._last + QUIET - time.monotonic())):
            if time.monotonic() >= self._last + QUIET:
                self._line(f"... {self.progress()}{self._longest()}")

    def _longest(self) -> str:
        with self._lock:
            busy = [(state.since, number) for number, state in self._states.items() if state.kind != "queued"]
            if not busy:
                return ""
            since, number = min(busy)
            state = self._states[number]
        doing = f"{state.kind} {state.text}".strip()
        return f"; longest: {self._labels.get(number, '')}, {doing}, for {seconds(time.monotonic() - since)}"

    def _line(self, text: str) -> None:
        self._show_alike()
        self._last = time.monotonic()
        self._out.line(text)

    def _show_alike(self) -> None:
        """A line for all cells that came to what one before them did: one failed build may be that of hundreds."""
        with self._lock:
            for (_, verdict, _), (first, more) in self._alike.items():
                if more:
                    self._out.line(
                        f"{self._count()}#{ranges(sorted(more))}: {verdict}, for the same reason as #{first}"
                    )
                    more.clear()

    def _count(self) -> str:
        return f"[{len(self._records)}/{self._total}] " if self._total else ""

    def planned(self, run_id: str, tasks: Sequence[Task]) -> None:
        """Print what is about to run."""
        super().planned(run_id, tasks)
        names = case_names(task.case.id for task in tasks)
        self._line(f"{f'run {run_id}' if run_id else 'images'}: {names}, {pluralize(len(tasks), 'cell')}")
        for line in shared_axes(tasks):
            self._line(line)

    def state(self, numbers: Sequence[int], state: str, text: str = "") -> None:
        """When verbose, a line where it changes."""
        before = self._states.get(numbers[0]) if numbers else None
        super().state(numbers, state, text)
        if self._verbose and state != "queued" and (before is None or (before.kind, before.text) != (state, text)):
            self._line(f"{f'{state} {text}'.strip()}: {self._labels.get(numbers[0], '')}")

    def build_ended(self, numbers: Sequence[int], took: float, *, failed: bool = False) -> None:
        """How long the build took."""
        super().build_ended(numbers, took, failed=failed)
        how = f"build failed after {seconds(took)}" if failed else f"built in {seconds(took)}"
        count = f" (image of {len(numbers)} cells)" if len(numbers) > 1 else ""
        self._line(f"{how}: {self._labels.get(numbers[0], '')}{count}")

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
        """How many cells are decided, and this one's verdict with the reason; nothing of one that was stopped."""
        rest = self._partial.pop(record.number, b"")
        if self._verbose and rest:
            self._offer(record.number, rest)
        super().decided(record)
        if rank(record) == INCONCLUSIVE:
            key = record.case_id, str(record.verdict), record.reason
            with self._lock:
                first, more = self._alike.setdefault(key, (record.number, []))
                if first != record.number:
                    more.append(record.number)
                    return
        if rank(record) != LEFT:
            took = f" ({seconds(record.seconds)})" if record.seconds is not None else ""
            self._line(f"{self._count()}{self._name_verdict(record)}{took}: {short_reason(record, bound=False)}")

    def note(self, text: str) -> None:
        """A line of its own."""
        self._line(f"note: {text}")
