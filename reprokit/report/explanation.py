"""What the decided cells of a case explain, in words and as records."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal

from reprokit.case.matrix import Cell, Selection, as_group, cell_key, count, expand, in_matrix, label, matches
from reprokit.core.json_record import JsonDocument, JsonRecord
from reprokit.core.text import pluralize
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.cases import recorded_case, select
from reprokit.evidence.model import Verdict
from reprokit.evidence.reading import Reading, reading
from reprokit.evidence.records import CellRecord, RunRecord, same_changes
from reprokit.evidence.strength import EXACT_TRIALS, Tally, never_failed, not_excluded, total, trials_each
from reprokit.search.conditions import Conjunction, gap, words
from reprokit.search.explain import DiscriminatingCell, Explanation, RateDifference, Statement, difference, explain
from reprokit.search.repeating import MOST_TRIALS, Support, tally_of, trials_of

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.store.database import Store

FileOf = Callable[[str], "CaseFile | None"]
"""The case file of a digest; None where it is not known any more."""

GPU_MODEL = "GPU model"
"""The axis that records add to a case. No command can select it: the host has the GPU that it has."""
NO_GPU = "none"
NOT_AVAILABLE = (Verdict.BUILD_FAILED, Verdict.ENVIRONMENT_MISMATCH, Verdict.UNSUPPORTED)
"""Verdicts of cells that another run would not decide either."""

MOST_CELLS = 10_000
"""Cells of a matrix, those that were not run included, that are looked at."""
FEW_CASES = 3
"""As many cases are explained at the end of a run, whether or not they are as expected."""
MOST_LISTED = 100
"""Cells of a matrix that were not run that the result file lists."""
SHOWN = 4
"""Cells, rivals and facts that are shown of more."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A case with what its cells explain."""

    id: str
    path: str
    file: CaseFile | None
    cells: tuple[Cell, ...]  # what positions in ``explanation`` mean
    records: tuple[CellRecord, ...]  # of the cells that were run, which come first
    fixed: tuple[CellRecord, ...]  # with the fix
    replaced: str  # what the fix replaces of what failed, as a sentence says it
    explanation: Explanation

    @cached_property
    def _tallies(self) -> list[Tally]:
        return [*map(tally_of, self.records), *[Tally()] * (len(self.cells) - len(self.records))]

    @cached_property
    def supported(self) -> bool:
        """Whether the trials suffice for the statement: that no other cell fails by the same chance."""
        return Support(self.explanation, self.cells).given(self._tallies)

    @cached_property
    def exact(self) -> bool:
        """Whether they suffice for the word "exactly", too."""
        return self.supported and Support(self.explanation, self.cells).exact(self._tallies)

    @cached_property
    def difference(self) -> RateDifference | None:
        """By what cells fail more often than others; None where a condition is claimed, or no difference is shown."""
        open_ = self.explanation.claim is not Statement.ONE_OF and not self.supported
        return difference(self.cells, self._tallies) if open_ else None

    @property
    def bound(self) -> str:
        """What the passing cells do not exclude."""
        found = self.explanation
        return not_excluded((trials_of(self.records[at]) for at in found.good), found.decided)

    @property
    def ratios(self) -> bool:
        """Whether intervals of ratios decided the cells, rather than counts of trials."""
        return any(record.details.ratio for record in self.records)

    @property
    def why(self) -> str:
        """Why nothing is claimed; '' where several conditions fit."""
        same = self.explanation.bad and not self.explanation.good and self.explanation.decided > 1
        return f"{self.explanation.why}{': no difference between them is shown to matter' if same else ''}"

    @property
    def trials(self) -> list[int]:
        """How many trials each decided cell had."""
        return [trials_of(self.records[at]) for at in (*self.explanation.bad, *self.explanation.good)]

    @property
    def departs(self) -> bool:
        """Whether a verdict is not as the case expects."""
        return any(record.as_expected is False for record in (*self.records, *self.fixed))


def explain_records(records: Sequence[CellRecord], file_of: FileOf = lambda digest: None) -> Explained:
    """What the cells of one case explain; ``records``: each cell and variant once."""
    ran = [record for record in records if record.variant == "case"]
    cells = [dict(record.cell) for record in ran]
    readings = [reading(record.verdict) for record in ran]
    # Without a difference there is nothing for which the case would be needed; no cell of it has a model of GPU.
    known = {Reading.FAIL, Reading.PASS} <= set(readings) and not any(GPU_MODEL in cell for cell in cells)
    fixed = tuple(record for record in records if record.variant == "fix")
    recorded = file_of(records[0].case_digest) if known or fixed else None
    file = recorded if known else None
    others = find_not_run(file, ran) if file else []
    unavailable = {cell_key(record.cell) for record in ran if record.verdict in NOT_AVAILABLE}
    return Explained(
        id=records[0].case_id,
        path=records[0].case_path,
        file=file,
        cells=tuple(cells + others),
        records=tuple(ran),
        fixed=fixed,
        replaced=_replaced_by_fix(recorded) if recorded and recorded.fixed else "",
        explanation=explain(
            cells + others,
            readings + [Reading.UNRESOLVED] * len(others),
            askable=lambda cell: (
                cell_key(cell) not in unavailable
                and GPU_MODEL not in cell
                and not (file and any(matches(cell, one) for one in file.case.matrix.exclude))
            ),
        ),
    )


def _replaced_by_fix(file: CaseFile) -> str:
    """That the fix replaces the command, or files that the case brings: they may do nothing any more."""
    case, fixed = file.case, file.fixed or file.case
    if fixed.command != case.command:
        return "runs another command, and the one that failed was not run with it"
    changed = ", ".join(name for name in case.files if fixed.files.get(name) != case.files[name])
    return f"changes {changed} of the case, and what failed may not have been run with it" if changed else ""


def explain_run(run: RunRecord, file_of: FileOf = lambda digest: None) -> list[Explained]:
    """What each case of a run explains, in their order."""
    cases: dict[tuple[str, str], list[CellRecord]] = {}
    for cell in run.cells:
        cases.setdefault((cell.case_key, cell.case_digest), []).append(cell)
    return [explain_records(cells, file_of) for cells in cases.values()]


def newest(recorded: Sequence[tuple[RunRecord, CellRecord]], file: CaseFile | None) -> list[CellRecord]:
    """The newest verdict of each cell and variant, a conclusive one if there is any, by the kind of engine used last.

    ``recorded``: newest first. Only cells of the case's matrix count, unless none is one of these (options gave each
    another axis). Where cells were decided on several models of GPU, the model is one more axis.
    """
    found: dict[tuple[str, str, str], CellRecord] = {}
    engine = next((run.engine for run, _ in recorded if run.engine), "")
    cells = [cell for run, cell in recorded if cell.verdict is not None and run.engine in ("", engine)]
    decided = [cell for cell in cells if cell.verdict and cell.verdict.conclusive]
    models = {gpu_model(cell) for cell in decided} - {NO_GPU}
    for cell in decided if len(models) > 1 else cells:
        key = (cell_key(cell.cell), cell.variant, gpu_model(cell) if len(models) > 1 else "")
        known = found.setdefault(key, cell)
        if known.verdict and not known.verdict.conclusive and cell.verdict and cell.verdict.conclusive:
            found[key] = cell
    records = list(found.values())
    if file is not None:
        matrix = file.case.matrix
        own = [one for one in records if in_matrix(one.cell, matrix.axes, matrix.exclude, matrix.include)]
        records = own or records
    if len(models) > 1:
        records = [replace(one, cell={**one.cell, GPU_MODEL: gpu_model(one)}) for one in records]
    return records


def gpu_model(record: CellRecord) -> str:
    """The models of the GPUs on which a cell was decided, as its trials recorded them."""
    names = [gpu.name for trial in record.trials for gpu in (trial.usage.gpus if trial.usage else ())]
    return " and ".join(dict.fromkeys(names)) or NO_GPU


def files_in(store: Store) -> FileOf:
    """Finds the case files that the store keeps."""
    return cache(lambda digest: recorded_case(store.case_text(digest)))


def find_not_run(file: CaseFile, ran: Sequence[CellRecord]) -> list[Cell]:
    """The cells of a case's matrix that are not among those that ran; [] for a matrix of very many."""
    matrix = file.case.matrix
    if count(matrix.axes) + len(matrix.include) > MOST_CELLS:
        return []
    known = {cell_key(record.cell) for record in ran}
    return [cell for cell in expand(matrix.axes, matrix.exclude, matrix.include) if cell_key(cell) not in known]


def conclude(cases: Sequence[Explained], run_id: str) -> tuple[list[str], frozenset[str]]:
    """What the end of a run says: of a few cases all in short; of many those that depart, and how to see the others.

    And the cases of which that says what their passing cells do not exclude.
    """
    compared = [one for one in cases if one.explanation.bad and (one.explanation.good or one.difference)]
    shown = compared if len(compared) <= FEW_CASES else [one for one in compared if one.departs][:SHOWN]
    lines = [f"{one.id}: {line}" if len(cases) > 1 else line for one in shown for line in short(one)]
    if left := len(compared) - len(shown):
        more = pluralize(left, "more case") if shown else f"{left} cases reproduce in some cells and not in others"
        lines.append(f"{more}: reprokit show --why {run_id}")
    exact = (one for one in shown if one.explanation.claim is Statement.EXACT and not one.difference)
    return lines, frozenset(one.id for one in exact)


def short(explained: Explained) -> Iterator[str]:
    """One to three lines for the end of a run. What is claimed says in its own sentence what it does not exclude."""
    found = explained.explanation
    notes = [f"in the {found.decided} cells decided", *left_open(explained)]
    if not found.minimal:
        notes.append("a shorter condition may exist")
    exact = found.claim is Statement.EXACT
    if explained.supported or explained.difference:
        found_claim = claim(explained)
        yield f"{found_claim.verb} when {found_claim.condition} ({'; '.join([found_claim.seen, *notes])})"
    elif found.claim is Statement.NONE:
        yield f"no explanation: {explained.why}"
        return
    elif exact:
        bad, good = pluralize(len(found.bad), "cell"), pluralize(len(found.good), "cell").removeprefix("1 ")
        notes = notes[1:] and [f" ({'; '.join(notes[1:])})"]
        sides = f"failed in the {bad} with {words(found.found)}{_rate(explained)}, passed in the other {good}"
        yield f"{trials_each(explained.trials)}: {sides}, where {explained.bound}{''.join(notes)}"
    else:
        shown = "; ".join(words(rival) for rival in found.rivals[:2])
        more = len(found.rivals) - 2 + found.more_rivals
        rivals = f"{shown}; and {more} more" if more > 0 else shown
        yield f"several conditions fit ({'; '.join(notes)}): {words(found.found)}; {rivals}"
    yield from _providers(explained)
    if exact and not explained.supported and not explained.difference:
        yield from _how_to_confirm(explained)
    for proposed in found.tell_apart[:1]:
        yield f"what would tell them apart: {_how(explained, proposed)}"


def full(explained: Explained) -> Iterator[str]:
    """Everything, with the cells behind it."""
    found = explained.explanation
    flaky = sum(explained.records[at].verdict is Verdict.FLAKY for at in found.bad)
    some = f"{len(found.bad)} reproduce{'s' * (len(found.bad) == 1)}{f', {flaky} of them not always' * bool(flaky)}"
    yield f"{explained.id}: {pluralize(found.decided, 'cell')} decided, {some}"
    if explained.difference:
        yield from (lead(explained), f"  {explained.difference}")
    elif found.claim is Statement.NONE:
        yield f"no explanation: {explained.why}"
    else:
        yield lead(explained)
    varying = _varying_axes(explained)
    conditions = () if explained.difference else found.conditions
    for number, condition in enumerate(conditions):
        yield f"  {'or ' * (number > 0)}{words((condition.conjunction,))}"
        yield f"      reproduces in: {_cells(explained, condition.reproducing, varying)}"
        near = _cells(explained, condition.near, varying) or "none was decided"
        yield f"      passes, one axis away: {near}"
        for axis, last, after in filter(None, map(gap, condition.conjunction)):
            yield f"      it changes between {axis} {last} and {after}: nothing between them is decided"
    yield from _providers(explained)
    if not found.minimal and found.conditions:
        yield "the search for shorter conditions was stopped: there may be some"
    if found.rivals:
        yield "these fit equally well:"
        yield from (f"  {words(rival)}" for rival in found.rivals[:SHOWN])
        more = len(found.rivals) - SHOWN + found.more_rivals
        if more > 0:
            yield f"  and {more} more"
        yield "what would tell them apart:" if found.tell_apart else "no cell would tell them apart"
        for each in found.tell_apart:
            yield f"  {_how(explained, each)}"
            yield f"      {_means(found, each)}"
    if found.claim is Statement.EXACT and not explained.difference:
        yield from _how_to_confirm(explained)
    yield from _undecided(explained)
    if fix := judge_fix(explained):
        yield f"with the fix: {fix.words}"


def _providers(explained: Explained) -> Iterator[str]:
    found = explained.explanation
    axes = {one.axis for conditions in (found.found, *found.rivals) for each in conditions for one in each}
    bad, good = ([explained.records[at] for at in some] for some in (found.bad, found.good))
    yield from filter(None, [same_changes(good, bad, axes)])


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the trials carry: that a case ``verb`` when a ``condition`` holds, and what was ``seen`` on both sides."""

    verb: str
    condition: str
    seen: str


def claim(explained: Explained) -> Claim:
    """The claim of cells that support one, or that fail more often than others."""
    found, rates = explained.explanation, explained.difference
    if rates is not None:
        seen = f"{rates.more.failed} of {rates.more.of} runs; elsewhere {rates.less.failed} of {rates.less.of}"
        return Claim(verb="reproduces more often", condition=str(rates), seen=f"{seen}, p = {rates.chance:.1g}")
    if explained.ratios:
        return Claim(verb="reproduces", condition=words(found.found), seen="as measured")
    failing = total(tally_of(explained.records[at]) for at in found.bad)
    never = never_failed((trials_of(explained.records[at]) for at in found.good), found.decided)
    return Claim(
        verb=f"reproduces{' exactly' * explained.exact}",
        condition=words(found.found),
        seen=f"{failing.failed} of {failing.of} runs; elsewhere {never}",
    )


def lead(explained: Explained) -> str:
    """What is said before the conditions."""
    if explained.supported or explained.difference:
        found = claim(explained)
        return f"it {found.verb} ({found.seen}) when"
    if explained.explanation.claim is not Statement.EXACT:
        return "several conditions fit, such as"
    return f"{trials_each(explained.trials)} (elsewhere {explained.bound}), it failed{_rate(explained)} where"


def _rate(explained: Explained) -> str:
    tally = total(tally_of(explained.records[at]) for at in explained.explanation.bad)
    return f", in {tally.failed} of {tally.of} trials" if tally.passed else ""


def _how_to_confirm(explained: Explained) -> Iterator[str]:
    """What more trials would be worth, where there are too few for the statement or for the word "exactly"."""
    line = ["reprokit", "run", explained.path, "--confirm"]
    if not explained.supported and min(explained.trials) < MOST_TRIALS:
        yield f"that may be chance; repeat the cells that decide it: {shlex.join([*line, 'always'])}"
    elif explained.supported and not explained.exact and not explained.ratios:
        passing = [trials_of(explained.records[at]) for at in explained.explanation.good]
        more = sum(max(0, EXACT_TRIALS - count) for count in passing)
        needs = f'"exactly" takes {EXACT_TRIALS} trials of each cell that passes, {more} more'
        yield f"{needs}: {shlex.join([*line, 'exact'])}"


@dataclass(frozen=True, kw_only=True)
class FixSeen(JsonRecord):
    """What a fix was seen to do, where the case reproduced and the fix was run."""

    cells: int
    gone: int  # in how many of them the failure is gone
    left: int  # in how many it is still there; the others failed otherwise, or nothing is decided there
    words: str  # the same as a sentence


def judge_fix(explained: Explained) -> FixSeen | None:
    """What the fix does; None where it was not run. Only where the case reproduced does it have anything to show."""
    if not explained.fixed:
        return None
    failing = {cell_key(record.cell): record for record in explained.records if reading(record.verdict) is Reading.FAIL}
    judged = [record for record in explained.fixed if cell_key(record.cell) in failing]
    readings = [reading(record.verdict) for record in judged]
    gone, left = readings.count(Reading.PASS), readings.count(Reading.FAIL)
    if not judged:
        return FixSeen(cells=0, gone=0, left=0, words="it cannot be judged: the case reproduced in none of its cells")
    said = [f"gone in {gone} of the {pluralize(len(judged), 'cell')} where it reproduced"]
    if counts := [trials_of(record) for record in judged if reading(record.verdict) is Reading.PASS]:
        said[0] += f", {trials_each(counts)} ({not_excluded(counts, len(judged))})"
    if left:
        said.append(f"still there in {left}")
    verdicts = [record.verdict for record in judged]
    if otherwise := verdicts.count(Verdict.DIFFERENT_FAILURE):
        said.append(f"fails otherwise in {otherwise}")
    if undecided := len(judged) - gone - left - otherwise:
        said.append(f"not decided in {undecided}")
    if explained.replaced:
        said.append(f"but the fix {explained.replaced}")
    return FixSeen(cells=len(judged), gone=gone, left=left, words="; ".join(said))


def _varying_axes(explained: Explained) -> frozenset[str]:
    """The axes that are not the same in all cells."""
    items = [frozenset(cell.items()) for cell in explained.cells]
    same = frozenset.intersection(*items) if items else frozenset()
    return frozenset(name for cell in items for name, _ in cell - same)


def _cells(explained: Explained, positions: Sequence[int], varying: frozenset[str]) -> str:
    names = [_name(explained.cells[at], varying) for at in positions[:SHOWN]]
    more = len(positions) - SHOWN
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _name(cell: Cell, varying: frozenset[str]) -> str:
    return label({name: value for name, value in cell.items() if name in varying} or cell)


def _how(explained: Explained, proposed: DiscriminatingCell) -> str:
    """How to decide a cell that tells explanations apart."""
    line = run_line(explained, proposed)
    cell = _name(proposed.cell, _varying_axes(explained))
    return f"reprokit {shlex.join(line)}" if line else f"{cell}, once it is in the matrix, under include"


def _means(found: Explanation, proposed: DiscriminatingCell) -> str:
    """What follows from how such a cell ends."""
    answers = (found.found, *found.rivals)
    kept = [answers[index] for index in proposed.kept]
    gone = [answer for index, answer in enumerate(answers) if index not in proposed.kept]
    sides = [f"{words(some[0])}{f' (or {len(some) - 1} more)' * (len(some) > 1)}" for some in (kept, gone)]
    return f"if it reproduces: {sides[0]}; if not: {sides[1]}"


def run_line(explained: Explained, proposed: DiscriminatingCell) -> list[str]:
    """What to type after ``reprokit`` for a cell; [] where no option leads to it."""
    named = {name: value for name, value in proposed.cell.items() if name in _varying_axes(explained)} or proposed.cell
    if proposed.at is not None:
        return ["run", explained.path, "--only", as_group(named)]
    if explained.file is None:
        return []
    matrix, selection = explained.file.case.matrix, Selection(axes={name: (value,) for name, value in named.items()})
    chosen = select(matrix.axes, matrix.exclude, matrix.include, selection, used=explained.file.names, strict=False)
    if chosen != [proposed.cell]:
        return []
    options = (
        [f"--{name}", value] if name in AXIS_NAMES else ["--axis", f"{name}={value}"] for name, value in named.items()
    )
    return ["run", explained.path, *(word for option in options for word in option)]


def left_open(explained: Explained) -> Iterator[str]:
    """What nothing was decided about: ``2 build-failed``, then what is in the matrix and was not asked for."""
    open_ones = explained.explanation.undecided
    ran = [explained.records[at].verdict for at in open_ones if at < len(explained.records)]
    verdicts = Counter(str(verdict or "undecided") for verdict in ran)
    if verdicts:
        yield ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    if not_run := len(open_ones) - sum(verdicts.values()):
        yield f"{not_run} more in the matrix"


def _undecided(explained: Explained) -> Iterator[str]:
    found = explained.explanation
    if not found.undecided:
        return
    yield f"not decided: {'; '.join(left_open(explained))}"
    if found.claim is Statement.NONE:
        return
    said = found.predicted or {}
    bad = [at for at, each in said.items() if each]
    if said:
        which = _cells(explained, bad, _varying_axes(explained)) or "none of them"
        yield f"  predicted to reproduce, if this holds: {which}"
    if unforeseen := len(found.undecided) - len(said):
        yield f"  not predictable: {unforeseen}, with values that no decided cell has"


@dataclass(frozen=True, kw_only=True)
class AxisRequirement(JsonRecord):
    """What an axis must be."""

    axis: str
    op: str
    values: tuple[str | None, ...]


@dataclass(frozen=True, kw_only=True)
class ReproducingCondition(JsonRecord):
    """One condition under which a case reproduces, and the cells that show it."""

    words: str
    axes: tuple[AxisRequirement, ...]
    reproducing: tuple[Cell, ...]
    near: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class RivalExplanation(JsonRecord):
    """Another explanation that fits as well: any of `conditions`, each of them a list that holds as a whole."""

    words: str
    conditions: tuple[tuple[AxisRequirement, ...], ...]


@dataclass(frozen=True, kw_only=True)
class OftenerCells(JsonRecord):
    """A condition with which cells fail more often than elsewhere."""

    words: str
    axes: tuple[AxisRequirement, ...]
    """each holds in the same cells"""
    more: Tally
    less: Tally
    p: float
    """of a difference as large by chance, times the number of conditions that were looked at"""


@dataclass(frozen=True, kw_only=True)
class TellingCell(JsonRecord):
    """A cell whose result would tell explanations apart."""

    cell: Cell
    in_matrix: bool
    command: str | None
    if_reproduced: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class UndecidedCell(JsonRecord):
    """A cell that was not run, or is inconclusive."""

    cell: Cell
    verdict: Verdict | None
    predicted: Reading | None


@dataclass(frozen=True, kw_only=True)
class ExplanationTrials(JsonRecord):
    """How many trials carry an explanation."""

    each: tuple[int, int]
    """the fewest and the most of a cell"""
    total: int
    repeats: int


@dataclass(frozen=True, kw_only=True)
class CaseExplanation(JsonRecord):
    """Under which conditions a case reproduces."""

    claim: str
    words: str
    statement: str
    """what is said, in a sentence with what it does not exclude"""
    more_often: OftenerCells | None
    """the condition with which cells fail more often, where no cell that passes bears a claim"""
    strength: Literal["supported", "open"]
    trials: ExplanationTrials
    decided: int
    minimal: bool
    conditions: tuple[ReproducingCondition, ...]
    rivals: tuple[RivalExplanation, ...]
    more_rivals: int
    tell_apart: tuple[TellingCell, ...]
    undecided: tuple[UndecidedCell, ...]
    undecided_more: int


@dataclass(frozen=True, kw_only=True)
class ExplainedCase(JsonRecord):
    """A case with its explanation."""

    id: str
    explanation: CaseExplanation


@dataclass(frozen=True, kw_only=True)
class Explanations(JsonDocument):
    """Under which conditions cases reproduce."""

    FORMAT = "reprokit-explanation/v1"

    cases: tuple[ExplainedCase, ...]


def explain_case(explained: Explained) -> CaseExplanation:
    """What the decided cells of a case explain, for programs."""
    found, cells = explained.explanation, explained.cells
    answers = (found.found, *found.rivals)
    ran = [at for at in found.undecided if at < len(explained.records)]
    listed = [*ran, *found.undecided[len(ran) : len(ran) + MOST_LISTED]]
    lines = [run_line(explained, each) for each in found.tell_apart]
    return CaseExplanation(
        claim=found.claim.value,
        words=explained.why or words(found.found),
        statement=next(short(explained)),
        more_often=_oftener(explained.difference) if explained.difference else None,
        strength="supported" if explained.supported else "open",
        trials=ExplanationTrials(
            each=(min(explained.trials, default=0), max(explained.trials, default=0)),
            total=sum(explained.trials),
            repeats=sum(record.details.repeats for record in explained.records),
        ),
        decided=found.decided,
        minimal=found.minimal,
        conditions=tuple(
            ReproducingCondition(
                words=words((one.conjunction,)),
                axes=_requirements(one.conjunction),
                reproducing=tuple(cells[at] for at in one.reproducing),
                near=tuple(cells[at] for at in one.near),
            )
            for one in found.conditions
        ),
        rivals=tuple(
            RivalExplanation(words=words(rival), conditions=tuple(map(_requirements, rival))) for rival in found.rivals
        ),
        more_rivals=found.more_rivals,
        tell_apart=tuple(
            TellingCell(
                cell=each.cell,
                in_matrix=each.at is not None,
                command=shlex.join(["reprokit", *line]) if line else None,
                if_reproduced=tuple(words(answers[index]) for index in each.kept),
            )
            for each, line in zip(found.tell_apart, lines, strict=True)
        ),
        undecided=tuple(_undecided_cell(explained, at) for at in listed),
        undecided_more=len(found.undecided) - len(listed),
    )


def _requirements(conjunction: Conjunction) -> tuple[AxisRequirement, ...]:
    return tuple(AxisRequirement(axis=each.axis, op=each.op, values=each.named) for each in conjunction)


def _oftener(found: RateDifference) -> OftenerCells:
    axes = _requirements((found.condition, *found.others))
    return OftenerCells(words=str(found), axes=axes, more=found.more, less=found.less, p=found.chance)


def _undecided_cell(explained: Explained, at: int) -> UndecidedCell:
    predicted = (explained.explanation.predicted or {}).get(at)
    return UndecidedCell(
        cell=explained.cells[at],
        verdict=explained.records[at].verdict if at < len(explained.records) else None,
        predicted=None if predicted is None else Reading.FAIL if predicted else Reading.PASS,
    )
