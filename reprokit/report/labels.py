"""How verdicts and failures look to people: the mark, the colour and the short words shared by every kind of output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from reprokit.case.matrix import label
from reprokit.core.json_record import ABSENT, JsonRecord
from reprokit.core.text import build_times, first_line, pluralize, seconds
from reprokit.engine import registry
from reprokit.evidence.details import FailureRecord
from reprokit.evidence.model import Frame, Verdict
from reprokit.evidence.records import CellOutline, CellRecord, ImageRecord
from reprokit.evidence.sequential import CONFIDENCE, failure_rate_bound


def style(cell: CellRecord) -> str:
    """A colour for a decided cell: what matters is whether it is as expected, not whether the bug shows."""
    if cell.verdict is None or not cell.verdict.conclusive:
        return "yellow"
    return {True: "green", False: "bold red", None: "cyan"}[cell.as_expected]


def expectation(cell: CellRecord) -> str:
    """``as expected``, ``expected reproduced``, or ``-`` when nothing is expected or the verdict is inconclusive."""
    if cell.as_expected is None:
        return "-" if cell.expected is None else f"inconclusive; {cell.expected} expected"
    return "as expected" if cell.as_expected else f"EXPECTED {cell.expected}"


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


def short_reason(cell: CellRecord) -> str:
    """The reason in one line, the cause first. What one passing trial leaves possible is said once: :func:`caveat`."""
    if cell.reused_from:
        ran = replace(cell, reused_from=None)
        return f"reused from {cell.reused_from.partition(':')[0]}: {short_reason(ran)}"
    shown = cell.details.trials
    if cell.verdict is Verdict.REPRODUCED and cell.details.repeats and cell.trials:
        return f"{first_line(cell.trials[0].reason)} ({pluralize(len(cell.trials), 'trial')})"
    if cell.verdict is not Verdict.NOT_REPRODUCED or shown is None or shown.policy.rate is not None:
        return first_line(cell.reason)
    if _is_measured(cell):
        return first_line(cell.trials[0].reason)
    figures = "" if shown.of == 1 else f"; up to {100 * (shown.possible or 0):.0f} % may fail"
    return f"passed ({pluralize(shown.of, 'trial')}{figures})"


def caveat(cells: Sequence[CellRecord]) -> str:
    """What cells that passed in their only trial leave open; '' where there are none."""
    once = [cell for cell in cells if _passed_once(cell)]
    if not once:
        return ""
    rate = 100 * failure_rate_bound(1, CONFIDENCE)
    where = f"{len(once)} of the {pluralize(len(cells), 'cell')} passed in one trial"
    return f"{where}, which leaves a failure rate of up to {rate:g} % possible; --trials auto runs more"


def _passed_once(cell: CellRecord) -> bool:
    shown = cell.details.trials
    once = shown is not None and (shown.of, shown.policy.rate) == (1, None)
    return cell.verdict is Verdict.NOT_REPRODUCED and once and not _is_measured(cell)


def _is_measured(cell: CellRecord) -> bool:
    """Whether numbers decided its trials, by what the case states, and each says more than that it passed."""
    details, first = cell.details, cell.trials[0] if cell.trials else None
    leaks = first is not None and first.usage is not None and first.usage.iterations
    return first is not None and bool(details.ratio or details.comparison or leaks)


def summary(cells: Sequence[CellRecord | CellOutline]) -> str:
    """``2 reproduced, 4 not-reproduced; all as expected``; and how many of them did not run."""
    reused = sum(cell.reused_from is not None for cell in cells)
    return _summary(cells) + (f"; {reused} reused from earlier runs" if reused else "")


def _summary(cells: Sequence[CellRecord | CellOutline]) -> str:
    counts = Counter(cell.verdict.value if cell.verdict else "undecided" for cell in cells)
    words = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    if any(cell.as_expected is False for cell in cells):
        return f"{words}; {standing(cells)} from what the case expects"
    if any(cell.verdict is None or not cell.verdict.conclusive for cell in cells):
        return f"{words}; {standing(cells)}"
    return f"{words}; nothing departs" if any(cell.expected is None for cell in cells) else f"{words}; all as expected"


def totals(cells: Sequence[CellRecord]) -> str:
    """What a run took: :func:`reprokit.core.text.build_times` over its images, and the time of all trials."""
    images: dict[str, ImageRecord] = {}
    for cell in cells:
        if cell.image and not (cell.image.tag in images and images[cell.image.tag].built):
            images[cell.image.tag] = cell.image
    built = [image.seconds for image in images.values() if image.built]
    trials = sum(cell.seconds or 0 for cell in cells if not cell.reused_from)
    parts = [build_times(built, len(images) - len(built)), f"trials {seconds(trials)}" if trials else ""]
    return "; ".join(filter(None, parts))


def standing(cells: Sequence[CellRecord | CellOutline]) -> str:
    """:func:`summary` in two words, for a column: ``as expected``, ``1 departs``, ``2 inconclusive``."""
    departures = sum(cell.as_expected is False for cell in cells)
    open_ones = sum(cell.verdict is None or not cell.verdict.conclusive for cell in cells)
    if departures:
        return f"{departures} depart{'s' * (departures == 1)}"
    return f"{open_ones} inconclusive" if open_ones else "as expected"


MOST = 20
"""Ways of failing that a summary lists; the result file has all."""
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
    """Return the ways in which cells failed: those that are not the signature's first, of each the commonest first.

    Cells without a fingerprint (recorded by a version that made none) are in no group.
    """
    found: dict[tuple[bool, str, str], list[tuple[int, FailureRecord]]] = {}
    for cell in cells:
        if failure := cell.details.failure:
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
    """What a summary says of failures, for a person: nothing where each cell's own line says it already.

    Those that are not the signature's, where several cells have one; and those that are, where the signature of a case
    fits more than one way of failing, since one of them may be another bug.
    """
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
