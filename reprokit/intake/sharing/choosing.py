"""Which case is shared, and which of its runs: the last that says something about it. Reads stores and case files."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.redaction import scrub
from reprokit.environment import cases
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import ANSWER
from reprokit.intake.sharing import Subject
from reprokit.report import explanation

if TYPE_CHECKING:
    from reprokit.case.model import Case
    from reprokit.evidence.records import RunRecord
    from reprokit.store.database import Store

RUNS = 20
"""Runs that are asked for at once: the answer is mostly among the newest."""
_SAYS_NOTHING = (None, Verdict.ENGINE_ERROR, Verdict.CANCELLED)
_LEFT_OUT = re.compile(r"^# *- [a-z-]+(?:, \d+ times)?:(?= env \w| .*\blines? \d)", re.MULTILINE)
"""How a line begins in which a draft says what it left out, and where: ``# - aws-access-key: line 20``."""


def subject_of(store: Store | None, what: str, case_id: str | None) -> Subject:
    """The case and run to share. Raises UsageError where there is none, or more than one case."""
    if store is None or (Path(what).exists() and what not in store.case_ids()):
        return _of_file(store, what, case_id)
    run = _run(store, what)
    if run is None:
        return _known(store, Subject(run=None, title=what, text="", digest=_last_digest(store, what)))
    if not run.cells:
        raise UsageError(f"run {run.id} has no cell: there is nothing to share")
    if search := run.request.search:
        answer = store.findings(run.id).get(ANSWER) or {}
        answered = answer.get("words", ())
        return _known(store, Subject(run=run, title="", text="", digest=search.digest, answer=answered))
    digests = {cell.case_id: cell.case_digest for cell in run.cells}
    if case_id is None and len(digests) > 1:
        names = ", ".join(list(digests)[:5]) + (" ..." if len(digests) > 5 else "")
        raise UsageError(f"run {run.id} has {len(digests)} cases; choose one with --case ID ({names})")
    chosen = case_id or next(iter(digests), "")
    if chosen not in digests:
        raise UsageError(f"run {run.id} has no case {chosen!r}{near(chosen, digests, prefix='; ')}")
    return _known(store, Subject(run=run.of_case(chosen), title=chosen, text="", digest=digests[chosen]))


def secrets_in(subject: Subject) -> str:
    """The secrets in the text of a case, by kind and line, in words. Names of this host and user do not count."""
    private = ("home", "email")
    text = _LEFT_OUT.sub("#", subject.text)
    found = [f"{one.kind}, {one.where}" for one in scrub(text).omitted if one.kind not in private]
    return "; ".join(dict.fromkeys(found))


def _of_file(store: Store | None, what: str, case_id: str | None) -> Subject:
    """A case of a file, with the last run of its present text, where there is one."""
    files = {file.case.id: file for file in cases.load(what)}
    if len(files) > 1 and case_id not in files:
        raise UsageError(f"{what} has {len(files)} cases; choose one with --case ID ({', '.join(list(files)[:5])})")
    file = files[case_id] if case_id else next(iter(files.values()))
    run = _newest(store, digest=file.digest) if store else None
    return Subject(
        run=run.of_case(file.case.id) if run else None,
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
    if what not in store.case_ids():
        return store.run(what)
    found = _newest(store, case_id=what)
    if found is None and store.last_seen(what) is None:
        raise UsageError(f"the case {what!r} was only searched: name the run of a search")
    return found.of_case(what) if found else None


def _newest(
    store: Store, *, case_id: str | None = None, digest: str | None = None, searches: bool = False
) -> RunRecord | None:
    """Of the runs, of a case or of a state of one, the newest that is conclusive, else that is about the bug."""
    ids = [run.id for run in store.runs(limit=None) if searches or not run.searches]
    second = None
    for at in range(0, len(ids), RUNS):
        some = ids[at : at + RUNS]
        found = store.verdicts(some, case_id=case_id, digest=digest)
        for run_id in some:
            verdicts = found.get(run_id, set()).difference(_SAYS_NOTHING)
            if any(one and one.conclusive for one in verdicts):
                return store.run(run_id)
            second = second or (run_id if verdicts else None)
    return store.run(second) if second else None


def _last_digest(store: Store, case_id: str) -> str:
    seen = store.last_seen(case_id)
    return seen[1][0].case_digest if seen else ""
