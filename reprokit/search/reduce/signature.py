"""A signature made as strict as the failure that was seen, so that a smaller case matches no other failure. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.model import Failure
from reprokit.core.text import one_line
from reprokit.evidence.fingerprint import last_words
from reprokit.evidence.frames import relevant_frames
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending, ExceptionSeen, Outcome
from reprokit.evidence.normalise import essence
from reprokit.evidence.observation import without_cuts

# ASCII, as RE2 takes \w and \d in the pattern that is made of it.
_VARYING = re.compile(r"0x[0-9a-fA-F]+|(?:/[\w.+-]+){2,}|\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_FRAME = re.compile(r"[^\s:]+:[^\s:]+")


@dataclass(frozen=True, kw_only=True)
class FailedTrial:
    """One trial that failed with the case's signature: how it ended, and its log."""

    ending: Ending
    log: str


def tightened(failure: Mapping[str, Any], seen: Sequence[FailedTrial]) -> dict[str, Any]:
    """The signature ``failure`` (as written in the case), completed from the trials ``seen``, which it matched.

    Added are the exit status, the exception's type, its message without numbers, addresses and paths, the frames that
    identify it (as in a fingerprint), or the text of a crash; where there is neither, and only an exit status is given,
    the last line of output. Each is added only where all the trials match it.
    """
    strict = dict(failure)
    for key, value in _additions(failure, seen[0]):
        trial = {**strict, key: value}
        if all(_matches(trial, one) for one in seen):
            strict = trial
    return strict


def _matches(failure: Mapping[str, Any], seen: FailedTrial) -> bool:
    return judge(Failure.model_validate(failure), seen.ending, seen.log).outcome is Outcome.REPRODUCED


def _additions(failure: Mapping[str, Any], seen: FailedTrial) -> list[tuple[str, Any]]:
    """(key, value) pairs that would make the signature stricter, taken from one trial."""
    judgement = judge(Failure.model_validate(failure), seen.ending, seen.log)
    exception, crash = judgement.exception, judgement.crash
    killed = {"out_of_memory", "timed_out", "signal"} & set(failure)
    found: list[tuple[str, Any]] = []
    if failure.get("exit_code", "nonzero") == "nonzero" and not killed and seen.ending.exit_code is not None:
        found.append(("exit_code", str(seen.ending.exit_code)))
    # A traceback identifies the failure only where the case says so, or where nothing else does.
    if exception is not None and not exception.ignored and ("output" not in failure or "exception" in failure):
        found += _of_exception(exception)
    elif crash is not None:
        # C++ prints an exception on two lines, and a pattern matches one: its message rather than its type.
        parts = re.split(r"\s+what\(\):\s+", crash.text)
        found += [("output", pattern(one_line(text))) for text in dict.fromkeys((*parts, crash.text))]
    elif not set(failure) - {"exit_code"}:
        found.append(("output", pattern(one_line(last_words(without_cuts(seen.log))))))
    return [(key, value) for key, value in found if value and (key not in failure or key == "exit_code")]


def _of_exception(seen: ExceptionSeen) -> list[tuple[str, Any]]:
    # The first line of the message itself: frameworks print stacks and advice around it.
    own = essence(seen.message)
    lines = (line.strip() for line in seen.message.splitlines() if line.strip())
    message = next((one_line(line) for line in lines if own.startswith(" ".join(line.split())[:100])), "")
    frames = [text for text in relevant_frames(seen.frames, message=bool(own))[0] if _FRAME.fullmatch(text)]
    return [("exception", seen.type), ("message", pattern(message)), ("frames", frames[::-1])]


def pattern(text: str) -> str:
    """A signature's pattern that finds ``text`` with any numbers, addresses and paths: plain text, or ``/regex/``."""
    text = text.rstrip("…")
    if not _VARYING.search(text) and not (text.startswith("/") and text.endswith("/")):
        return text
    pieces, at = [], 0
    for found in _VARYING.finditer(text):
        pieces.append(_SPECIAL.sub(r"\\\g<0>", text[at : found.start()]))
        pieces.append(r"[\w./+-]+")
        at = found.end()
    return "/" + "".join(pieces) + _SPECIAL.sub(r"\\\g<0>", text[at:]) + "/"
