"""One trial's outcome, from how the container ended and what its log shows. Pure: a kept log can be judged again."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

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
from reprokit.evidence.observation import cause_of, observe, primary_crash, without_cuts
from reprokit.evidence.text import LineNumbers, clean

if TYPE_CHECKING:
    from reprokit.case.model import Failure, Known


def judge(failure: Failure, ending: Ending, text: str, known: Sequence[Known] = ()) -> Judgement:
    """Return the outcome of a trial that ended so and left ``text`` in its log file, with the reason in words.

    Every key given must match. A container that we stopped, or that was killed for memory, has an exit status that is
    not the program's own: then the signature must ask for that very end, or be met by the program's output. A failure
    that does not match is still recognised if it is one of the ``known``, the first that fits. A command that was never
    started is not the failure: see :func:`reprokit.evidence.judgement.why_not_started`.
    """
    text, stacks = split(clean(text))
    observation, shown = observe(text), without_cuts(text)
    numbers = LineNumbers(text)
    checks = check(failure, ending, observation, shown, numbers, stacks)
    exception = chosen_exception(failure, observation)
    crash = primary_crash(observation)
    unstarted = why_not_started(failure, ending, shown)
    unchecked = "" if ending.timed_out or ending.oom or failure.output else why_not_checked(shown)
    matched = _all(checks) and _is_evidence(failure, ending) and not unstarted and not unchecked
    outcome = Outcome.REPRODUCED if matched else _otherwise(ending)
    reason = _reason(outcome, ending, checks, exception, crash, stacks)
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
    """An exit status in words, with the signal's name where there is one: ``exit status 139 (SIGSEGV)``."""
    if code is None:
        return "no exit status known"
    number = code - 128
    name = signal.Signals(number).name if number in {s.value for s in signal.Signals} else ""
    return f"exit status {code} ({name})" if name else f"exit status {code}"


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
        return f"killed for memory, {describe_exit(ending.exit_code)}"
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
    if missed and missed[0].key in ("exit_code", "signal"):
        differs = f"{how}, not {missed[0].why.partition(', not ')[2]}"
        return f"{differs}, with {shown}" if shown else differs
    return f"{how} with {shown}, {_but(missed)}" if shown else f"{how}, {_but(missed)}"


def _but(missed: list[Check]) -> str:
    """The first thing that differed, as the end of a sentence about what was seen."""
    if not missed:
        return "which is not evidence by itself"
    _, negated, wanted = missed[0].why.partition(", not ")
    return f"not {wanted}" if missed[0].key == "exception" and negated else f"but {missed[0].why}"


_STATUS = {
    126: 'the command was found, but cannot be executed; a file of the case can have mode: "755"',
    127: "the command, or a library that it loads, was not found",
}
"""What a shell, and the first process of a container, says by its exit status."""

_NO_SCRIPT = re.compile(
    r"\S+: can't open file .*: \[Errno \d+\] .*"  # Python
    r"|\S*sh: (?:\d+: )?(?:cannot|[Cc]an't) open .*"  # dash, busybox
    r'|Can\'t open perl script ".*": .*'
    r"|\S*ruby: No such file or directory -- .*"
    r"|Could not open input file: .*"  # PHP
    r"|Fatal error: cannot open file '.*': .*"  # Rscript
    r"|\S*lua[\w.]*: cannot open .*"
    r"|Error: Unable to access jarfile .*"
    r"|ERROR: file or directory not found: .*"  # pytest
)
_NO_SCRIPT_OF_NODE = re.compile(
    r"^(Error: Cannot find module '[^'\n]+')$(?s:.{0,4000})requireStack: \[\]\s*\}\s*(?:Node\.js v\S+\s*)?\Z", re.M
)
_TAIL = 8 * 1024


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


def why_not_started(failure: Failure, ending: Ending, text: str) -> str:
    """Say why the end of a trial is not the failure of a case, and what to write if it is; '' if it may be.

    Such is an exit status of 126 or 127, and an interpreter that could not open its script, as the last line of
    ``text`` (the cleaned log) says, unless ``exit_code`` of the signature names the number.
    """
    code = ending.exit_code
    if not code or ending.timed_out or ending.oom or failure.exit_code == code:
        return ""
    said = last_words(text[-_TAIL:]).strip()
    why = _STATUS.get(code, "")
    if not why:
        node = _NO_SCRIPT_OF_NODE.search(text[-_TAIL:])
        if not (node or _NO_SCRIPT.fullmatch(said)):
            return ""
        why, said = "the interpreter could not open its script", node[1] if node else said
    shown = f" ({one_line(said, 160)})" if said else ""
    return f"{why}{shown}; if that is the failure, write exit_code: {code}"
