"""A run as Markdown, for the summary of a job of GitHub Actions."""

from __future__ import annotations

from collections.abc import Sequence

from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.explanation import FileOf
from reprokit.report.formats import FormatSources, RunFormat
from reprokit.report.labels import failure_lines, summary
from reprokit.report.markdown import tables
from reprokit.report.markdown.sections import explained, ran
from reprokit.report.markdown.text import Section, block, code, fit, prose

SUMMARY_LIMIT = 1024 * 1024
"""Bytes of a step's job summary (docs.github.com/en/actions/reference/workflow-commands-for-github-actions)."""
RESERVED = 1_000
"""Characters kept for saying what was cut."""


def run_summary(
    run: RunRecord,
    file_of: FileOf = lambda digest: None,
    *,
    limit: int = SUMMARY_LIMIT,
) -> str:
    """A run in short, every case of it: for the summary of a job. ``limit``: bytes."""
    cases: dict[tuple[str, str], list[CellRecord]] = {}
    for cell in run.cells:
        cases.setdefault((cell.case_id, cell.case_digest), []).append(cell)
    head = f"## {prose(summary(run.cells))}\n\n{ran(run)}\n"
    sections = [Section(name="the title", worth=0, forms=(head,))]
    for number, ((case_id, _), cells) in enumerate(cases.items()):
        title = f"### {code(case_id)}\n"
        # What departs gives way after what does not, and the first cases after the last.
        worth = 2 * len(cases) * any(cell.as_expected is False for cell in cells) + len(cases) - number
        sections.append(Section(name=case_id, worth=worth, forms=_case_forms(title, cells, file_of)))
    if found := list(failure_lines(run.cells)):
        sections.append(Section(name="the failures", worth=0, forms=(block(found), "")))
    shown, cut = fit(sections, limit - RESERVED, lambda text: len(text.encode("utf-8", "replace")))
    if cut:
        shown.append(f"To fit a summary {len(cut)} of {len(sections)} parts were shortened or left out.\n")
    return "\n".join(filter(None, shown))


def _case_forms(title: str, cells: Sequence[CellRecord], file_of: FileOf) -> tuple[str, ...]:
    words = "".join(section.forms[0] for section in explained(cells, file_of, (), whole=False))
    failing = [cell for cell in cells if cell.as_expected is False or not (cell.verdict and cell.verdict.conclusive)]
    why = f"\n{tables.reasons(failing, 8)}" if failing else ""
    return (
        f"{title}\n{tables.tables(cells)}\n{words}{why}",
        f"{title}\n{tables.tables(cells, short=True)}\n{words}",
        f"{title}\n{prose(summary(cells))}\n",
        "",
    )


def _write(run: RunRecord, sources: FormatSources) -> str:
    return run_summary(run, sources.file_of)


FORMAT = RunFormat(name="md", help="Markdown, as for the summary of a job", suffix=".md", scrubbed=True, write=_write)
