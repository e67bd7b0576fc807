"""A made-up store of nightly runs, written through the real one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reprokit.environment.measured import Measured
from reprokit.evidence.details import BaseRecord, CellDetails
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.origin import HostRecord, OwnerRecord
from reprokit.evidence.records import CellRecord, RequestRecord, RunRecord, TrialRecord
from reprokit.store.database import Store
from tests.stored import finish

FIRST = datetime(2026, 1, 1, 2)
CASE = """\
schema: reprokit/v1
id: nightly
title: Run every night
matrix: {os: [debian-12], numpy: ["1", "2"]}
command: python go.py
expect: {failure: {exception: ValueError}, reproduces: [{numpy: "2"}]}
"""
VERDICTS = {
    "R": (Verdict.REPRODUCED, Outcome.REPRODUCED),
    "N": (Verdict.NOT_REPRODUCED, Outcome.PASSED),
    "O": (Verdict.DIFFERENT_FAILURE, Outcome.DIFFERENT_FAILURE),
    "?": (Verdict.BUILD_FAILED, None),
    "E": (Verdict.ENGINE_ERROR, None),
}
"""F is flaky: one of three trials; the others have ten."""


class Nights:
    """A store whose runs are one night apart."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        (folder / "runs").mkdir(exist_ok=True)
        self.count = 0

    def run(
        self,
        cells: Mapping[str, str],
        *,
        case: str = CASE,
        case_id: str = "nightly",
        engine: str = "Docker Engine 20.10.24",
        kernel: str = "6.1",
        request: RequestRecord | None = None,
        owner: OwnerRecord | None = None,
        **values: Any,
    ) -> RunRecord:
        """Record a night: the state (R, N, O, F, ?) of each value of the axis numpy. ``values``: of each cell."""
        self.count += 1
        at = FIRST + timedelta(days=self.count - 1)
        digest = "sha256:" + hashlib.sha256(case.encode()).hexdigest()
        run = RunRecord(
            id=f"{at:%Y%m%d-%H%M%S}-{self.count:04x}",
            started_at=f"{at:%Y-%m-%dT%H:%M:%S}.000Z",
            version="1",
            request=request or RequestRecord(),
            host=HostRecord(engine=engine, engine_kind=engine.split()[0].lower() if engine else None, kernel=kernel),
            owner=owner or OwnerRecord(),
            cells=tuple(
                _cell(number, case_id, digest, {"os": "debian-12", "numpy": numpy}, state, values)
                for number, (numpy, state) in enumerate(cells.items(), 1)
            ),
        )
        self.store.put(run, {digest: (case_id, "", case)})
        for cell in run.cells:
            self.store.decide(run.id, cell)
        finish(self.store, run.id, finished_at=run.started_at, exit_status=0, host=run.host)
        return run


def _cell(
    number: int, case_id: str, digest: str, cell: Mapping[str, str], state: str, values: Mapping[str, Any]
) -> CellRecord:
    verdict, outcome = VERDICTS.get(state, (Verdict.FLAKY, None))
    outcomes = [Outcome.REPRODUCED, Outcome.PASSED, Outcome.PASSED] if state == "F" else [outcome] * 10
    measured = Measured(os="debian-12", packages={"pip": {"numpy": cell["numpy"]}, "apt": {}})
    plain: dict[str, Any] = {
        "details": CellDetails(base=BaseRecord(digest="sha256:" + 64 * "a")),
        "environment": measured,
        "reason": "as made up",
        "case_path": "nightly.yaml",
    }
    return CellRecord(
        number=number,
        case_id=case_id,
        case_digest=digest,
        cell=cell,
        verdict=verdict,
        expected=Verdict.REPRODUCED if cell["numpy"] == "2" else Verdict.NOT_REPRODUCED,
        rules="1",
        trials=tuple(_trial(at, one) for at, one in enumerate(outcomes, 1) if one is not None),
        **{**plain, **values},
    )


def _trial(number: int, outcome: Outcome) -> TrialRecord:
    return TrialRecord(
        number=number,
        outcome=outcome,
        exit_code=1,
        seconds=0.1,
        oom=False,
        timed_out=False,
        reason="so",
        log="runs/none.log",
    )
