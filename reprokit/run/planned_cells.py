"""The cells that the jobs of a matrix were to run, for ``reprokit merge --planned``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from reprokit.environment.cases import load_all
from reprokit.evidence.model import RULES_VERSION, Verdict
from reprokit.evidence.origin import WorkflowRecord
from reprokit.run.chosen import Chosen
from reprokit.run.plan import plan
from reprokit.run.request import Request
from reprokit.run.trials import blank
from reprokit.store.merging.joining import Missing
from reprokit.store.merging.merge import Planned


def planned(jobs: Mapping[str, tuple[Chosen, ...]], workflow: WorkflowRecord | None) -> Planned:
    """From what each job of a matrix names. Raises UsageError, CaseError when the cases are not here as they were."""

    files = load_all(dict.fromkeys(one.path for chosen in jobs.values() for one in chosen))
    found = []
    for job, chosen in jobs.items():
        for task in plan(files, Request(cases=(), chosen=chosen)):
            reason = f"the job {job} left no record of it: it was cancelled, or its artifact was lost"
            cell = dataclasses.replace(blank(task), verdict=Verdict.CANCELLED, reason=reason, rules=RULES_VERSION)
            found.append(Missing(job=job, cell=cell))
    texts = {file.digest: (file.case.id, file.case.title, file.text) for file in files}
    return Planned(cells=tuple(found), texts=texts, workflow=workflow)
