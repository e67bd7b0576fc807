"""The logs of recorded runs on the disk: how much they take, and removing them. The verdicts stay."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from reprokit.evidence.records import RunRecord
from reprokit.store.places import RUNS, below, is_log, log_path, run_folder

NOTE = "logs-removed.txt"
"""The file of a run's folder that says when its logs were removed."""


def logs_of(folder: Path, run_id: str) -> list[Path]:
    """The logs of a run's trials in the store in ``folder``, and what they wrote to be compared."""
    found = (path for kind in ("*.log", "*.outputs.tar") for path in run_folder(folder, run_id).rglob(kind))
    return sorted(path for path in found if not path.is_symlink())


def logs_in(run: RunRecord) -> list[str]:
    """The logs that a run's record names, and the archives of what trials wrote to be compared."""
    compared = [trial.outputs for cell in run.cells if cell.details.comparison for trial in cell.trials]
    return [trial.log for cell in run.cells for trial in cell.trials] + compared


def remove_logs(folder: Path, run_id: str, *, note: bool = True) -> None:
    """Remove them, and leave a note: a run without logs and without a note was damaged."""
    if note:
        text = f"{datetime.now(timezone.utc):%Y-%m-%d}\n"
        below(folder, RUNS, run_id, NOTE).write_text(text, encoding="utf-8")
    for log in logs_of(folder, run_id):
        log.unlink(missing_ok=True)


def removed(folder: Path, log: str) -> str:
    """That the log of a trial, given as its record has it, was removed on purpose; '' where it was not."""
    for above in log_path(folder, log).parents if is_log(log) else ():
        if (above / NOTE).is_file() and not (above / NOTE).is_symlink():
            at = (above / NOTE).read_text(encoding="utf-8", errors="replace").strip()
            return f"the logs of this run were removed by reprokit gc on {at}; its verdicts stay"
    return ""
