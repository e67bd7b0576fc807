"""Departures and inconclusive cells as annotations on the lines of their case, for GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.matrix import matches
from reprokit.core.errors import ReprokitError
from reprokit.core.text import first_line
from reprokit.core.workflow_commands import command
from reprokit.environment import cases
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.formats import RunFormat
from reprokit.report.labels import cell_name, group_alike

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.core.errors import Problem

MOST = 10
"""Annotations of a kind that GitHub shows of one step."""

FileOfRecord = Callable[[CellRecord], "CaseFile | None"]
"""The case file of a cell as it stands on disk; None where it is another by now, or no file."""


def on_disk(cell: CellRecord) -> CaseFile | None:
    """The case file from which a cell was run, if it still holds the text that was run."""
    return next((file for file in _files(cell.case_path) if file.digest == cell.case_digest), None)


@cache
def _files(path: str) -> Sequence[CaseFile]:
    try:
        return cases.load(path) if Path(path).is_file() else ()
    except ReprokitError:
        return ()


def gha(run: RunRecord, file_of: FileOfRecord = on_disk, root: Path | None = None) -> list[str]:
    """Workflow commands: an error for each verdict that departs, a warning for each that is inconclusive.

    They point below ``root``: the checkout, by default GITHUB_WORKSPACE or this folder.
    """
    root = root or Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    departing = [cell for cell in run.cells if cell.as_expected is False]
    open_ones = [cell for cell in run.cells if cell.verdict is None or not cell.verdict.conclusive]
    return [
        *_of_kind("error", departing, "depart", file_of, root),
        *_of_kind("warning", open_ones, "are inconclusive", file_of, root),
    ]


def _of_kind(kind: str, cells: Sequence[CellRecord], what: str, file_of: FileOfRecord, root: Path) -> Iterator[str]:
    groups = group_alike(cells)
    shown = groups if len(groups) <= MOST else groups[: MOST - 1]
    for some in shown:
        cell, more = some[0], f" and {len(some) - 1} more" if len(some) > 1 else ""
        at = _position(cell, file_of(cell))
        path = _below(cell.case_path, root)
        place = {"file": path, "line": at.line, "col": at.column} if at and path else {"file": path}
        yield command(kind, _message(cell), **place, title=f"{cell.case_id}: {cell_name(cell)}{more}")
    if left := len(cells) - sum(map(len, shown)):
        yield command(kind, f"{left} more cells {what}; the result file has all")


def _message(cell: CellRecord) -> str:
    verdict = cell.verdict.value if cell.verdict else "cancelled"
    wanted = f", expected {cell.expected.value}" if cell.as_expected is False and cell.expected else ""
    return f"{verdict}{wanted}: {first_line(cell.marked_reason) or 'stopped before it was decided'}"


def _position(cell: CellRecord, file: CaseFile | None) -> Problem | None:
    """Where the case says what did not come true; for an inconclusive cell, where the cell comes from."""
    if file is None:
        return None
    if cell.as_expected is not False:
        included = [dict(one) for one in file.case.matrix.include]
        if dict(cell.cell) in included:
            return file.problem(("matrix", "include", included.index(dict(cell.cell))), "")
        return file.problem(("matrix",), "", key=True)
    if cell.variant == "fix":
        return file.problem(("fix",), "", key=True)
    if cell.verdict is Verdict.DIFFERENT_FAILURE:
        return file.problem(("expect", "failure"), "", key=True)
    reproduces = file.case.expect.reproduces
    for index, partial in enumerate(reproduces if isinstance(reproduces, (list, tuple)) else ()):
        if matches(cell.cell, partial):
            return file.problem(("expect", "reproduces", index), "")
    return file.problem(("expect", "reproduces"), "", key=True)


def _below(path: str, root: Path) -> str:
    """The path as GitHub wants it, relative to the checkout; '' for what lies elsewhere."""
    try:
        return Path(path).resolve().relative_to(root.resolve()).as_posix() if Path(path).is_file() else ""
    except ValueError:
        return ""


FORMAT = RunFormat(
    name="gha",
    help="annotations of GitHub Actions, as workflow commands",
    suffix=".txt",
    scrubbed=True,
    write=lambda run, _: "".join(f"{line}\n" for line in gha(run)),
)
