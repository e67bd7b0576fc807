"""One trial's outcome, from how the container ended and what its log shows. Pure: a kept log can be judged again."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from reprokit.core.text import one_line
from reprokit.evidence.fingerprint import fingerprint, last_words, of_hang
from reprokit.evidence.match import OUTPUT_KEYS, TRACEBACK_KEYS, check, chosen_exception, given_keys, hang_frames
from reprokit.evidence.model import (
    Check,
    Crash,
    Ending,
    ExceptionSeen,
    Fingerprint,
    Frame,
    Judgement,
    Observation,
    Outcome,
)
from reprokit.evidence.native import Stacks, describe_crash_at, describe_hang, hang_at, split
from reprokit.evidence.observation import cause_of, observe, primary_crash, remove_cuts
from reprokit.evidence.text import LineNumbers, clean

if TYPE_CHECKING:
    from reprokit.case.model import Failure, Known


def judge(failure: Failure, ending: Ending, text: str, known: Sequence[Known] = ()) -> Judgement:
    """Return the outcome of a trial that ended so and left ``text`` in its log file, with the reason in words.

    Every key given must match. A container that we stopped, or that was killed for memory, has an exit status that is
    not the program's own: then the signature must ask for that very end, or be met by the program's output. A failure
    that does not match is still recognised if it is one of the ``known``, the first that fits. A command that was never
    started is not the failure: see data/not_started.yaml.
    """
    text, stacks = split(clean(text))
    observation, shown = observe(text), remove_cuts(text)
    numbers = LineNumbers(text)
    checks = check(failure, ending, observation, shown, numbers, stacks)
    exception = chosen_exception(failure, observation)
    crash = primary_crash(observation)
    unstarted = why_not_started(failure, ending, shown)
    unchecked = "" if ending.timed_out or ending.oom or failure.output else why_not_checked(shown)
    matched = _all(checks) and _is_evidence(failure, ending) and not unstarted and not unchecked
    outcome = Outcome.REPRODUCED if matched else _otherwise(ending)
    reason = _reason(outcome, ending, checks, exception, crash, stacks)
    if matched and any_failure(failure) and failure.exit_code is None:
        reason = f"{reason} (any failure: no signature is given)"
    if unstarted:
        reason = f"{describe_exit(ending.exit_code)}: {unstarted}"
    elif unchecked:
        outcome, reason = Outcome.INCONCLUSIVE, f"{describe_exit(ending.exit_code)}: {unchecked}"
    elif outcome is Outcome.DIFFERENT_FAILURE and (unnamed := _unnamed(checks, stacks)):
        outcome, reason = Outcome.INCONCLUSIVE, f"{reason}, and not all of its frames have names: {unnamed}"
    recognised = ""
    if outcome is Outcome.DIFFERENT_FAILURE:
        seen = (ending, observation, shown, numbers, stacks)
        recognised = next((k.id for k in known if _is_known(k.failure, *seen)), "")
    return Judgement(
        outcome=outcome,
        reason=f"known as {recognised}: {reason}" if recognised else reason,
        checks=checks,
        exception=exception,
        crash=crash,
        fingerprint=_fingerprint(failure, outcome, ending, shown, checks, exception, crash, observation, stacks),
        known=recognised,
        stack=_stack(failure, ending, stacks),
    )


def _unnamed(checks: Sequence[Check], stacks: Stacks) -> str:
    """Why it is open whether a crash came through the frames of the signature, where only that differs; '' mostly.

    Whether a server of debug files answers says nothing about the program.
    """
    only = [each.key for each in checks if not each.matched] == ["frames"]
    return stacks.crash.unnamed if only and stacks.crash is not None else ""


def _is_known(
    failure: Failure, ending: Ending, observation: Observation, shown: str, numbers: LineNumbers, stacks: Stacks
) -> bool:
    return _all(check(failure, ending, observation, shown, numbers, stacks)) and not why_not_started(
        failure, ending, shown
    )


def _all(checks: Sequence[Check]) -> bool:
    return all(each.matched for each in checks)


def _fingerprint(
    failure: Failure,
    outcome: Outcome,
    ending: Ending,
    text: str,
    checks: tuple[Check, ...],
    exception: ExceptionSeen | None,
    crash: Crash | None,
    observation: Observation,
    stacks: Stacks,
) -> Fingerprint | None:
    """How the trial failed, if that is known: a container that was stopped or killed did not fail by itself."""
    about_it = outcome is Outcome.REPRODUCED and any(c.key in TRACEBACK_KEYS for c in checks)
    if outcome not in (Outcome.REPRODUCED, Outcome.DIFFERENT_FAILURE):
        return None
    if ending.timed_out and hang_frames(failure) and (hung := hang_at(stacks, hang_frames(failure))[0]):
        return of_hang(hung)
    if (ending.timed_out or ending.oom) and not about_it:
        return None
    if ending.exit_code == 0 and not about_it:
        exception = None  # what a program logs on its way to a good end is not how it failed
    matched = [line for check in checks if check.key == "output" for line in check.lines]
    said = text.split("\n")[matched[0] - 1] if matched and outcome is Outcome.REPRODUCED else ""
    cause = cause_of(exception, observation)
    return fingerprint(
        ending,
        text,
        exception=exception,
        crash=crash,
        cause=cause,
        about_it=about_it,
        said=said,
        stack=stacks.crash,
    )


def _stack(failure: Failure, ending: Ending, stacks: Stacks) -> tuple[Frame, ...]:
    """The stack that tells how a trial ended, innermost first; () where there is none."""
    thread = hang_at(stacks, hang_frames(failure))[0] if ending.timed_out else stacks.crash
    return thread.frames if thread is not None else ()


def _is_evidence(failure: Failure, ending: Ending) -> bool:
    if not (ending.timed_out or ending.oom):
        return True
    keys = set(given_keys(failure))
    asked = (ending.timed_out and failure.timed_out) or (ending.oom and failure.out_of_memory)
    return bool(asked or keys & OUTPUT_KEYS)


def _otherwise(ending: Ending) -> Outcome:
    if ending.timed_out:
        return Outcome.TIMED_OUT
    if ending.oom and ending.exit_code != 0:
        return Outcome.OUT_OF_MEMORY
    return Outcome.PASSED if ending.exit_code == 0 else Outcome.DIFFERENT_FAILURE


def describe_exit(code: int | None) -> str:
    """An exit status in words: ``exit status 139 (128 + SIGSEGV)``, which a program may also choose by itself."""
    if code is None:
        return "no exit status known"
    number = code - 128
    name = signal.Signals(number).name if number in {s.value for s in signal.Signals} else ""
    return f"exit status {code} (128 + {name})" if name else f"exit status {code}"


def describe_exception(exception: ExceptionSeen) -> str:
    """An exception in one line: type, start of the message, and where it was raised."""
    message = one_line(exception.message, 160)
    where = ""
    if exception.frames:
        frame = exception.frames[-1]
        where = f" at {frame.file.rpartition('/')[2]}:{frame.line}"
    return f"{exception.type}: {message}{where}" if message else f"{exception.type}{where}"


def describe_crash(crash: Crash) -> str:
    """A crash in one line: its kind and the start of its text."""
    return f"{crash.kind}: {one_line(crash.text, 160)}"


def _reason(
    outcome: Outcome,
    ending: Ending,
    checks: tuple[Check, ...],
    exception: ExceptionSeen | None,
    crash: Crash | None,
    stacks: Stacks,
) -> str:
    shown = describe_exception(exception) if exception else describe_crash(crash) if crash else ""
    if stacks.crash is not None and not exception:
        at = describe_crash_at(stacks.crash)
        shown = f"{shown}, {at}" if shown else at
    if outcome is Outcome.TIMED_OUT:
        hung = hang_at(stacks)
        where = (
            f"; {describe_hang(hung[0], *hung[1:])}"
            if hung[0]
            else (f"; no stacks: {stacks.missing}" if stacks.missing else "")
        )
        shown = f", having shown {shown}" if shown else ""
        return f"stopped at its time limit after {ending.seconds:.1f} s{shown}{where}"
    if outcome is Outcome.OUT_OF_MEMORY:
        what = "killed for memory" if ending.exit_code in (None, 137) else "a process of it was killed for memory"
        return f"{what}, {describe_exit(ending.exit_code)}"
    how = describe_exit(ending.exit_code)
    missed = [each for each in checks if not each.matched]
    if outcome is Outcome.REPRODUCED:
        if any(each.key in TRACEBACK_KEYS for each in checks):
            return f"{how} with {shown}"
        words = [each.why for each in checks if each.key in ("output", "out_of_memory", "timed_out")]
        return "; ".join([how, *words]) if words else (f"{how} with {shown}" if shown else how)
    if outcome is Outcome.PASSED:
        handled = [each.key for each in missed] == ["exit_code"] and any(each.key in TRACEBACK_KEYS for each in checks)
        return f"{how} with {shown}: {missed[0].why}" if handled else how
    if missed and missed[0].key in ("exit_code", "signal") and ", not " in missed[0].why:
        differs = f"{how}, not {missed[0].why.partition(', not ')[2]}"
        return f"{differs}, with {shown}" if shown else differs
    return f"{how} with {shown}, {_but(missed)}" if shown else f"{how}, {_but(missed)}"


def _but(missed: list[Check]) -> str:
    """The first thing that differed, as the end of a sentence about what was seen."""
    if not missed:
        return "which is not evidence by itself"
    _, negated, wanted = missed[0].why.partition(", not ")
    return f"not {wanted}" if missed[0].key == "exception" and negated else f"but {missed[0].why}"


_NOTHING_CHECKED = re.compile(
    r"^=========(?: Error:| Warning:)? (Target application terminated before first instrumented API call"
    r"|Internal Sanitizer Error: .*|Unable to .*)$",
    re.M,
)


def why_not_checked(text: str) -> str:
    """Why NVIDIA's compute-sanitizer did not look at (all of) the kernels of a program, by its words; '' mostly.

    Its own exit status then says nothing about the program: without a GPU's driver it even kills what it starts.
    """
    said = _NOTHING_CHECKED.search(text) if "========= COMPUTE-SANITIZER" in text else None
    return f"compute-sanitizer did not check it: {one_line(said[1], 200)}" if said else ""


NOT_STARTED = Path(__file__).parent / "data" / "not_started.yaml"
_TAIL = 8 * 1024


@dataclass(frozen=True, kw_only=True)
class NotStarted:
    """An end that is hardly the failure of a case. The head of the file explains each field."""

    why: str
    pattern: re.Pattern[str] | None
    statuses: Sequence[int] = ()
    always: bool = False
    follow: int = 0
    examples: Sequence[str] = ()


@cache
def not_started() -> tuple[NotStarted, ...]:
    """The rows of data/not_started.yaml."""
    data = yaml.load(NOT_STARTED.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["rows"]
    return tuple(NotStarted(**{**row, "pattern": _compiled(row.get("pattern", ""))}) for row in data)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    return re.compile(f"(?:{''.join(pattern.splitlines())})$", re.MULTILINE) if pattern else None


def any_failure(failure: Failure) -> bool:
    """Whether a signature asks for nothing but some nonzero status."""
    return given_keys(failure) == ("exit_code",) and failure.exit_code in (None, "nonzero")


def why_not_started(failure: Failure, ending: Ending, text: str) -> str:
    """Say why the end of a trial is not the failure of a case, and what to write if it is; '' if it may be.

    ``text``: the cleaned log.
    """
    code = ending.exit_code
    if not code or ending.timed_out or ending.oom or failure.exit_code == code:
        return ""
    end = text[-_TAIL:]
    last = last_words(end)
    tail = end[: end.rfind(last) + len(last)].rstrip()
    for row in not_started():
        if (row.always or any_failure(failure)) and (not row.statuses or code in row.statuses):
            said = _said(row, tail, last)
            if said is not None:
                shown = f" ({one_line(said, 160)})" if said else ""
                return f"{row.why}{shown}; if that is the failure, write exit_code: {code}"
    return ""


def _said(row: NotStarted, tail: str, last: str) -> str | None:
    """What a log that ends with ``tail`` says of such an end; None where it does not end so."""
    if row.pattern is None:
        return last.strip()
    for found in row.pattern.finditer(tail):
        after = [line for line in tail[found.end() :].split("\n") if line.strip() and line[0] not in " \t"]
        if len(after) <= row.follow:
            return found.groupdict().get("said") or found[0]
    return None
