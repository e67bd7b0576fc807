"""Does what :mod:`reprokit.run.keeping.planning` decides: once for `reprokit gc`, and again and again in a run."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from reprokit.core.errors import EngineError
from reprokit.core.text import size
from reprokit.engine.protocol import ENVIRONMENT, IMAGE, OTHER_CACHE, Kept
from reprokit.run.keeping import uses
from reprokit.run.keeping.holders import Holder
from reprokit.run.keeping.planning import LOG, Removal, RemovalPlan, plan

ROUNDS = 5
"""How often a collection plans again, where things were used or freed less than was thought."""
YEAR = 365 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a collection is asked for. ``keep``: patterns of names, keys and cases that stay; sizes in bytes.

    ``older_than``: seconds. ``other_cache``: build cache that may be another program's goes too, where no image uses
    it. ``logs``: whether logs may go.
    """

    budget: int | None = None
    older_than: float | None = None
    keep: tuple[str, ...] = ()
    other_cache: bool = False
    logs: bool = True


@dataclass(frozen=True, kw_only=True)
class Stock:
    """What is kept at one moment, each thing with what holds it."""

    held: tuple[tuple[Holder, Kept], ...]

    @property
    def items(self) -> list[Kept]:
        """The things alone."""
        return [kept for _, kept in self.held]

    def holder(self, kept: Kept) -> Holder:
        """What holds a thing."""
        return next(holder for holder, one in self.held if one.key == kept.key)


def stock(holders: Iterable[Holder], wanted: Wanted, cases: Callable[[], dict[str, set[str]]] = dict) -> Stock:
    """What there is, with what is known of its uses. ``cases``: key -> ids of the cases that an image is of.

    Raises EngineError.
    """
    busy, of_cases = uses.in_use(), cases()
    found = []
    for holder in holders:
        for kept in holder.kept():
            if kept.kind == OTHER_CACHE and not wanted.other_cache:
                continue
            known = dataclasses.replace(kept, cases=kept.cases | of_cases.get(kept.key, set()))
            if (last := uses.last(kept.key)) is not None:
                seconds = known.seconds if last.seconds is None else last.seconds
                used, times = max(known.used, last.at), max(last.times, 1)
                known = dataclasses.replace(known, used=used, times=times, seconds=seconds)
            stays = known.stays or _stays(known, busy, wanted)
            found.append((holder, dataclasses.replace(known, stays=stays)))
    return Stock(held=tuple(found))


def _stays(kept: Kept, busy: Collection[str], wanted: Wanted) -> str:
    if not {kept.key, *kept.also}.isdisjoint(busy):
        return "a run uses it"
    if kept.kind == LOG and not wanted.logs:
        return "only reprokit gc removes logs"
    words = (kept.name, kept.key, *kept.also, *kept.cases)
    chosen = [text for text in wanted.keep if any(fnmatch.fnmatchcase(word, text) for word in words)]
    return f"--keep {chosen[0]}" if chosen else ""


def planned(found: Stock, wanted: Wanted, *, more: int = 0) -> RemovalPlan:
    """What is to be removed. ``more``: bytes that have to be free below the budget."""
    budget = None if wanted.budget is None else max(wanted.budget - more, 0)
    return plan(found.items, now=time.time(), budget=budget, older_than=wanted.older_than)


def carry_out(
    plan: RemovalPlan, found: Stock, on_removed: Callable[[Removal], None], cancel: threading.Event | None = None
) -> int:
    """Do what was planned, but for what is in use by now; returns how many things were removed.

    Each thing by itself is removed whole or listed again the next time. Raises EngineError, Cancelled.
    """
    done = 0
    for removal in plan.removals:
        kept = removal.kept
        with uses.removing(cancel):
            if not {kept.key, *kept.also}.isdisjoint(uses.in_use()) or not found.holder(kept).discard(kept):
                continue
        if kept.kind in (IMAGE, ENVIRONMENT):
            uses.remember(kept.key, size=removal.freed)
        done += 1
        on_removed(removal)
    return done


class Keeper:
    """Holds a run to its budget, and what it uses against other processes. Thread-safe.

    ``wanted``: without a budget nothing is removed. ``note``: takes a sentence for the user.
    """

    def __init__(
        self,
        wanted: Wanted | None = None,
        holders: Callable[[], Sequence[Holder]] = tuple,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.uses = uses.Uses()
        self._wanted = wanted or Wanted()
        self._holders = holders
        self._note = note
        self._lock = threading.Lock()
        self._noted: set[str] = set()
        self._reserved: dict[str, int] = {}
        self._total = self._largest = 0

    @contextlib.contextmanager
    def room(self, key: str, cancel: threading.Event, *, waits: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """A block in which an image is made. Before it, so much is removed that the image fits.

        What it took the last time counts, else the most that an image of this run took. Waits for as long as ``waits``
        and the budget is passed: what trials of this run use goes later. Raises Cancelled.
        """
        last = uses.last(key)
        self._reserved[key] = last.size if last and last.size else self._largest
        try:
            while not self._collect(cancel) and waits() and not cancel.is_set():
                self.uses.wait_for_end(5.0)
            before = self._total
            yield
        finally:
            del self._reserved[key]
        self._collect(cancel, before)

    def _collect(self, cancel: threading.Event, before: int | None = None) -> bool:
        """Remove what the budget asks for; whether it is kept now. ``before``: bytes before an image was made."""
        if self._wanted.budget is None:
            return True
        done: list[Removal] = []
        with self._lock:
            try:
                more = sum(list(self._reserved.values()))
                left = collect(self._holders(), self._wanted, done.append, more=more, cancel=cancel)
            except (EngineError, OSError) as error:  # of the housekeeping: the cells are not concerned
                self._say(f"the budget cannot be kept: {error}")
                return True
            finally:
                for one in done:
                    self._note(f"removed for the budget: {one.kept.kind} {one.kept.name}, {size(one.freed)}")
            self._total = left.total
            if before is not None:
                self._largest = max(self._largest, left.total + sum(one.freed for one in done) - before)
        if left.total > self._wanted.budget:
            self._say(
                f"the budget of {size(self._wanted.budget)} is passed: {size(left.bound)} are in use by runs, or kept"
            )
        return left.total <= (left.budget or 0)

    def _say(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)


def collect(
    holders: Sequence[Holder],
    wanted: Wanted,
    on_removed: Callable[[Removal], None],
    *,
    more: int = 0,
    cancel: threading.Event | None = None,
    cases: Callable[[], dict[str, set[str]]] = dict,
) -> RemovalPlan:
    """Remove until what is left is as wanted; returns the plan that is left over, which removes what could not be.

    Raises EngineError, Cancelled.
    """
    for _ in range(ROUNDS):
        # One at a time: what another collection removes meanwhile would count as kept, and too much would go.
        with uses.collecting(cancel):
            found = stock(holders, wanted, cases)
            todo = planned(found, wanted, more=more)
            if not carry_out(todo, found, on_removed, cancel):
                break
    else:
        todo = planned(stock(holders, wanted, cases), wanted, more=more)
    uses.forget_before(time.time() - YEAR)
    return todo
