"""``reprokit share``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.evidence.records import ANSWER
from reprokit.report import explanation, markdown
from reprokit.report.markdown import Subject
from reprokit.report.publishing import Scrubber

if TYPE_CHECKING:
    from reprokit.evidence.records import RunRecord
    from reprokit.store.database import Store


@click.command(
    "share",
    epilog="""\b
Examples:
  reprokit share                                # the last run, to standard output
  reprokit share ptxas-unknown-arch -o issue.md # the last run of a case
  reprokit share 20260101-1 --case my-case      # one case of a run of several
  reprokit share | gh issue create --title "It fails on CUDA 12.0" --body-file -
  reprokit run issue.md                         # run the case from what was shared
""",
)
@click.argument("what", default="last", metavar="[RUN|CASE]")
@click.option("--case", "case_id", metavar="ID", help="Which case of the run, where it has several.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("-"),
    show_default="standard output",
    help="The file to write.",
)
@click.option("-y", "--yes", is_flag=True, help="Share the case even if its text seems to contain a secret.")
@options.store_option
def command(what: str, case_id: str | None, output: Path, yes: bool, store_folder: Path | None) -> int:
    """Write the Markdown for an issue: verdicts, what they explain, the failure, and the case, ready to run.

    RUN is the id of a run, the beginning of one, or `last`; CASE is a case file or the id of a case, and its last run
    is used. Nothing is sent anywhere. The text is shortened to fit a GitHub issue (65,536 characters), the case last.
    Tokens, home directories, host and user names are removed from logs; the case itself is not changed.
    """
    options.check_writable("--output", output)
    store = options.store_of(store_folder)
    subject = _subject(store, what, case_id)
    if (found := _secrets_in(subject)) and not yes:
        raise UsageError(
            f"the text of the case seems to contain a secret ({found}): remove it and run the case again, "
            "or share it as it is with --yes"
        )
    scrub = Scrubber([subject.run])
    shared = markdown.share(
        subject, store.folder, texts=store.case_text, file_of=explanation.files_in(store), scrub=scrub
    )
    options.write_file(output, shared.text)
    if scrub.left_out:
        click.echo(f"left out of the texts: {', '.join(scrub.left_out)}", err=True)
    if shared.cut:
        click.echo(f"shortened or left out to fit an issue: {', '.join(shared.cut)}", err=True)
    return 0


def _secrets_in(subject: Subject) -> str:
    """The secrets in the text of a case, by kind and line, in words. Names of this host and user do not count."""
    from reprokit.core.redaction import scrub

    private = ("home", "email")
    found = [f"{one.kind}, {one.where}" for one in scrub(subject.text).omitted if one.kind not in private]
    return "; ".join(dict.fromkeys(found))


def _subject(store: Store, what: str, case_id: str | None) -> Subject:
    """The case and run to share. Raises UsageError where there is none, or more than one case."""
    run = _run(store, what)
    if not run.cells:
        raise UsageError(f"run {run.id} has no cell: there is nothing to share")
    if search := run.request.search:
        answer = store.findings(run.id).get(ANSWER) or {}
        answered = answer.get("words", ())
        return _known(store, Subject(run=run, title="", text="", digest=search.digest, answer=answered))
    cases = {cell.case_id: cell.case_digest for cell in run.cells}
    if case_id is None and len(cases) > 1:
        names = ", ".join(list(cases)[:5]) + (" ..." if len(cases) > 5 else "")
        raise UsageError(f"run {run.id} has {len(cases)} cases; choose one with --case ID ({names})")
    chosen = case_id or next(iter(cases), "")
    if chosen not in cases:
        raise UsageError(f"run {run.id} has no case {chosen!r}{near(chosen, cases, prefix='; ')}")
    return _known(store, Subject(run=run.of_case(chosen), title=chosen, text="", digest=cases[chosen]))


def _known(store: Store, subject: Subject) -> Subject:
    """The subject with the case's title and text at the time of the run. Raises UsageError where that is not stored."""
    text = store.case_text(subject.digest)
    file = explanation.files_in(store)(subject.digest) if text else None
    if not text:
        raise UsageError(f"run {subject.run.id}: the text of its case is not in the store; run the case again")
    title = file.case.title if file else subject.title or subject.run.cells[0].case_id
    return replace(subject, title=title, text=text)


def _run(store: Store, what: str) -> RunRecord:
    """The run that is named, or the last one of a case."""
    from reprokit.environment import cases

    if Path(what).exists():
        files = cases.load(what)
        if len(files) > 1:
            raise UsageError(f"{what} holds {len(files)} cases; name the file of one")
        recorded = store.of_case(files[0].digest)
        runs = [run for run, _ in recorded if not run.searches]
        if not runs:
            raise UsageError(f"no run of the current text of the case {files[0].case.id!r} is recorded; run it first")
        return store.run(runs[0].id).of_case(files[0].case.id)
    return options.last_run(store, what) if what in store.case_ids() else store.run(what)
