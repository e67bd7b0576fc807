"""Builds and runs a draft, and marks in it what the run confirmed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.cli import options
from reprokit.core.errors import EngineError
from reprokit.core.terminal import confirm, echo
from reprokit.environment.cases import load_text, schema_line
from reprokit.intake.draft import Draft, Proof, judge_draft, mark, not_run, open_parts, render


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
    from reprokit.search.repeating import planner

    if parts := open_parts(load_text(str(path), render(made), draft=True).case):
        return _marked(made, path, not_run(parts)) if asked else 0
    if not (asked or ALLOWANCES[trust].asks or confirm("Build and run it here?")):
        return 0
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
    proof = judge_draft(made, session.record.cells)
    status = _marked(made, path, proof, session.record.id)
    name = shlex.quote(str(path))
    fails = f"next: reprokit isolate {name}, or write the fix and run reprokit run {name} --fix"
    differs = f"then: change the draft, and reprokit run {name}; reprokit show last 1 --log prints the log of cell 1"
    echo(fails if proof.reproduced else differs, err=True)
    return status if asked else 0


def _marked(made: Draft, path: Path, proof: Proof, run: str = "") -> int:
    """Write the draft with its marks, and print what they say."""
    options.write_file(path, schema_line(path) + render(mark(made, proof, run)))
    echo(proof.words, err=True)
    return proof.status
