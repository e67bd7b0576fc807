"""A signature made as strict as what was seen, so that a smaller case cannot slip to another failure. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.model import Failure
from reprokit.evidence import judge
from reprokit.evidence.model import Ending, Frame, Outcome
from reprokit.evidence.text import one_line

_LIBRARY = re.compile(r"^<frozen |/lib/python[\d.]+/(?!(?:site|dist)-packages/)")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|(?:/[\w.+-]+){2,}|\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")

FRAMES = 3
"""How many frames tell a failure, from where it was raised: as in ClusterFuzz's crash states."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One trial that failed with the case's signature: how it ended, and its log."""

    ending: Ending
    log: str


def tightened(failure: Mapping[str, Any], seen: Sequence[Seen]) -> dict[str, Any]:
    """The signature ``failure`` (as written) with what it leaves open taken from trials that it matched.

    Added are the exit status, the exception's type, its message without numbers, addresses and paths, the last frames
    that are not the standard library's, or the words of a crash; each only where all the trials agree.
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
    by_us = {"out_of_memory", "timed_out", "signal"} & set(failure)
    wishes: list[tuple[str, Any]] = []
    if failure.get("exit_code", "nonzero") == "nonzero" and not by_us and seen.ending.exit_code is not None:
        wishes.append(("exit_code", str(seen.ending.exit_code)))
    exception = judgement.exception
    # A traceback is how it failed only where the case says so, or where nothing else tells.
    if exception is not None and not exception.ignored and ("output" not in failure or "exception" in failure):
        if "exception" not in failure:
            wishes.append(("exception", exception.type))
        if "message" not in failure and one_line(exception.message):
            wishes.append(("message", pattern(one_line(exception.message))))
        if "frames" not in failure and (frames := _frames(exception.frames)):
            wishes.append(("frames", frames))
    elif judgement.crash is not None and "output" not in failure and one_line(judgement.crash.text):
        wishes.append(("output", pattern(one_line(judgement.crash.text))))
    return wishes


def _frames(frames: Sequence[Frame]) -> list[str]:
    own = [frame for frame in frames if not _LIBRARY.search(frame.file)] or list(frames)
    told = (f"{frame.file.rpartition('/')[2]}:{frame.function}" for frame in own[-FRAMES:])
    return [text for text in told if re.fullmatch(r"[^\s:]+:[^\s:]+", text)]


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
