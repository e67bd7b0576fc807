"""Progress as a live table on a terminal, and the final table of a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import IO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.markup import escape as escape_markup
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from reprokit.cli.display.plain import UNLIMITED, Tracker, labels, shared_axes
from reprokit.core.terminal import visible
from reprokit.core.text import pluralize, seconds
from reprokit.evidence.records import CellRecord
from reprokit.report.labels import (
    DEPARTS,
    FAILED,
    FLAKY,
    INCONCLUSIVE,
    LEFT,
    group_alike,
    list_findings,
    rank,
    short_reason,
    style,
    summary,
    verdict_words,
)


class _Console(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Rich's, of texts that may hold anything."""
        for text, look, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), look, control)


def console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """A console for ``file``, standard output by default."""
    return _Console(file=file, width=width, highlight=False)


ROOMY = 100
"""Columns from which a table says how long each cell took: below, the reason needs them."""
MOST_FOUND = 50
"""Rows of cells that failed or are open; the reasons below the table are of all."""
_MARKS = {DEPARTS: "! ", INCONCLUSIVE: "? "}


def escape(text: str) -> str:
    """A text as it is, for Rich's markup, as wide as it will be shown."""
    return escape_markup(visible(text))


def _table(width: int, *, timed: bool) -> Table:
    """``width``: of the terminal; from UNLIMITED on nothing is cut or folded, however wide it gets."""
    whole = width >= UNLIMITED
    table = Table(box=None, pad_edge=False, header_style="bold", expand=not whole)
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column("cell", overflow="fold", max_width=None if whole else width * 2 // 5)
    table.add_column("  verdict", no_wrap=True)
    if timed:
        table.add_column("time", justify="right", no_wrap=True)
    # Takes the remaining width and is cut, so that a row stays one line.
    table.add_column("why", overflow="ellipsis", no_wrap=True, ratio=None if whole else 1, min_width=12)
    return table


def _name_first(name: str, count: int) -> str:
    return f"{name} and {count - 1} more" if count > 1 else name


def _row(alike: Sequence[CellRecord], name: str, *, timed: bool) -> list[str]:
    cell, name = alike[0], _name_first(name, len(alike))
    verdict = f"[{style(cell)}]{_MARKS.get(rank(cell), '  ')}{cell.verdict}[/]"
    took = [seconds(cell.seconds)] if timed else []
    return [str(cell.number), escape(name), verdict, *took, escape(short_reason(cell, bound=False))]


class LiveListener(Tracker):
    """What runs, and what departed or is open, which stays; all other cells are numbers below."""

    SHORT = True

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> LiveListener:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        """A line above the table."""
        self._console.print(f"[dim]note: {escape(text)}[/dim]")

    def _render(self) -> Group:
        now = time.monotonic()
        with self._lock:
            busy: dict[int, list[int]] = {}
            for number, state in self._states.items():
                if state.kind != "queued":
                    busy.setdefault(id(state), []).append(number)
            doing = sorted(((self._states[some[0]], some) for some in busy.values()), key=lambda one: one[0].since)
            ended = [one for number, one in self._records.items() if rank(one) <= FLAKY and number not in self._states]
            found = group_alike(ended)
            names = self._labels
        room = max(3, self._console.height - 4)
        active = doing[: max(1, room - min(len(found), room // 2))]
        kept = found[-max(1, room - len(active)) :]
        table = _table(self._console.width, timed=True)
        for cells in sorted(kept, key=lambda some: some[0].number):
            table.add_row(*_row(cells, names.get(cells[0].number, ""), timed=True))
        for state, some in active:
            # Of a build, also for how long its present step runs.
            steps = state.kind == "building" and state.at != state.since and state.text and now - state.at >= 1
            text = (f"{seconds(now - state.at)}, " if steps else "") + state.text
            name = _name_first(names.get(some[0], ""), len(some))
            kind = f"[blue]  {state.kind}[/]"
            table.add_row(str(some[0]), escape(name), kind, seconds(now - state.since), f"[dim]{escape(text)}[/dim]")
        hidden = len(found) - len(kept) + len(doing) - len(active)
        end = self.progress() + (f"; {pluralize(hidden, 'row')} not shown" if hidden else "")
        return Group(*[table] * bool(table.row_count), Text(end, style="dim"))


def print_table(console: Console, cells: Sequence[CellRecord], most: int = 20, *, recorded: bool = True) -> None:
    """Print the final table: cells that depart first, then what is open, flaky, failed; all reasons that it cuts below.

    Cells that passed are rows where there are at most ``most`` in all; else they are counted, as those always are that
    were stopped.
    """
    names = labels(cells, short=console.width < UNLIMITED)
    ordered = sorted((cell for cell in cells if rank(cell) != LEFT), key=lambda cell: (rank(cell), cell.number))
    rows = [[cell] for cell in ordered]
    if len(ordered) > most:
        rows = [some for some in group_alike(ordered) if rank(some[0]) <= FAILED][:MOST_FOUND]
    for line in shared_axes(cells):
        console.print(f"[dim]{escape(line)}[/dim]")
    timed = console.width >= ROOMY
    table, room = _table(console.width, timed=timed), console.width - 8 - 10 * timed - console.width * 2 // 5
    for some in rows:
        table.add_row(*_row(some, names[some[0].number], timed=timed))
    if rows:
        console.print(table)
        room -= max(len(f"{some[0].number}{some[0].verdict}") for some in rows) + 2
    shown = {cell.number for some in rows for cell in some}
    if left := Counter(verdict_words(cell) for cell in ordered if cell.number not in shown):
        counted = "; ".join(f"{count} {words}" for words, count in left.items())
        console.print(f"[dim]and {counted}; --json has them all[/dim]")

    def is_cut(cell: CellRecord) -> bool:
        short = short_reason(cell, bound=False)
        more = cell.reason.strip() != short and cell.reason.strip().startswith(short)
        return cell.number in shown and (cell_len(visible(short)) > room or more)

    below = Table.grid(padding=(0, 1))
    below.add_column(no_wrap=True)
    below.add_column(overflow="fold")
    for head, text in list_findings(cells, names, is_cut):
        below.add_row(Text(head, style="bold red" if head == "departs" else "bold"), Text(visible(text)))
    if below.row_count:
        console.print(below)
    console.print(f"[bold]{escape(summary(cells, recorded=recorded))}[/bold]")
