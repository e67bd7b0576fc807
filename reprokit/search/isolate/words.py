"""What an isolation found, in words and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.matrix import Cell, label
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.reading import Reading
from reprokit.evidence.records import CellRecord
from reprokit.search.isolate.algorithm import RIVALS, Boundary, Change, Isolation
from reprokit.search.isolate.explanations import Explanation, certificate

UNSEEN = "not seen, since a cell is excluded or cannot be judged, but what was seen leaves nothing else"
SHOWN = 3
"""Cells that are named where there are many."""


@dataclass(frozen=True, kw_only=True)
class Telling:
    """Tells of an isolation. ``record``: of a cell that was run, else None. ``matrix``: how many cells the case has."""

    found: Isolation
    record: Callable[[Cell], CellRecord | None]
    matrix: int

    @property
    def exit_status(self) -> int:
        """0 decided; 1 an end is not what it was said to be; 3 not decided."""
        if self.found.ends_hold:
            return 0 if len(self.found.explanations) == 1 else 3
        return 3 if Reading.UNKNOWN in self.found.readings.values() else 1

    def words(self) -> tuple[str, ...]:
        """Lines for people."""
        if not self.found.ends_hold:
            return tuple(self._ends())
        some = self.found.explanations
        lines = list(self._decided(some[0]) if len(some) == 1 else self._open() if some else self._contradicted())
        lines += [self._boundary(one) for one in self.found.boundaries]
        lines += self._flaky()
        return (*lines, self._counts())

    def json(self) -> dict[str, Any]:
        """The same for programs; see the contract, reprokit-search/v1."""
        found = self.found
        decided = found.ends_hold and len(found.explanations) == 1
        return {
            "decided": decided,
            "ends": {"bad": self._cell_json(found.bad), "good": self._cell_json(found.good)},
            "differ": [_change_json(change) for change in found.changes],
            # Each list is enough on its own; where nothing is decided, there is none.
            "changes": _sets_json(found, found.explanations[0]) if decided else [],
            "rivals": [] if decided else [_sets_json(found, one) for one in found.plausible[:RIVALS]],
            "closest": [self._cell_json(found.cell(mix)) for mix in found.pair] if found.pair else [],
            "boundary": [
                {
                    "axis": one.axis,
                    "values": list(one.values),
                    "good": one.values[one.found.last],
                    "bad": one.values[one.found.next],
                    "unjudged": [one.values[place] for place in one.found.unclear],
                }
                for one in found.boundaries
                if one.found.found
            ],
            "unknown": [
                self._cell_json(found.cell(mix)) for mix, seen in found.readings.items() if seen is Reading.UNKNOWN
            ],
            "mixes": 1 << len(found.changes),
            "matrix": self.matrix,
        }

    def _counts(self) -> str:
        mixes = pluralize(1 << len(self.found.changes), "mix", "mixes")
        inner = sum(len(one.found.readings) - 2 for one in self.found.boundaries)
        more = f", and {pluralize(inner, 'cell')} between them" if inner else ""
        asked = f"asked for: {len(self.found.readings)} of the {mixes} of both ends{more}; the matrix has {self.matrix}"
        ran = {len(record.trials) for mix in self.found.readings if (record := self.record(self.found.cell(mix)))} - {0}
        # A failure that does not show each time would mislead where every cell had but one trial.
        return asked + (f"; {pluralize(max(ran), 'trial')} of a cell at most" if ran else "")

    def _ends(self) -> Iterable[str]:
        whole = (1 << len(self.found.changes)) - 1
        bad, good = self.found.readings[whole], self.found.readings[0]
        for name, mix, wanted in (("bad", whole, Reading.BAD), ("good", 0, Reading.GOOD)):
            seen, record = self.found.readings[mix], self.record(self.found.cell(mix))
            no = (
                "" if seen is wanted else f", not {wanted}" if seen is not Reading.UNKNOWN else ", neither bad nor good"
            )
            yield f"{name} end {self._cell(mix, whole_cell=True)}: {record.verdict if record else seen}{no}"
            if no and record and record.reason:
                yield f"  {record.reason.splitlines()[0]}"
        if bad is Reading.GOOD and good is Reading.BAD:
            yield "it is the other way round: exchange --bad and --good"
        else:
            yield "nothing is isolated: it takes an end that fails with the signature, and one that ends well"

    def _decided(self, explanation: Explanation) -> Iterable[str]:
        sets = [_named(self.found.named(mix)) for mix in explanation]
        if len(sets) > 1:
            yield f"each of these is enough: {'; or '.join(sets)}"
        elif explanation[0].bit_count() > 1:
            yield f"it takes these together: {sets[0]}"
        else:
            yield f"the difference that matters: {sets[0]}"
        least, largest = certificate(explanation, len(self.found.changes))
        alone = self._numbers(least, Reading.BAD)
        back = self._numbers(largest, Reading.GOOD)
        one = explanation == (explanation[0],) and explanation[0].bit_count() == 1
        what = "this alone" if one else "these alone" if len(sets) == 1 else "either of them alone"
        undone = "this" if one else "any one of them" if len(sets) == 1 else "all of them"
        yield f"  with {what} changed the good end fails: {alone or UNSEEN}"
        yield f"  with {undone} set back the bad end ends well: {back or UNSEEN}"
        yield from self._no_matter([explanation])

    def _open(self) -> Iterable[str]:
        rivals = [" or ".join(_named(self.found.named(mix)) for mix in one) for one in self.found.plausible]
        if len(rivals) == 1:
            yield f"not proven, and by far the likeliest: {rivals[0]}"
        else:
            yield "not decided between these, the likeliest first:"
            yield from (f"  {one}" for one in rivals[:RIVALS])
            yield from [f"  ... and {len(rivals) - RIVALS} more"] if len(rivals) > RIVALS else []
        if self.found.untold:
            cells = [f"{self._cell(mix)} ({self._why(mix)})" for mix in self.found.untold[:SHOWN]]
            more = _more(self.found.untold)
            yield f"  the cells that would tell them apart cannot be judged: {'; '.join(cells)}{more}"
        if self.found.stopped:
            yield f"  stopped at {pluralize(len(self.found.readings), 'cell')}: --max-cells allows more"
        yield from self._no_matter(self.found.plausible, "no sign of")

    def _contradicted(self) -> Iterable[str]:
        yield (
            "not decided: no set of changes explains the verdicts; a change heals what another breaks, "
            "or a flaky failure needs more trials"
        )
        if self.found.pair:
            good, bad = self.found.pair
            changes = self.found.named(good ^ bad)
            well, ill = self._cell(good), self._cell(bad)
            yield f"  certain is: {well} ends well and {ill} fails, and they differ in {_named(changes)}"

    def _no_matter(self, explanations: Iterable[Explanation], words: str = "no matter") -> Iterable[str]:
        named = 0
        for one in explanations:
            for mix in one:
                named |= mix
        rest = [change.axis for bit, change in enumerate(self.found.changes) if not named >> bit & 1]
        if rest:
            yield f"  {words}: {', '.join(rest)}"

    def _boundary(self, one: Boundary) -> str:
        if not one.found.found:
            return f"along {one.axis}: no boundary, the ends of the line cannot be judged"
        good, bad = one.values[one.found.last], one.values[one.found.next]
        if unclear := [one.values[place] for place in one.found.unclear]:
            judged = f"turns between {good} (ends well) and {bad} (fails)"
            return f"along {one.axis}: {judged}; between them cannot be judged: {', '.join(unclear)}"
        which = f"{good} is the last that ends well and {bad} the first that fails"
        return f"along {one.axis}: {which}, of {len(one.values)} values from {one.values[0]} to {one.values[-1]}"

    def _flaky(self) -> Iterable[str]:
        records = (self.record(self.found.cell(mix)) for mix in self.found.readings)
        numbers = [f"#{record.number}" for record in records if record and record.verdict is Verdict.FLAKY]
        if numbers:
            yield f"flaky, and read as failing: {', '.join(numbers)}"

    def _why(self, mix: int) -> str:
        record = self.record(self.found.cell(mix))
        if record:
            return str(record.verdict)
        return "the case excludes it" if mix in self.found.excluded else "not tried: several like it cannot be judged"

    def _numbers(self, mixes: Sequence[int], wanted: Reading) -> str:
        seen = [mix for mix in mixes if self.found.readings.get(mix) is wanted]
        return ", ".join(self._cell(mix) for mix in seen[:SHOWN]) + _more(seen) if len(seen) == len(mixes) else ""

    def _cell(self, mix: int, *, whole_cell: bool = False) -> str:
        cell = self.found.cell(mix)
        record = self.record(cell)
        if record and not whole_cell:
            return f"#{record.number}"
        differ = {change.axis for change in self.found.changes}
        shown = cell if whole_cell else {name: value for name, value in cell.items() if name in differ}
        return (f"#{record.number} " if record else "") + label(shown)

    def _cell_json(self, cell: Cell) -> dict[str, Any]:
        record = self.record(cell)
        verdict = str(record.verdict) if record else None
        return {"cell": dict(cell), "number": record.number if record else None, "verdict": verdict}


def _named(changes: Sequence[Change]) -> str:
    return " and ".join(_change(change) for change in changes)


def _change(change: Change) -> str:
    if change.good is None:
        return f"{change.axis} {change.bad} (the good end has none)"
    return f"{change.axis} {change.good} -> {change.bad or 'none'}"


def _change_json(change: Change) -> dict[str, str | None]:
    return {"axis": change.axis, "good": change.good, "bad": change.bad}


def _sets_json(found: Isolation, explanation: Explanation) -> list[list[dict[str, str | None]]]:
    return [[_change_json(change) for change in found.named(mix)] for mix in explanation]


def _more(mixes: Sequence[int]) -> str:
    return f" and {len(mixes) - SHOWN} more" if len(mixes) > SHOWN else ""
