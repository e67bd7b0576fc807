"""``reprokit bisect``: a bisection along an axis or the commits of a source, and its answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from reprokit.case.files import CaseFile
from reprokit.case.matrix import cell_key
from reprokit.core.errors import UsageError
from reprokit.core.json_record import JsonRecord
from reprokit.core.text import first_line, pluralize
from reprokit.evidence.reading import Reading, reading
from reprokit.evidence.records import same_changes
from reprokit.evidence.strength import Tally, chance_apart, not_excluded, total, trials_each
from reprokit.search.bisect_line import BisectLine, add_axis, list_moved_submodules, walk_axis, walk_merge, walk_source
from reprokit.search.bisection import Bisection, bisect
from reprokit.search.queries import BisectAnswer, Candidate, Search
from reprokit.search.releases import Gap, Policy, some
from reprokit.search.search_session import SearchSession, Spent

_SHOWS = {Reading.PASS: "passes", Reading.FAIL: "fails", Reading.UNRESOLVED: "is unresolved"}
_SHOWED = {Reading.PASS: "passed", Reading.FAIL: "failed"}


GIVE_RANGE = "give one range, --axis NAME=LOW..HIGH, --axis NAME --values A,B,C or --source NAME=REF..REF"


@dataclass(frozen=True, kw_only=True)
class BisectionRequest(JsonRecord):
    """The arguments of a bisection, as recorded: the range of a source or of an axis, and which releases count."""

    source: str = ""
    axis: str = ""
    ends: tuple[str, ...]  # none: those that the case says
    since_works: str = ""  # where the case says the other end
    values: tuple[str, ...] = ()  # of the axis, all of them; none: its releases
    tags_only: bool = False
    max_cells: int | None = None
    seconds: float = 0.0  # stops it early; 0 for no such limit
    every: bool = False  # each unresolved value, not the edges of a stretch alone
    policy: Policy


def make(session: SearchSession) -> Search[BisectAnswer]:
    """The search that ``session.arguments`` ask for: an axis or a source, the two ends, and which releases to try.

    Raises UsageError as :func:`walk_axis` and :func:`walk_source` do, and where there is no range.
    """
    asked = with_range(BisectionRequest.from_json(session.arguments), session.file)
    line = BisectLine.from_json(session.recall("line", lambda: _line(session, asked).to_json()))
    file = session.file
    if line.source:
        file = add_axis(file, line.source, line.axis)
        # That repository has every commit: none has to be fetched on its own.
        places = {**session.request.sources, line.source: Path(line.repository)}
        named = (*session.request.named, f"--source {line.source}")
        session.request = dataclasses.replace(session.request, sources=places, named=named)
    session.label_axes = (line.axis,)
    # A case that is not rewritten keeps what it expects of its own cells.
    other = None if file is session.file else file
    spent = Spent(session=session, max_cells=asked.max_cells or 0, most_seconds=asked.seconds)
    return spent.watch(_search(session, line, other, asked, spent))


def with_range(asked: BisectionRequest, file: CaseFile) -> BisectionRequest:
    """The range from the commit of the bug to that of its fix, or from one that works to that of the bug."""
    if asked.ends:
        return asked
    refs = {name: one.ref for name, one in file.case.sources.items() if "{{" not in one.ref}
    fixed = {name: one.ref for name, one in file.fixed.sources.items()} if file.fixed else {}
    moved = [name for name in refs if fixed.get(name, refs[name]) != refs[name]]
    moved = moved or ([*refs] if asked.since_works else [])
    if len(moved) != 1:
        which = "the fix of the case names no other commit of one source" if not moved else f"of {' or '.join(moved)}"
        raise UsageError(f"{GIVE_RANGE}; none was given, and {which}")
    [name] = moved
    ends = (asked.since_works, refs[name]) if asked.since_works else (refs[name], fixed[name])
    return replace(asked, source=name, ends=ends)


def _before(session: SearchSession, line: BisectLine) -> dict[str, str]:
    """Value of the line -> its reading in the last run of the case, where it was in that run."""
    known = {cell_key(cell.cell): str(reading(cell.verdict)) for cell in session.decided_before()}
    return {value: known[key] for value in line.values if (key := cell_key(line.cell(value))) in known}


def _line(session: SearchSession, asked: BisectionRequest) -> BisectLine:
    if asked.source:
        return walk_source(session.file, session.request, asked.source, asked.ends, tags_only=asked.tags_only)
    return walk_axis(session.file, session.request, asked.axis, asked.ends, asked.policy, asked.values)


def _search(
    session: SearchSession, line: BisectLine, file: CaseFile | None, asked: BisectionRequest, spent: Spent
) -> Search[BisectAnswer]:
    """The bisection of a line and, where a merge is the answer, of the branch that it merges."""
    before = session.recall("before", lambda: _before(session, line))
    found = yield from _bisect(session, line, file, asked, spent)
    result = answer(line, *found, before)
    while result.commit is not None and result.commit.merge and result.since:
        merge, room = result.since, not asked.max_cells or asked.max_cells - len(spent.asked) > 1
        walk = partial(walk_merge, line, result.last, merge)
        inside = session.recall(f"inside {merge}", walk) if room else None
        if inside is None or spent.is_late():
            more = f"  it is a merge: bisect inside it with --source {line.source}={merge}^1..{merge}^2"
            return replace(result, words=(*result.words, more))
        session.note(f"{line.of} {merge} is a merge: the branch that it merges is searched")
        line = BisectLine.from_json(inside)
        found = yield from _bisect(session, line, file, asked, spent)
        inner = answer(line, *found, {})
        if inner.change != result.change:
            return replace(result, words=(*result.words, _merge_itself(line, found[0], result)))
        words = (*result.words, f"inside the merge {merge}:", *inner.words)
        result = replace(inner, words=words, merges=(*result.merges, result.commit))
    return result


def _merge_itself(line: BisectLine, found: Bisection, merged: BisectAnswer) -> str:
    """What a merge is the answer for, if its branch ``line`` has no change of the same kind, in words."""
    tip, begin = line.values[-1], line.values[0]
    expected = Reading.PASS if merged.change == "broken" else Reading.FAIL
    seen = found.readings.get(len(line.values) - 1, Reading.UNRESOLVED)
    if seen is expected:
        return f"  the merge itself: each of its parents {_SHOWS[seen]}, {merged.last} and {tip}"
    if seen is Reading.UNRESOLVED:
        return f"  it is a merge, and {tip}, the branch that it merges, is unresolved"
    return f"  it is a merge, and the branch that it merges {_SHOWS[seen]} from where it began, {begin}, to {tip}"


_Found = tuple[Bisection, dict[int, str], dict[int, Tally], list[str]]
"""A bisection, why places are unresolved, the trials of each place, and what else changes at the boundary."""


def _bisect(
    session: SearchSession, line: BisectLine, file: CaseFile | None, asked: BisectionRequest, spent: Spent
) -> Search[_Found]:
    for note in introduce(line):
        session.note(note)
    candidates = [Candidate(cell=line.cell(value), file=file, name=f"{line.of} {value}") for value in line.values]
    known = session.trials
    trials = replace(known, left=lambda: 0.0 if spent.is_late() else known.left())

    def progress(places: Sequence[int], readings: Mapping[int, Reading], left: int) -> None:
        results = " and ".join(f"{line.values[place]} {_SHOWS[readings[place]]}" for place in places)
        more = f", about {pluralize(math.ceil(math.log2(left)), 'more run')}" if left else ""
        judged = (place for place, seen in readings.items() if seen is not Reading.UNRESOLVED)
        if any(one.failed and one.passed for one in (known.tally(candidates[place]) for place in judged)):
            seen, more = total(known.tally(candidates[place]) for place in places), ""
            results = f"{line.values[places[0]]} failed in {seen.failed} of {pluralize(seen.of, 'trial')}"
        where = f"{pluralize(left, 'place is', 'places are')} left for the boundary" if left else "going on further in"
        session.note(f"{line.of} {results}: {where}{more}")

    # With one job at a time, nothing is built while a cell runs.
    found = yield from bisect(
        candidates,
        ahead=session.request.jobs > 1,
        every=asked.every,
        limit=max(asked.max_cells - len(spent.asked), 2) if asked.max_cells else 0,
        is_late=spent.is_late,
        progress=progress,
        trials=trials,
    )
    reasons = {}
    for place in found.skipped:
        record = session.record_of(candidates[place])
        at_end = place in (0, len(candidates) - 1)
        reasons[place] = (
            f"{record.verdict}{': ' + first_line(record.reason) if at_end else ''}" if record else "unknown"
        )
    tallies = {place: known.tally(candidates[place]) for place in found.readings}
    if not found.found:
        return found, reasons, tallies, []
    sides = (found.last, found.next) if found.broken_since else (found.next, found.last)
    good, bad = ([one] if (one := session.record_of(candidates[place])) else [] for place in sides)
    more = [same_changes(good, bad, (line.axis, line.of)), *list_moved_submodules(line, found.last, found.next)]
    return found, reasons, tallies, [one for one in more if one]


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
    tallies: Mapping[int, Tally],
    more: Sequence[str],
    before: Mapping[str, str],
) -> BisectAnswer:
    """The result of a bisection.

    ``more``: what else changes at the boundary, in words. ``tallies``: place -> its trials. ``reasons``:
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
        words[:1] = (_two_rates(line, found, tallies) if flaky else []) or words[:1]
    words += _others(line, found, tallies) if not flaky else []
    words += [*_strength(found, tallies), *_rate_change(line, tallies), *_assumed(line, found, flaky=flaky)]
    words += [f"  {one}" for one in more]
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
        against=tuple(dict.fromkeys((*(values[place] for place in found.others), *odd))),
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


def _others(line: BisectLine, found: Bisection, tallies: Mapping[int, Tally]) -> list[str]:
    """That there are more changes before this one."""
    if not (others := found.others):
        return []
    seen, trials = found.readings[found.next], total(tallies[place] for place in others)
    names = some([line.values[place] for place in others])
    count = trials.failed if seen is Reading.FAIL else trials.passed
    return [f"  the last of several changes: it {_SHOWED[seen]} at {names}, too, in {count} of {trials.of} trials"]


def _assumed(line: BisectLine, found: Bisection, *, flaky: bool) -> list[str]:
    """What a bisection takes for granted, of which values, and where it began if an end is unresolved."""
    judged = [place for place in found.readings if place not in found.skipped] or [0]
    last, outside = len(line.values) - 1, []
    ends = ((0, min(judged), range(1, min(judged))), (last, max(judged), range(max(judged) + 1, last)))
    for end, begun, between in ends:
        if end in found.skipped and begun != end:
            rest = f", and nothing is known of {some([line.values[place] for place in between])}" if between else ""
            begin = f"the search began at {line.values[begun]}{rest}"
            outside.append(f"  {line.of} {line.values[end]} is unresolved: {begin}")
    untried = [value for place, value in enumerate(line.values) if place not in found.readings]
    missed = f": another that was undone within {pluralize(found.widest, 'place')} would be missed"
    missed = "" if flaky or not found.widest else missed
    assumed = f"  assumes one change in the range{missed}; not run: {some(untried)}"
    return [*([assumed] if found.found and untried else []), *outside]


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
        values = ",".join(line.values[found.last : found.next + 1])
        going = f"--source {line.source}={last}..{after}" if line.source else f"--axis {line.axis}={last}..{after}"
        going = f"--axis {line.axis} --values {values}" if line.things == "values" else going
        ran = pluralize(len(found.readings), "cell")
        words += [f"  stopped at a limit, after {ran}: go on with {going}, or raise it"] if found.stopped else []
        words += [f"  unresolved: {_unresolved(line, found.unclear, reasons)}"] if found.unclear else []
        between = some([line.values[place] for place in found.not_run])
        goes_on = "--every runs them" if found.unclear else "--confirm always goes on"
        words += [f"  not run: {between}; {goes_on}"] if found.not_run else []
        return [*words, *(f"  {reason}" for reason in gap.reasons)]
    words = [f"{change} since {line.of} {_full(line, after)}; last {before} {_full(line, last)}"]
    if each:
        words = [f"{each}: last {before} {line.of} {_full(line, last)}, first {then} {_full(line, after)}"]
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
