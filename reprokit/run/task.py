"""One unit of work of a run: a cell of a case, planned, with what its case expects of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.cellspec import CellSpec
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, is_own, label, matches
from reprokit.case.model import Case
from reprokit.case.render import TemplateProblem, render
from reprokit.core.errors import CaseError
from reprokit.evidence.model import Verdict
from reprokit.evidence.sequential import Trials
from reprokit.evidence.verdict import expect_verdict

if TYPE_CHECKING:
    from reprokit.environment.lock import PinnedEnvironment


@dataclass(frozen=True, kw_only=True)
class BundledImage:
    """The image of a bundle: an archive that was checked, and the one name that it gives its image."""

    archive: Path
    tag: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """One cell of one case."""

    number: int
    file: CaseFile
    case: Case
    variant: str
    """``case``: as it stands; ``fix``: with its fix merged in."""
    cell: Cell
    spec: CellSpec
    expected: Verdict | None
    trials: Trials
    datasets: Mapping[str, Path]
    held: PinnedEnvironment | None = None
    """The lock that it is built from, if it is to be."""
    refused: str = ""
    """Why that lock has no environment for it."""
    tried: str = ""
    """Of a case that a search rewrote to try it: what it does without, in words."""
    rebuilt: str = ""
    """The run for which its image is built by all its steps, beside the one that exists; '' for none."""
    bundled: BundledImage | None = None
    """Its image, which is not built."""
    reference: Task | None = None
    """The cell that it is measured against, where the case is about how much slower or bigger it is."""
    notes: tuple[str, ...] = ()
    """What of this host does not go together with it, as the case wants it."""


def expected_verdict(file: CaseFile, cell: Cell) -> Verdict | None:
    """The verdict that a case expects of a cell, without its fix; None where it expects none."""
    own, expect = is_own(cell, file.case.matrix.axes, file.case.matrix.include), file.case.expect
    if any(matches(cell, partial) for known in expect.known for partial in known.reproduces):
        return Verdict.DIFFERENT_FAILURE
    return expect_verdict(expect.reproduces, cell, own)


def spec_of(file: CaseFile, case: Case, variant: str, cell: Cell) -> CellSpec:
    """A cell of a case file, as it stands or with its fix. Raises CaseError when a template fails for the cell."""
    try:
        return replace(render(case, cell), reproduces=expected_verdict(file, cell) is Verdict.REPRODUCED)
    except TemplateProblem as error:
        message = f"{error.message} (in the cell {label(cell)})"
        problem = file.problem(error.loc, message, error.hint, fixed=variant == "fix")
        raise CaseError([problem]) from error
