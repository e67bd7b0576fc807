"""Asks whether smaller cases still fail in the same way, each once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from reprokit.evidence.reading import Reading
from reprokit.search.asking import Ask, Candidate
from reprokit.search.reduce.parts import Data

T = TypeVar("T")
Asking = Generator[Ask, tuple[Reading, ...], T]
Write = Callable[[Data, str], "Candidate | None"]
"""The candidate of a smaller case, with a name for people; None where it is no valid case."""


@dataclass(kw_only=True)
class Trying:
    """Asks whether a smaller case still fails in the same way, once for each thing that would be run.

    ``same``: what a candidate would run; of equal ones only the first is asked for. ``holds``: whether what it showed
    is the failure. ``spent``: whether the budget is; ``stopped``: whether something was left untried for that.
    """

    write: Write
    same: Callable[[Candidate], object]
    holds: Callable[[Candidate, Reading], bool] = lambda _, reading: reading is Reading.BAD
    spent: Callable[[], bool] = lambda: False
    stopped: bool = False
    known: dict[object, tuple[bool, Candidate]] = field(default_factory=dict)

    def knows(self, candidate: Candidate, *, fails: bool) -> None:
        """Take down what a candidate showed."""
        self.known[self.same(candidate)] = (fails, candidate)

    def fails(self, data: Data, name: str, soon: Iterable[Data] = ()) -> Asking[bool]:
        """Whether ``data`` still fails; what is no valid case, or comes after the budget is spent, does not.

        ``soon``: what may be asked for next, the likeliest first.
        """
        candidate = self.write(data, name)
        if candidate is None:
            return False
        key = self.same(candidate)
        if key not in self.known:
            if self.spent():
                self.stopped = True
                return False
            following = (one for each in soon if (one := self.write(each, "")) and self.same(one) not in self.known)
            (reading,) = yield Ask(candidates=(candidate,), soon=tuple(following))
            self.known[key] = (self.holds(candidate, reading), candidate)
        return self.known[key][0]

    def decider(self, data: Data) -> Candidate | None:
        """The candidate that was run to decide on ``data``; None where none was."""
        candidate = self.write(data, "")
        known = self.known.get(self.same(candidate)) if candidate else None
        return known[1] if known else None
