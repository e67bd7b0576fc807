"""Finds out whether smaller cases still fail in the same way, running each once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from reprokit.evidence.reading import Reading
from reprokit.search.queries import Candidate, Query
from reprokit.search.reduce.parts import Data

T = TypeVar("T")
Asking = Generator[Query, tuple[Reading, ...], T]
Write = Callable[[Data, str], "Candidate | None"]
"""Makes the candidate of a smaller case from its data and a label; None where the data is not a valid case."""


@dataclass(kw_only=True)
class Trying:
    """Finds out whether smaller cases still fail in the same way, and remembers the results.

    ``same``: a key for what a candidate would run; of equal ones only the first is run. ``holds``: whether a result is
    the failure. ``spent``: whether the budget is used up; ``stopped``: whether a case was not tried because of that.
    """

    write: Write
    same: Callable[[Candidate], object]
    holds: Callable[[Candidate, Reading], bool] = lambda _, reading: reading is Reading.FAIL
    spent: Callable[[], bool] = lambda: False
    stopped: bool = False
    known: dict[object, tuple[bool, Candidate]] = field(default_factory=dict)

    def knows(self, candidate: Candidate, *, fails: bool) -> None:
        """Record the result of a candidate that was run elsewhere."""
        self.known[self.same(candidate)] = (fails, candidate)

    def fails(self, data: Data, name: str, soon: Iterable[Data] = ()) -> Asking[bool]:
        """Whether ``data`` still fails; False for an invalid case and once the budget is used up.

        ``name``: the label to show. ``soon``: what may be tried next, the most likely first.
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
            (reading,) = yield Query(candidates=(candidate,), soon=tuple(following))
            self.known[key] = (self.holds(candidate, reading), candidate)
        return self.known[key][0]

    def decider(self, data: Data) -> Candidate | None:
        """The candidate that was run for ``data``, or for an equal case; None where none was."""
        candidate = self.write(data, "")
        known = self.known.get(self.same(candidate)) if candidate else None
        return known[1] if known else None
