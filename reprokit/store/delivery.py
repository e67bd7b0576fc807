"""Brings the logs of decided cells to where all hosts of a store find them; goes on where an earlier attempt stopped.

The folder ``uploads`` has a file for each run with how far its journal has been delivered, in bytes. A file that is
delivered twice is the same: there are no locks.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from reprokit.core.files import write
from reprokit.evidence.records import CellRecord
from reprokit.store.files import THREADS, Files, files_of
from reprokit.store.journal import entries, path_of
from reprokit.store.places import below, is_log, log_path, names_in

UPLOADS = "uploads"
BATCH = 100  # cells between two notes of how far a run is delivered


def mark_of(folder: Path, run_id: str) -> Path:
    """The file that says how far a run is delivered; there is none once it is whole."""
    return below(folder, UPLOADS, run_id)


def undelivered(folder: Path) -> list[str]:
    """The runs of which files may not be delivered yet."""
    return names_in(folder, UPLOADS)


def deliver_all(folder: Path) -> None:
    """Upload what runs of earlier commands left. Raises StoreError."""
    for run_id in undelivered(folder):
        deliver(folder, run_id)


def deliver(folder: Path, run_id: str) -> None:
    """Upload what the decided cells of a run name, from where an earlier attempt stopped. Raises StoreError."""
    files, mark = files_of(folder), mark_of(folder, run_id)
    if files is None or not mark.exists():
        return
    start = end = _start(mark)
    ended = False
    try:
        cells: list[CellRecord] = []
        for entry in entries(path_of(folder, run_id), start):
            end = entry.end
            if entry.kind in ("finish", "resume"):
                ended = entry.kind == "finish"
            with suppress(ValueError):
                cells += [entry.read("cell", CellRecord)] if entry.kind == "decide" else []
            if len(cells) == BATCH:
                _upload(folder, files, cells)
                write(mark, str(end))
                cells = []
        _upload(folder, files, cells)
    except FileNotFoundError:  # the run was removed
        ended = True
    if ended:
        mark.unlink(missing_ok=True)
    elif end != start:
        write(mark, str(end))


def _start(mark: Path) -> int:
    try:
        return int(mark.read_text(encoding="ascii") or 0)
    except (OSError, ValueError):
        return 0


def _upload(folder: Path, files: Files, cells: list[CellRecord]) -> None:
    names = dict.fromkeys(name for cell in cells for name in _names(cell))  # a repeated cell names its logs again
    there = [(path, name) for name in names if (path := log_path(folder, name)).is_file()]
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(lambda one: files.put(*one), there):
            pass


def _names(cell: CellRecord) -> Iterator[str]:
    """What a decided cell names: logs, and what trials wrote to be compared."""
    for log in (trial.log for trial in cell.trials if is_log(trial.log)):
        yield from (log, f"{log.removesuffix('.log')}.outputs.tar")
