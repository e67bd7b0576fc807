"""The signature against one trial: one check per key that the case gives."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reprokit.core.patterns import PatternError
from reprokit.core.text import one_line, whole_number
from reprokit.evidence.frames import file_matches
from reprokit.evidence.model import Check, Ending, ExceptionSeen, Observation
from reprokit.evidence.native import NO_STACKS, Stacks, describe_hang, hang_at, stack_matches
from reprokit.evidence.observation import failing_exceptions, last_exception
from reprokit.evidence.text import LineNumbers, find

if TYPE_CHECKING:
    from reprokit.case.model import Failure

TRACEBACK_KEYS = frozenset({"exception", "message", "frames"})
"""Keys that are about the last traceback; they imply that the program did not handle the exception."""
OUTPUT_KEYS = TRACEBACK_KEYS | {"output"}
"""Keys whose evidence is what the program itself wrote, which counts whatever ended the container."""

LONG_LINE = 16 * 1024
"""Characters of a line, before what matches, that are shown at most."""

HANDLED = "an exception is the failure only of a program that does not end with 0; if this is it, write exit_code: 0"
"""Why a traceback is not the failure, and what to do about it."""


def given_keys(failure: Failure) -> tuple[str, ...]:
    """Names of the keys that the signature gives; ``exit_code`` when it gives none (the contract's default)."""
    given = tuple(
        key
        for key in ("exit_code", "signal", "exception", "message", "frames", "output", "out_of_memory", "timed_out")
        if getattr(failure, key) not in (None, ())
    )
    return given or ("exit_code",)


def check(
    failure: Failure,
    ending: Ending,
    observation: Observation,
    text: str,
    numbers: LineNumbers,
    stacks: Stacks = NO_STACKS,
) -> tuple[Check, ...]:
    """Hold every key of ``failure`` against a trial, in a fixed order. ``text`` is the cleaned log, without cuts.

    ``numbers``: those of its lines in the whole output, for words. ``stacks``: what was taken of its programs.
    """
    checks: list[Check] = []
    keys = given_keys(failure)
    if "exit_code" in keys:
        checks.append(_exit_code("nonzero" if failure.exit_code is None else failure.exit_code, ending))
    if failure.signal is not None:
        checks.append(_signal(failure.signal, ending))
    elif "exit_code" not in keys and TRACEBACK_KEYS & {*keys} and not (stacks.crash and "frames" in keys):
        why = _refuted(chosen_exception(failure, observation), ending, text)
        checks += [Check(key="exit_code", matched=False, why=why)] if why else []
    checks.extend(_crash_frames(failure, one, stacks) for one in _exception(failure, failing_exceptions(observation)))
    if failure.output is not None:
        checks.append(_output(failure.output, text, numbers))
    if failure.out_of_memory is not None:
        checks.append(_flag("out_of_memory", failure.out_of_memory, ending.oom, "memory ran out"))
    if isinstance(failure.timed_out, bool):
        checks.append(_flag("timed_out", failure.timed_out, ending.timed_out, "the time limit was reached"))
    elif failure.timed_out is not None:
        checks.append(_hang(hang_frames(failure), ending, stacks))
    return tuple(checks)


def hang_frames(failure: Failure) -> tuple[str, ...]:
    """The frames through which a trial hangs, by the signature; () where it names none."""
    return () if failure.timed_out is None or isinstance(failure.timed_out, bool) else failure.timed_out.frames


def _crash_frames(failure: Failure, seen: Check, stacks: Stacks) -> Check:
    """The check of ``frames`` against the stack of the crash, where no traceback came through them."""
    crash = stacks.crash
    if seen.key != "frames" or seen.matched or crash is None:
        return seen
    matched = stack_matches(failure.frames, crash.frames)
    wanted, through = ", ".join(failure.frames), "came" if matched else "did not come"
    why = f"the stack at {crash.signal} {through} through {wanted}" + ("" if matched else " in this order")
    return Check(key="frames", matched=matched, why=why)


def _hang(wanted: tuple[str, ...], ending: Ending, stacks: Stacks) -> Check:
    if not ending.timed_out:
        return Check(key="timed_out", matched=False, why="the time limit was reached: no")
    thread, times, looks = hang_at(stacks, wanted)
    if thread is not None and times == looks:
        return Check(key="timed_out", matched=True, why=describe_hang(thread, times, looks))
    why = f"{times} of {looks} stacks came through {', '.join(wanted)}"
    why = why if looks else f"no stacks were taken at the time limit{stacks.missing and ': ' + stacks.missing}"
    return Check(key="timed_out", matched=False, why=why)


_GIVEN_ON = {
    2: re.compile(r"^g?make(?:\[\d+\])?: \*\*\* .*Error 1$|^=* ?(?:.*, )?\d+ errors?\b.* in [\d.]+s", re.MULTILINE),
    3: re.compile(r"^INTERNALERROR> ", re.MULTILINE),
    4: re.compile(r"^ImportError while loading conftest ", re.MULTILINE),
    8: re.compile(r"^Errors while running CTest", re.MULTILINE),
    123: re.compile(""),
}
"""Statuses of what started the program (make, pytest, CTest, xargs), which say that it ended with 1."""


def _refuted(seen: ExceptionSeen | None, ending: Ending, text: str) -> str:
    """Why the end of a program shows that it handled the exception; '' where it may not have."""
    code = ending.exit_code
    if ending.timed_out:
        return ""  # it had no end of its own
    if code == 0:
        return HANDLED
    if seen is None or code is None or ending.oom or code in seen.statuses:
        return ""
    interrupted = code == 130 and seen.type == "KeyboardInterrupt"
    if interrupted or (code in _GIVEN_ON and _GIVEN_ON[code].search(text)):
        return ""
    return f"an uncaught exception ends a program with {seen.statuses[0]}; if this is it, write exit_code: {code}"


def chosen_exception(failure: Failure, observation: Observation) -> ExceptionSeen | None:
    """The exception that the signature was held against: of those that may be the failure, what matches best."""
    if not TRACEBACK_KEYS & {*given_keys(failure)}:
        return last_exception(observation)
    seen = failing_exceptions(observation)
    return _best(failure, seen)[0] if seen else None


def signal_number(name: str) -> int | None:
    """Number of a signal given as ``SIGSEGV``, ``SEGV`` or ``11``; None when there is no such signal."""
    if (number := whole_number(name)) is not None:
        return number
    known = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    return signal.Signals[known].value if known in signal.Signals.__members__ else None


def type_matches(wanted: str, seen: str) -> bool:
    """Whether an exception printed as ``seen`` is the ``wanted`` type: a bare name, or a dotted name's last parts."""
    return seen == wanted or seen.endswith((f".{wanted}", f"::{wanted}"))


def frames_match(wanted: tuple[str, ...], seen: ExceptionSeen) -> bool:
    """Whether each ``file:function`` occurs among the frames, in this order. A file matches by its last path parts."""
    frames = iter(seen.frames)
    return all(any(_frame_is(pattern, frame.file, frame.function) for frame in frames) for pattern in wanted)


def _frame_is(pattern: str, file: str, function: str) -> bool:
    wanted_file, colon, wanted_function = pattern.rpartition(":")
    if not colon:
        wanted_file, wanted_function = pattern, ""
    return file_matches(wanted_file, file) and wanted_function in ("", function, re.split(r"\.|::", function)[-1])


def _exit_code(wanted: int | str, ending: Ending) -> Check:
    code = ending.exit_code
    matched = code is not None and (code != 0 if wanted == "nonzero" else code == wanted)
    why = f"the exit status is {code}" if matched else f"the exit status is {code}, not {wanted}"
    return Check(key="exit_code", matched=matched, why=why)


def _signal(wanted: str, ending: Ending) -> Check:
    number = signal_number(wanted)
    matched = number is not None and ending.exit_code == 128 + number
    why = f"the exit status is {ending.exit_code}, {'that of' if matched else 'not'} {wanted}"
    return Check(key="signal", matched=matched, why=why)


def _flag(key: str, wanted: bool, seen: bool, words: str) -> Check:
    return Check(key=key, matched=wanted == seen, why=words if seen else f"{words}: no")


def _output(pattern: str, text: str, numbers: LineNumbers) -> Check:
    try:
        span = find(pattern, text)
    except PatternError as error:
        return Check(key="output", matched=False, why=f"{pattern} is not a regular expression: {error}")
    if span is None:
        return Check(key="output", matched=False, why=f"the output has nothing that matches {pattern}")
    line = text.count("\n", 0, span[0]) + 1
    start = max(text.rfind("\n", 0, span[0]) + 1, span[0] - LONG_LINE)
    shown = one_line(text[start : span[1] + 200])
    return Check(key="output", matched=True, why=f"line {numbers.whole(line)}: {shown}", lines=(line,))


def _candidates(last: ExceptionSeen) -> Iterator[ExceptionSeen]:
    """The exception and, for a group, every member, each with the frames that lead to it."""
    yield last
    for member in last.nested:
        for inner in _candidates(member):
            yield replace(inner, frames=last.frames + inner.frames, statuses=last.statuses)


def _best(failure: Failure, failing: Sequence[ExceptionSeen]) -> tuple[ExceptionSeen, tuple[Check, ...]]:
    judged = [(seen, _about(failure, seen)) for each in failing for seen in _candidates(each)]
    return max(judged, key=lambda pair: sum(check.matched for check in pair[1]))


def _exception(failure: Failure, failing: Sequence[ExceptionSeen]) -> tuple[Check, ...]:
    if failing:
        return _best(failure, failing)[1]
    keys = [key for key in given_keys(failure) if key in TRACEBACK_KEYS]
    return tuple(Check(key=key, matched=False, why="the output has no traceback") for key in keys)


def _about(failure: Failure, seen: ExceptionSeen) -> tuple[Check, ...]:
    lines = (seen.line, seen.end_line)
    checks: list[Check] = []
    if failure.exception is not None:
        matched = type_matches(failure.exception, seen.type)
        why = f"it is {seen.type}" if matched else f"it is {seen.type}, not {failure.exception}"
        checks.append(Check(key="exception", matched=matched, why=why, lines=lines))
    if failure.message is not None:
        try:
            matched = find(failure.message, seen.message) is not None
            why = "its message matches" if matched else f"its message has nothing that matches {failure.message!r}"
        except PatternError as error:
            matched, why = False, f"{failure.message} is not a regular expression: {error}"
        checks.append(Check(key="message", matched=matched, why=why, lines=lines))
    if failure.frames:
        matched = frames_match(tuple(failure.frames), seen)
        wanted = ", ".join(failure.frames)
        why = f"it came through {wanted}" if matched else f"it did not come through {wanted} in this order"
        checks.append(Check(key="frames", matched=matched, why=why, lines=lines))
    return tuple(checks)
