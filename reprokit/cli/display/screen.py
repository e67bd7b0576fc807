"""The display of commands that run cells: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, TextIO, cast

from reprokit.case.files import CaseFile
from reprokit.cli.display.output import Output
from reprokit.cli.display.plain import PlainListener, Tracker, labels
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.labels import DEPARTS, describe_passes, failure_lines, list_findings, rank, summary
from reprokit.run.listener import Listener
from reprokit.run.resuming import UNDECIDED, resume_line

if TYPE_CHECKING:
    from rich.console import Console

FLAKY_LINE = "flaky departs where the number of trials is fixed: to expect it, write `trials: {rate: 0.1}` in the case"


class Screen:
    """Implements :class:`reprokit.run.listener.Display` on a text stream, standard output by default.

    ``live``: a table that changes, where the stream is a terminal; not so where something else is shown there, too.
    """

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False, live: bool = True) -> None:
        # A run works without standard output (`>&-`), too.
        self._out = Output(stream or sys.stdout or io.StringIO())
        self._verbose = verbose
        self._live = live
        self._console: Console | None = None
        self._tracker: Tracker | None = None

    def say(self, text: str) -> None:
        """Print a line, and wait until it and all before it is written."""
        self._out.line(text)
        self._out.drain()

    @contextmanager
    def progress(self) -> Iterator[Listener]:
        """A live table on a terminal, plain lines elsewhere or with ``verbose``.

        Nothing waits here for the reader, :meth:`say` does: the run is recorded first.
        """
        try:
            terminal = self._out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
            if self._verbose or not (terminal and self._live):
                with PlainListener(self._out, verbose=self._verbose) as self._tracker:
                    yield self._tracker
                return
            # Importing rich takes 0.1 s, which only a terminal needs.
            from reprokit.cli.display.live import LiveListener, console

            self._console = console(cast("IO[str]", self._out))
            with LiveListener(self._console) as self._tracker:
                yield self._tracker
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                self._out.hurry()
            self._out.drain()
            raise

    def run_ended(
        self, record: RunRecord, file_of: Callable[[str], CaseFile | None], *, interrupted: bool, recorded: bool
    ) -> None:
        """Print the table or a summary, the failures, what separates the cells, and the next command to type."""
        cells = record.cells
        if interrupted:
            self._out.hurry()
        if not self._table(cells, recorded=recorded):
            for head, text in list_findings(cells, labels(cells)):
                self.say(f"{head} {text}")
            self.say(summary(cells, recorded=recorded))
        if self._tracker:
            self.say(self._tracker.took(cells))
        for line in failure_lines(cells):
            self.say(line)
        if interrupted:
            decided = sum(cell.verdict not in UNDECIDED for cell in cells)
            self.say(
                f"interrupted: {decided} of {len(cells)} cells are decided and kept; "
                "continue with: reprokit run --resume"
            )
        if recorded and not interrupted:
            self._say_more(record, file_of)

    def _say_more(self, record: RunRecord, file_of: Callable[[str], CaseFile | None]) -> None:
        from reprokit.report import explanation

        cells = record.cells
        cases = explanation.explain_run(record, file_of) if len(cells) > 1 else []
        lines, bounded = explanation.conclude(cases, record.id)
        open_ones = [cell for cell in cells if cell.variant == "fix" or cell.case_id not in bounded]
        for line in filter(None, (*lines, describe_passes(open_ones))):
            self.say(line)
        if any(rank(cell) == DEPARTS and cell.verdict is Verdict.FLAKY for cell in cells):
            self.say(FLAKY_LINE)
        self.say(f"details: reprokit show {record.id} [CELL]")
        if offered := resume_line(cells):
            self.say(offered)

    def search_ended(self, cells: Sequence[CellRecord]) -> None:
        """Print the table on a terminal; elsewhere, plain lines have shown each cell already."""
        self._table(cells)
        self._out.drain()

    def _table(self, cells: Sequence[CellRecord], *, recorded: bool = True) -> bool:
        if self._console is None:
            return False
        from reprokit.cli.display.live import print_table

        print_table(self._console, cells, recorded=recorded)
        return True
