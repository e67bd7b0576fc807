"""What an isolation found, in words and as an answer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.case.matrix import Cell, label
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.reading import Reading
from reprokit.evidence.records import CellRecord, same_changes
from reprokit.evidence.strength import LEVEL, chance_apart, never_failed, total, trials_each
from reprokit.search.isolation import RIVALS, Boundary, Hypothesis, Isolation, certificate, union
from reprokit.search.queries import AxisBoundary, AxisDifference, IsolateAnswer, NamedCell
from reprokit.search.releases import Releases
from reprokit.search.repeating import tally_of, trials_of

UNSEEN = "not run (excluded or unresolved), but the other results leave no other explanation"
SHOWN = 3
"""Cells that are named where there are many."""


@dataclass(frozen=True, kw_only=True)
class IsolationText:
    """An isolation as text, and as the answer of the search."""

    found: Isolation
    record: Callable[[Cell], CellRecord | None]  # None if the cell was not run
    matrix: int  # how many cells the case has
    asked: Mapping[str, Releases] = field(default_factory=dict)  # axis -> the range that ``--axis`` asks for

    @property
    def exit_status(self) -> int:
        """0 decided; 1 the bad cell passes or the good cell fails; 3 not decided, or a boundary of ``asked`` is not.

        A flaky failure is decided where its trials confirm it.
        """
        if self.found.ends_hold:
            wide = any(self._open_places(one) for one in self.found.boundaries if one.axis in self.asked)
            sure = self.found.confirmed or not list(self._flaky())
            return 0 if len(self.found.explanations) == 1 and sure and not wide else 3
        return 3 if Reading.UNRESOLVED in self.found.readings.values() else 1

    def words(self) -> tuple[str, ...]:
        """Lines for the terminal."""
        if not self.found.ends_hold:
            return tuple(self._ends())
        some = self.found.explanations
        lines = list(self._decided(some[0]) if len(some) == 1 else self._open() if some else self._contradicted())
        if len(some) == 1 and not self.found.confirmed:
            lines[0] = f"{self._each(self.found.cell(mix) for mix in self.found.readings)}: {lines[0]}"
            lines.append("  that may be chance: --confirm always repeats these cells until a flake is excluded")
        lines += [self._boundary(one) for one in self.found.boundaries]
        lines += self._flaky()
        ran = [(seen, self.record(self.found.cell(mix))) for mix, seen in self.found.readings.items()]
        good, bad = ([one for seen, one in ran if one and seen is side] for side in (Reading.PASS, Reading.FAIL))
        named = self.found.named(union(some[0])) if some else ()
        lines += filter(None, [same_changes(good, bad, [change.axis for change in named])])
        return (*lines, self._counts())

    def answer(self, more: Iterable[str]) -> IsolateAnswer:
        """The answer of the search; ``more``: lines behind its words."""
        found = self.found
        decided = found.ends_hold and len(found.explanations) == 1
        unknown = (mix for mix, seen in found.readings.items() if seen is Reading.UNRESOLVED)
        return IsolateAnswer(
            words=(*self.words(), *more),
            exit_status=self.exit_status,
            decided=decided,
            confirmed=found.confirmed,
            ends={"bad": self._named_cell(found.bad), "good": self._named_cell(found.good)},
            differ=found.changes,
            changes=_name_sets(found, found.explanations[0]) if decided else (),
            rivals=() if decided else tuple(_name_sets(found, one) for one in found.plausible[:RIVALS]),
            closest=tuple(self._named_cell(found.cell(mix)) for mix in found.pair or ()),
            boundary=tuple(
                AxisBoundary(
                    axis=one.axis,
                    values=one.values,
                    good=one.values[one.found.last],
                    bad=one.values[one.found.next],
                    unjudged=tuple(one.values[place] for place in one.found.unclear),
                    open=self._open_places(one),
                    confirmed=one.found.confirmed,
                )
                for one in found.boundaries
                if one.found.found
            ),
            unknown=tuple(self._named_cell(found.cell(mix)) for mix in unknown),
            mixes=1 << len(found.changes),
            matrix=self.matrix,
        )

    def _counts(self) -> str:
        mixes = pluralize(1 << len(self.found.changes), "combination")
        inner = sum(len(one.found.readings) - 2 for one in self.found.boundaries)
        more = f", and {pluralize(inner, 'cell')} between them" if inner else ""
        matrix = f"the matrix has {pluralize(self.matrix, 'cell')}"
        return f"tried {len(self.found.readings)} of the {mixes} of the two cells{more}; {matrix}"

    def _ends(self) -> Iterable[str]:
        whole = (1 << len(self.found.changes)) - 1
        bad, good = self.found.readings[whole], self.found.readings[0]
        for name, mix, wanted in (("bad", whole, Reading.FAIL), ("good", 0, Reading.PASS)):
            seen, record = self.found.readings[mix], self.record(self.found.cell(mix))
            odd = "" if seen is wanted else f", expected to {'fail' if wanted is Reading.FAIL else 'pass'}"
            yield f"{name} cell {self._cell(mix, whole_cell=True)}: {record.verdict if record else seen}{odd}"
            if odd and record and record.reason:
                yield f"  {record.reason.splitlines()[0]}"
        if bad is Reading.PASS and good is Reading.FAIL:
            yield "the two cells are the wrong way round: swap --bad and --good"
        else:
            yield "nothing was isolated: name a cell that fails with the signature (--bad) and one that passes (--good)"

    def _decided(self, explanation: Hypothesis) -> Iterable[str]:
        sets = [_named(self.found.named(mix)) for mix in explanation]
        if len(sets) > 1:
            yield f"each of these is enough: {'; or '.join(sets)}"
        elif explanation[0].bit_count() > 1:
            yield f"all of these are required: {sets[0]}"
        else:
            yield f"the difference that matters: {sets[0]}"
        least, largest = certificate(explanation, len(self.found.changes))
        alone = self._numbers(least, Reading.FAIL)
        back = self._numbers(largest, Reading.PASS)
        one = explanation == (explanation[0],) and explanation[0].bit_count() == 1
        made = "only it" if one else "only these" if len(sets) == 1 else "only one of them"
        undone = "it" if one else "any one of them" if len(sets) == 1 else "all of them"
        yield f"  changing {made} makes the good cell fail: {alone or UNSEEN}"
        yield f"  reverting {undone} makes the bad cell pass: {back or UNSEEN} ({self._never_failed(largest)})"
        if rest := self._others([explanation]):
            yield f"  {self._no_effect(rest)}"

    def _open(self) -> Iterable[str]:
        rivals = [" or ".join(_named(self.found.named(mix)) for mix in one) for one in self.found.plausible]
        if len(rivals) == 1:
            yield f"not proven; the simplest that explains every result: {rivals[0]} ({self._never_failed()})"
        else:
            weights = {self.found.weights[one] for one in self.found.plausible}
            order = ", the simplest first" if len(weights) > 1 else ""
            yield f"not decided between these{order} (what passed {self._never_failed()}):"
            yield from (f"  {one}" for one in rivals[:RIVALS])
            yield from [f"  ... and {len(rivals) - RIVALS} more"] if len(rivals) > RIVALS else []
        if self.found.undistinguished:
            cells = [f"{self._cell(mix)} ({self._why(mix)})" for mix in self.found.undistinguished[:SHOWN]]
            more = _more(self.found.undistinguished)
            yield f"  the cells that would distinguish them are unresolved: {'; '.join(cells)}{more}"
        if self.found.stopped:
            yield f"  stopped at the limit of {pluralize(len(self.found.readings), 'cell')}: raise it with --max-cells"
        if rest := self._others(self.found.plausible):
            yield f"  no evidence for: {', '.join(change.axis for change in self.found.named(rest))}"

    def _contradicted(self) -> Iterable[str]:
        yield (
            "not decided: no set of changes explains the verdicts; either one change hides the effect of another, "
            f"or the failure is flaky and needs more --trials (what passed {self._never_failed()})"
        )
        if self.found.pair:
            good, bad = self.found.pair
            changes = self.found.named(good ^ bad)
            passing, failing = self._cell(good), self._cell(bad)
            yield f"  the closest: {passing} passes and {failing} fails, and they differ in {_named(changes)}"

    def _others(self, explanations: Iterable[Hypothesis]) -> int:
        """The changes that no explanation names."""
        return ((1 << len(self.found.changes)) - 1) & ~union(mix for one in explanations for mix in one)

    def _no_effect(self, rest: int) -> str:
        """What the cells that were run show of the other changes: one may have an effect that another hides."""
        readings = self.found.readings
        names = ", ".join(change.axis for change in self.found.named(rest))
        passing, failing = (
            [m for m, seen in readings.items() if seen is side] for side in (Reading.PASS, Reading.FAIL)
        )
        rates = self._rates(failing, rest)
        shown = f"{self._never_failed(mix for mix in passing if mix & rest == rest)}{rates}"
        if len(passing) + len(failing) == 1 << len(self.found.changes):
            return f"no effect: {names} ({self._never_failed()}{rates})"
        if all(mix & rest != rest for mix in passing) or all(mix & rest for mix in failing):
            return f"no evidence for: {names}"
        if rest.bit_count() == 1:
            return f"no effect in the cells that were run: {names} ({shown})"
        alone = [one.axis for mix in passing if mix.bit_count() == 1 for one in self.found.named(mix & rest)]
        return f"no effect together: {names} (tried alone: {', '.join(alone) or 'none'}; {shown})"

    def _rates(self, failing: Sequence[int], rest: int) -> str:
        """How often failing cells fail with any of some changes and without, where that is not always."""
        ran = [(mix, record) for mix in failing if (record := self.record(self.found.cell(mix)))]
        having, lacking = (
            total(tally_of(record) for mix, record in ran if bool(mix & rest) is side) for side in (True, False)
        )
        if not (having + lacking).passed:
            return ""
        chance = chance_apart(having, lacking)
        rates = f"{having.failed} of {having.of} runs fail with any of them, {lacking.failed} of {lacking.of} with none"
        return f"; {rates}" + (f", p = {chance:.1g}: the rate differs" if chance <= LEVEL else "")

    def _never_failed(self, mixes: Iterable[int] = ()) -> str:
        """What those of some mixes that passed do not exclude, or all that did; it holds for all cells together."""
        readings = self.found.readings
        passing = [mix for mix, seen in readings.items() if seen is Reading.PASS]
        chosen = [mix for mix in mixes if mix in passing] or passing
        decided = sum(seen is not Reading.UNRESOLVED for seen in readings.values())
        return self._none_of(map(self.found.cell, chosen), decided)

    def _none_of(self, passing: Iterable[Cell], decided: int) -> str:
        records = [record for cell in passing if (record := self.record(cell))]
        tally = total(map(tally_of, records))
        if tally.failed or any(one.details.ratio for one in records):
            return f"failed in {tally.failed} of {tally.of}" if tally.failed else "as measured"
        return f"failed in {never_failed(map(trials_of, records), decided)}"

    def _boundary(self, one: Boundary) -> str:
        if not one.found.found:
            return f"along {one.axis}: no boundary found, because the first or the last value is unresolved"
        good, bad = one.values[one.found.last], one.values[one.found.next]
        if reasons := self._open_places(one):
            return f"along {one.axis}: the boundary is between {good} (passes) and {bad} (fails); {'; '.join(reasons)}"
        which = f"{good} is the last that passes and {bad} the first that fails"
        cells = [one.line[place] for place in (one.found.last, one.found.next)]
        each = "" if one.found.confirmed else f", {self._each(cells)}"
        ends = f"of {len(one.values)} values from {one.values[0]} to {one.values[-1]}{each}"
        return f"along {one.axis}: {which}, {ends} ({good}: {self._none_of(cells[:1], len(one.found.readings))})"

    def _each(self, cells: Iterable[Cell]) -> str:
        return trials_each(tally_of(record).of for cell in cells if (record := self.record(cell)))

    def _open_places(self, one: Boundary) -> tuple[str, ...]:
        """Why the boundary may be at another value, in words."""
        if not one.found.found:
            return ("it is not found",)
        unclear = [one.values[place] for place in one.found.unclear]
        reasons: tuple[str, ...] = (f"unresolved in between: {', '.join(unclear)}",) if unclear else ()
        if one.axis in self.asked:
            ends = (one.values[one.found.last], one.values[one.found.next])
            reasons += self.asked[one.axis].untried(*ends).reasons
        return reasons

    def _flaky(self) -> Iterable[str]:
        records = (self.record(self.found.cell(mix)) for mix in self.found.readings)
        numbers = [f"#{record.number}" for record in records if record and record.verdict is Verdict.FLAKY]
        if numbers:
            yield f"flaky, counted as failing: {', '.join(numbers)}"

    def _why(self, mix: int) -> str:
        record = self.record(self.found.cell(mix))
        if record:
            return str(record.verdict)
        return "the case excludes it" if mix in self.found.excluded else "not tried: similar cells are unresolved"

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

    def _named_cell(self, cell: Cell) -> NamedCell:
        record = self.record(cell)
        return NamedCell.pick(record, cell=cell) if record else NamedCell(cell=cell, number=None, verdict=None)


def _named(changes: Sequence[AxisDifference]) -> str:
    return " and ".join(_change(change) for change in changes)


def _change(change: AxisDifference) -> str:
    if change.good is None:
        return f"{change.axis} {change.bad} (the good cell has none)"
    return f"{change.axis} {change.good} -> {change.bad or 'none'}"


def _name_sets(found: Isolation, explanation: Hypothesis) -> tuple[tuple[AxisDifference, ...], ...]:
    return tuple(tuple(found.named(mix)) for mix in explanation)


def _more(mixes: Sequence[int]) -> str:
    return f" and {len(mixes) - SHOWN} more" if len(mixes) > SHOWN else ""
