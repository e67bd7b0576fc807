"""A run as Markdown, for the summary of a job of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprokit.core.text import pluralize
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.explanation import FileOf
from reprokit.report.formats import RunFormat
from reprokit.report.labels import DEPARTS, INCONCLUSIVE, LEFT, failure_lines, group_alike, rank, summary
from reprokit.report.markdown import sections as parts
from reprokit.report.markdown.sections import describe_run, explain_cells
from reprokit.report.markdown.text import Section, block, code, details, fit, html_code, prose, table

SUMMARY_LIMIT = 1024 * 1024
"""Bytes of a step's job summary (docs.github.com/en/actions/reference/workflow-commands-for-github-actions)."""
RESERVED = 1_000
"""Characters kept for saying what was cut."""
MOST = 60
"""Rows of the table where it has to be short."""
_HEAD = ("case", "cell", "verdict", "why")


def run_summary(run: RunRecord, file_of: FileOf = lambda digest: None, *, limit: int = SUMMARY_LIMIT) -> str:
    """A run for the summary of a job: one table, what departs first, and each case folded. ``limit``: bytes."""
    cases: dict[tuple[str, str], list[CellRecord]] = {}
    for cell in run.cells:
        cases.setdefault((cell.case_key, cell.case_digest), []).append(cell)
    rows = [row for _, row in sorted((one for cells in cases.values() for one in _rows(cells)), key=lambda one: one[0])]
    more = [["...", pluralize(len(rows) - MOST, "more row"), "", ""]] if len(rows) > MOST else []
    head = f"## {prose(summary(run.cells))}\n\n{describe_run(run)}\n"
    sections = [
        Section(name="the title", worth=0, forms=(head,)),
        Section(
            name="the table", worth=4 * len(run.cells), forms=(table(_HEAD, rows), table(_HEAD, [*rows[:MOST], *more]))
        ),
    ]
    for number, ((case_id, _), cells) in enumerate(cases.items()):
        # What departs gives way after what does not, and the first cases after the last.
        worth = 2 * len(cells) * any(cell.as_expected is False for cell in cells) + len(cases) - number
        sections.append(Section(name=case_id, worth=worth, forms=_case_forms(case_id, cells, file_of)))
    if found := list(failure_lines(run.cells)):
        sections.append(Section(name="the failures", worth=0, forms=(details("Ways of failing", block(found)), "")))
    shown, cut = fit(sections, limit - RESERVED, lambda text: len(text.encode("utf-8", "replace")))
    if cut:
        shown.append(f"To fit a summary {len(cut)} of {len(sections)} parts were shortened or left out.\n")
    return "\n".join(filter(None, shown))


def _rows(cells: Sequence[CellRecord]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a case, each with its place: a cell that departs, one that is inconclusive, all others together."""
    axes, name = parts.varying(cells), code(cells[0].case_id, table=True)
    fine = [cell for cell in cells if rank(cell) not in (DEPARTS, INCONCLUSIVE, LEFT)]
    for some in group_alike(cell for cell in cells if rank(cell) in (DEPARTS, INCONCLUSIVE, LEFT)):
        which, *words = parts.row(some[0], axes)
        more = f" and {len(some) - 1} more" if len(some) > 1 else ""
        yield int(some[0].as_expected is not False), [name, f"{which}{more}", *words]
    if fine:
        which = pluralize(len(fine), "other cell" if len(fine) < len(cells) else "cell")
        yield 2, [name, which, prose(summary(fine)), ""]


def _case_forms(case_id: str, cells: Sequence[CellRecord], file_of: FileOf) -> tuple[str, ...]:
    statement, behind = explain_cells(cells, file_of)
    bodies = (
        f"{parts.tables(cells)}\n{statement}\n\n{behind}",
        f"{parts.tables(cells, short=True)}\n{statement}\n",
    )
    return (*(details(html_code(case_id), body) for body in bodies), "")


FORMAT = RunFormat(
    name="md",
    help="Markdown, as for the summary of a job",
    suffix=".md",
    scrubbed=True,
    write=lambda run, sources: run_summary(run, sources.file_of),
)
