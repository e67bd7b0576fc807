"""How verdicts and failures look to people: the mark, the colour and the short words shared by every kind of output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reprokit.case.matrix import label
from reprokit.core.json_record import ABSENT, JsonRecord
from reprokit.core.text import first_line, pluralize
from reprokit.engine import registry
from reprokit.evidence.details import FailureRecord
from reprokit.evidence.model import Frame, Verdict
from reprokit.evidence.records import CellOutline, CellRecord
from reprokit.evidence.sequential import TrialFigures


def style(cell: CellRecord) -> str:
    """A colour for a decided cell: what matters is whether it is as expected, not whether the bug shows."""
    if cell.verdict is None or not cell.verdict.conclusive:
        return "yellow"
    return {True: "green", False: "bold red", None: "cyan"}[cell.as_expected]


def verdict_words(cell: CellRecord) -> str:
    """The verdict against what the case expects: ``flaky, as expected``, ``reproduced, expected not-reproduced``."""
    verdict = str(cell.verdict or "undecided")
    if cell.as_expected is None:
        return verdict
    return f"{verdict}, {'as expected' if cell.as_expected else f'expected {cell.expected}'}"


STOPPED = (None, Verdict.CANCELLED)  # nothing to say of these but how many
DEPARTS, INCONCLUSIVE, FLAKY, FAILED, PASSED, LEFT = range(6)


def rank(cell: CellRecord) -> int:
    """Where a cell comes in a list: what departs first, then what is open, flaky, failed; what passed, what is left."""
    if cell.as_expected is False:
        return DEPARTS
    if cell.verdict is None or cell.verdict in STOPPED:
        return LEFT
    places = {Verdict.FLAKY: FLAKY, Verdict.NOT_REPRODUCED: PASSED}
    return places.get(cell.verdict, FAILED) if cell.verdict.conclusive else INCONCLUSIVE


def group_alike(cells: Iterable[CellRecord]) -> list[list[CellRecord]]:
    """Cells without a verdict that share a case and a reason, together: one failed build may be that of hundreds."""
    groups: dict[object, list[CellRecord]] = {}
    for cell in cells:
        is_open = rank(cell) in (INCONCLUSIVE, LEFT)
        groups.setdefault((cell.case_id, cell.verdict, cell.reason) if is_open else object(), []).append(cell)
    return list(groups.values())


_HEADS = {DEPARTS: "departs", INCONCLUSIVE: "inconclusive", FLAKY: "flaky"}
MOST_FINDINGS = 100


def list_findings(
    cells: Sequence[CellRecord], names: Mapping[int, str], is_cut: Callable[[CellRecord], bool] = lambda cell: False
) -> Iterator[tuple[str, str]]:
    """What departs, is inconclusive or flaky, with its whole reason: a word and a text for all cells that share both.

    ``is_cut``: whether the reason of another cell was not shown in full, either.
    """
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for cell in sorted(cells, key=rank):
        if head := _HEADS.get(rank(cell), str(cell.verdict) if is_cut(cell) else ""):
            key = head, cell.case_id, verdict_words(cell), cell.marked_reason.strip()
            groups.setdefault(key, []).append(cell.number)
    for (head, _, verdict, reason), numbers in list(groups.items())[:MOST_FINDINGS]:
        more = f" and {pluralize(len(numbers) - 1, 'more cell')}" if len(numbers) > 1 else ""
        said = verdict.removeprefix(head).removeprefix(", ")
        yield head, ": ".join(filter(None, [f"#{ranges(numbers)} {names[numbers[0]]}{more}", said, reason]))
    if len(groups) > MOST_FINDINGS:
        yield "...", f"{len(groups) - MOST_FINDINGS} more reasons; --json has them all"


def cell_name(cell: CellRecord) -> str:
    """A cell with its variant: ``cuda=11.8 [fix]``."""
    return label(cell.cell) + (" [fix]" if cell.variant == "fix" else "")


def served_by(engine: str) -> str:
    """`` [venv]`` behind verdicts that do not come from the usual engine; '' for Docker's, and for none."""
    return "" if registry.is_reference(engine) else f" [{engine}]"


def case_names(ids: Iterable[str]) -> str:
    """The cases of a run, the first three by name."""
    unique = list(dict.fromkeys(ids))
    return ", ".join(unique[:3]) + (f" and {len(unique) - 3} more" if len(unique) > 3 else "")


def short_reason(cell: CellRecord, *, bound: bool = True) -> str:
    """The reason in one line, the cause first. Without ``bound``, what its passes leave open is said elsewhere."""
    if cell.reused_from:
        ran = replace(cell, reused_from=None)
        return f"reused from {cell.reused_from.partition(':')[0]}: {short_reason(ran, bound=bound)}"
    if cell.verdict is Verdict.REPRODUCED and cell.details.repeats and cell.trials:
        return f"{first_line(cell.trials[0].reason)} ({pluralize(len(cell.trials), 'trial')})"
    shown = _passing_figures(cell)
    if shown is None:
        return first_line(cell.reason)
    if _is_measured(cell):
        return first_line(cell.trials[0].reason)
    more = f" ({_still_possible(shown.possible)})" if bound and shown.of > 1 else ""
    return f"passed {shown.of} of {shown.of}{more}"


def _still_possible(rate: float | None) -> str:
    return f"a failure in up to {100 * (rate or 0):.0f} % of runs is not excluded"


def _passing_figures(cell: CellRecord) -> TrialFigures | None:
    """The figures of a cell whose trials, a fixed number, all passed."""
    shown = cell.details.trials
    fixed = cell.verdict is Verdict.NOT_REPRODUCED and shown is not None and shown.policy.rate is None
    return shown if fixed else None


def describe_passes(cells: Sequence[CellRecord]) -> str:
    """What passing trials do not exclude, of cells with few trials first; '' where none passed."""
    counts: Counter[tuple[int, float]] = Counter()
    for cell in cells:
        shown = _passing_figures(cell)
        if shown and not _is_measured(cell):
            counts[shown.of, shown.possible or 0.0] += 1
    words: list[str] = []
    for (of, possible), some in sorted(counts.items(), key=lambda item: item[0][0]):
        text = f"up to {100 * possible:.0f} %" if words else _still_possible(possible)
        words.append(f"passed {of} of {of} ({text}): {pluralize(some, 'cell')}")
    more = ["--trials auto runs more"] if any(of == 1 for of, _ in counts) else []
    return "; ".join(words + more)


def _is_measured(cell: CellRecord) -> bool:
    """Whether numbers decided its trials, by what the case states, and each says more than that it passed."""
    details, first = cell.details, cell.trials[0] if cell.trials else None
    leaks = first is not None and first.usage is not None and first.usage.iterations
    return first is not None and bool(details.ratio or details.comparison or leaks)


def summary(cells: Sequence[CellRecord | CellOutline], *, recorded: bool = True) -> str:
    """``2 reproduced, 4 not-reproduced; all as expected``, but of what the store did not take; how many did not run."""
    counts = sorted(Counter(cell.verdict for cell in cells).items(), key=lambda item: (-item[1], str(item[0])))
    decided = [f"{count} {verdict}" for verdict, count in counts if verdict and verdict.conclusive]
    open_ones = [f"{count} {one}" for one, count in counts if not (one in STOPPED or (one and one.conclusive))]
    stopped = [f"{n} {'stopped before a verdict' if one else 'undecided'}" for one, n in counts if one in STOPPED]
    words = [", ".join(decided), f"inconclusive: {', '.join(open_ones)}" if open_ones else "", *stopped]
    if departures := sum(cell.as_expected is False for cell in cells):
        words.append(f"{departures} depart{'s' * (departures == 1)} from what the case expects")
    elif recorded and not open_ones and not stopped and cells and all(cell.expected is not None for cell in cells):
        words.append("all as expected")
    reused = sum(cell.reused_from is not None for cell in cells)
    unrecorded = [] if recorded else ["not all of this is recorded"]
    return "; ".join(filter(None, [*words, f"{reused} reused from earlier runs" if reused else "", *unrecorded]))


def standing(cells: Sequence[CellRecord | CellOutline]) -> str:
    """:func:`summary` in a few words, for a column: ``as expected``, ``1 departs``, ``2 inconclusive``, ``9 left``."""
    if departures := sum(cell.as_expected is False for cell in cells):
        return f"{departures} depart{'s' * (departures == 1)}"
    stopped = sum(cell.verdict in STOPPED for cell in cells)
    if open_ones := sum(cell.verdict is None or not cell.verdict.conclusive for cell in cells) - stopped:
        return f"{open_ones} inconclusive"
    return f"stopped, {stopped} left" if stopped else "as expected"


MOST = 20  # ways of failing that a summary lists; the result file has all
_SIGNATURE = (Verdict.REPRODUCED, Verdict.FLAKY)


@dataclass(frozen=True, kw_only=True)
class FailureGroup(JsonRecord):
    """A way of failing that cells share: its fingerprint, as in `details.failure` of those cells."""

    verdict: Verdict
    """different-failure or reproduced"""
    known: str | None
    """the id of the case's known failure that it is"""
    version: str
    id: str
    kind: str
    frames: tuple[str, ...]
    message: str
    cause: str
    title: str
    trials: tuple[int, ...] = field(default=(), metadata=ABSENT)
    stack: tuple[Frame, ...] = field(default=(), metadata=ABSENT)
    cells: tuple[int, ...]
    """the cells, by number"""


def failure_groups(cells: Iterable[CellRecord]) -> tuple[FailureGroup, ...]:
    """The ways in which cells failed: those that are not the signature's first, of each the commonest first."""
    found: dict[tuple[bool, str, str], list[tuple[int, FailureRecord]]] = {}
    for cell in cells:
        if failure := cell.details.failure:  # none where an older version made no fingerprint
            key = cell.verdict in _SIGNATURE, failure.version, failure.id
            found.setdefault(key, []).append((cell.number, failure))
    ordered = sorted(found.items(), key=lambda item: (item[0][0], -len(item[1]), item[1][0][0]))
    return tuple(
        FailureGroup.pick(
            members[0][1],
            verdict=Verdict.REPRODUCED if by_signature else Verdict.DIFFERENT_FAILURE,
            known=members[0][1].known or None,
            cells=tuple(number for number, _ in members),
        )
        for (by_signature, *_), members in ordered
    )


def failure_lines(cells: Sequence[CellRecord]) -> Iterator[str]:
    """Other failures that several cells share, and the ways of failing that one signature fits: a bug more, maybe."""
    others = [group for group in failure_groups(cells) if group.verdict is Verdict.DIFFERENT_FAILURE]
    if sum(len(group.cells) for group in others) > 1:
        yield "different failures:"
        yield from _listed(others)
    for case_id in dict.fromkeys(cell.case_id for cell in cells):
        own = failure_groups(cell for cell in cells if cell.case_id == case_id and cell.verdict in _SIGNATURE)
        if len(own) > 1:
            yield f"{case_id}: the signature fits {len(own)} ways of failing:"
            yield from _listed(own)


def _listed(found: Sequence[FailureGroup]) -> Iterator[str]:
    for group in found[:MOST]:
        known = f"known as {group.known}: " if group.known else ""
        which = f"{pluralize(len(group.cells), 'cell')} ({ranges(group.cells)})"
        yield f"  {which}: {known}{group.title} [{group.id}]"
    if len(found) > MOST:
        yield f"  ... and {pluralize(len(found) - MOST, 'other')}; --json has them all"


def ranges(numbers: Sequence[int]) -> str:
    """``3, 4, 7-20`` for sorted numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
