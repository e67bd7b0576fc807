"""Cells by the numbers that their trials wrote: deterministic or not, and the same as a reference or not. What cannot
be compared is never a finding: such a cell is ``inconclusive``. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reprokit.case.comparing import FEWEST_TRIALS, Compare
from reprokit.core.text import pluralize
from reprokit.evidence.differences import ComparisonRecord, TensorDifference, Tolerance, difference
from reprokit.evidence.model import RULES_VERSION, Outcome, Verdict
from reprokit.evidence.sequential import Trials, figures
from reprokit.evidence.tensors import Tensor, Unreadable, read
from reprokit.evidence.verdict import decide

if TYPE_CHECKING:
    from reprokit.evidence.records import CellRecord, TrialRecord

Outputs = Mapping[str, bytes]
"""What a trial wrote, by its path below workdir."""
SHOWN = 50
"""Tensors of which a record says how far they are from their reference, those that differ first."""
_PASSED = (Outcome.PASSED, Outcome.REPRODUCED, Outcome.INCONCLUSIVE)
"""Outcomes of trials whose program passed, before and after their outputs were compared."""


class NotKept(Exception):
    """Why the outputs of a trial are not available, in words."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What cells are compared with: ``outputs``, in words, and the ``cell`` that wrote them.

    ``why``: why there are none; such a cell is then ``verdict``.
    """

    words: str
    outputs: Outputs = field(default_factory=dict)
    cell: Mapping[str, str] | None = None
    why: str = ""
    verdict: Verdict = Verdict.INCONCLUSIVE


def is_comparable(record: CellRecord) -> bool:
    """Whether every trial of a cell passed, so that its outputs decide."""
    return bool(record.trials) and all(trial.outcome in _PASSED for trial in record.trials)


def compare(
    record: CellRecord,
    rules: Compare,
    trials: Trials,
    own: Callable[[TrialRecord], Outputs],
    reference: Reference | None,
) -> CellRecord:
    """A cell whose trials passed, judged by what they wrote. ``reference``: None for the cell that is the reference.

    ``trials``: the policy that they were run by; ``own``: the outputs of a trial, or NotKept.
    """
    seen = _Compared()
    try:
        written = [_checked(own(trial), trial.number) for trial in record.trials]
        _check_deterministic(written, rules)
        if reference is not None and reference.why:
            return _decided(record, trials, [(Outcome.INCONCLUSIVE, reference.why)] * len(written), seen, reference)
        found = [(Outcome.PASSED, "its outputs are the reference")] * len(written)
        if reference is not None:
            first = _against(written[0], reference, rules, seen)
            found = [first if one == written[0] else _against(one, reference, rules, seen) for one in written]
        if len({outcome for outcome, _ in found}) > 1:
            raise _Undecided("some of its trials agree with the reference and some do not, though with each other")
    except (_Undecided, NotKept) as error:
        found = [(Outcome.INCONCLUSIVE, str(error))] * len(record.trials)
    return _decided(record, trials, found, seen, reference)


def majority(
    cells: Sequence[tuple[CellRecord, Callable[[], Outputs]]], rules: Compare, name: Callable[[CellRecord], str]
) -> Reference:
    """The first cell with which more than half of the ``cells`` agree, itself among them, as their reference.

    ``cells``: those whose trials passed, with what their first trial wrote; ``name``: of a cell, for people.
    """
    written: list[tuple[CellRecord, Outputs]] = []
    for record, outputs in cells:
        try:
            written.append((record, _checked(outputs(), 1)))
        except (_Undecided, NotKept):
            continue
    if len(written) < 3:
        few = pluralize(len(written), "cell")
        return Reference(words="the majority", why=f"there is no majority: {few} with outputs, and it takes three")
    for record, one in written:
        alike = sum(_departure(other, one, rules) is None for _, other in written)
        if 2 * alike > len(written):
            words = f"the majority ({alike} of {len(written)} cells, such as {name(record)})"
            return Reference(words=words, outputs=one, cell=record.cell)
    return Reference(
        words="the majority", why=f"there is no majority: no cell has more than half of {len(written)} cells agree"
    )


class _Undecided(Exception):
    """Why what trials wrote decides nothing, in words."""


@dataclass
class _Compared:
    """The tensors of the trial that the verdict rests on."""

    tensors: tuple[TensorDifference, ...] = ()


def _checked(outputs: Outputs, number: int) -> Outputs:
    if not outputs:
        raise _Undecided(f"trial {number} wrote no output that matches expect.compare.outputs")
    return outputs


def _check_deterministic(written: Sequence[Outputs], rules: Compare) -> None:
    if len(written) < FEWEST_TRIALS:
        few = pluralize(len(written), "trial")
        raise _Undecided(f"{few} do not show whether the cell is deterministic: that takes {FEWEST_TRIALS}")
    for number, one in enumerate(written[1:], 2):
        if found := _departure(one, written[0], rules):
            noise = "" if found.problem else "the cell is not deterministic within the tolerance: "
            raise _Undecided(f"{noise}trial {number} against trial 1: {found.name}: {found}")


def _departure(one: Outputs, other: Outputs, rules: Compare) -> TensorDifference | None:
    """The first tensor that does not agree, or cannot be compared; None where there is none. NaN is NaN here."""
    if one == other:
        return None
    found = _differences(one, other, replace(_tolerance(rules), equal_nan=True))
    return next((each for each in found if each.differs or each.problem), None)


def _against(one: Outputs, reference: Reference, rules: Compare, seen: _Compared) -> tuple[Outcome, str]:
    """What a trial shows against the reference, and why."""
    found = _differences(one, reference.outputs, _tolerance(rules))
    counts = rules.mismatch == "reproduced"
    problem = next((each for each in found if each.problem and not (counts and each.mismatch)), None)
    differs = next((each for each in found if each.differs or each.problem), None)
    worst = problem or differs
    if not seen.tensors:
        seen.tensors = tuple(sorted(found, key=lambda each: not (each.differs or each.problem)))
    if worst is None:
        count = sum(each.elements for each in found)
        return Outcome.PASSED, f"agrees with {reference.words} ({pluralize(count, 'number')})"
    outcome = Outcome.INCONCLUSIVE if problem else Outcome.REPRODUCED
    more = sum(bool(each.differs or each.problem) for each in found) - 1
    others = f"; and {pluralize(more, 'tensor')} more" if more else ""
    return outcome, f"against {reference.words}: {worst.name}: {worst}{others}"


def _tolerance(rules: Compare) -> Tolerance:
    return Tolerance(rtol=rules.rtol, atol=rules.atol, ulp=rules.ulp, equal_nan=rules.equal_nan)


def _differences(one: Outputs, reference: Outputs, tolerance: Tolerance) -> list[TensorDifference]:
    found, known = _tensors(one), _tensors(reference)
    result = []
    for name in sorted(found.keys() | known.keys()):
        mine, other = found.get(name), known.get(name)
        if isinstance(mine, str) or isinstance(other, str):
            result.append(
                TensorDifference(name=name, problem=mine if isinstance(mine, str) else f"the reference {other}")
            )
        elif mine is None or other is None:
            whose = "the reference has it alone" if mine is None else "the reference lacks it"
            result.append(TensorDifference(name=name, problem=f"is missing: {whose}"))
        else:
            result.append(difference(name, mine, other, tolerance))
    return result


def _tensors(outputs: Outputs) -> dict[str, Tensor | str]:
    """The tensors of some outputs by file and name, or why a file has none that are compared."""
    found: dict[str, Tensor | str] = {}
    for path, data in outputs.items():
        try:
            found |= {f"{path}:{name}" if name else path: tensor for name, tensor in read(path, data).items()}
        except Unreadable as error:
            found[path] = str(error)
    return found


def _decided(
    record: CellRecord,
    trials: Trials,
    found: Sequence[tuple[Outcome, str]],
    seen: _Compared,
    reference: Reference | None,
) -> CellRecord:
    judged = tuple(
        replace(trial, outcome=outcome, reason=reason)
        for trial, (outcome, reason) in zip(record.trials, found, strict=True)
    )
    verdict, _ = decide([one.outcome for one in judged], trials)
    if verdict is Verdict.INCONCLUSIVE and reference is not None and reference.why:
        verdict = reference.verdict
    comparison = ComparisonRecord(
        reference=reference.words if reference else "",
        cell=reference.cell if reference else None,
        tensors=seen.tensors[:SHOWN],
        of=len(seen.tensors),
    )
    details = replace(record.details, trials=figures([one.outcome for one in judged], trials), comparison=comparison)
    return replace(record, trials=judged, verdict=verdict, reason=found[0][1], rules=RULES_VERSION, details=details)
