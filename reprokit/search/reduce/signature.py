"""A signature made as strict as what was seen, so that a smaller case cannot slip to another failure. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.model import Failure
from reprokit.core.text import one_line
from reprokit.evidence import judge
from reprokit.evidence.fingerprint import last_words
from reprokit.evidence.frames import telling_frames
from reprokit.evidence.model import Ending, ExceptionSeen, Outcome
from reprokit.evidence.normalise import essence
from reprokit.evidence.observation import without_cuts

_VARYING = re.compile(r"0x[0-9a-fA-F]+|(?:/[\w.+-]+){2,}|\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_FRAME = re.compile(r"[^\s:]+:[^\s:]+")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One trial that failed with the case's signature: how it ended, and its log."""

    ending: Ending
    log: str


def tightened(failure: Mapping[str, Any], seen: Sequence[Seen]) -> dict[str, Any]:
    """The signature ``failure`` (as written) with what it leaves open taken from trials that it matched.

    Added are the exit status, the exception's type, its message without numbers, addresses and paths, the frames that
    tell it (as in a fingerprint), or the words of a crash; where there is neither and the exit status is all that is
    given, the last words. Each only where all the trials agree.
    """
    strict = dict(failure)
    for key, value in _wishes(failure, seen[0]):
        trial = {**strict, key: value}
        if all(_matches(trial, one) for one in seen):
            strict = trial
    return strict


def _matches(failure: Mapping[str, Any], seen: Seen) -> bool:
    return judge(Failure.model_validate(failure), seen.ending, seen.log).outcome is Outcome.REPRODUCED


def _wishes(failure: Mapping[str, Any], seen: Seen) -> list[tuple[str, Any]]:
    judgement = judge(Failure.model_validate(failure), seen.ending, seen.log)
    exception, crash = judgement.exception, judgement.crash
    by_us = {"out_of_memory", "timed_out", "signal"} & set(failure)
    wishes: list[tuple[str, Any]] = []
    if failure.get("exit_code", "nonzero") == "nonzero" and not by_us and seen.ending.exit_code is not None:
        wishes.append(("exit_code", str(seen.ending.exit_code)))
    # A traceback is how it failed only where the case says so, or where nothing else tells.
    if exception is not None and not exception.ignored and ("output" not in failure or "exception" in failure):
        wishes += _of_exception(exception)
    elif crash is not None:
        # What C++ says of an exception stands on two lines, and is found on one: its words rather than its type.
        parts = re.split(r"\s+what\(\):\s+", crash.text)
        wishes += [("output", pattern(one_line(text))) for text in dict.fromkeys((*parts, crash.text))]
    elif not set(failure) - {"exit_code"}:
        wishes.append(("output", pattern(one_line(last_words(without_cuts(seen.log))))))
    return [(key, value) for key, value in wishes if value and (key not in failure or key == "exit_code")]


def _of_exception(seen: ExceptionSeen) -> list[tuple[str, Any]]:
    # The first line that is its own: frameworks print stacks and advice around it.
    own = essence(seen.message)
    lines = (line.strip() for line in seen.message.splitlines() if line.strip())
    said = next((one_line(line) for line in lines if own.startswith(" ".join(line.split())[:100])), "")
    frames = [text for text in telling_frames(seen.frames, message=bool(own))[0] if _FRAME.fullmatch(text)]
    return [("exception", seen.type), ("message", pattern(said)), ("frames", frames[::-1])]


def pattern(text: str) -> str:
    """What finds ``text`` with any numbers, addresses and paths in it, in the contract's two forms of pattern."""
    text = text.rstrip("…")
    if not _VARYING.search(text) and not (text.startswith("/") and text.endswith("/")):
        return text
    pieces, at = [], 0
    for found in _VARYING.finditer(text):
        pieces.append(_SPECIAL.sub(r"\\\g<0>", text[at : found.start()]))
        pieces.append(r"[\w./+-]+")
        at = found.end()
    return "/" + "".join(pieces) + _SPECIAL.sub(r"\\\g<0>", text[at:]) + "/"
