"""The search of ``reprokit audit``: a case without and with its fix, as it is and with one thing changed at a time."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from reprokit.case import emit
from reprokit.case.matrix import Cell
from reprokit.case.model import FIX_CHANGES
from reprokit.case.trust import ALLOWANCES
from reprokit.case.validate import merge
from reprokit.core.errors import UsageError
from reprokit.core.files import shipped
from reprokit.core.json_record import JsonRecord
from reprokit.engine import registry
from reprokit.environment.cases import load_text
from reprokit.evidence.auditing import ConditionKind, ConditionTrials, Variant, classify, reference_of
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.sequential import STOPPING
from reprokit.run.plan import cells_of
from reprokit.run.task import expected_verdict, spec_of
from reprokit.search.queries import AuditAnswer, Candidate, Query, Search, SearchAnswer
from reprokit.search.search_session import SearchSession
from reprokit.store.places import read_log

TRIALS = 14
"""Of the case as it is: as many as exclude a departure in 20 % of runs with a confidence of 95 %."""
MORE = 8
"""Trials at most, beside the first, of a condition that departs."""
WANTED = {"case": (Outcome.REPRODUCED, Verdict.REPRODUCED), "fix": (Outcome.PASSED, Verdict.NOT_REPRODUCED)}


class AuditCondition(NamedTuple):
    """A change, with its ``value`` if it has one. Without the ``mark`` in its log it is not tried, as ``unproven``."""

    kind: ConditionKind
    words: str
    mark: str = ""
    unproven: str = ""
    value: str = ""


AS_IT_IS = AuditCondition("", "as it is")
ORDER = AuditCondition("order", "in reverse order", "reversed", "no two tests of pytest or unittest are run")
CORE = AuditCondition("core", "on one core", "one core", "its image has no taskset")
REBUILT = AuditCondition("rebuilt", "rebuilt from nothing")


def on(day: date, kind: ConditionKind = "date") -> AuditCondition:
    """The condition that it is noon of that day in UTC; the ``control`` is of today."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=timezone.utc)
    return AuditCondition(kind, f"on {day}", f"{day}", "libfaketime has no effect", f"{noon.timestamp():.0f}")


def days(today: date, before: str) -> tuple[list[date], list[date]]:
    """Days to come, and gone by. ``before``: when packages of the case were taken (RFC 3339), '' = not known."""
    leap = next(year for year in range(today.year + 1, today.year + 9) if calendar.isleap(year))
    far = today.replace(year=min(today.year + 10, 2037), day=1)  # before 32 bits end
    ago = [today.replace(year=today.year - years, day=1) for years in (2, 8)]
    coming = [date(today.year + 1, 12, 31), date(leap, 2, 29), far + timedelta(days=6 - far.weekday())]
    return coming, [date.fromisoformat(before[:10])] if before else ago


@dataclass(frozen=True, kw_only=True)
class AuditRequest(JsonRecord):
    """The arguments of an audit, as recorded: trials of a case as it is, and the kinds of conditions."""

    trials: int
    kinds: tuple[str, ...]


def make(session: SearchSession) -> Search[SearchAnswer]:
    """The search that ``session.arguments`` ask for. Raises UsageError where the case has no cell to audit."""
    file = session.file
    if file.case.expect.compare is not None or file.case.expect.ratio is not None:
        raise UsageError(f"{file.path}: what is compared or measured against another cell is not audited")
    cells = (cell for _, cell in cells_of([file], session.request))
    failing = [cell for cell in cells if expected_verdict(file, cell) is not Verdict.NOT_REPRODUCED]
    if not failing:
        raise UsageError(f"{file.path}: in none of its selected cells is it expected to fail")
    return _Audit(session, failing[0]).run()


class _Audit:
    def __init__(self, session: SearchSession, cell: Cell) -> None:
        self._session, self._file, self._cell = session, session.file, cell
        self._given = AuditRequest.from_json(session.arguments)
        self._today = date.fromisoformat(session.recall("today", lambda: f"{datetime.now(timezone.utc).date()}"))
        fixed = self._file.fixed and self._file.case.fix_applies(cell)
        self._variants: tuple[Variant, ...] = ("case", "fix") if fixed else ("case",)
        self._tried: dict[tuple[str, Variant], tuple[AuditCondition, Candidate]] = {}

    def run(self) -> Search[SearchAnswer]:
        """Try the case as it is; then, unless that is a matter of chance, under each condition."""
        yield from self._try([AS_IT_IS], self._given.trials)
        base = self._seen()
        if all(one.of and not one.is_mixed for one in base):
            conditions = self._conditions(departs=any(one.departed for one in base))
            yield from self._try(conditions, 1)
            if any(one.kind == "date" and one.differs(reference_of(one, base)) for one in self._seen()):
                yield from self._try([on(self._today, "control")], 3)
            for key in [(one.words, variant) for one in conditions for variant in self._variants]:
                yield from self._repeat(key)
        seen, before = self._seen(), self._session.decided_before
        records = {name: [one.verdict for one in before(name) if one.cell == self._cell] for name in self._variants}
        finding, sentence = classify(seen, [name for name in records if WANTED[name][1] in records[name]])
        status = {"sound": 0, "not decided": 3}.get(finding, 1)
        return AuditAnswer(
            words=(f"{finding}: {sentence}",), exit_status=status, cell=self._cell, finding=finding, trials=tuple(seen)
        )

    def _conditions(self, *, departs: bool) -> list[AuditCondition]:
        # Where the case itself departs, what may explain that is tried, too.
        spec = spec_of(self._file, self._file.case, "case", self._cell)
        every = [ORDER, CORE, REBUILT]
        if spec.limits.network == "bridge":
            every.append(AuditCondition("network", "without a network", value="none"))
        elif departs and ALLOWANCES[self._file.trust].trial_network:
            every.append(AuditCondition("network", "with a network", value="bridge"))
        coming, past = days(self._today, spec.environment.pip_before)
        every += map(on, [*coming, *past] if departs else coming)
        on_host = registry.capabilities(self._session.request.engine).recipe == "script"  # nothing is installed there
        return [one for one in every if one.kind in self._given.kinds and not (on_host and one.kind == "date")]

    def _try(self, conditions: Sequence[AuditCondition], trials: int) -> Search[None]:
        asked = [(one, variant) for one in conditions for variant in self._variants]
        new = {(one.words, variant): (one, self._candidate(one, variant, trials)) for one, variant in asked}
        self._tried |= new
        yield Query(candidates=tuple(candidate for _, candidate in new.values()))

    def _repeat(self, key: tuple[str, Variant]) -> Search[None]:
        """Repeat a condition that departs, and what it is compared with, until chance is excluded, or likely."""
        for _ in range(MORE):
            seen = {(one.condition, one.variant): one for one in self._seen()}
            one, reference = seen[key], reference_of(seen[key], seen.values())
            if not one.of or not one.differs(reference) or one.surely_differs(reference) or reference.is_mixed:
                return
            again = [one] if reference.of >= TRIALS else [one, reference]
            yield Query(candidates=tuple(self._tried[each.condition, key[1]][1] for each in again), again=True)

    def _candidate(self, condition: AuditCondition, variant: Variant, trials: int) -> Candidate:
        data: dict[str, Any] = dict(self._file.positions.data)
        fix = data.pop("fix", None)
        if variant == "fix":
            data = merge(data, {key: value for key, value in fix.items() if key in FIX_CHANGES})
        data |= {"trials": str(trials), "title": f"{data['title']}, {condition.words}"}
        if condition.mark:
            text, command = _program("date" if condition.value else condition.kind), data["command"]
            text = text.replace("MOMENT", condition.value)
            is_text = isinstance(command, str)
            data["command"] = text + command if is_text else ["bash", "-c", f'{text}exec "$@"', "bash", *command]
        if condition.kind in ("date", "control"):
            setup = (data.get("environment") or {}).get("setup") or ""
            data = merge(data, {"environment": {"setup": setup + _program("faketime")}})
        if condition.kind == "network":
            data = merge(data, {"resources": {"network": condition.value}})
        file = replace(load_text(self._file.path, emit.document(data)), trust=self._file.trust)
        name = f"{condition.words}{', with the fix' * (variant == 'fix')}"
        return Candidate(cell=self._cell, file=file, name=name, fresh=condition is REBUILT)

    def _seen(self) -> list[ConditionTrials]:
        return [self._trials_of(variant, *tried) for (_, variant), tried in self._tried.items()]

    def _trials_of(self, variant: Variant, condition: AuditCondition, candidate: Candidate) -> ConditionTrials:
        record = self._session.record_of(candidate)
        assert record is not None
        judged = [trial for trial in record.trials if trial.outcome not in STOPPING]
        reason = f"{record.verdict}: {record.reason}"
        mark = f"reprokit audit: {condition.mark}".encode()
        if judged and condition.mark and mark not in read_log(self._session.folder, judged[0].log):
            judged, reason = [], condition.unproven
        odd = [trial for trial in judged if trial.outcome is not WANTED[variant][0]]
        return ConditionTrials(
            kind=condition.kind,
            condition=condition.words,
            variant=variant,
            cell=record.number,
            kept=len(judged) - len(odd),
            departed=len(odd),
            reason=odd[-1].reason if odd else reason,
        )


def _program(name: str) -> str:
    return (shipped("dockerfiles") / f"audit-{name}.sh").read_text(encoding="utf-8")
