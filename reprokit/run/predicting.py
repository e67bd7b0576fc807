"""What is known of a cell before anything is built: whether this host can serve it, and what will not go together."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell
from reprokit.core.errors import CaseError, Unsupported
from reprokit.environment.host import HostFacts
from reprokit.environment.preflighting import preflight
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from reprokit.run.spec import spec_of


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """``unsupported``: why the cell is not available here, '' = it is; ``notes``: conflicts that the case wants so."""

    unsupported: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In one line, without what could be had instead."""
        texts = (f"unsupported: {self.unsupported}",) if self.unsupported else self.notes
        return "; ".join(text.split("; ")[0].split(". ")[0] for text in texts)


def predict(file: CaseFile, cell: Cell, supply: Supply, facts: HostFacts) -> Prediction:
    """What the tables and this host say of a cell of a case. Raises UsageError for a site's wrong table."""
    try:
        spec = spec_of(file, file.case, "case", cell)
        notes = (*resolve(spec, supply).notes, *preflight(spec, facts, supply.catalog))
    except (Unsupported, CaseError) as error:
        return Prediction(unsupported=str(error))
    return Prediction(notes=notes)
