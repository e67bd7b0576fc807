"""A cell of a case file as data: what it asks for, and the verdict that its case expects."""

from __future__ import annotations

from dataclasses import replace

from reprokit.case.cellspec import CellSpec
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, is_own, label, matches
from reprokit.case.model import Case
from reprokit.case.render import TemplateProblem, render
from reprokit.core.errors import CaseError
from reprokit.evidence.model import Verdict
from reprokit.evidence.verdict import expected


def promised_of(file: CaseFile, cell: Cell) -> Verdict | None:
    """The verdict that a case expects of a cell, without its fix; None where it expects none."""
    own, expect = is_own(cell, file.case.matrix.axes, file.case.matrix.include), file.case.expect
    if any(matches(cell, partial) for known in expect.known for partial in known.reproduces):
        return Verdict.DIFFERENT_FAILURE
    return expected(expect.reproduces, cell, own)


def spec_of(file: CaseFile, case: Case, variant: str, cell: Cell) -> CellSpec:
    """A cell of a case file, as it stands or with its fix. Raises CaseError when a template fails for the cell."""
    try:
        return replace(render(case, cell), reproduces=promised_of(file, cell) is Verdict.REPRODUCED)
    except TemplateProblem as error:
        message = f"{error.message} (in the cell {label(cell)})"
        problem = file.problem(error.loc, message, error.hint, fixed=variant == "fix")
        raise CaseError([problem]) from error
