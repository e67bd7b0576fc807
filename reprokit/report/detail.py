"""One cell of a run in full: the verdict with its reason, the log with the signature marked, what the image was."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from reprokit.case.matrix import as_group
from reprokit.case.render import SHELL, render
from reprokit.core.errors import ReprokitError, UsageError
from reprokit.core.terminal import style
from reprokit.core.text import one_line, pluralize, seconds, size
from reprokit.environment.cases import recorded_case
from reprokit.environment.measured import Measured
from reprokit.evidence.build_failure import explain
from reprokit.evidence.details import CellDetails
from reprokit.evidence.differences import INFINITE, NAN, ComparisonRecord
from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord
from reprokit.evidence.text import LineNumbers, clean
from reprokit.evidence.usage import Usage
from reprokit.report.labels import cell_name, ranges, verdict_words
from reprokit.store.places import read_log, why_removed

BARS = 24
"""Bars of a histogram; of more decades, neighbours share one."""
WIDTH = 40
_ABSENT = ("none", "None", "[]", "0", "False")
"""What the report of an environment says of what it lacks."""
NAMED = {NAN: "NaN", INFINITE: "infinite"}


def comparison_lines(record: ComparisonRecord | None, title: str) -> Iterator[str]:
    """What each tensor is against its reference, and how many numbers are how far apart; nothing for no comparison."""
    if record is None:
        return
    yield title
    yield f"against {record.reference}" if record.reference else "this cell is the reference"
    for one in record.tensors:
        shape = f" {one.dtype} {list(one.shape)}" if one.dtype else ""
        yield f"{one_line(one.name)}{shape}: {one}"
        bars = histogram(one.decades)
        most = max((count for _, count in bars), default=0)
        for name, count in bars:
            yield f"    {name:>16} {'#' * max(1, round(WIDTH * count / most))} {count}"
    if record.of > len(record.tensors):
        yield f"... {pluralize(record.of - len(record.tensors), 'tensor')} more"


def histogram(decades: Mapping[str, int]) -> list[tuple[str, int]]:
    """How many numbers are how far apart, the least first: by decades such as ``1e-7 to 1e-6``."""
    powers = sorted(int(power) for power in decades if power not in NAMED)
    span = range(powers[0], powers[-1] + 1) if powers else range(0)
    each = -(-len(span) // BARS) or 1
    bars = []
    for low in range(span.start, span.stop, each) if span else ():
        count = sum(decades.get(str(power), 0) for power in range(low, low + each))
        bars.append((f"1e{low} to 1e{low + each}", count))
    return bars + [(words, decades[name]) for name, words in NAMED.items() if name in decades]


CONTEXT = 12
"""Lines shown around what the signature matched."""

LONG = 1000
"""Characters of a line that are shown."""


def part(cell: CellRecord, name: str, folder: Path, trial: int) -> str:
    """One part of a cell as plain text: ``log``, ``dockerfile``, ``environment`` or ``repeat``."""
    if name == "log":
        return recorded_log(_trial(cell, trial), folder).decode("utf-8", "replace")
    if name == "environment":
        return _environment(cell.environment)
    text = cell.dockerfile if name == "dockerfile" else cell.repeat
    if not text:
        raise UsageError(f"cell {cell.number} has no {name}: {cell.verdict}: {cell.reason}")
    return text.rstrip("\n") + "\n"


def cell(
    run: RunRecord, record: CellRecord, folder: Path, trial: int, *, case_text: str = "", colour: bool = False
) -> Iterator[str]:
    """What a person needs of a cell: its result, log and environment, and what to type. ``case_text``: as it ran."""

    def head(text: str) -> str:
        return style(f"── {text} ", bold=True) + "─" * max(0, 60 - len(text)) if colour else f"== {text} =="

    yield f"{record.case_id}: {record.details.tried or cell_name(record)}"
    if record.verdict:
        yield f"{verdict_words(record)}: {record.marked_reason}"
    else:
        yield "undecided: the run was stopped, or has not come to this cell yet"
    engine = f", {run.host.engine}" if run.host.engine else ""
    yield f"run {run.id}, {run.started_at}{engine}, case {record.case_path} ({record.case_digest[:19]})"
    command = _command(record, case_text).splitlines()
    if len(command) == 1:
        yield f"command: {printable(command[0])}"
    elif command:
        yield from ("command:", *(f"  {printable(line)}" for line in command))
    yield from _circumstances(record.details)
    if failed := record.details.build:
        found = explain(failed.step, failed.tail)
        yield head(f"Failed step of the build: {found.where or found.step}")
        yield from (printable(line) for line in failed.tail)
    for number, one in enumerate(record.trials, 1):
        ended = f"exit status {one.exit_code}" + (", out of memory" if one.oom else "")
        yield f"trial {number}: {one.outcome}, {ended}, {seconds(one.seconds)}{usage_words(one.usage)}: {one.reason}"
    yield from comparison_lines(record.details.comparison, head("Comparison of outputs"))
    if record.trials:
        shown = _trial(record, trial)
        yield head(f"Log of trial {shown.number}")
        try:
            yield from mark(recorded_log(shown, folder), shown, colour)
        except UsageError as error:
            yield f"({error})"
    if record.environment:
        yield head("Environment, as measured in the image")
        lines = record.environment.report().splitlines()
        yield from (line for line in lines if line.rpartition(": ")[2] not in _ABSENT)
    yield from _image(record, head("Image"))
    yield head("Next steps")
    yield from _to_type(run, record, trial)


def _to_type(run: RunRecord, record: CellRecord, trial: int) -> Iterable[str]:
    fix = " --fix" if record.variant == "fix" else ""
    cell = shlex.quote(as_group(record.cell))
    yield f"run it again:     reprokit run {shlex.quote(record.case_path)} --only {cell}{fix}"
    if record.image or record.details.build:
        yield f"open a shell:     reprokit shell {run.id}:{record.number}"
    shown = f"reprokit show {run.id} {record.number}"
    if record.trials:
        yield f"the whole log:    {shown} --log --trial {trial}"
    if record.dockerfile:
        yield f"the Dockerfile:   {shown} --dockerfile"
    if record.repeat:
        yield f"without reprokit: {shown} --repeat"


def _command(record: CellRecord, case_text: str) -> str:
    """The command of the cell; '' where today's format does not accept the case any more."""
    file = recorded_case(case_text)
    case = None if file is None else file.fixed if record.variant == "fix" else file.case
    if case is None:
        return ""
    try:
        words = render(case, record.cell).command
    except ReprokitError:
        return ""
    return words[-1].strip() if words[:-1] == SHELL else shlex.join(words)


def _circumstances(details: CellDetails) -> Iterable[str]:
    """Trust and node, one line for each way in which trials failed, and what was said before it was judged again."""
    if details.trust != CellDetails().trust:
        yield f"trust: {details.trust.value}"
    if details.node:
        yield f"served by {', '.join(filter(None, (details.engine, str(details.node))))}"
    for failure in details.ways:
        trials = f", trials {ranges(failure.trials)}" if failure.trials else ""
        known = f", known as {failure.known}" if failure.known else ""
        yield f"failure {failure.id}{known}{trials}: {failure.title}"
    for again in details.rejudged:
        was = again.before
        yield f"judged again {again.at[:16].replace('T', ' ')}; before, by rules {was.rules}: {was.verdict}"


def usage_words(usage: Usage | None) -> str:
    """What a trial used, as the end of a list: ``, CPU 0.81 s, peak memory 35 MB``; '' where it was not measured."""
    cpu, memory = (usage.cpu_seconds, usage.peak_memory) if usage else (None, None)
    shown = f", CPU {seconds(cpu)}" if cpu is not None else ""
    shown += f", peak memory {size(memory)}" if memory is not None else ""
    return shown + "".join(f"; on {gpu}" for gpu in (usage.gpus if usage else ()))


def _image(record: CellRecord, title: str) -> Iterable[str]:
    if not record.image:
        return
    yield title
    built = f"built in {seconds(record.image.seconds)}" if record.image.built else "reused"
    yield f"{record.image.tag} ({record.image.id[:19]}), {built}"
    base = record.details.base
    if base:
        yield f"base: {base.reference} ({base.source}, {base.id[:19]})"
    for name, served in record.details.served_by.items():
        if name != "base":
            yield f"{name}: {served}"
    for note in record.details.notes:
        yield f"note: {note}"
    for name, source in record.details.sources.items():
        yield f"source {name}: commit {source.commit or '(none)'} ({source.digest[:19]})"


def _trial(record: CellRecord, number: int) -> TrialRecord:
    if number > len(record.trials):
        raise UsageError(
            f"cell {record.number} has {len(record.trials)} trial(s), no trial {number}: "
            f"{record.verdict}: {record.reason}"
        )
    return record.trials[number - 1]


def recorded_log(trial: TrialRecord, folder: Path) -> bytes:
    """The log of a trial as the store has it. Raises UsageError where it is gone."""
    path = folder / trial.log
    try:
        return read_log(folder, trial.log)
    except FileNotFoundError:
        raise UsageError(why_removed(folder, trial.log) or f"the log {path} is gone") from None


def mark(log: bytes, trial: TrialRecord, colour: bool) -> Sequence[str]:
    """The parts of a log around what the judge looked at, by the numbers of the whole output, matched lines with ``>``.

    Without a match: the traceback that was judged, else the last lines.
    """
    lines = log.split(b"\n")
    while lines and not _cleaned(lines[-1]):
        lines.pop()
    # Of a large log only few lines are looked at; all that its numbers take is where it was cut.
    whole = LineNumbers("\n".join(_cleaned(line) if b"[reprokit: " in line else "" for line in lines)).whole
    matched = {number for number in trial.lines if 1 <= number <= len(lines)}
    interesting = set(matched)
    if trial.exception:
        interesting |= set(trial.exception.lines)
    if not interesting:
        interesting = {len(lines)}
    near_ones = {n for i in interesting for n in range(i - CONTEXT, i + CONTEXT + 1) if 1 <= n <= len(lines)}
    shown: list[str] = []
    before = 0
    for number in sorted(near_ones):
        if number > before + 1:
            shown.append(f"      ... {whole(number) - whole(before) - 1} line(s) ...")
        text = f"{'>' if number in matched else ' '} {whole(number):>5} {printable(_cleaned(lines[number - 1]))}"
        shown.append(style(text, fg="red", bold=True) if colour and number in matched else text)
        before = number
    if before < len(lines):
        shown.append(f"      ... {whole(len(lines)) - whole(before)} line(s) ...")
    return shown or ["(no output)"]


def _cleaned(line: bytes) -> str:
    """One line as :func:`clean` leaves it in its log."""
    return clean(line.decode("utf-8", "replace") + "\n")[:-1]


def printable(line: str) -> str:
    """A log line that is safe on a terminal: what would move the cursor or ring the bell is shown as its number."""
    cut = f" ... {len(line) - LONG} more characters" if len(line) > LONG else ""
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line[:LONG].rstrip("\r")) + cut


def _environment(environment: Measured | None) -> str:
    if not environment:
        raise UsageError("the environment of this cell was not measured")
    return environment.report().rstrip("\n") + "\n"
