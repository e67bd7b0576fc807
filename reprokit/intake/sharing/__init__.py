"""A case as the Markdown of an issue: verdicts, what they explain, the failure, and the case to run it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit.core.version import DISTRIBUTION
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import failures
from reprokit.report.explanation import FileOf
from reprokit.report.history.changed import Texts
from reprokit.report.labels import summary
from reprokit.report.markdown import RESERVED, explained, parts, ran, titled, verdicts
from reprokit.report.markdown.fitting import Section, fit
from reprokit.report.markdown.text import block, code, details, fence, prose, size
from reprokit.report.publishing import Scrub, scrubbed

ISSUE_LIMIT = 65_536
"""Characters of an issue or a comment on GitHub."""
_FOUND: dict[Verdict | None, str] = {
    Verdict.DIFFERENT_FAILURE: "Another failure than the one that is looked for",
    Verdict.BUILD_FAILED: "The build that failed",
}
"""What the log of a cell shows, where it is not the failure that the case is about."""
WHAT = (
    "reprokit builds each environment of the case below as a container, runs its command there and says where it fails."
)
INSTALL = (
    f"Install it on Linux with `pip install {DISTRIBUTION}` "
    "(the package `reprokit` on Python's index is another project)."
)


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
    it is, between fences, so that the text of the issue can be run; everything else that is untrusted is text only.
    """
    run = scrubbed(subject.run, scrub) if subject.run else None
    sections = [
        Section(name="the title", worth=100, forms=(_head(subject, run),)),
        *_fix(subject),
        *(_verdicts(run.cells) if run else ()),
        *(explained(run.cells, file_of, [scrub(line) for line in subject.answer]) if run else ()),
        *(_failure(run, folder, texts, scrub) if run else ()),
        Section(name="how to run it", worth=99, forms=(_how(subject),)),
        Section(name="the case itself", worth=98, forms=(_case(subject.text), _too_large(subject, limit))),
    ]
    found, cut = fit(sections, limit - RESERVED)
    if cut:
        found.insert(len(found) - 2, f"To fit an issue this was shortened or left out: {', '.join(cut)}.\n")
    return Shared(text="\n".join(filter(None, found)), cut=tuple(cut), whole="the case itself" not in cut)


def _head(subject: Subject, run: RunRecord | None) -> str:
    if run is None:
        return f"## {prose(subject.title)}\n\n**Not run yet here:** this is the case alone, without verdicts.\n"
    same = ", ".join(verdicts.fixed_axes(run.cells)) if len(run.cells) > 1 else ""
    always = f" In every cell: {same}." if same else ""
    said = summary(run.cells).removesuffix("; nothing departs")  # who reads it does not know from what
    return f"## {prose(subject.title)}\n\n**{prose(said)}.** {ran(run)}{always}\n"


def _fix(subject: Subject) -> list[Section]:
    if subject.fix is None:
        return []
    what = f"**The fix:** {prose(subject.fix)}" if subject.fix else "The case has a fix"
    return [Section(name="the fix", worth=90, forms=(f"{what.removesuffix('.')}. `--fix` runs it beside the case.\n",))]


def _verdicts(cells: Sequence[CellRecord]) -> list[Section]:
    whole, short = verdicts.tables(cells), verdicts.tables(cells, short=True)
    found = [Section(name="the table of verdicts", worth=80, forms=(whole, short, ""))]
    if not verdicts.has_reasons(cells):
        forms = (verdicts.reasons(cells), verdicts.reasons(cells, 3), "")
        found.append(Section(name="the reasons", worth=40, forms=forms))
    if ways := list(failures.lines(cells)):
        found.append(Section(name="the ways of failing", worth=45, forms=(block(ways), "")))
    return found


def _failure(run: RunRecord, folder: Path, texts: Texts, scrub: Scrub) -> list[Section]:
    bad = parts.telling(run.cells)
    if bad is None:
        return []
    title = f"{_FOUND.get(bad.verdict, 'The failure')}, in cell {bad.number}"
    excerpts = parts.log(bad, folder, scrub, parts.LOG_LINES)
    found = [Section(name="the log", worth=60, forms=titled(title, (*excerpts, "")))]
    good = parts.nearest(bad, run.cells)
    if good is not None:
        forms = tuple(scrub(parts.compared(run, bad, good, texts, most)) for most in parts.DIFFERENCES)
        title = "How the environments differ"
        found.append(Section(name="how the environments differ", worth=50, forms=titled(title, (*forms, ""))))
    if bad.environment is None:
        return found
    environment = details(f"Environment of cell {bad.number}, as measured", parts.measured(bad, run))
    return [*found, Section(name="the environment", worth=30, forms=(environment, ""))]


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
