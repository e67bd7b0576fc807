"""The display of commands that run cells: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TextIO

from reprokit.case.files import CaseFile
from reprokit.cli.display.live import LiveListener, print_table
from reprokit.cli.display.plain import PlainListener, say
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import explanation, failures
from reprokit.report.labels import caveat, summary, totals
from reprokit.run.listener import Listener
from reprokit.run.resuming import UNDECIDED, offer

if TYPE_CHECKING:
    from rich.console import Console


class Screen:
    """Implements :class:`reprokit.run.display.Display` on a text stream, standard output by default."""

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        # A run works without standard output (`>&-`), too.
        self._stream: TextIO = stream or sys.stdout or io.StringIO()
        self._verbose = verbose
        self._console: Console | None = None

    def say(self, text: str) -> None:
        """Print a line."""
        say(self._stream, text)

    def progress(self) -> AbstractContextManager[Listener]:
        """A live table on a terminal, plain lines elsewhere or with ``verbose``."""
        terminal = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        if self._verbose or not terminal:
            return nullcontext(PlainListener(self._stream, verbose=self._verbose))
        # Importing rich takes 0.1 s, which only a terminal needs.
        from rich.console import Console

        self._console = Console(file=self._stream, highlight=False)
        return LiveListener(self._console)

    def run_ended(self, record: RunRecord, file_of: Callable[[str], CaseFile | None], *, interrupted: bool) -> None:
        """Print the table or a summary, the failures, what separates the cells, and the next command to type."""
        cells = record.cells
        if not self._table(cells):
            self.say(summary(cells))
        if took := totals(cells):
            self.say(took)
        for line in failures.lines(cells):
            self.say(line)
        if interrupted:
            decided = sum(cell.verdict not in UNDECIDED for cell in cells)
            self.say(
                f"interrupted: {decided} of {len(cells)} cells are decided and kept; "
                "continue with: reprokit run --resume"
            )
            return
        if len(cells) > 1:
            for line in explanation.at_the_end(explanation.of_run(record, file_of), record.id):
                self.say(line)
        if said := caveat(cells):
            self.say(said)
        self.say(f"details: reprokit show {record.id} [CELL]")
        if offered := offer(cells):
            self.say(offered)

    def search_ended(self, cells: Sequence[CellRecord]) -> None:
        """Print the table on a terminal; elsewhere, plain lines have shown each cell already."""
        self._table(cells)

    def _table(self, cells: Sequence[CellRecord]) -> bool:
        if self._console is None:
            return False
        print_table(self._console, cells)
        return True
