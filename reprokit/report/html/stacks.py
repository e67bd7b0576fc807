"""The stacks of a crash or a hang, as the page of a cell shows them. Pure."""

from __future__ import annotations

from typing import Any

from reprokit.core.text import pluralize
from reprokit.evidence.native import HEAD, NONE, Stacks, ThreadStack, split
from reprokit.evidence.text import clean

MOST = 32
"""Threads whose stacks come with the page; the log has all of them."""


def to_page(log: str) -> dict[str, Any] | None:
    """``{title, threads, more, missing}`` of a log; None where no stacks were asked for. ``threads``: ``{name,
    frames}``, each frame ``[function, place]``, innermost first; at the time limit of the last look, each with how
    often it was seen there; ``more``: how many are left out; ``missing``: why there are none, or not all.
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
        "threads": [{"name": _name(one, stacks), "frames": _frames(one)} for one in threads[:MOST]],
        "more": max(len(threads) - MOST, 0),
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
