"""``reprokit new``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.case.matrix import count
from reprokit.case.trust import Trust
from reprokit.cli import dialogue, options
from reprokit.cli.trying import try_draft
from reprokit.core.errors import CaseError, UsageError
from reprokit.core.terminal import echo, echo_data
from reprokit.core.text import pluralize
from reprokit.engine import site
from reprokit.environment.cases import load_text, schema_line
from reprokit.intake.draft import render, summary
from reprokit.intake.drafting import draft, request
from reprokit.intake.facts import ask_reader, read_file
from reprokit.intake.report_text import read_report

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.intake.draft import Draft
    from reprokit.intake.facts import Fact


_LISTED = 50
"""Most failures of a report that are listed."""


@click.command(
    "new",
    epilog="Examples: reprokit new; reprokit new --from report.md -o case.yaml; reprokit new --from - < mail.txt; "
    "reprokit new --from https://github.com/o/r/issues/1; reprokit new --from report.md --all -o cases/; "
    "reprokit new --from report.md --ask | llm > facts.json; "
    "reprokit new --from report.md --facts facts.json; "
    "reprokit new --from report.md --reader 'llm -m qwen3'",
)
@click.option(
    "--from", "source", metavar="FILE|-|URL", help="The bug report to draft from: a file, standard input, an issue."
)
@click.option("--title", metavar="TEXT", help="What goes wrong, in one line.")
@click.option("--command", "shell", metavar="TEXT", help="The command that fails.")
@options.axis_options("The axis {axis.name} of the matrix; - leaves it out.")
@click.option("--pip", multiple=True, metavar="REQUIREMENT", help="A Python package; may be given several times.")
@click.option(
    "--failure",
    metavar="FILE|N",
    help="The traceback, or the last lines of the output; with --from: which failure, by its number.",
)
@click.option(
    "--all", "each", is_flag=True, help="With --from: a draft of each failure that it shows, in the folder -o."
)
@click.option("--exit-code", metavar="N", help="The exit status, where no output identifies the failure.")
@click.option(
    "--facts",
    metavar="FILE|-",
    help="With --from: facts of the report that a person or a language model states, as --ask asks for them.",
)
@click.option("--ask", is_flag=True, help="With --from: print what to ask a language model about the report.")
@click.option(
    "--reader",
    metavar="COMMAND",
    help="With --from: a program that is asked for the facts: the question on its standard input, JSON on its standard "
    "output. '' for none, where the configuration names one.",
)
@click.option(
    "--try", "tries", is_flag=True, help="With --from: build and run the draft, and mark in it what that confirmed."
)
@click.option("--yes", is_flag=True, help="With --try: run it unread, as an untrusted case.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the case to this file.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--no-input", is_flag=True, help="Ask nothing, as where there is no terminal.")
def command(
    source: str | None,
    output: Path | None,
    force: bool,
    no_input: bool,
    each: bool,
    facts: str | None,
    ask: bool,
    reader: str | None,
    tries: bool,
    yes: bool,
    **answers: Any,
) -> int:
    """Draft a case from a bug report, in English or Chinese, or from answers at the terminal.

    With --from, comments of the draft say which lines each part comes from, and what the report does not say. Without
    it, you are asked for every option that is not given, with defaults from this machine. At a terminal, what was read
    is shown, you are asked for what is missing, the case is written to a file in this folder, and it is run if you
    want: where it does not reproduce, you see what differs from the report. Elsewhere, a draft of --from goes to
    standard output. -o names another file. Where a text shows several failures, they are listed: --failure N drafts one
    of them, --all each. Tokens, home directories and host names are left out either way.

    Some reports only a reader understands. --reader asks a program for the facts; --ask prints what it is asked, and
    the answer of a language model is --facts of the same report. Each fact is held against the report: what it does not
    have is left out, and said so. Nothing of an answer is executed, and reprokit itself sends nothing anywhere.
    """
    if (tries and (source is None or each or ask)) or (yes and not tries):
        raise UsageError("--try, with or without --yes, runs the draft of one report: give --from, not --ask or --all")
    if reader and (source is None or each or ask or facts):
        raise UsageError("--reader asks for the facts of one report: give --from, and neither --facts, --ask nor --all")
    if (facts or ask) and (source is None or each or (facts and ask) or facts == source == "-"):
        raise UsageError(
            "--ask and --facts FILE are of one report: reprokit new --from report.md --ask > question.txt, then "
            "reprokit new --from report.md --facts answer.json"
        )
    if ask and source is not None:
        echo_data(request(read_report(source).text), nl=False)
        return 0
    number = _number(answers) if source is not None else 0
    given = [name for name, value in answers.items() if value not in (None, ())]
    if each:
        return _each(source, output, force=force)
    if output is not None and output.is_dir():
        raise UsageError(f"{output} is a folder: name a file with -o, or draft every failure into it with --all")
    if output is not None and output.exists() and not force:
        raise UsageError(f"{output} exists already: overwrite it with --force, or name another file with -o")
    options.check_writable("-o", output)
    asks = not no_input and source != "-" and dialogue.at_terminal()
    if source is None:
        made = dialogue.dialogue(answers, ask=not no_input)
        output = output or dialogue.beside(made)
        status = finish(made, "your answers", output)
        return try_draft(made, output, trust=Trust.OWN, asked=False) if asks else status
    if given:
        names = ", ".join(f"--{'command' if name == 'shell' else name.replace('_', '-')}" for name in given)
        raise UsageError(f"{names}: not allowed with --from; edit the draft instead")
    report = read_report(source)
    found = read_file(facts) if facts else _asked(reader, report.text)
    made = draft(report.text, url=report.url, source=report.path, failure=number, facts=found, created=report.created)
    if not (asks or tries):
        return finish(made, report.path, output)
    made = dialogue.complete(made, report.path, report.text) if asks else made
    output = output or dialogue.beside(made)
    finish(made, report.path, output)
    return try_draft(made, output, trust=Trust.STRANGER, asked=tries, yes=yes)


def _asked(reader: str | None, text: str) -> list[Fact | str]:
    """The facts that the reader of the option or of the configuration states of a report; [] without one."""
    command = site.settings().reader if reader is None else reader
    if not command.strip():
        return []
    echo(f"asking {command} for the facts of the report", err=True)
    return ask_reader(command, request(text))


def _number(answers: dict[str, Any]) -> int:
    """The number of the failure that is asked for, taken out of the options; 0 for none. Raises UsageError."""
    text = answers.pop("failure")
    if text is not None and not (text.isascii() and text.isdigit() and int(text)):
        raise UsageError(f"--failure {text}: with --from, it is the number of a failure of the report, from 1 on")
    return int(text or 0)


def _each(source: str | None, folder: Path | None, *, force: bool) -> int:
    """Write a draft of every trouble of a report into a folder; returns 0. Raises UsageError for wrong options."""
    if source is None or folder is None or (folder.exists() and not folder.is_dir()):
        raise UsageError("--all writes a draft of each failure of a report: name it with --from, and a folder with -o")
    report = read_report(source)
    drafted = partial(draft, report.text, url=report.url, source=report.path, created=report.created)
    count = max(len(drafted().troubles), 1)
    drafts = [drafted(failure=one) for one in range(1, count + 1)]
    targets: dict[Path, Draft] = {}
    for number, made in enumerate(drafts, 1):
        name, suffix = made.data["id"], number
        while folder / f"{name}.yaml" in targets:
            name, suffix = f"{made.data['id']}-{suffix}", suffix + 1
        targets[folder / f"{name}.yaml"] = replace(made, data={**made.data, "id": name}, troubles=())
    if not force and (old := next((target for target in targets if target.exists()), None)):
        raise UsageError(f"{old} exists already: overwrite it with --force, or name another folder with -o")
    folder.mkdir(parents=True, exist_ok=True)
    for target, made in targets.items():
        finish(made, report.path, target)
    return 0


def finish(made: Draft, origin: str, output: Path | None) -> int:
    """Write a draft to ``output``, or print it where that is None, and summarise it on standard error; returns 0.

    ``origin``: where the draft comes from, for messages. Raises UsageError where the draft is not a valid case.
    """
    text = (schema_line(output) if output else "") + render(made)
    try:
        case = load_text(str(output or "case.yaml"), text, draft=True)
    except CaseError as error:
        raise UsageError(
            f"{origin}: the draft would not be a valid case, so nothing was written:\n{error}\n"
            "This is a defect of reprokit; to work around it, remove the part of the report that causes it"
        ) from None
    options.write_file(output or Path("-"), text)
    for line in _summary(made, case, origin, output):
        echo(line, err=True)
    return 0


def _summary(made: Draft, case: CaseFile, origin: str, output: Path | None) -> Iterator[str]:
    """What a draft holds and lacks, in a few lines."""
    matrix = case.case.matrix
    cells = pluralize(count(matrix.axes, matrix.exclude, matrix.include), "cell")
    yield f"{output or 'draft'}: {case.case.id}, from {origin}: {cells}"
    failure = case.case.expect.failure
    parts = {
        "failure": " ".join(
            str(text) for text in (failure.exception or failure.signal, failure.message or failure.output) if text
        ),
        "sources": ", ".join(case.case.sources),
        "datasets": ", ".join(case.case.datasets),
        "files": ", ".join(case.case.files),
        "env": ", ".join(case.case.env),
    }
    for name, text in parts.items():
        if text:
            yield f"  {name:<9} {text}"
    if made.missing:
        yield f"not known ({pluralize(len(made.missing), 'item')}, also at the top of the draft):"
        yield from (f"  - {sentence}" for sentence in made.missing)
    if made.troubles:
        yield f"{origin} shows {pluralize(len(made.troubles), 'failure')}; --failure N drafts another, --all each:"
        yield from (f"  {one}" for one in made.troubles[:_LISTED])
        if len(made.troubles) > _LISTED:
            yield f"  and {len(made.troubles) - _LISTED} more"
    if made.omitted:
        yield f"left out as secret or personal: {'; '.join(summary(made.omitted))}"
    if output is not None:
        yield f"next: review {output}, then reprokit validate {output} and reprokit run {output}"
