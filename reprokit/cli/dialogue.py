"""The dialogue of ``reprokit new`` at a terminal, and the run of a draft that marks what it confirmed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.cli import options
from reprokit.core import files, redaction
from reprokit.core.errors import EngineError, UsageError
from reprokit.core.terminal import confirm, echo, style, visible
from reprokit.environment.axes import AXES
from reprokit.environment.axis import Axis
from reprokit.environment.cases import load_text, schema_line
from reprokit.intake import interview
from reprokit.intake.captured_run import measure
from reprokit.intake.draft import FAILS, Draft, Proof, judge_draft, mark, not_run, open_parts, render
from reprokit.intake.repairing import MOST_BUILDS, leave_out_missing, repair

_END = "."
_AGAIN = 3600.0
"""Seconds for which a cell of the run before is taken over."""


class _Terminal:
    """The user at a terminal. Asks again after an invalid answer; Ctrl-C and Ctrl-D stop, and nothing is written."""

    def line(self, question: str, default: str, check: Callable[[str], str]) -> str:
        def checked(text: str) -> str:
            try:
                return check(text)
            except ValueError as error:
                raise click.UsageError(f"expected {error}") from None

        suffix = " " if question.endswith("?") and not default else ": "
        answer: str = click.prompt(
            visible(question), default=default or None, value_proc=checked, prompt_suffix=suffix, err=True
        )
        return answer

    def lines(self, question: str) -> str:
        echo(f"{question}; end with a line that has only a {_END} (for no text, only that line):", err=True)
        found: list[str] = []
        try:
            while (line := input()) != _END:
                found.append(line)
        except EOFError:
            pass
        except KeyboardInterrupt:
            raise click.Abort from None
        return "\n".join(found)

    def show(self, lines: Sequence[str]) -> None:
        for line in lines:
            echo(style(line, dim=True), err=True)


class _Defaults:
    """No terminal: takes the default of each question, and fails where there is none."""

    def line(self, question: str, default: str, check: Callable[[str], str]) -> str:
        if not default:
            raise UsageError(
                "there is no terminal to ask at; give --title and --command, and other options as known, or use "
                "`reprokit new --from report.md`, or `reprokit new -- COMMAND` on the machine where it fails"
            )
        return check(default)

    def lines(self, question: str) -> str:
        return ""

    def show(self, lines: Sequence[str]) -> None:
        pass


def at_terminal() -> bool:
    """Whether a user sees what is printed and can be asked."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def complete(made: Draft, origin: str, report: str) -> Draft:
    """Show the draft of a report, and ask for what it lacks; the draft with the answers.

    ``report``: the text, of which the lines that may answer a question are shown.
    """
    echo(f"read from {origin}:\n{render(made)}", err=True)
    answers = interview.ask(_Terminal(), interview.known_answers(made), measure, report=report.splitlines())
    return interview.complete_draft(made, answers, Path.cwd(), redaction.of_this_host())


def dialogue(given: Mapping[str, Any], *, ask: bool = True) -> Draft:
    """The draft made from the options ``given`` and answers to the rest. Raises UsageError for an invalid option.

    ``ask``: whether the user at a terminal may be asked.
    """
    known = interview.Answers(
        title=given["title"],
        command=given["shell"],
        axes={axis.name: _axis(axis, given[axis.name]) for axis in AXES if given[axis.name] is not None},
        pip=given["pip"] or None,
        failure=_text(given["failure"]) if given["failure"] else "" if given["exit_code"] else None,
        exit_code=_option("--exit-code", given["exit_code"], interview.check_exit) if given["exit_code"] else None,
    )
    asker = _Terminal() if ask and sys.stdin is not None and sys.stdin.isatty() else _Defaults()
    if isinstance(asker, _Terminal):
        echo(
            "A case is one bug: what runs, where, and how it fails. Press Enter to accept the value in brackets.",
            err=True,
        )
    return interview.draft_answers(interview.ask(asker, known, measure), Path.cwd(), redaction.of_this_host())


def beside(made: Draft) -> Path:
    """A new file name in this folder for a draft."""
    return files.unused(str(made.data["id"]), ".yaml")


def _axis(axis: Axis, text: str) -> tuple[str, ...]:
    return interview.values(_option(f"--{axis.name}", text, partial(interview.check_axis, axis)))


def _option(name: str, text: str, check: Callable[[str], str]) -> str:
    try:
        return check(text)
    except ValueError as error:
        raise UsageError(f"{name} {text}: expected {error}") from None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"--failure {path}: cannot be read: {error.strerror}") from None


def try_draft(made: Draft, path: Path, *, trust: Trust, asked: bool, yes: bool = False, fix: bool = False) -> int:
    """Run the draft that was written to ``path``, and write it again with what was confirmed in comments.

    What its builds prove to be missing is put into it, and it is tried again: see :mod:`.repairing`.

    ``trust``: of its text. ``asked``: the user asked for it by ``--try``; otherwise they are asked here. ``yes``: it
    runs unread, as an untrusted case. ``fix``: its fixed variant has to pass. Returns 0 where it is confirmed or only
    offered, 1 where it is not, 3 where that is not decided. Raises as a run does.
    """
    from reprokit.cli.display.screen import Screen
    from reprokit.run.approving import Declined
    from reprokit.run.request import Request
    from reprokit.run.run_session import Session
    from reprokit.search.releases import versions_of
    from reprokit.search.repeating import planner

    if parts := open_parts(load_text(str(path), render(made), draft=True).case):
        return _marked(made, path, not_run(parts)) if asked else 0
    if not (asked or ALLOWANCES[trust].asks or confirm("Build and run it here?")):
        return 0
    said: list[str] = []
    if fix:  # lists of whole environments; the package of a report's draft decides
        made, said = leave_out_missing(made, versions_of)
    for line in said:
        echo(line, err=True)
    request, builds = Request.configured(cases=(str(path),), datasets={}, sources={}, yes=yes), 0
    while True:
        options.write_file(path, schema_line(path) + render(made))
        session = Session(options.obeyed_store(None), display=Screen(sys.stdout), confirming=planner)
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
        run, cells, builds = session.record.id, session.record.cells, builds + 1
        if builds < MOST_BUILDS and (repaired := repair(made, cells, run, of_list=fix)):
            made, words = repaired
            echo(words, err=True)
        elif fix and not request.fix and any(cell.verdict in FAILS for cell in cells):
            # Its image is there, and its cell is taken over: the fixed variant is what is still to be seen.
            request = replace(request, fix=True, reuse=_AGAIN)
        else:
            break
    proof = judge_draft(made, cells)
    status = _marked(made, path, proof, run)
    name = shlex.quote(str(path))
    fails = f"next: reprokit isolate {name}, or write the fix and run reprokit run {name} --fix"
    differs = f"then: change the draft, and reprokit run {name}; reprokit show last 1 --log prints the log of cell 1"
    if not (fix and proof.reproduced):
        echo(fails if proof.reproduced else differs, err=True)
    return status if asked else 0


def _marked(made: Draft, path: Path, proof: Proof, run: str = "") -> int:
    """Write the draft with its marks, and print what they say."""
    options.write_file(path, schema_line(path) + render(mark(made, proof, run)))
    echo(proof.words, err=True)
    return proof.status
