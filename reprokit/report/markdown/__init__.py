"""A run as Markdown: for an issue, with the case in it, and for the summary of a job of GitHub Actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import explanation, failures
from reprokit.report.explanation import FileOf
from reprokit.report.history.changed import Texts
from reprokit.report.labels import summary
from reprokit.report.markdown import parts, verdicts
from reprokit.report.markdown.fitting import Section, fit
from reprokit.report.markdown.text import block, code, details, fence, prose, size
from reprokit.report.publishing import Scrub, scrubbed

ISSUE_LIMIT = 65_536
"""Characters of an issue or a comment on GitHub."""
SUMMARY_LIMIT = 1024 * 1024
"""Bytes of a step's job summary (docs.github.com/en/actions/reference/workflow-commands-for-github-actions)."""
_FOUND: dict[Verdict | None, str] = {
    Verdict.DIFFERENT_FAILURE: "Another failure than the one that is looked for",
    Verdict.BUILD_FAILED: "The build that failed",
}
"""What the log of a cell shows, where it is not the failure that the case is about."""
WHAT = (
    "reprokit builds each environment of the case below as a container, runs its command there and says where it fails."
)
INSTALL = (
    "Install it on Linux with `pip install .` in a checkout of its repository "
    "(the package of that name on Python's index is another project)."
)
RESERVED = 1_000
"""Characters kept for saying what was cut."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The Markdown of an issue; ``cut``: what of it had to give way, in words; ``whole``: the case itself is in it."""

    text: str
    cut: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is shared: the cells of one case in ``run``, with the case's ``text`` and its ``digest``.

    ``run`` is None for a case that was not run here. ``fix``: the summary of its fix, None where it has no fix.
    ``answer``: the words of a search that asked for the cells.
    """

    run: RunRecord | None
    title: str
    text: str
    digest: str
    fix: str | None = None
    answer: Sequence[str] = ()


def share(
    subject: Subject,
    folder: Path,
    *,
    texts: Texts,
    file_of: FileOf = lambda digest: None,
    scrub: Scrub = str,
    limit: int = ISSUE_LIMIT,
) -> Shared:
    """The Markdown for an issue about a case: verdicts, what they explain, the failure, and the case to run it again.

    ``folder``: the store's, for logs. ``texts`` and ``file_of`` find cases by their digest. The case itself is in it as
    it is, between fences, so that the text of the issue can be run; everything else of a stranger is text only.
    """
    run = scrubbed(subject.run, scrub) if subject.run else None
    sections = [
        Section(name="the title", worth=100, forms=(_head(subject, run),)),
        *_fix(subject),
        *(_verdicts(run.cells) if run else ()),
        *(_explained(run.cells, file_of, [scrub(line) for line in subject.answer]) if run else ()),
        *(_failure(run, folder, texts, scrub) if run else ()),
        Section(name="how to run it", worth=99, forms=(_how(subject),)),
        Section(name="the case itself", worth=98, forms=(_case(subject.text), _too_large(subject, limit))),
    ]
    found, cut = fit(sections, limit - RESERVED)
    if cut:
        found.insert(len(found) - 2, f"To fit an issue this was shortened or left out: {', '.join(cut)}.\n")
    return Shared(text="\n".join(filter(None, found)), cut=tuple(cut), whole="the case itself" not in cut)


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
    head = f"## {prose(summary(run.cells))}\n\n{_ran(run)}\n"
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
    words = "".join(section.forms[0] for section in _explained(cells, file_of, (), whole=False))
    failing = [cell for cell in cells if cell.as_expected is False or not (cell.verdict and cell.verdict.conclusive)]
    why = f"\n{verdicts.reasons(failing, 8)}" if failing else ""
    return (
        f"{title}\n{verdicts.tables(cells)}\n{words}{why}",
        f"{title}\n{verdicts.tables(cells, short=True)}\n{words}",
        f"{title}\n{prose(summary(cells))}\n",
        "",
    )


def _head(subject: Subject, run: RunRecord | None) -> str:
    if run is None:
        return f"## {prose(subject.title)}\n\n**Not run yet here:** this is the case alone, without verdicts.\n"
    same = ", ".join(verdicts.fixed_axes(run.cells)) if len(run.cells) > 1 else ""
    always = f" In every cell: {same}." if same else ""
    said = summary(run.cells).removesuffix("; nothing departs")  # who reads it does not know from what
    return f"## {prose(subject.title)}\n\n**{prose(said)}.** {_ran(run)}{always}\n"


def _fix(subject: Subject) -> list[Section]:
    if subject.fix is None:
        return []
    what = f"**The fix:** {prose(subject.fix)}" if subject.fix else "The case has a fix"
    return [Section(name="the fix", worth=90, forms=(f"{what.removesuffix('.')}. `--fix` runs it beside the case.\n",))]


def _ran(run: RunRecord) -> str:
    engine = f", {prose(run.host.engine)}" if run.host.engine else ""
    return f"Run {run.started_at[:10]} by reprokit {prose(run.version)}{engine}."


def _verdicts(cells: Sequence[CellRecord]) -> list[Section]:
    whole, short = verdicts.tables(cells), verdicts.tables(cells, short=True)
    found = [Section(name="the table of verdicts", worth=80, forms=(whole, short, ""))]
    if not verdicts.has_reasons(cells):
        forms = (verdicts.reasons(cells), verdicts.reasons(cells, 3), "")
        found.append(Section(name="the reasons", worth=40, forms=forms))
    if ways := list(failures.lines(cells)):
        found.append(Section(name="the ways of failing", worth=45, forms=(block(ways), "")))
    return found


def _explained(
    cells: Sequence[CellRecord], file_of: FileOf, answer: Sequence[str], whole: bool = True
) -> list[Section]:
    if answer:
        forms: tuple[str, ...] = (block(answer, most=400), block(answer[:6], most=400), "")
        return [Section(name="what it takes", worth=70, forms=_titled("What it takes", forms))]
    if sum(cell.variant == "case" for cell in cells) < 2:
        return []  # one by itself is nothing to compare
    explained = replace(explanation.of_records(cells, file_of), path="CASE")
    if not (explained.explanation.bad and explained.explanation.good):
        return []
    forms = (parts.in_words(explained, whole), parts.in_words(explained, False), "")
    return [Section(name="what it takes", worth=70, forms=_titled("What it takes", forms) if whole else forms)]


def _failure(run: RunRecord, folder: Path, texts: Texts, scrub: Scrub) -> list[Section]:
    bad = parts.telling(run.cells)
    if bad is None:
        return []
    title = f"{_FOUND.get(bad.verdict, 'The failure')}, in cell {bad.number}"
    excerpts = parts.log(bad, folder, scrub, parts.LOG_LINES)
    found = [Section(name="the log", worth=60, forms=_titled(title, (*excerpts, "")))]
    good = parts.nearest(bad, run.cells)
    if good is not None:
        forms = tuple(scrub(parts.compared(run, bad, good, texts, most)) for most in parts.DIFFERENCES)
        title = "How the environments differ"
        found.append(Section(name="how the environments differ", worth=50, forms=_titled(title, (*forms, ""))))
    if bad.environment is None:
        return found
    environment = details(f"Environment of cell {bad.number}, as measured", parts.measured(bad, run))
    return [*found, Section(name="the environment", worth=30, forms=(environment, ""))]


def _titled(title: str, forms: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"### {title}\n\n{form}" if form else "" for form in forms)


def _how(subject: Subject) -> str:
    fix = " --fix" if subject.fix is not None else ""
    commands = [f"reprokit run URL-OF-THIS-ISSUE{fix}    # or its text, saved as a file: issue.md"]
    return (
        f"### Run it\n\n{WHAT} {INSTALL}\n\n{block(commands, 'sh')}\n"
        f"The text of the case below is {code(subject.digest)}.\n"
    )


def _case(text: str) -> str:
    return details("The case", fence(text, "yaml"))


def _too_large(subject: Subject, limit: int) -> str:
    return (
        f"The case itself has {size(subject.text)} characters and does not fit into an issue of {limit}: "
        f"attach its file. Its text is {code(subject.digest)}.\n"
    )
