"""What changed between two records of a cell: environment, hardware, sources, the case itself, and what judged it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from reprokit.case.render import render
from reprokit.core.errors import ReprokitError
from reprokit.environment.cases import recorded_case
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import differences
from reprokit.report.differences import Difference, EnvironmentFacts
from reprokit.report.history.rejudging import judged_by

if TYPE_CHECKING:
    pass

Record = tuple[RunRecord, CellRecord]
Texts = Callable[[str], str]
"""The text of a case by its digest, as :meth:`reprokit.store.database.Store.case_text` returns it."""


def side(texts: Texts, run: RunRecord, cell: CellRecord) -> EnvironmentFacts:
    """A recorded cell as ``reprokit diff`` compares it, with what its case asked for."""
    return differences.of_cell(f"{run.id}:{cell.number}", run, cell, _asked(texts(cell.case_digest), cell))


def between(texts: Texts, before: Record, after: Record) -> tuple[Difference, ...]:
    """Every recorded fact that differs between two records of a cell, what is likely to matter most first."""
    found = differences.compare(_whole(texts, *before), _whole(texts, *after))
    edited = ", ".join(_sections(texts(before[1].case_digest), texts(after[1].case_digest)))
    return tuple(
        dataclasses.replace(one, name=f"text ({edited})") if edited and (one.concern, one.name) == TEXT else one
        for one in found
    )


TEXT = ("case", "text")
SHORT = len("sha256:") + 12
"""Characters of a digest that people are shown, as Docker shows them."""


def _sections(before: str, after: str) -> list[str]:
    """The keys of a case that differ between two texts of it, such as ``environment``; none where only words do."""
    files = [recorded_case(text) for text in (before, after)]
    old, new = ({} if file is None else file.case.model_dump() for file in files)
    return [name for name in new if old and old[name] != new[name]]


def _whole(texts: Texts, run: RunRecord, cell: CellRecord) -> EnvironmentFacts:
    """A side with what matters over time alone: within one run these are the same, or the matter of the comparison."""
    found = side(texts, run, cell)
    base = cell.details.base
    facts = {concern: dict(values) for concern, values in found.facts.items()}
    facts["operating system"]["base image"] = (base.digest or base.id if base else "")[:SHORT]
    facts["case"] = {"text": cell.case_digest[:SHORT], "trials": str(len(cell.trials))}
    if (signature := judged_by(cell)) != cell.case_digest:
        facts["case"]["judged again by the signature of"] = signature[:SHORT]
    version = (cell.details.job.version if cell.details.job else "") or run.version
    facts["reprokit"] = {"version": version, "rules": cell.rules}
    known = {concern: {name: value for name, value in values.items() if value} for concern, values in facts.items()}
    return dataclasses.replace(found, facts=known)


def _asked(text: str, cell: CellRecord) -> Mapping[str, Mapping[str, str]]:
    """What the case, as it was, asks for in the cell: variables, command and limits. Nothing where it cannot tell."""
    file = recorded_case(text)
    names = file.names if file else ()
    return _rendered(text, cell.variant, tuple(one for one in cell.cell.items() if one[0] in names))


@lru_cache(maxsize=1024)
def _rendered(text: str, variant: str, used: Sequence[tuple[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """The same. ``used``: of the cell the axes that the case's templates name, which few cells of many differ in."""
    file = recorded_case(text)
    if file is None:
        return {}
    case = file.fixed if variant == "fix" and file.fixed else file.case
    try:
        spec = render(case, dict(used))
    except (ReprokitError, ValueError):
        return {}
    values = {one.name: getattr(spec.limits, one.name) for one in dataclasses.fields(spec.limits)}
    limits = {name: str(value) for name, value in values.items() if value is not None}
    return {"environment variables": spec.env, "command": {"command": spec.command[-1].strip()}, "limits": limits}
