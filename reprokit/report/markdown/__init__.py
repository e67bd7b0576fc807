"""A run as Markdown, for the summary of a job of GitHub Actions; what is shared of a case has the same sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import explanation, failures
from reprokit.report.explanation import FileOf
from reprokit.report.labels import summary
from reprokit.report.markdown import parts, verdicts
from reprokit.report.markdown.fitting import Section, fit
from reprokit.report.markdown.text import block, code, prose

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
    if found := list(failures.lines(run.cells)):
        sections.append(Section(name="the failures", worth=0, forms=(block(found), "")))
    shown, cut = fit(sections, limit - RESERVED, lambda text: len(text.encode("utf-8", "replace")))
    if cut:
        shown.append(f"To fit a summary {len(cut)} of {len(sections)} parts were shortened or left out.\n")
    return "\n".join(filter(None, shown))


def _case_forms(title: str, cells: Sequence[CellRecord], file_of: FileOf) -> tuple[str, ...]:
    words = "".join(section.forms[0] for section in explained(cells, file_of, (), whole=False))
    failing = [cell for cell in cells if cell.as_expected is False or not (cell.verdict and cell.verdict.conclusive)]
    why = f"\n{verdicts.reasons(failing, 8)}" if failing else ""
    return (
        f"{title}\n{verdicts.tables(cells)}\n{words}{why}",
        f"{title}\n{verdicts.tables(cells, short=True)}\n{words}",
        f"{title}\n{prose(summary(cells))}\n",
        "",
    )


def ran(run: RunRecord) -> str:
    """When a run was, and with what, in a sentence."""
    engine = f", {prose(run.host.engine)}" if run.host.engine else ""
    return f"Run {run.started_at[:10]} by reprokit {prose(run.version)}{engine}."


def explained(cells: Sequence[CellRecord], file_of: FileOf, answer: Sequence[str], whole: bool = True) -> list[Section]:
    """What separates the cells of one case, or the ``answer`` of a search; [] where there is nothing to compare.

    ``whole``: under a title, with the cells behind it.
    """
    if answer:
        forms: tuple[str, ...] = (block(answer, most=400), block(answer[:6], most=400), "")
        return [Section(name="what it takes", worth=70, forms=titled("What it takes", forms))]
    if sum(cell.variant == "case" for cell in cells) < 2:
        return []  # one by itself is nothing to compare
    found = replace(explanation.of_records(cells, file_of), path="CASE")
    if not (found.explanation.bad and found.explanation.good):
        return []
    forms = (parts.in_words(found, whole), parts.in_words(found, False), "")
    return [Section(name="what it takes", worth=70, forms=titled("What it takes", forms) if whole else forms)]


def titled(title: str, forms: tuple[str, ...]) -> tuple[str, ...]:
    """The forms of a section, each under a title but for the empty one."""
    return tuple(f"### {title}\n\n{form}" if form else "" for form in forms)
