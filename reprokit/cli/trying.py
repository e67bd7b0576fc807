"""Builds and runs a draft, marks in it what the run confirmed, and says what to change."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.cli import options
from reprokit.core.errors import EngineError
from reprokit.core.terminal import confirm, echo
from reprokit.environment.cases import schema_line
from reprokit.intake import proof as proving
from reprokit.intake.draft import Draft, render
from reprokit.intake.proof import Proof, advise
from reprokit.run.loading import load

if TYPE_CHECKING:
    from reprokit.evidence.records import TrialRecord
    from reprokit.run.run_session import Session

_LAST = 20_000
"""Bytes of a trial's output that advice is taken from."""


def try_draft(made: Draft, path: Path, *, trust: Trust, asked: bool, yes: bool = False) -> int:
    """Run the draft that was written to ``path``, and write it again with what was confirmed in comments.

    ``trust``: of its text. ``asked``: the user asked for it by ``--try``; otherwise they are asked here. ``yes``: it
    runs unread, as an untrusted case. Returns 0 where it is confirmed or only offered, 1 where it is not, 3 where that
    is not decided. Raises as a run does.
    """
    from reprokit.cli.display.screen import Screen
    from reprokit.run.approving import Declined
    from reprokit.run.request import Request
    from reprokit.run.run_session import Session
    from reprokit.search.explain.repeating import planner

    if parts := proving.open_parts(made):
        return _marked(made, path, proving.not_run(parts)) if asked else 0
    if not (asked or ALLOWANCES[trust].asks or confirm("Build and run it here?")):
        return 0
    [file] = load(str(path))
    session = Session(options.obeyed_store(None), display=Screen(sys.stdout), confirming=planner)
    request = Request.configured(cases=(str(path),), datasets={}, sources={}, yes=yes)
    try:
        status = session.start(request, trust=trust)
    except Declined as error:
        echo(error, err=True)
        return 3 if asked else 0
    except EngineError:
        _marked(made, path, Proof(status=3, words="not run: no engine answered"))
        raise
    if status == 130 or session.record is None:
        return status
    cells = session.record.cells
    proof = proving.judge_draft(made, cells)
    told = advise(file.case, cells, str(path), partial(_end, session))
    fails = any("reproduces" in line for line in told) and not proof.reproduced
    status = _marked(made, path, proof, session.record.id, [] if fails else told)
    return status if asked else 0


def _marked(made: Draft, path: Path, proof: Proof, run: str = "", told: list[str] | None = None) -> int:
    """Write the draft with its marks, and print what they say."""
    told = told or []
    differs = [] if proof.reproduced else [line for line in told if not line.startswith("then: ")]
    options.write_file(path, schema_line(path) + render(proving.mark(made, proof, run, differs)))
    for line in (proof.words, *told):
        echo(line, err=True)
    return proof.status


def _end(session: Session, trial: TrialRecord) -> str:
    """The end of a trial's output; '' where it is not there."""
    try:
        with (session.folder / trial.log).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _LAST))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
