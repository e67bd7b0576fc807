"""A case as the Markdown of an issue: verdicts, what they explain, the failure, and the case to run it again.

Which run of it is shared: the last that says something about it. Reads stores and case files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.case.model import Case
from reprokit.case.trust import keys_named
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.redaction import scrub as scrub_text
from reprokit.core.version import DISTRIBUTION
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import ANSWER, CellRecord, RunRecord
from reprokit.report import explanation
from reprokit.report.explanation import FileOf
from reprokit.report.formats import Scrub, scrub_run
from reprokit.report.formats.md import RESERVED
from reprokit.report.history.changes import Texts
from reprokit.report.labels import failure_lines, summary
from reprokit.report.markdown import sections as parts
from reprokit.report.markdown.sections import add_title, describe_run, explain_cells
from reprokit.report.markdown.text import Section, block, code, details, fence, fit, html_code, prose, size
from reprokit.run.loading import load
from reprokit.store.database import Store

ISSUE_LIMIT = 65_536
"""Characters of an issue or a comment on GitHub."""
_FOUND: dict[Verdict | None, str] = {
    Verdict.DIFFERENT_FAILURE: "Another failure than the one that is looked for",
    Verdict.BUILD_FAILED: "The build that failed",
}
"""What the log of a cell shows, where it is not the failure that the case is about."""
PROJECT = f"https://pypi.org/project/{DISTRIBUTION}/"
WHAT = (
    f"[reprokit]({PROJECT}) builds each environment of the case below as a container, runs its command there and says "
    "where it fails. On Linux with Docker or Podman, it runs with:"
)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The Markdown of an issue."""

    text: str
    cut: tuple[str, ...]
    """What of it had to give way, in words."""
    whole: bool
    """The case itself is in it."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is shared: the cells of one case."""

    run: RunRecord | None
    """None for a case that was not run here."""
    title: str
    text: str
    digest: str
    fix: str | None = None
    """The summary of its fix, None where it has no fix."""
    answer: Sequence[str] = ()
    """The words of a search that asked for the cells."""


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
    run = scrub_run(subject.run, scrub) if subject.run else None
    statement, behind = explain_cells(run.cells, file_of) if run and not subject.answer else ("", "")
    answer = [scrub(line) for line in subject.answer]
    takes = (details("What it takes", behind), "") if behind else ("",)
    sections = [
        Section(name="the title", worth=100, forms=(_head(subject, run, statement),)),
        *(_verdicts(run.cells) if run else ()),
        Section(name="what it takes", worth=70, forms=(block(answer, most=400), "") if answer else takes),
        *(_failure(run, folder, texts, scrub) if run else ()),
        Section(name="the case itself", worth=98, forms=(_case(subject), _too_large(subject, limit))),
    ]
    found, cut = fit(sections, limit - RESERVED)
    if cut:
        found.insert(len(found) - 1, f"To fit an issue this was shortened or left out: {', '.join(cut)}.\n")
    return Shared(text="\n".join(filter(None, found)), cut=tuple(cut), whole="the case itself" not in cut)


def _head(subject: Subject, run: RunRecord | None, statement: str) -> str:
    """The title, one statement, and the line that runs the case."""
    lines = [f"## {prose(subject.title)}"]
    if run is None:
        lines.append("**Not run yet here:** this is the case alone, without verdicts.")
    else:
        counts = prose(summary(run.cells))
        same = ", ".join(parts.fixed_axes(run.cells)) if len(run.cells) > 1 else ""
        always = f" In every cell: {same}." if same else ""
        lines.append(f"**{statement or counts}.**")
        lines.append((f"{counts}. " if statement else "") + describe_run(run) + always)
    if subject.fix is not None:
        what = f"**The fix:** {prose(subject.fix)}" if subject.fix else "The case has a fix"
        lines.append(f"{what.removesuffix('.')}. `--fix` runs it beside the case.")
    fix = " --fix" if subject.fix is not None else ""
    command = f"uvx {DISTRIBUTION} run URL-OF-THIS-ISSUE{fix}    # or: pipx run {DISTRIBUTION} run ..."
    return "\n\n".join([*lines, WHAT, block([command], "sh")])


def _verdicts(cells: Sequence[CellRecord]) -> list[Section]:
    whole, short = parts.tables(cells), parts.tables(cells, short=True)
    found = [Section(name="the table of verdicts", worth=80, forms=(whole, short, ""))]
    if not parts.has_reasons(cells):
        forms = (parts.reasons(cells), parts.reasons(cells, 3), "")
        found.append(Section(name="the reasons", worth=40, forms=forms))
    if ways := list(failure_lines(cells)):
        found.append(Section(name="the ways of failing", worth=45, forms=(block(ways), "")))
    return found


def _failure(run: RunRecord, folder: Path, texts: Texts, scrub: Scrub) -> list[Section]:
    bad = parts.choose_cell(run.cells)
    if bad is None:
        return []
    title = f"{_FOUND.get(bad.verdict, 'The failure')}, in cell {bad.number}"
    excerpts = parts.log(bad, folder, scrub, parts.LOG_LINES)
    found = [Section(name="the log", worth=60, forms=add_title(title, (*excerpts, "")))]
    good = parts.find_nearest(bad, run.cells)
    if good is not None:
        forms = tuple(scrub(parts.compare_cells(run, bad, good, texts, most)) for most in parts.DIFFERENCES)
        title = "How the environments differ"
        found.append(Section(name="how the environments differ", worth=50, forms=add_title(title, (*forms, ""))))
    if bad.environment is None:
        return found
    environment = details(f"Environment of cell {bad.number}, as measured", parts.describe_environment(bad, run))
    return [*found, Section(name="the environment", worth=30, forms=(environment, ""))]


def _case(subject: Subject) -> str:
    return details(f"The case, {html_code(subject.digest)}", fence(subject.text, "yaml"))


def _too_large(subject: Subject, limit: int) -> str:
    return (
        f"The case itself has {size(subject.text)} characters and does not fit into an issue of {limit}: "
        f"attach its file. Its text is {code(subject.digest)}.\n"
    )


# -- which case, and which run ---------------------------------------------------------------------------------------

RUNS = 20
"""Runs that are asked for at once: the answer is mostly among the newest."""
_SAYS_NOTHING = (None, Verdict.ENGINE_ERROR, Verdict.CANCELLED)
_LEFT_OUT = re.compile(r"^# *- [a-z-]+(?:, \d+ times)?:(?= env \w| .*\blines? \d)", re.MULTILINE)
"""How a line begins in which a draft says what it left out, and where: ``# - aws-access-key: line 20``."""


def subject_of(store: Store | None, what: str, case_id: str | None) -> Subject:
    """The case and run to share. Raises UsageError where there is none, or more than one case."""
    if store is None or (Path(what).exists() and what not in store.case_keys()):
        return _of_file(store, what, case_id)
    keys = store.cases_named(what)
    if len(keys) > 1:
        raise UsageError(f"{what} has {len(keys)} cases: name one: {', '.join(keys)}")
    what = keys[0] if keys else what
    run = _run(store, what)
    if run is None:
        return _known(store, Subject(run=None, title=what, text="", digest=_last_digest(store, what)))
    if not run.cells:
        raise UsageError(f"run {run.id} has no cell: there is nothing to share")
    if search := run.request.search:
        answer = store.findings(run.id).get(ANSWER) or {}
        answered = answer.get("words", ())
        return _known(store, Subject(run=run, title="", text="", digest=search.digest, answer=answered))
    digests = {cell.case_key: cell.case_digest for cell in run.cells}
    if case_id is None and len(digests) > 1:
        names = ", ".join(list(digests)[:5]) + (" ..." if len(digests) > 5 else "")
        raise UsageError(f"run {run.id} has {len(digests)} cases; choose one with --case ID ({names})")
    chosen = (keys_named(case_id, digests) if case_id else list(digests))[:1]
    if not chosen:
        raise UsageError(f"run {run.id} has no case {case_id!r}{near(case_id or '', digests, prefix='; ')}")
    [key] = chosen
    return _known(store, Subject(run=run.of_case(key), title=key, text="", digest=digests[key]))


def subjects_of(store: Store, what: str) -> list[Subject]:
    """Every case of a run, or of a file or folder. Raises as :func:`subject_of`."""
    if Path(what).exists() and what not in store.case_keys():
        return [_of_file(store, what, file.case.id) for file in load(what)]
    run = _run(store, what)
    return [subject_of(store, run.id, key) for key in dict.fromkeys(cell.case_key for cell in run.cells)] if run else []


def secrets_in(subject: Subject) -> str:
    """The secrets in the text of a case, by kind and line, in words. Names of this host and user do not count."""
    private = ("home", "email")
    text = _LEFT_OUT.sub("#", subject.text)
    found = [f"{one.kind}, {one.where}" for one in scrub_text(text).omitted if one.kind not in private]
    return "; ".join(dict.fromkeys(found))


def _of_file(store: Store | None, what: str, case_id: str | None) -> Subject:
    """A case of a file, with the last run of its present text, where there is one."""
    files = {file.case.id: file for file in load(what)}
    if len(files) > 1 and case_id not in files:
        raise UsageError(f"{what} has {len(files)} cases; choose one with --case ID ({', '.join(list(files)[:5])})")
    file = files[case_id] if case_id else next(iter(files.values()))
    run = _newest(store, key=file.key, digest=file.digest) if store else None
    return Subject(
        run=run.of_case(file.key) if run else None,
        title=file.case.title,
        text=file.text,
        digest=file.digest,
        fix=_fix_of(file.case),
    )


def _fix_of(case: Case) -> str | None:
    return None if case.fix is None else str(case.fix.get("summary", ""))


def _known(store: Store, subject: Subject) -> Subject:
    """The subject with the case's title and text at the time of the run. Raises UsageError where that is not stored."""
    text = store.case_text(subject.digest)
    file = explanation.files_in(store)(subject.digest) if text else None
    if not text:
        which = f"run {subject.run.id}" if subject.run else f"case {subject.title}"
        raise UsageError(f"{which}: the text of its case is not in the store; run the case again")
    cells = subject.run.cells if subject.run else ()
    title = file.case.title if file else subject.title or cells[0].case_id
    return replace(subject, title=title, text=text, fix=_fix_of(file.case) if file else None)


def _run(store: Store, what: str) -> RunRecord | None:
    """The run that is named, or the newest one of all or of a case that says something about it; None without one."""
    if what == "last":
        if not (found := _newest(store, searches=True)):
            raise UsageError(
                f"no run in {store.folder} says anything about its case; name a run (see: reprokit history), "
                "or share a case as it is: reprokit share CASE.yaml"
            )
        return found
    if what not in store.case_keys():
        return store.run(what)
    found = _newest(store, key=what)
    if found is None and store.last_seen(what) is None:
        raise UsageError(f"the case {what!r} was only searched: name the run of a search")
    return found.of_case(what) if found else None


def _newest(
    store: Store, *, key: str | None = None, digest: str | None = None, searches: bool = False
) -> RunRecord | None:
    """Of the runs, of a case or of a state of one, the newest that is conclusive, else that is about the bug."""
    ids = [run.id for run in store.runs(limit=None) if searches or not run.searches]
    second = None
    for at in range(0, len(ids), RUNS):
        some = ids[at : at + RUNS]
        found = store.verdicts(some, case_key=key, digest=digest)
        for run_id in some:
            verdicts = found.get(run_id, set()).difference(_SAYS_NOTHING)
            if any(one and one.conclusive for one in verdicts):
                return store.run(run_id)
            second = second or (run_id if verdicts else None)
    return store.run(second) if second else None


def _last_digest(store: Store, key: str) -> str:
    seen = store.last_seen(key)
    return seen[1][0].case_digest if seen else ""
