"""``reprokit new``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.case.matrix import count
from reprokit.case.trust import Trust
from reprokit.cli import OWN_VARIABLES, dialogue, options
from reprokit.cli.dialogue import try_draft
from reprokit.core import files
from reprokit.core.errors import CaseError, UsageError
from reprokit.core.near_match import near
from reprokit.core.terminal import echo, echo_data
from reprokit.core.text import pluralize, whole_number
from reprokit.engine import site
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.cases import load_text, schema_line
from reprokit.intake import captured_run
from reprokit.intake.captured_draft import CaptureDrafting
from reprokit.intake.draft import render, summary
from reprokit.intake.drafting import draft, request
from reprokit.intake.facts import ask_reader, read_file
from reprokit.intake.importing import kinds
from reprokit.intake.report_text import read_report

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.intake.bug import BugEntry
    from reprokit.intake.captured_run import CommandRun
    from reprokit.intake.draft import Draft
    from reprokit.intake.facts import Fact


_LISTED = 50
"""Most failures of a report that are listed."""


_KINDS = kinds()
_TAKES = "What PATH is. " + " ".join(f"{kind.name}: {kind.takes}." for kind in _KINDS.values())
DESCRIBING = ("title", "shell", *AXIS_NAMES, "failure", "exit_code")
READING = ("source", "each", "facts", "ask", "reader", "tries", "yes", "no_input")
SECTIONS = {
    "From a report (or from answers at the terminal)": (*READING, *DESCRIBING, "pip"),
    "From a command that fails": ("line", "timeout"),
    "From a data set of bugs": ("kind", "specs", "sample"),
    "Where to": ("output", "force"),
}
EXAMPLES = """\b
Examples:
  reprokit new                                             # asks
  reprokit new --from report.md -o case.yaml               # from a report: a file, - (standard input), an issue
  reprokit new --from https://github.com/o/r/issues/1
  reprokit new --from report.md --all -o cases/            # each failure that it shows
  reprokit new --from report.md --ask | llm > facts.json; reprokit new --from report.md --facts facts.json
  reprokit new --from report.md --reader 'llm -m qwen3'
  reprokit new -o crash.yaml -- python train.py --epochs 1 # runs what fails here
  reprokit new --run 'make && ./crash'
  reprokit new --data-set bugsinpy BugsInPy thefuck:1 tqdm -o bugs; reprokit run bugs --fix
  reprokit new --data-set swe-bench lite.jsonl pallets__flask-4992 --specs specs.json -o bugs
"""


class _Command(options.WithProgram, options.Sections):
    program = "[-- COMMAND...]"


@click.command("new", cls=_Command, sections=SECTIONS, epilog=EXAMPLES)
@click.argument("words", nargs=-1, metavar="[PATH [BUG]...]")
@click.option(
    "--from", "source", metavar="FILE|-|URL", help="The bug report to draft from: a file, standard input, an issue."
)
@click.option("--title", metavar="TEXT", help="What goes wrong, in one line.")
@click.option("--command", "shell", metavar="TEXT", help="The command that fails.")
@options.axis_options("The axis {axis.name} of the matrix; - leaves it out.")
@click.option(
    "--pip",
    multiple=True,
    metavar="REQUIREMENT",
    help="A Python package (several: all).",
)
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
    "--try",
    "tries",
    is_flag=True,
    help="With --from and --data-set: build and run the draft, put into it what builds prove to be missing (at most 6 "
    "builds), and mark in it what that confirmed.",
)
@click.option("--yes", is_flag=True, help="With --try: run it unread, as an untrusted case.")
@click.option("--no-input", is_flag=True, help="Ask nothing, as where there is no terminal.")
@click.option("--run", "line", metavar="COMMAND", help="Run this line in a shell; or -- COMMAND... without one.")
@click.option(
    "--timeout",
    metavar="TIME",
    callback=options.unit("duration"),
    help="Stop it after this time, such as 90s or 5m; never by default.",
)
@click.option("--data-set", "kind", metavar="KIND", help=_TAKES)
@click.option(
    "--specs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file: " + "; ".join(f"{kind.name}: {kind.specs}" for kind in _KINDS.values() if kind.specs) + ".",
)
@click.option(
    "--sample",
    metavar="N[:SEED]",
    help="Only N of these bugs, drawn by chance. The same SEED, any text, draws the same, also from a set that grows.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file to write [default: in this folder, named after the failure; of --from, standard output where no one "
    "is at a terminal]; with --all and --data-set, the folder.",
)
@click.option("--force", is_flag=True, help="Overwrite what exists.")
@click.pass_context
def command(context: click.Context, /, words: tuple[str, ...], **given: Any) -> int:
    """Draft a case from a bug report (in English or Chinese), answers at the terminal, a failing command or a data set.

    With --from, comments of the draft say which lines each part comes from, and what the report does not say. Without
    it, you are asked for every option that is not given, with defaults from this machine. At a terminal, what was read
    is shown, you are asked for what is missing, the case is written to a file in this folder, and it is run if you
    want: where it does not reproduce, you see what differs from the report. Elsewhere, a draft of --from goes to
    standard output. Where a text shows several failures, they are listed: --failure N drafts one of them, --all each.
    Tokens, home directories and host names are left out either way.

    Some reports only a reader understands. --reader asks a program for the facts; --ask prints what it is asked, and
    the answer of a language model is --facts of the same report. Each fact is held against the report: what it does not
    have is left out, and said so. Nothing of an answer is executed, and reprokit itself sends nothing anywhere.

    With -- COMMAND or --run, a command that fails on this machine is run, and the case is made from what it shows.
    Input, output and Ctrl-C are passed through, and the exit status is that of the command, also when it succeeds and
    no case is written. 127: there is no such command, 126: it cannot be executed, 2: wrong usage of `new` itself,
    before anything was run. Messages of reprokit go to standard error.

    With --data-set, cases of the bugs of a data set at PATH are written, of all without BUG: each fails at the buggy
    commit, and passes with the fix. Nothing is fetched or executed without --try. An entry that cannot become a valid
    case is reported, and the others are written.
    """
    program = options.program_of(context)
    if line := given.pop("line"):
        program = program or _program(line)
    timeout, kind = given.pop("timeout"), given.pop("kind")
    specs, sample = given.pop("specs"), given.pop("sample")
    if program:
        options.refuse("a command is run", *READING, *DESCRIBING, "pip", "words", "kind", "specs", "sample")
        return _capture(program, given["output"], given["force"], timeout)
    options.refuse("no command is given with --", "timeout")
    if kind is not None:
        options.refuse("--data-set has all of it", *(name for name in READING if name != "tries"), *DESCRIBING, "pip")
        out, tries = given["output"] or Path(), given["tries"]
        entries = _entries(kind, words, specs, sample)
        return _import(entries, Path(words[0]), out, force=given["force"], tries=tries)
    if words:
        raise UsageError(f"{shlex.join(words)}: to run what fails: reprokit new -- {shlex.join(words)}")
    options.refuse("without --data-set", "specs", "sample")
    return _draft(**given)


def _draft(
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
    if text is not None and not whole_number(text):
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
    """Write a draft of ``origin`` to ``output``, or print it, and summarise it on standard error. Raises UsageError."""
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


def _program(line: str) -> list[str]:
    """The words of a line, or a shell with a line that only a shell understands."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"--run {line}: {error}") from None
    return ["sh", "-c", line] if set(line) & set("|&;<>()$`*?[#~=%!{\n") else words


def _capture(words: Sequence[str], output: Path | None, force: bool, timeout: float | None) -> int:
    """Run what fails on this machine, and write a case; the exit status is that of the command."""
    if output and output.exists() and not force:
        raise UsageError(f"{output} exists already; nothing was run; name another file with -o, or add --force")
    try:
        environ = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
        ran = captured_run.run(words, environ=environ, timeout=timeout)
    except captured_run.CannotStart as error:
        echo(f"reprokit: {error}; no case is written", err=True)
        return error.status
    status = ran.ending.exit_code or 0
    if ran.interrupted:
        echo("reprokit: interrupted; no case is written", err=True)
        return status or 130
    if not status and not ran.ending.timed_out:
        echo(f"reprokit: {shlex.join(words)} succeeded; no case is written", err=True)
        return 0
    _write_captured(words, ran, output, environ)
    return status


def _write_captured(words: Sequence[str], ran: CommandRun, output: Path | None, environ: Mapping[str, str]) -> None:
    found = CaptureDrafting(captured_run.look(words, ran, Path.cwd(), environ)).draft()
    path = output or files.unused(str(found.data["id"]), ".yaml")
    text = schema_line(path) + render(found)
    try:
        files.write(path, text)
    except OSError as error:
        echo(f"{text}reprokit: {path} cannot be written: {error.strerror}; the case is above", err=True)
        return
    how = "timed out" if ran.ending.timed_out else f"ended with exit status {ran.ending.exit_code}"
    lines = [f"reprokit: the command {how}; the case is {path}"]
    if found.omitted:
        lines.append("  left out, since it looks secret or private:")
        lines += [f"    {line}" for line in summary(found.omitted)]
    if found.missing:
        lines += ["  missing:", *(f"    {sentence}" for sentence in found.missing)]
    try:
        load_text(str(path), text)
        lines.append(f"  next: reprokit run {shlex.quote(str(path))}")
    except CaseError as error:
        lines += ["  fix by hand first:", *(f"    {problem}" for problem in error.problems)]
    echo("\n".join(lines), err=True)


def _entries(kind: str, words: Sequence[str], specs: Path | None, sample: str | None) -> Iterable[BugEntry]:
    """The chosen entries of a data set, or a sample of them. Raises UsageError."""
    if kind not in _KINDS:
        raise UsageError(f"no kind of data set {kind!r}{near(kind, _KINDS, prefix='; ')}; known: {', '.join(_KINDS)}")
    if not words or not Path(words[0]).exists():
        raise UsageError(f"--data-set {kind}: name where it is: {_KINDS[kind].takes}")
    if specs and not _KINDS[kind].specs:
        raise UsageError(f"--specs: {kind} says itself how its bugs are installed")
    entries = _KINDS[kind].entries(Path(words[0]), words[1:], specs)
    if sample is not None:
        count, _, seed = sample.partition(":")
        if not whole_number(count):
            raise UsageError(f"--sample {sample}: how many bugs, from 1 on, and maybe a seed: --sample 6:spring")
        drawn = sorted(entries, key=lambda one: sha256(f"{seed}\0{one.key}".encode()).digest())
        return drawn[: int(count)]
    # A chosen one that the data set does not have is refused before anything is written.
    return list(entries) if words[1:] else entries


def _import(entries: Iterable[BugEntry], place: Path, out: Path, *, force: bool, tries: bool) -> int:
    """Write cases of the bugs in a data set, and try each that is written; the exit status is that of the worst."""
    from reprokit.intake.bug import write_cases

    written, refused = 0, 0
    tried: list[int] = []
    sources: dict[str, None] = {}
    for one in write_cases(entries, out, force=force):
        if one.file is None:
            refused += 1
            echo(f"{one.key}: not written: {one.why_not}", err=True)
        else:
            written += 1
            sources.update(dict.fromkeys(one.sources))
            echo(str(one.file))
            if tries and one.draft is not None:
                tried.append(try_draft(one.draft, one.file, trust=Trust.OWN, asked=True, fix=True))
                if tried[-1] == 130:
                    return 130
    if not written and not refused:
        raise UsageError(f"{place} has no bugs")
    echo(f"{pluralize(written, 'case')} written to {out}; {pluralize(refused, 'bug')} not written", err=True)
    if tried:
        echo(f"{pluralize(tried.count(0), 'case')} of {len(tried)} confirmed: fails, and passes with the fix", err=True)
    elif written:
        echo(_next_step(out, list(sources)), err=True)
    return 2 if refused or not written else next((one for one in (1, 3) if one in tried), 0)


def _next_step(out: Path, sources: Sequence[str]) -> str:
    """How the imported cases are run."""
    stand_ins = "".join(f" --source {name}=DIR" for name in sources[:4]) + " ..." * (len(sources) > 4)
    run = f"reprokit run {shlex.quote(str(out))} --fix"
    return f"next: {run}" + f"; without access to the git hosts, add{stand_ins}" * bool(sources)
