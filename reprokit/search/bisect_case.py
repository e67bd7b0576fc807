"""``reprokit bisect``: a bisection along an axis or the commits of a source, and its answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit.case.matrix import cell_key
from reprokit.core.json_record import JsonRecord
from reprokit.core.text import first_line, pluralize
from reprokit.evidence.reading import Reading, reading
from reprokit.evidence.records import same_changes
from reprokit.evidence.strength import Tally, chance_apart, not_excluded, total, trials_each
from reprokit.search.bisect_line import BisectLine, add_axis, walk_axis, walk_source
from reprokit.search.bisection import Bisection, bisect
from reprokit.search.queries import BisectAnswer, Candidate, Query
from reprokit.search.releases import Gap, Policy, some
from reprokit.search.search_session import SearchSession

_SHOWS = {Reading.PASS: "passes", Reading.FAIL: "fails", Reading.UNRESOLVED: "is unresolved"}
_SHOWED = {Reading.PASS: "passed", Reading.FAIL: "failed"}


@dataclass(frozen=True, kw_only=True)
class BisectionRequest(JsonRecord):
    """The arguments of a bisection, as recorded: the range of a source or of an axis, and which releases count."""

    source: str = ""
    axis: str = ""
    ends: tuple[str, ...]
    values: tuple[str, ...] = ()  # of the axis, all of them; none: its releases
    tags_only: bool = False
    max_cells: int | None = None
    every: bool = False  # each unresolved value, not the edges of a stretch alone
    policy: Policy


def make(session: SearchSession) -> Generator[Query, tuple[Reading, ...], BisectAnswer]:
    """The search that ``session.arguments`` ask for: an axis or a source, the two ends, and which releases to try.

    Raises UsageError as :func:`walk_axis` and :func:`walk_source` do.
    """
    asked = BisectionRequest.from_json(session.arguments)
    line = BisectLine.from_json(session.recall("line", lambda: _line(session, asked).to_json()))
    file = session.file
    if line.source:
        file = add_axis(file, line.source, line.axis)
        # That repository has every commit: none has to be fetched on its own.
        places = {**session.request.sources, line.source: Path(line.repository)}
        named = (*session.request.named, f"--source {line.source}")
        session.request = dataclasses.replace(session.request, sources=places, named=named)
    session.label_axes = (line.axis,)
    before = session.recall("before", lambda: _before(session, line))
    # A case that is not rewritten keeps what it expects of its own cells.
    other = None if file is session.file else file
    cells = [Candidate(cell=line.cell(value), file=other, name=f"{line.of} {value}") for value in line.values]
    return _search(session, line, cells, before, asked)


def _before(session: SearchSession, line: BisectLine) -> dict[str, str]:
    """Value of the line -> its reading in the last run of the case, where it was in that run."""
    known = {cell_key(cell.cell): str(reading(cell.verdict)) for cell in session.decided_before()}
    return {value: known[key] for value in line.values if (key := cell_key(line.cell(value))) in known}


def _line(session: SearchSession, asked: BisectionRequest) -> BisectLine:
    if asked.source:
        return walk_source(session.file, session.request, asked.source, asked.ends, tags_only=asked.tags_only)
    return walk_axis(session.file, session.request, asked.axis, asked.ends, asked.policy, asked.values)


def _search(
    session: SearchSession,
    line: BisectLine,
    candidates: list[Candidate],
    before: Mapping[str, str],
    asked: BisectionRequest,
) -> Generator[Query, tuple[Reading, ...], BisectAnswer]:
    for note in introduce(line):
        session.note(note)

    def progress(places: Sequence[int], readings: Mapping[int, Reading], left: int) -> None:
        results = " and ".join(f"{line.values[place]} {_SHOWS[readings[place]]}" for place in places)
        more = pluralize(math.ceil(math.log2(left)), "more run")
        session.note(f"{line.of} {results}: {left} places are left for the boundary, about {more}")

    # With one job at a time, nothing is built while a cell runs.
    found = yield from bisect(
        candidates,
        ahead=session.request.jobs > 1,
        every=asked.every,
        limit=asked.max_cells or 0,
        progress=progress,
        trials=session.trials,
    )
    reasons = {}
    for place in found.skipped:
        record = session.record_of(candidates[place])
        at_end = place in (0, len(candidates) - 1)
        reasons[place] = (
            f"{record.verdict}{': ' + first_line(record.reason) if at_end else ''}" if record else "unknown"
        )
    tallies = {place: session.trials.tally(candidates[place]) for place in found.readings}
    sides = (found.last, found.next) if found.broken_since else (found.next, found.last)
    good, bad = ([one] if (one := session.record_of(candidates[place])) else [] for place in sides)
    same = same_changes(good, bad, (line.axis, line.of)) if found.found else ""
    return answer(line, found, reasons, before, tallies, same)


def find_contradictions(line: BisectLine, found: Bisection, before: Mapping[str, str]) -> list[str]:
    """Values whose reading in the last run contradicts a line with this one change, or with none."""
    first, last = (found.readings[place] for place in (found.last, found.next))
    if Reading.UNRESOLVED in (first, last):
        return []
    expected = {
        value: str(first if place <= found.last else last)
        for place, value in enumerate(line.values)
        if not found.last < place < found.next or first is last
    }
    return [value for value, was in before.items() if was != Reading.UNRESOLVED and was != expected.get(value, was)]


def introduce(line: BisectLine) -> list[str]:
    """Lines to print before a bisection starts: its values, what is left out and why, and notes."""
    steps = math.ceil(math.log2(max(len(line.values) - 1, 1))) + 2
    ends = f"from {line.values[0]} to {line.values[-1]}"
    texts = [f"{len(line.values)} {line.things} of {line.of} {ends}, about {pluralize(steps, 'run')}"]
    left = [f"left out: {values}: {why}" for values, why in _grouped(line.left_out)]
    return [*texts, *left, *line.notes, *line.unknown]


def _grouped(reasons: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(names, reason) for each reason, with all names that have it."""
    grouped: dict[str, list[str]] = {}
    for value, why in reasons.items():
        grouped.setdefault(why, []).append(value)
    yield from ((some(values), why) for why, values in grouped.items())


def answer(
    line: BisectLine,
    found: Bisection,
    reasons: dict[int, str],
    before: Mapping[str, str],
    tallies: Mapping[int, Tally],
    same: str = "",
) -> BisectAnswer:
    """The result of a bisection.

    ``same``: what else was measured to change at the boundary, in words. ``tallies``: place -> its trials. ``reasons``:
    place -> why it is unresolved. ``before``: value -> its reading in the last run of the case. Exit status 0: a
    boundary between two neighbours. 1: both ends have the same reading, so there is no boundary. 3: an end is
    unresolved, the limit on cells was reached, the boundary may be at a value that is unresolved, was not tried or is
    not known, or the failure is flaky and the trials do not confirm the boundary.
    """
    values = line.values
    gap = line.untried(values[found.last], values[found.next])
    open_places = bool(found.stopped or found.unclear or found.not_run or gap.reasons)
    flaky = any(tally.failed and tally.passed for tally in tallies.values())
    decided = found.found and not open_places and (found.confirmed or not flaky)
    if not found.found:
        words, status = _nothing(line, found, reasons, tallies)
    else:
        ends = (tallies[place].of for place in (found.last, found.next))
        each = "" if found.confirmed else trials_each(ends)
        words, status = _boundary(line, found, gap, reasons, each), 0 if decided else 3
        words[0] += _not_excluded(line, found, tallies)
        words[:1] = _two_rates(line, found, tallies) or words[:1]
    words += [*_strength(found, tallies), *_rate_change(line, tallies), *_assumed(line, found)]
    words += [f"  {same}"] if same else []
    if odd := find_contradictions(line, found, before):
        was = "; ".join(
            f"{names} {shown}" for names, shown in _grouped({value: _SHOWED[Reading(before[value])] for value in odd})
        )
        words.append(
            f"  but in the last run of the case: {was}; so there is more than one change, or the failure is flaky"
        )
    skipped = f", {len(found.skipped)} skipped" if found.skipped else ""
    words.append(f"{len(found.readings)} of {len(values)} {line.things} run{skipped}")
    return BisectAnswer(
        words=tuple(words),
        exit_status=status,
        axis=line.axis,
        of=line.of,
        values=values,
        left_out=line.left_out,
        notes=line.notes,
        readings={values[place]: reading for place, reading in sorted(found.readings.items())},
        change=None if not found.found else "broken" if found.broken_since else "fixed",
        last=values[found.last],
        since=values[found.next] if decided else None,
        unclear=tuple(values[place] for place in found.unclear),
        untried=gap.left_out,
        unknown=line.unknown,
        confirmed=found.confirmed,
        trials={values[place]: tally for place, tally in sorted(tallies.items())},
        next=values[found.next] if found.found and not decided else "",
        against=tuple(odd),
        commit=line.commits.get(values[found.next]) if found.found else None,
    )


def _strength(found: Bisection, tallies: Mapping[int, Tally]) -> list[str]:
    """How often the failure shows where it shows at all, and what a boundary that is not confirmed rests on."""
    failing = total(tallies[place] for place, seen in found.readings.items() if seen is Reading.FAIL)
    words = []
    if failing.passed:
        words.append(f"  flaky: it failed in {failing.failed} of the {failing.of} trials of the values that fail")
    if found.found and not found.confirmed:
        words.append("  that may be chance: --confirm always repeats both sides until a flake is excluded")
    return words


def _two_rates(line: BisectLine, found: Bisection, tallies: Mapping[int, Tally]) -> list[str]:
    """What is said in place of "broken" and "fixed" where the side that passes fails, too, but more seldom."""
    before, after = (
        total(tally for place, tally in tallies.items() if (place >= found.next) is late) for late in (False, True)
    )
    if not (before.failed and after.failed):
        return []
    more = "more often" if found.broken_since else "less often"
    shown = f"in {after.failed} of {after.of} trials from there on, in {before.failed} of {before.of} before"
    sure = "" if found.confirmed else "not confirmed: "
    return [f"{sure}fails {more} since {line.of} {_full(line, line.values[found.next])}: {shown}"]


def _not_excluded(line: BisectLine, found: Bisection, tallies: Mapping[int, Tally]) -> str:
    """How often the last value that passes may fail all the same."""
    place = found.last if found.broken_since else found.next
    passed = tallies[place].passed
    if not passed or tallies[place].failed:
        return ""
    return f" ({line.values[place]} passed {passed} of {passed}: {not_excluded([passed], len(found.readings))})"


def _assumed(line: BisectLine, found: Bisection) -> list[str]:
    """What a bisection takes for granted, of which values, and where it began if an end is unresolved."""
    moved = ((0, found.last), (len(line.values) - 1, found.next))
    ends = [line.values[end] for end, here in moved if end in found.skipped and here != end]
    outside = [f"  {line.of} {value} is unresolved: the search began at a value near it" for value in ends]
    untried = [value for place, value in enumerate(line.values) if place not in found.readings]
    assumed = [f"  assumes one change in the range; not run: {some(untried)}"] if found.found and untried else []
    return [*assumed, *outside]


def _rate_change(line: BisectLine, tallies: Mapping[int, Tally]) -> list[str]:
    """Where the values that fail do so at two rates, which is a change of its own, in words; wrongly in 1 % at most."""
    failing = [place for place in sorted(tallies) if tallies[place].failed]
    found = []
    for at in range(1, len(failing)):
        before, after = (total(tallies[place] for place in side) for side in (failing[:at], failing[at:]))
        chance = chance_apart(before, after) * (len(failing) - 1)
        ends = (f"up to {line.of} {line.values[failing[at - 1]]}", f"from {line.values[failing[at]]} on")
        shown = (f"{one.failed} of {one.of} trials {where}" for one, where in zip((before, after), ends, strict=True))
        found.append((chance, f"  the rate changes: it failed in {', in '.join(shown)}"))
    return [words for chance, words in sorted(found)[:1] if chance <= 0.01]


def _boundary(line: BisectLine, found: Bisection, gap: Gap, reasons: dict[int, str], each: str) -> list[str]:
    """``each``: how few trials it rests on, in words; '' where they suffice. "Since" is a word for what is certain."""
    change, before, then = ("broken", "passing", "failing") if found.broken_since else ("fixed", "failing", "passing")
    last, after = line.values[found.last], line.values[found.next]
    if found.stopped or found.unclear or found.not_run or gap.reasons:
        words = [f"{each}{': ' if each else ''}{change} between {line.of} {_full(line, last)} and {_full(line, after)}"]
        limit = pluralize(len(found.readings), "cell")
        words += [f"  stopped at the limit of {limit}: raise it with --max-cells"] if found.stopped else []
        words += [f"  unresolved: {_unresolved(line, found.unclear, reasons)}"] if found.unclear else []
        between = some([line.values[place] for place in found.not_run])
        goes_on = "--every runs them" if found.unclear else "--confirm always goes on"
        words += [f"  not run: {between}; {goes_on}"] if found.not_run else []
        return [*words, *(f"  {reason}" for reason in gap.reasons)]
    words = [f"{change} since {line.of} {_full(line, after)}; last {before} {_full(line, last)}"]
    if each:
        words = [f"{each}: last {before} {line.of} {_full(line, last)}, first {then} {_full(line, after)}"]
    if after in line.commits and line.commits[after].merge:
        words.append(f"  it is a merge: bisect inside it with --source {line.source}={after}^1..{after}^2")
    return [*words, *(f"  left out between them: {names} ({why})" for names, why in _grouped(gap.left_out))]


def _nothing(
    line: BisectLine, found: Bisection, reasons: dict[int, str], tallies: Mapping[int, Tally]
) -> tuple[list[str], int]:
    ends = [place for place in (found.last, found.next) if found.readings[place] is Reading.UNRESOLVED]
    low, high = line.values[found.last], line.values[found.next]
    if ends:
        which = _unresolved(line, tuple(ends), reasons)
        return [f"not decided: an end of the range is unresolved: {line.of} {which}; start from a value next to it"], 3
    fails = found.readings[found.last] is Reading.FAIL
    one, other = tallies[found.last], tallies[found.next]
    shown = " and ".join(
        f"{tally.failed if fails else tally.passed} of {tally.of} trials with {name}"
        for tally, name in ((one, f"{line.of} {low}"), (other, high))
    )
    if not fails:
        shown += f", where {not_excluded((one.passed, other.passed), len(found.readings))}"
    does = "fails" if fails else "passes"
    return [f"no boundary: it {does} at both ends, {shown}; choose a range whose ends differ"], 1


def _full(line: BisectLine, value: str) -> str:
    details = line.details.get(value, "")
    return f"{value} ({details})" if details else value


def _unresolved(line: BisectLine, places: tuple[int, ...], reasons: dict[int, str]) -> str:
    named = {line.values[place]: reasons.get(place, "unknown") for place in places}
    return "; ".join(f"{names} ({why})" for names, why in _grouped(named))
