"""How large images were and how long cells took, from a store and from the verdicts beside the cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.matrix import cell_key
from reprokit.core.errors import UsageError
from reprokit.github.matrix import PastFigures
from reprokit.report.catalogue import verdicts
from reprokit.store.database import Store
from reprokit.store.folder import has_database

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile


def known(files: Sequence[CaseFile], store: Path) -> PastFigures:
    """Image sizes and durations of the cells of these cases, as far as recorded.

    ``store``: the store's folder. Files that cannot be read are ignored, since these are only estimates.
    """
    sizes: dict[tuple[str, str, str], float] = {}
    seconds: dict[tuple[str, str, str], float] = {}
    for folder in sorted({Path(file.path).parent for file in files if "://" not in file.path}):
        try:
            seen = verdicts.read(folder / verdicts.FILE)
        except UsageError:
            continue
        for case_id, case in seen.cases.items():
            for one in case.cells:
                if one.size:
                    sizes[case_id, cell_key(one.cell), one.variant] = one.size
    if has_database(store):
        _recorded(files, store, sizes, seconds)
    return PastFigures(sizes=sizes, seconds=seconds)


def _recorded(
    files: Sequence[CaseFile],
    folder: Path,
    sizes: dict[tuple[str, str, str], float],
    seconds: dict[tuple[str, str, str], float],
) -> None:
    try:
        store = Store(folder)
    except UsageError:
        return
    for file in files:
        found = store.last_seen(file.case.id)
        for cell in found[1] if found else ():
            key = cell.case_id, cell_key(cell.cell), cell.variant
            if cell.seconds is not None:
                seconds[key] = cell.seconds
            if cell.image and cell.image.size:
                sizes[key] = cell.image.size
    store.close()
