"""``reprokit isolate``: chooses the two cells of an isolation, runs it over the case's cells, and gives its answer."""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case import matrix
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, Partial, expand, label, matches, no_axis, parse_group
from reprokit.core.errors import UsageError
from reprokit.core.json_record import JsonRecord
from reprokit.core.near_match import near
from reprokit.engine import site
from reprokit.environment import versions, wording
from reprokit.environment.axes import AXES, AXIS_NAMES, BY_NAME, KNOWN, READERS
from reprokit.environment.catalog import OURS
from reprokit.evidence.model import Verdict
from reprokit.evidence.reading import Reading, reading
from reprokit.evidence.verdict import expect_verdict
from reprokit.run.plan import check_values
from reprokit.run.task import expected_verdict
from reprokit.search.conditions import values_between
from reprokit.search.isolate_summary import IsolationText
from reprokit.search.isolation import Isolation, changes_between, isolate
from reprokit.search.queries import Candidate, Query, Search, SearchAnswer
from reprokit.search.releases import AxisRange, Policy, Releases, find_pinned, find_releases
from reprokit.search.search_session import SearchSession


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One environment of a report, as people paste them."""

    cell: Cell
    used: Mapping[str, str]  # key -> what it was read as
    unused: tuple[str, ...]  # the other keys


def read_environment(
    environment: Mapping[str, Any], axes: Mapping[str, Sequence[str]], names: Collection[str]
) -> Reported:
    """The axes that an environment gives: known ones, and those that the case has or its templates use (``names``).

    ``axes``: the case's own with their values; a version is cut to as many parts as those have.
    """
    cell: Cell = {}
    used: dict[str, str] = {}
    for key, value in environment.items():
        folded = wording.folded(str(key))
        text = str(value).strip()
        for axis in _meant(folded, {*axes, *names}):
            if axis not in cell and (found := _read(axis, text, axes.get(axis, ()))):
                cell[axis] = found
                used[str(key)] = f"{axis} {found}"
                break
        else:
            axis = next(
                (name for name in (*axes, *names) if name.lower() in (folded, wording.PROJECTS.get(folded))), ""
            )
            if axis and axis not in cell and (found := _read_free(axis, text, axes.get(axis, ()))):
                cell[axis] = found
                used[str(key)] = f"{axis} {found}"
    unused = tuple(str(key) for key in environment if str(key) not in used)
    order = [name for name in (*axes, *cell) if name in cell]
    return Reported(cell={name: cell[name] for name in order}, used=used, unused=unused)


def _meant(key: str, own: Collection[str]) -> list[str]:
    """The known axes that a key speaks of. ``own``: those that the case has or uses."""
    among = [axis for axis in AXES if axis.name in own or not axis.wording.incidental]
    return [axis.name for axis in among if key in axis.wording.keys]


def _read(axis: str, text: str, own: Sequence[str]) -> str:
    """The value of a known axis in a text, in the spelling of the case's own values; '' for none."""
    if axis == "os":
        return _release(text, own)
    version = READERS[axis](text)
    if not version:
        return ""
    fitting = next((value for value in own if versions.matches(value, version)), "")
    precise = max(
        (len(versions.parts(value)) for value in own if value != versions.NONE), default=BY_NAME[axis].precision
    )
    return fitting or ".".join(versions.parts(version)[:precise])


def _release(text: str, own: Sequence[str]) -> str:
    """The release that a text names, else one that has the glibc that it names: the case's own, else the newest."""
    named = wording.os(text, own)
    if named in own or named in OURS.releases():
        return named
    fitting = wording.with_glibc(wording.glibc(text))
    return next((name for name in (*own, *reversed(fitting)) if name in fitting), "")


def _read_free(axis: str, text: str, own: Sequence[str]) -> str:
    if text in own or axis in READERS:  # what the reader of a known axis refused says something else
        return text if text in own else ""
    found = re.match(rf"v?({wording.VERSION}\S*)", text)
    return found[1] if found and "," not in text else ""


def untested_differences(environments: Sequence[Mapping[str, Any]], found: Sequence[Reported]) -> list[str]:
    """Keys whose texts differ although they are read as the same value, in words: differences that are not tested."""
    words = []
    for key in dict.fromkeys(key for one in found for key in one.used):
        read_as = {one.used[key] for one in found if key in one.used}
        texts = dict.fromkeys(str(environment[key]) for environment in environments if key in environment)
        if len(read_as) == 1 and len(texts) > 1:
            shown = " and ".join(repr(text.split(" (")[0]) for text in texts)
            words.append(f"{key} is {shown}, both read as {next(iter(read_as))}: this difference is not tested")
    return words


MANY = 300
"""Most candidates for either cell among which the closest two are chosen."""


def parse_cell(option: str, text: str) -> Cell:
    """The value of ``option``, such as ``cuda=12.0,gcc=12``, as a partial cell. Raises UsageError."""
    try:
        found = parse_group(text)
    except UsageError as error:
        raise UsageError(f"{option} {text}: {error}") from error
    if twice := next((name for name, values in found.items() if len(values) > 1), ""):
        raise UsageError(f"{option} {text}: {twice} is given twice; name one cell")
    return {name: value for name, (value,) in found.items()}


def is_possible(file: CaseFile, cell: Partial) -> bool:
    """Whether the case allows such a cell: its ``exclude`` does not match it."""
    return not any(matches(cell, partial) for partial in file.case.matrix.exclude)


def choose_ends(file: CaseFile, bad: Partial, good: Partial) -> tuple[Cell, Cell, list[str]]:
    """Complete two partial cells, so that they differ in as few other axes as possible, and note what was chosen.

    Axes that are not given are taken from cells of the case, first from those with the expected verdict. Raises
    UsageError for an axis that the case does not have, where ``exclude`` leaves no such cell, and for equal cells.
    """
    if bad == good:
        raise UsageError(f"--bad and --good are the same: {label(bad)}; name what differs between them")
    whole = {}
    for option, partial in (("--bad", bad), ("--good", good)):
        _check(file, option, partial)
        whole[option] = _completions(file, partial)
        if not whole[option]:
            raise UsageError(f"{option} {label(partial)}: the matrix of {file.case.id} excludes every such cell")
    promised = {
        "--bad": {Verdict.REPRODUCED: 0, None: 1, Verdict.NOT_REPRODUCED: 2},
        "--good": {Verdict.NOT_REPRODUCED: 0, None: 1, Verdict.REPRODUCED: 2},
    }

    def rank(pair: tuple[tuple[int, Cell], tuple[int, Cell]]) -> tuple[int, int, int]:
        (at, one), (place, other) = pair
        against = promised["--bad"][expected_verdict(file, one)] + promised["--good"][expected_verdict(file, other)]
        return against, distance(one, other), at + place

    pairs = itertools.product(enumerate(whole["--bad"][:MANY]), enumerate(whole["--good"][:MANY]))
    apart = [pair for pair in pairs if pair[0][1] != pair[1][1]]
    if not apart:
        raise UsageError(f"--bad and --good are the same cell: {label(whole['--bad'][0])}")
    (_, one), (_, other) = min(apart, key=rank)
    return one, other, _choices(file, "--bad", bad, one) + _choices(file, "--good", good, other)


def closest_pair(bad: Sequence[Cell], good: Sequence[Cell], partial: Mapping[str, Partial]) -> tuple[Cell, Cell] | None:
    """The closest two cells, one of ``bad`` and one of ``good``; None where no pair matches.

    ``partial``: what the options ``--bad`` and ``--good`` ask for, by option.
    """
    left = [cell for cell in bad if matches(cell, partial["--bad"])]
    right = [cell for cell in good if matches(cell, partial["--good"])]
    pairs = itertools.product(enumerate(left[:MANY]), enumerate(right[:MANY]))
    found = min(pairs, key=lambda pair: (distance(pair[0][1], pair[1][1]), pair[0][0] + pair[1][0]), default=None)
    return (found[0][1], found[1][1]) if found else None


def distance(one: Partial, other: Partial) -> int:
    """In how many axes two cells differ."""
    return sum(one.get(name) != other.get(name) for name in {*one, *other})


def _completions(file: CaseFile, partial: Partial) -> list[Cell]:
    own = _cells_of_case(file) or [{}]
    # Unchanged cells of the case come first.
    cells = sorted(({**cell, **partial} for cell in own), key=lambda cell: cell not in own) if partial else own
    unique = {tuple(sorted(cell.items())): cell for cell in reversed(cells)}
    return [cell for cell in reversed(unique.values()) if is_possible(file, cell)]


def _cells_of_case(file: CaseFile) -> list[Cell]:
    return expand(file.case.matrix.axes, file.case.matrix.exclude, file.case.matrix.include)


def _check(file: CaseFile, option: str, partial: Partial) -> None:
    own = (*file.case.matrix.columns(), *sorted(file.names))
    for name, value in partial.items():
        if name not in (*own, *AXIS_NAMES):
            raise UsageError(f"{option} {name}=...: {no_axis(name, own, KNOWN)}")
        has = file.case.matrix.columns().get(name, ())
        if value not in has and _is_closed(file, name, has):
            hint = near(value, has, prefix="; ")
            raise UsageError(
                f"{option} {name}={value}: axis {name!r} has no such value{hint}; it has: {', '.join(has)}"
            )


def _is_closed(file: CaseFile, name: str, has: Sequence[str]) -> bool:
    """Whether the values of an axis are all that there are: words of the case, not versions, numbers or commits."""
    refs = any(name in source.ref for source in file.case.sources.values())
    return bool(has) and name not in AXIS_NAMES and not refs and not any(re.match(r"v?\d", value) for value in has)


def _choices(file: CaseFile, option: str, given: Partial, cell: Cell) -> list[str]:
    single = {name for name, values in file.case.matrix.columns().items() if len(values) == 1}  # there was no choice
    added = {name: value for name, value in cell.items() if name not in given and name not in single}
    return [f"{option}: other axes taken from the case: {label(added)}"] if added and given else []


def missing_cells(file: CaseFile, given: Iterable[str]) -> UsageError:
    """The error where a cell is not given and neither the last run nor the case supplies it."""
    missing = " and ".join(option for option in ("--bad", "--good") if option not in given)
    environments = len(file.case.report.environments) if file.case.report else 0
    reported = "; or use --reported, since the case has the environments of its report" if environments > 1 else ""
    return UsageError(
        f"{missing}: name a cell in which the failure shows and one in which it does not, such as "
        "--bad cuda=12.0,gcc=12 --good cuda=11.8,gcc=11; or run the case first, and both are taken from its last run"
        f"{reported}"
    )


@dataclass(frozen=True, kw_only=True)
class AskedValues(JsonRecord):
    """What ``--axis`` names: the two ends of a range of releases, or values."""

    ends: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IsolationRequest(JsonRecord):
    """The arguments of an isolation, as recorded."""

    bad: str | None  # a cell, as typed
    good: str | None
    reported: bool  # both are those of the report
    max_cells: int | None
    axes: Mapping[str, AskedValues]
    policy: Policy


@dataclass(frozen=True, kw_only=True)
class IsolationEnds(JsonRecord):
    """The cells that a search starts from, the bad one first, and how they were chosen."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    reported: bool = False


@dataclass(frozen=True, kw_only=True)
class ValuesBetween(JsonRecord):
    """The values of an axis between those of two cells: the case's own, and those that ``--axis`` names or finds."""

    values: tuple[str, ...]
    asked: Releases | None  # that ``--axis`` asks for


def make(session: SearchSession) -> Search[SearchAnswer]:
    """The search that ``session.arguments`` ask for. Raises UsageError where a cell is missing or not possible."""
    given = IsolationRequest.from_json(session.arguments)
    found = IsolationEnds.from_json(session.recall("ends", lambda: _ends(session, given).to_json()))
    known = dict.fromkeys(name for cell in found.cells for name in cell)
    for axis, asked in given.axes.items():
        if axis not in (*known, *session.file.names):
            raise UsageError(f"--axis {axis}=...: {matrix.no_axis(axis, known, KNOWN)}")
        if axis not in known or len({cell.get(axis) for cell in found.cells}) == 1:
            raise UsageError(
                f"--axis {axis}=...: the two cells do not differ in it; name its values in --bad and --good"
            )
        check_values(session.file, {axis: asked.values}, session.request, "--axis")
    return _search(session, given, found)


def _search(session: SearchSession, given: IsolationRequest, found: IsolationEnds) -> Search[SearchAnswer]:
    cells = found.cells
    session.label_axes = tuple(
        dict.fromkeys(change.axis for cell in cells for change in changes_between(cells[0], cell))
    )
    for note in found.notes:
        session.note(note)
    if found.reported:
        pair = yield from _roles(cells)
    else:
        pair = (cells[0], cells[1])
    bad, good = pair
    file = session.file

    asked: dict[str, Releases] = {}

    def between(axis: str, base: Cell) -> Sequence[str]:
        def find() -> dict[str, Any]:
            return _between(session, given, axis, base, (good, bad)).to_json()

        found = ValuesBetween.from_json(session.recall(f"line {axis}", find))
        if found.asked:
            asked[axis] = found.asked
        return found.values

    result = yield from isolate(
        good,
        bad,
        possible=lambda cell: is_possible(file, cell),
        cost=session.cost,
        between=between,
        limit=given.max_cells or 1000,
        # With one job at a time, nothing is built while a cell runs.
        ahead=session.request.jobs > 1,
        trials=session.trials,
    )
    size = matrix.count(file.case.matrix.axes, file.case.matrix.exclude, file.case.matrix.include)
    report = IsolationText(
        found=result, record=lambda cell: session.record_of(Candidate(cell=cell)), matrix=size, asked=asked
    )
    return report.answer(_closer(session, given, result))


def _closer(session: SearchSession, given: IsolationRequest, found: Isolation) -> Iterator[str]:
    """How to search the releases between two values that were found next to each other, in words."""
    if len(found.explanations) != 1:
        return
    known = {one.axis: one for one in found.boundaries}
    for change in found.named(functools.reduce(operator.or_, found.explanations[0])):
        good, bad, axis = change.good, change.bad, change.axis
        if axis in known and known[axis].found.found:
            good, bad = (known[axis].values[place] for place in (known[axis].found.last, known[axis].found.next))
        if axis in given.axes or good is None or bad is None:
            continue
        if find_pinned(session.file, found.bad, axis, bad):
            yield f"to search the releases between {axis} {good} and {bad}, add --axis {axis}={good}..{bad}"


def _roles(cells: Sequence[Cell]) -> Search[tuple[Cell, Cell]]:
    """Run all environments of a report: the closest failing and passing one, or the first two where there is none."""
    readings = yield Query(candidates=tuple(Candidate(cell=cell) for cell in cells))
    bad = [cell for cell, seen in zip(cells, readings, strict=True) if seen is Reading.FAIL]
    good = [cell for cell, seen in zip(cells, readings, strict=True) if seen is Reading.PASS]
    return closest_pair(bad, good, {"--bad": {}, "--good": {}}) or (cells[0], cells[1])


def _ends(session: SearchSession, asked: IsolationRequest) -> IsolationEnds:
    file = session.file
    if asked.reported:
        return _reported(file)
    options = {"--bad": asked.bad, "--good": asked.good}
    given = {name: parse_cell(name, text) for name, text in options.items() if text}
    for name, cell in given.items():
        check_values(file, {axis: (value,) for axis, value in cell.items()}, session.request, name)
    if len(given) == 2:
        *cells, notes = choose_ends(file, given["--bad"], given["--good"])
        return IsolationEnds(cells=tuple(cells), notes=tuple(notes))
    partial = {"--bad": given.get("--bad", {}), "--good": given.get("--good", {})}
    for where, bad, good in (_last_run(session), _promised(file)):
        if pair := closest_pair(bad, good, partial):
            notes = [f"{name} cell, {where}: {label(cell)}" for name, cell in zip(("bad", "good"), pair, strict=True)]
            return IsolationEnds(cells=pair, notes=tuple(notes))
    raise missing_cells(file, given)


def _last_run(session: SearchSession) -> tuple[str, list[Cell], list[Cell]]:
    seen = [(dict(cell.cell), reading(cell.verdict)) for cell in session.decided_before()]
    bad, good = ([cell for cell, one in seen if one is wanted] for wanted in (Reading.FAIL, Reading.PASS))
    return "from the last run", bad, good


def _promised(file: CaseFile) -> tuple[str, list[Cell], list[Cell]]:
    wanted = [(cell, expect_verdict(file.case.expect.reproduces, cell, True)) for cell in _cells_of_case(file)]
    bad = [cell for cell, verdict in wanted if verdict is Verdict.REPRODUCED]
    return "as the case expects", bad, [cell for cell, verdict in wanted if verdict is Verdict.NOT_REPRODUCED]


def _reported(file: CaseFile) -> IsolationEnds:
    environments = file.case.report.environments if file.case.report else ()
    if len(environments) < 2:
        raise UsageError(
            f"--reported needs at least two report.environments, and {file.case.id} has {len(environments)}; "
            "name the cells with --bad and --good"
        )
    own = file.case.matrix.columns()
    found = [read_environment(environment, own, file.names) for environment in environments]
    base = next(iter(_cells_of_case(file)), {})
    cells = [{**base, **one.cell} for one in found]
    notes = []
    for number, (one, cell) in enumerate(zip(found, cells, strict=True), 1):
        used = ", ".join(f"{key}: {axis}" for key, axis in one.used.items())
        notes.append(f"environment {number} of the report: {used or 'none of its keys is an axis'}")
        if one.unused:
            notes.append(f"  ignored keys: {', '.join(one.unused)}")
        if left := {name: value for name, value in cell.items() if name not in one.cell}:
            notes.append(f"  not in the report, taken from the case: {label(left)}")
    notes += untested_differences(environments, found)
    if len({tuple(sorted(cell.items())) for cell in cells}) < 2:
        raise UsageError("\n  ".join(["--reported: all environments of the report give the same cell", *notes]))
    return IsolationEnds(cells=tuple(cells), notes=tuple(notes), reported=True)


def _between(
    session: SearchSession, given: IsolationRequest, axis: str, base: Cell, ends: tuple[Cell, Cell]
) -> ValuesBetween:
    """``ends``: the good and the bad cell."""
    file, (good, bad) = session.file, ends
    values = list(file.case.matrix.columns().get(axis, ()))
    asked = given.axes.get(axis, AskedValues())
    found = None
    if asked.ends:
        low, high = asked.ends
        wanted = AxisRange(
            file=file, cell=base, axis=axis, low=low, high=high, policy=given.policy, catalog=site.catalog()
        )
        found = find_releases(wanted)
        for note in (*found.notes, *found.unknown):
            session.note(note)
        values += found.values
    values += asked.values
    versions = bool((found and found.packages) or find_pinned(file, base, axis, bad[axis]))
    line = values_between(axis, values, good[axis], bad[axis], versions=versions)
    return ValuesBetween(values=tuple(line), asked=found)
