"""What trials say of a case: whether it fails before its fix and passes with it, and what else decides that. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from reprokit.core.json_record import JsonRecord
from reprokit.evidence.model import Verdict
from reprokit.evidence.sequential import interval
from reprokit.evidence.strength import Tally, excludes, not_excluded

DOES = {"case": ("before the fix", "fails"), "fix": ("with the fix", "passes")}
NOT_BUILT = (Verdict.BUILD_FAILED, Verdict.ENVIRONMENT_MISMATCH)
CHANCES = 16
"""Conditions of both variants of a case, each of which may differ by chance."""
ConditionKind = Literal["", "order", "date", "control", "network", "core", "rebuilt"]
Variant = Literal["case", "fix"]


AuditFinding = Literal[
    "sound", "flaky test", "order", "time bomb", "network", "drift", "fix fails", "never failed", "not decided"
]
OF_KIND: Mapping[ConditionKind, AuditFinding] = {
    "rebuilt": "drift",
    "network": "network",
    "order": "order",
    "date": "time bomb",
    "core": "flaky test",
}
"""What a case is if a condition of that kind decides; the first counts."""


@dataclass(frozen=True, kw_only=True)
class ConditionTrials(JsonRecord):
    """The trials of a case, before its fix or with it, under one condition, in words; ``kind`` is empty as it is.

    ``cell``: its number. ``kept``: trials that failed before the fix, or passed with it; ``departed``: the others.
    ``reason``: of the last one that departed, or, where none counts, the verdict and why.
    """

    kind: ConditionKind
    condition: str
    variant: Variant
    cell: int
    kept: int
    departed: int
    reason: str

    @property
    def of(self) -> int:
        """How many trials count."""
        return self.kept + self.departed

    @property
    def is_mixed(self) -> bool:
        """Whether some departed and others did not."""
        return bool(self.kept and self.departed)

    def differs(self, reference: ConditionTrials) -> int:
        """How many trials are not as those of the reference, which are all alike."""
        return self.departed if reference.kept else self.kept

    def surely_differs(self, reference: ConditionTrials) -> bool:
        """Whether it differs, and chance is excluded."""
        differ = self.differs(reference)
        return excludes(Tally(failed=differ, passed=self.of - differ), Tally(passed=reference.of), CHANCES)

    def __str__(self) -> str:
        when, verb = DOES[self.variant]
        return f"{when} it {verb} in {self.kept} of {self.of} trials{f' {self.condition}' * bool(self.kind)}"


def reference_of(one: ConditionTrials, trials: Iterable[ConditionTrials]) -> ConditionTrials:
    """What a condition is compared with: the case as it is, or the control, in which all but the date is changed."""
    own = {other.kind: other for other in trials if other.variant == one.variant and other.kind in ("", "control")}
    control = own.get("control") if one.kind == "date" else None
    return control if control and control.of else own[""]


def classify(trials: Sequence[ConditionTrials], earlier: Collection[str]) -> tuple[AuditFinding, str]:
    """What a case is, and the sentence that says why.

    ``earlier``: the variants that did as they should in the last run of the same text.
    """
    base = {one.variant: one for one in trials if not one.kind}
    if unclear := next((one for one in base.values() if not one.of), None):
        return "drift" if unclear.variant in earlier else "not decided", unclear.reason
    if mixed := next((one for one in base.values() if one.is_mixed), None):
        low, high = (f"{100 * share:.0f}" for share in interval(mixed.kept, mixed.of))
        return "flaky test", f"{mixed} ({low} to {high} % at 95 % confidence): {mixed.reason}"
    fails = next((one for one in base.values() if one.departed), None)
    changed = []
    for one in (one for kind in OF_KIND for one in trials if one.kind == kind):
        reference = reference_of(one, trials)
        bound = not_excluded([reference.of], 2, "another result")
        if one.kind == "rebuilt" and one.reason.startswith(NOT_BUILT) and not fails:
            return "drift", f"{reference} ({bound}), but {one.condition}: {one.reason}"
        if bool(reference.kept) is not bool(base[one.variant].kept) or reference.is_mixed or not one.differs(reference):
            continue
        changed.append(one)
        # Where the case itself departs, a condition explains that only if both variants are as they should be.
        whole = [other for other in trials if other.condition == one.condition and other.kept and not other.departed]
        if one.surely_differs(reference) and (not fails or len(whole) == len(base)):
            reason = one.reason if one.departed else reference.reason
            return OF_KIND[one.kind], f"{reference} ({bound}), but {one}: {reason}"
    if fails:
        finding: AuditFinding = "never failed" if fails.variant == "case" else "fix fails"
        sentence = f"{fails} ({not_excluded([fails.of], 2, 'another result')}): {fails.reason}"
        return ("drift", f"not so in the last run: {sentence}") if fails.variant in earlier else (finding, sentence)
    if changed:
        return "flaky test", f"{base[changed[0].variant]}, but {changed[0]}, which may be chance: {changed[0].reason}"
    # All conditions count together, since none makes a difference.
    counts = {variant: sum(one.of for one in trials if one.variant == variant) for variant in base}
    tried = ", ".join(dict.fromkeys(one.condition for one in trials if one.of))
    left = "".join(dict.fromkeys(f"; not tried {one.condition}: {one.reason}" for one in trials if not one.of))
    each = " and ".join(f"{DOES[name][1]} {DOES[name][0]} in {count} of {count}" for name, count in counts.items())
    return "sound", f"{each} trials, {tried} ({not_excluded(counts.values(), 2, 'another result')}){left}"
