"""``reprokit rejudge``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, echo_data
from reprokit.environment.cases import recorded_case, recorded_trouble
from reprokit.report.history.changes import stamp
from reprokit.report.history.rejudging import Again, CannotJudge, rejudge, rejudged_json, rejudged_lines
from reprokit.run.loading import load

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.evidence.records import CellPlace, CellRecord, RunRecord
    from reprokit.report.history.rejudging import Skipped
    from reprokit.store.database import Store


@click.command(
    "rejudge",
    epilog="""\b
Examples:
  reprokit rejudge                              # the last run, by the rules of this version
  reprokit rejudge --all --write                # everything that was ever run; the earlier verdicts are kept, too
  reprokit rejudge ptxas-unknown-arch           # every run of a case
  reprokit rejudge last --case edited.yaml      # which verdicts would a new signature give?

\b
Exit status: 0 nothing would change, or --write has recorded it; 1 something would change; 3 nothing could be judged.
""",
)
@click.argument("target", required=False, metavar="[RUN|CASE]")
@click.option("--all", "everything", is_flag=True, help="Every run of every case.")
@click.option(
    "--case",
    "edited",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Judge by the signature of this case file, rather than that of the case when it ran.",
)
@click.option("--write", is_flag=True, help="Record the new verdicts, rather than only list them.")
@click.option("--json", "as_json", is_flag=True, help="List the changes as JSON.")
@options.store_option
def command(
    target: str | None, everything: bool, edited: Path | None, write: bool, as_json: bool, store_folder: Path | None
) -> int:
    """Judge recorded cells again from their logs, and list which verdicts would change.

    The cells are those of a run (an id, the beginning of one, or `last`, the default) or of every run of a case.
    Without --case, the signature is that of the case when it ran. The expected verdicts stay as they were.
    """
    if target and everything:
        raise UsageError(f"{target} and --all: give only one of them")
    store = options.store_of(store_folder)
    file = _one_case(edited) if edited else None
    found: list[Again] = []
    skipped: list[Skipped] = []
    for one in _judged(store, list(_cells(store, target, everything, file)), file):
        if isinstance(one, Again):
            found.append(one)
        else:
            skipped.append(one)
    if write:
        _write(store, found, file)
    if as_json:
        echo_data(json.dumps(rejudged_json(found, skipped, written=write), indent=2, ensure_ascii=False))
    else:
        for line in rejudged_lines(found, skipped, written=write):
            echo(line)
    if not found:
        return 3
    return int(not write and any(one.differs for one in found))


def _one_case(path: Path) -> CaseFile:
    files = load(str(path))
    if len(files) != 1:
        raise UsageError(f"--case {path}: holds {len(files)} cases; name a file with one")
    return files[0]


def _cells(
    store: Store, target: str | None, everything: bool, file: CaseFile | None
) -> Iterator[tuple[RunRecord, Sequence[CellRecord]]]:
    """The cells to judge, by run, the oldest first. Raises UsageError."""
    known = store.case_ids()
    wanted = {file.case.id} & set(known) if file else set(known)
    if file and not wanted:
        raise UsageError(f"--case: no run of the case {file.case.id!r} is recorded")
    if target is None and not everything and file is None:
        target = "last"
    if target is not None and target not in known and not Path(target).exists():
        run = store.run(target)
        cells = [cell for cell in run.cells if cell.case_id in wanted]
        if file and not cells:
            raise UsageError(f"--case: run {run.id} has no cell of the case {file.case.id!r}")
        yield run, cells
        return
    if target is not None:
        asked = set(options.known_cases(store, [target]))
        if not asked & wanted:
            raise UsageError(f"{target} is not the case of --case, {', '.join(wanted)}: name only one of them")
        wanted &= asked
    places: dict[str, list[CellPlace]] = {}
    for one in store.results(wanted):
        places.setdefault(one.run_id, []).append(one.place)
    for run in reversed(store.runs(limit=None)):
        if run.id in places:
            records = store.records(places[run.id])
            cells = sorted(records.values(), key=lambda cell: cell.number)
            yield replace(run, cells=tuple(cells)), cells


def _judged(
    store: Store, runs: Iterable[tuple[RunRecord, Sequence[CellRecord]]], file: CaseFile | None
) -> Iterator[Again | Skipped]:
    texts = lru_cache(maxsize=None)(store.case_text)
    at = stamp(datetime.now(timezone.utc))

    def recorded(digest: str) -> CaseFile | None:
        found = recorded_case(texts(digest))
        if found is None and texts(digest) and (trouble := recorded_trouble(texts(digest))):
            raise CannotJudge(f"its case is not valid any more: {trouble}; name another with --case", digest)
        return found

    for run, cells in runs:
        for cell in cells:
            try:
                again = rejudge(run, cell, recorded, store.folder, at, file)
            except CannotJudge as error:
                yield run, cell, error
            else:
                if again is not None:
                    yield again


def _write(store: Store, found: Sequence[Again], file: CaseFile | None) -> None:
    """Record the new verdicts, those of a run in one transaction."""
    texts = {file.digest: (file.case.id, file.case.title, file.text)} if file else {}
    by_run: dict[str, list[CellRecord]] = {}
    for one in found:
        if one.stale:
            by_run.setdefault(one.run.id, []).append(one.after)
    for run_id, cells in by_run.items():
        store.decide(run_id, *cells, texts=texts)
