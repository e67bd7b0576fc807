"""What to remove, so that what is left fits into a budget. Pure.

First goes what is worth least: the seconds that making it again takes, times how often it was used, for each byte that
it holds and each day since its last use. Logs cannot be made again; they go after everything that can.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reprokit.engine.protocol import Kept

LOG = "log"
BYTES_A_SECOND = 20e6
"""How fast what has no known cost is taken to be made again."""


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Something to remove, and the bytes that are free once it and all before it are removed."""

    kept: Kept
    freed: int


@dataclass(frozen=True, kw_only=True)
class RemovalPlan:
    """``total``: bytes of all that is kept; ``left``: once ``removals``, in this order, are done; ``budget``: as asked.

    ``bound``: bytes of what must not be removed.
    """

    removals: tuple[Removal, ...]
    total: int
    left: int
    bound: int
    budget: int | None

    @property
    def seconds(self) -> float:
        """How long making all of it again would take."""
        return sum(cost(one.kept) for one in self.removals)


def cost(kept: Kept) -> float:
    """Seconds that making it again takes, by a guess from its size where that is not known."""
    return kept.bytes / BYTES_A_SECOND if kept.seconds is None else kept.seconds


def plan(
    items: Iterable[Kept], *, now: float, budget: int | None = None, older_than: float | None = None
) -> RemovalPlan:
    """What to remove of ``items``: what was used last more than ``older_than`` seconds before ``now`` (both optional),
    and then as much as ``budget`` (bytes) asks for.
    """
    kept = {one.key: one for one in items}
    state = _State(kept)
    total = state.total
    for one in state.removable():
        if one.seconds == 0.0:  # what a process that has exited left
            state.remove(one)
    if older_than is not None:
        while old := [one for one in state.removable() if now - one.used > older_than]:
            state.remove(min(old, key=lambda one: one.used))
    while budget is not None and state.total > budget:
        if not (candidates := [one for one in state.removable() if one.bytes]):
            break
        state.remove(min(candidates, key=lambda one: (one.kind == LOG, state.worth(one, now))))
    bound = {part: size for one in kept.values() if one.stays for part, size in one.parts.items()}
    return RemovalPlan(
        removals=tuple(state.removals), total=total, left=state.total, bound=sum(bound.values()), budget=budget
    )


def by_kind(items: Iterable[Kept]) -> dict[str, tuple[int, int]]:
    """Kind -> how many, and the bytes of all of them; what two kinds share counts for the first."""
    found: dict[str, tuple[int, int]] = {}
    seen: set[str] = set()
    for one in items:
        count, total = found.get(one.kind, (0, 0))
        found[one.kind] = count + 1, total + sum(size for part, size in one.parts.items() if part not in seen)
        seen |= one.parts.keys()
    return found


class _State:
    """What is still kept while a plan is made."""

    def __init__(self, kept: dict[str, Kept]) -> None:
        self._kept = dict(kept)
        self._holders = collections.Counter(part for one in kept.values() for part in one.parts)
        self._needed = collections.Counter(key for one in kept.values() for key in one.needs)
        self.total = sum({part: size for one in kept.values() for part, size in one.parts.items()}.values())
        self.removals: list[Removal] = []

    def removable(self) -> Sequence[Kept]:
        return [one for one in self._kept.values() if not one.stays and not self._needed[one.key]]

    def worth(self, one: Kept, now: float) -> float:
        """What several share counts by its share."""
        share = sum(size / self._holders[part] for part, size in one.parts.items())
        idle = max(now - one.used, 0.0) / 86400 + 1
        return cost(one) * one.times / max(share, 1.0) / idle

    def remove(self, one: Kept) -> None:
        del self._kept[one.key]
        self._holders.subtract(one.parts.keys())
        self._needed.subtract(one.needs)
        freed = sum(size for part, size in one.parts.items() if not self._holders[part])
        self.total -= freed
        self.removals.append(Removal(kept=one, freed=freed))
