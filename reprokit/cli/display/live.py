"""Progress as a live table of cells, on a terminal, and the final table of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape as escape_markup
from rich.table import Table
from rich.text import Text

from reprokit.cli.display.plain import UNLIMITED, labels
from reprokit.core.terminal import visible
from reprokit.core.text import seconds
from reprokit.evidence.records import CellRecord
from reprokit.report.labels import expectation, short_reason, style, summary
from reprokit.run.listener import Listener
from reprokit.run.resuming import UNDECIDED
from reprokit.run.task import Task


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a cell does. ``since``, ``at``: when its kind of state and its ``text`` began, None where no clock runs."""

    kind: str
    text: str = ""
    since: float | None = None
    at: float | None = None

    def shown(self, now: float) -> tuple[str, str]:
        """How long it does that, and what: of a build, also for how long its present step runs."""
        elapsed = "" if self.since is None or self.kind == "queued" else seconds(now - self.since)
        steps = self.kind == "building" and self.at is not None and self.at != self.since
        step = f"{seconds(now - (self.at or now))}, " if steps and self.text and now - (self.at or now) >= 1 else ""
        return elapsed, step + self.text


def escape(text: str) -> str:
    """A text as it is, for Rich's markup, as wide as it will be shown."""
    return escape_markup(visible(text))


class LiveListener(Listener):
    """A table that follows the run; rows that do not fit on the screen are counted below it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.RLock()
        self._total = 0
        self._labels: dict[int, str] = {}
        self._states: dict[int, _State] = {}
        self._records: dict[int, CellRecord] = {}
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> LiveListener:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def planned(self, run_id: str, tasks: Sequence[Task]) -> None:
        """Begin the table."""
        with self._lock:
            self._total = len(tasks)
        self.appended(labels(tasks))

    def appended(self, names: Mapping[int, str]) -> None:
        """More rows."""
        with self._lock:
            self._labels = {**self._labels, **names}
            self._states |= {number: _State(kind="queued") for number in names}

    def state(self, numbers: Sequence[int], state: str, text: str = "") -> None:
        """The state of cells changes; their clock restarts when the kind of state does, that of a step when it does."""
        now = time.monotonic()
        with self._lock:
            for number in numbers:
                before = self._states.get(number)
                since = before.since if before and before.kind == state else now
                at = before.at if before and (before.kind, before.text) == (state, text) else now
                self._states[number] = _State(kind=state, text=text, since=since, at=at)

    def build_ended(self, numbers: Sequence[int], took: float, *, failed: bool = False) -> None:
        """The clock of the build stops; a failed one is decided right after."""
        with self._lock:
            for number in [] if failed else numbers:
                self._states[number] = _State(kind="built", text=f"in {seconds(took)}")

    def decided(self, record: CellRecord) -> None:
        """A row gets its verdict."""
        with self._lock:
            self._records[record.number] = record
            self._states[record.number] = _State(kind="decided")

    repeated = decided

    def note(self, text: str) -> None:
        """A line above the table."""
        self._console.print(f"[dim]note: {escape(text)}[/dim]")

    def _render(self) -> Group:
        with self._lock:
            # Active rows first where the screen is too small for all.
            room = max(3, self._console.height - 6)
            shown = sorted(self._labels, key=self._rank)[:room]
            table = _table()
            for number in sorted(shown):
                record = self._records.get(number)
                if record is not None and self._states[number].kind != "confirming":
                    _add(table, record, self._labels[record.number])
                    continue
                name, state = escape(self._labels[number]), self._states[number]
                elapsed, text = state.shown(time.monotonic())
                table.add_row(str(number), name, f"[blue]{state.kind}[/blue]", elapsed, f"[dim]{escape(text)}[/dim]")
            hidden = len(self._labels) - len(shown)
            count = sum(record.verdict not in UNDECIDED for record in self._records.values())
            done = f"{count}{f' of {self._total}' if self._total else ''} cells decided"
            return Group(table, Text(done + (f", {hidden} not shown" if hidden else ""), style="dim"))

    def _rank(self, number: int) -> tuple[int, int]:
        if number in self._records:
            return 2, -number
        return (1 if self._states[number].kind == "queued" else 0), number


def _table(*, whole: bool = False) -> Table:
    """``whole``: nothing is cut or folded, however wide it gets."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=not whole)
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column("cell", overflow="fold", max_width=None if whole else 60)
    table.add_column("verdict", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    # Takes the remaining width and is cut, so that a row stays one line.
    table.add_column("why", overflow="ellipsis", no_wrap=True, ratio=None if whole else 1, min_width=12)
    return table


def _add(table: Table, record: CellRecord, name: str) -> None:
    colour = style(record)
    departs = "" if record.as_expected is not False else f" ({expectation(record)})"
    table.add_row(
        str(record.number),
        escape(name),
        f"[{colour}]{record.verdict or 'undecided'}{departs}[/{colour}]",
        seconds(record.seconds),
        escape(short_reason(record)),
    )


def print_table(console: Console, cells: Sequence[CellRecord], limit: int = 200) -> None:
    """Print the final table. Of more than ``limit`` cells, departures and inconclusive ones come first."""
    names = labels(cells)
    shown = list(cells)
    if len(shown) > limit:
        shown = sorted(shown, key=lambda cell: (cell.as_expected is not False, cell.as_expected is True))[:limit]
    table = _table(whole=console.width >= UNLIMITED)
    for record in shown:
        _add(table, record, names[record.number])
    console.print(table)
    if len(shown) < len(cells):
        console.print(f"[dim]... and {len(cells) - len(shown)} more; --json has them all[/dim]")
    console.print(f"[bold]{escape(summary(cells))}[/bold]")
