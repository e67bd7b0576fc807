"""A cell's page: its trials with their logs, environment, Dockerfile, and how to repeat it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reprokit.case.matrix import matches as covers
from reprokit.core.text import pluralize
from reprokit.environment import comparing
from reprokit.evidence.native import HEAD, NONE, Stacks, ThreadStack, split
from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord
from reprokit.evidence.text import LineNumbers, clean
from reprokit.report.detail import comparison_data, used
from reprokit.report.history.changes import recorded_facts
from reprokit.report.html.gathering import RecordedCase

PACKAGES = (
    "frameworks",
    "packages beneath the frameworks",
    "other pip packages",
    "libraries (apt)",
    "other packages (apt)",
    "libraries (rpm)",
    "other packages (rpm)",
)
"""The concerns whose facts are many, and the same in all cells of an image: they are shared."""
MOST = 200_000
"""Characters of a log that come with the page; of a longer one its ends, and what was judged."""
AROUND = 50
"""Of a longer one: lines around what was judged."""
NAME, ONLY = 0, 1
"""In a line of ``byHand``: what a page names by the cell's number, and the cell as an option takes it."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """A trial's log as it may be shown."""

    text: str  # scrubbed, with as many lines as the recorded one has; '' where there is none
    file: str = ""  # where the report keeps it below ``data/``, '' where it does not
    note: str = ""  # why it does not, or what is left out
    whole: bool = False  # the page has all of it, and it needs no file
    kept: Set[int] | None = None  # the numbers, from 1, of the lines that hold what they held; None: all do, uncut


def cell_data(
    known: RecordedCase, run: RunRecord, record: CellRecord, log: Callable[[TrialRecord], Log]
) -> dict[str, Any]:
    """A cell of ``data/cells/RUN/NAME/K.js``; the log of a trial is ``logNUMBER``, see :func:`excerpt`.

    ``facts`` and ``packages``: concern -> name -> value, as ``reprokit diff`` compares them. ``byHand``: lines that
    build the image and repeat a trial on any machine, each as pieces of text, :data:`NAME` and :data:`ONLY`: without
    these, cells of an image have the same.
    """
    text = known.file.text if known.file else ""
    facts = dict(recorded_facts(lambda digest: text if digest == known.digest else "", run, record).facts)
    packages = {name: facts.pop(name) for name in PACKAGES if facts.get(name)}
    details = record.details
    trials, logs = [], {}
    for trial in record.trials:
        found = log(trial)
        trials.append(_trial(trial, found))
        most = MOST if found.file or found.whole else 0
        logs[f"log{trial.number}"] = excerpt(found.text, judged(trial), most, found.kept)
    return {
        "case": known.id,
        "run": run.id,
        "at": run.started_at,
        "engine": run.host.engine or "",
        "version": run.version,
        "number": record.number,
        "cell": dict(record.cell),
        "variant": record.variant,
        "verdict": record.verdict.value if record.verdict else "undecided",
        "expected": record.expected and record.expected.value,
        "asExpected": record.as_expected,
        "reason": record.marked_reason,
        "rules": record.rules,
        "seconds": record.seconds,
        "tried": details.tried or None,
        "failures": [one.to_json() for one in details.ways],
        "rejudged": [
            {"at": one.at, "rules": one.before.rules, "verdict": one.before.verdict and one.before.verdict.value}
            for one in details.rejudged
        ],
        "comparison": details.comparison and comparison_data(details.comparison),
        "build": details.build and details.build.to_json(),
        "notes": list(details.notes),
        "image": _image(record),
        "asked": _asked(record),
        "facts": {concern: values for concern, values in facts.items() if values},
        "packages": packages,
        "measured": record.environment is not None,
        "dockerfile": record.dockerfile,
        "repeat": record.repeat,
        "byHand": _by_hand(known, record),
        "trials": trials,
        **logs,
    }


def _image(record: CellRecord) -> dict[str, Any] | None:
    if not record.image:
        return None
    base = record.details.base
    return {
        **record.image.to_json(),
        "base": f"{base.reference} ({base.source})" if base and base.reference and base.source else "",
        "servedBy": {name: text for name, text in record.details.served_by.items() if name != "base"},
        "sources": {name: tree.commit for name, tree in record.details.sources.items()},
    }


def _asked(record: CellRecord) -> list[dict[str, Any]]:
    """What the cell asks for beside what was measured; ``differs`` says how, '' where it does not or none can tell."""
    return [
        {"name": one.axis, "asked": one.asked, "measured": one.measured, "differs": one.differs}
        for one in comparing.compared(record.cell, record.environment)
    ]


def _by_hand(known: RecordedCase, record: CellRecord) -> list[list[str | int]]:
    """See :func:`cell_data`. [] where that is not all that it takes, as with data of the machine that ran it.

    The image that ``reprokit render`` writes holds the files of the case, which a trial has mounted.
    """
    tag = record.image.tag if record.image else ""
    if not tag or not record.repeat or record.dockerfile.startswith("#!") or not _in_matrix(known, record):
        return []
    run = _run_line(record.repeat, tag, f"-{record.case_id}-{record.variant}/files/")
    fix = record.variant == "fix"
    only: list[str | int] = [" --only ", ONLY] if record.cell else []
    render = [f"reprokit render {shlex.quote(record.case_path)}", *only, f"{' --fix' if fix else ''} -o ", NAME]
    # The case's folder comes first where the fix has another image; where both have the same, there is but one.
    folder: list[str | int] = [' "$(ls -d ', NAME, '/*/ | tail -n 1)"'] if fix else [" ", NAME, "/*/"]
    # Until Docker 23, BuildKit has to be asked for.
    build = ["DOCKER_BUILDKIT=1 docker build -t ", NAME, *folder]
    return [render, build, list(run)] if run else []


@lru_cache(maxsize=1024)  # most cells of an image have the same
def _run_line(repeat: str, tag: str, files: str) -> tuple[str | int, ...]:
    """The line that repeats a trial, with NAME in place of the image; () where it mounts more than ``files``."""
    words = shlex.split(repeat)
    mounts = [word for word in words if word.startswith("--mount=")]
    kept = [word for word in words if word not in mounts]
    if any(files not in word for word in mounts) or tag not in kept:
        return ()
    at = kept.index(tag)
    return (f"{shlex.join(kept[:at])} ", NAME, f" {shlex.join(kept[at + 1 :])}")


def _in_matrix(known: RecordedCase, record: CellRecord) -> bool:
    """Whether ``--only`` leads to the cell."""
    cell = dict(record.cell)
    if known.file is None or record.case_digest != known.digest or any("," in value for value in cell.values()):
        return False
    matrix = known.file.case.matrix
    if cell in [dict(one) for one in matrix.include]:
        return True
    crossed = cell.keys() == matrix.axes.keys() and all(cell[axis] in values for axis, values in matrix.axes.items())
    return crossed and not any(covers(cell, one) for one in matrix.exclude)


def _trial(trial: TrialRecord, log: Log) -> dict[str, Any]:
    return {
        "number": trial.number,
        "outcome": trial.outcome.value,
        "exitCode": trial.exit_code,
        "seconds": trial.seconds,
        "oom": trial.oom,
        "timedOut": trial.timed_out,
        "used": used(trial.usage).removeprefix(", "),
        "reason": trial.reason,
        "exception": trial.exception and trial.exception.to_json(),
        "stacks": stacks_of(log.text),
        "lines": list(trial.lines),
        "file": log.file,
        "note": log.note,
    }


def judged(trial: TrialRecord) -> set[int]:
    """The lines, from 1, that the judge looked at."""
    return {*trial.lines, *(trial.exception.lines if trial.exception else ())}


def excerpt(text: str, judged: Set[int], most: int = MOST, kept: Set[int] | None = None) -> dict[str, Any]:
    """A log as ``{lines, parts, cuts}``: how many lines its file has; of each part its first line and text.

    A log of up to ``most`` characters is one part; of a longer one come a quarter of ``most`` from its beginning, as
    much from its end, and what is around the lines that were ``judged``, as far as it is ``kept``: see :class:`Log`.
    """
    cleaned = clean(text)
    if not cleaned:
        return {"lines": 0, "parts": [], "cuts": []}
    lines = cleaned.removesuffix("\n").split("\n")
    cuts = LineNumbers(text).cuts
    if len(cleaned) <= most and kept is None:
        return {"lines": len(lines), "parts": [[1, "\n".join(lines)]], "cuts": cuts}
    end = max(most // 4, 5000)
    wanted = to_show(lines, judged, end, end)
    parts: list[tuple[int, list[str]]] = []
    for at in sorted(wanted if kept is None else {at for at in wanted if at + 1 in kept}):
        if not parts or parts[-1][0] + len(parts[-1][1]) != at + 1:
            parts.append((at + 1, []))
        line = lines[at]
        cut = f"{line[:end]} ... {len(line) - end} more characters"
        parts[-1][1].append(cut if len(line) > end and kept is None else line)
    return {"lines": len(lines), "parts": [[at, "\n".join(some)] for at, some in parts], "cuts": cuts}


def to_show(lines: Sequence[str], judged: Set[int], head: int, tail: int) -> set[int]:
    """The indices of the lines at the beginning and the end, of so many characters, and around those ``judged``."""
    first, last = within(lines, head), within(lines[::-1], tail)
    wanted = {*range(first), *range(len(lines) - last, len(lines))}
    around = {number - 1 + by for number in judged for by in range(-AROUND, AROUND + 1)}
    return wanted | {at for at in around if 0 <= at < len(lines)}


def within(lines: Sequence[str], most: int) -> int:
    """How many of the first lines have ``most`` characters together; at least one."""
    size = 0
    for at, line in enumerate(lines):
        size += len(line) + 1
        if size > most:
            return max(at, 1)
    return len(lines)


MOST_THREADS = 32
"""Threads whose stacks come with the page; the log has all of them."""


def stacks_of(log: str) -> dict[str, Any] | None:
    """The stacks in a log, innermost frame first; None where none were asked for. ``missing``: why not all are there.

    At the time limit those of the last look, each with how often it was seen there.
    """
    if HEAD not in log and NONE not in log:
        return None
    _, stacks = split(clean(log))
    threads = [one for one in (stacks.samples[-1] if stacks.samples else stacks.threads) if one.frames]
    if not threads and not stacks.missing:
        return None
    where = "at the time limit" if stacks.samples else "of the crash"
    return {
        "title": f"Stacks {where}: {pluralize(len(threads), 'thread')}" if threads else "No stacks",
        "threads": [{"name": _name(one, stacks), "frames": _frames(one)} for one in threads[:MOST_THREADS]],
        "more": max(len(threads) - MOST_THREADS, 0),
        "missing": stacks.missing,
    }


def _name(stack: ThreadStack, stacks: Stacks) -> str:
    name = f"{stack.name} of {stack.program}" if stack.name not in ("", stack.program) else stack.program
    words = f"{name}, process {stack.process}, thread {stack.thread}"
    if stack.signal:
        return f"{words}: {stack.signal}"
    if not stack.sample:
        return words
    same = sum(
        any(one.thread == stack.thread and one.frames == stack.frames for one in look) for look in stacks.samples
    )
    return f"{words}: the same in {same} of {pluralize(len(stacks.samples), 'look')}"


def _frames(stack: ThreadStack) -> list[list[str]]:
    return [[one.function, f"{one.file}:{one.line}" if one.line else one.file] for one in stack.frames]
