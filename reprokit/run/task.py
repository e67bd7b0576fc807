"""One unit of work of a run: a cell of a case, planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reprokit.case.cellspec import CellSpec
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell
from reprokit.case.model import Case
from reprokit.environment.lock import PinnedEnvironment
from reprokit.evidence.model import Verdict
from reprokit.evidence.sequential import Trials


@dataclass(frozen=True, kw_only=True)
class BundledImage:
    """The image of a bundle: an archive that was checked, and the one name that it gives its image."""

    archive: Path
    tag: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """One cell of one case, as it stands (``variant`` case) or with its fix merged in (``variant`` fix).

    ``held``: the lock that it is built from, if it is to be; ``refused``: why that lock has no environment for it.
    ``bundled``: its image, which is not built.
    ``tried``: of a case that a search rewrote to try it, what it does without, in words. ``reference``: the cell that
    it is measured against, where the case is about how much slower or bigger it is. ``notes``: what of this host
    does not go together with it, as the case wants it.
    """

    number: int
    file: CaseFile
    case: Case
    variant: str
    cell: Cell
    spec: CellSpec
    expected: Verdict | None
    trials: Trials
    datasets: Mapping[str, Path]
    held: PinnedEnvironment | None = None
    refused: str = ""
    tried: str = ""
    bundled: BundledImage | None = None
    reference: Task | None = None
    notes: tuple[str, ...] = ()
