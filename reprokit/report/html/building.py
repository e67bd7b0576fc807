"""A whole report out of a store: what is written, in which order, and what is left out for its size."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.core.version import __version__
from reprokit.evidence.records import TrialRecord
from reprokit.evidence.spans import read_timings
from reprokit.evidence.text import clean as plain
from reprokit.report.html import cell
from reprokit.report.html.case import write_case
from reprokit.report.html.gathering import RecordedCase, known_cases
from reprokit.report.html.overview import CaseRow, never_run, row, write_overview, write_runs
from reprokit.report.html.writing import Clean, Folder, name, replacing
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.places import log_path, read_log, why_removed

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.store.database import Store

ASSETS = Path(__file__).parent / "assets"
RUNS = 2  # the newest runs of a case whose cells get a page each, beside the cells that the newest verdicts are of
ALL_LOGS = 200 * 1024**2  # bytes of logs in a report, after which they are left out: a site on GitHub Pages has 1 GB


@dataclass(frozen=True, kw_only=True)
class PagesRequest:
    """What a report is about."""

    cases: Sequence[str] = ()  # ids, none = all
    files: Sequence[CaseFile] = ()  # the cases of a folder, those never run included
    runs: int = RUNS
    also: Collection[str] = ()  # runs whose cells get pages whatever their age


@dataclass(kw_only=True)
class Built:
    """What was written."""

    cases: int = 0  # in the overview
    cells: int = 0  # with a page
    files: int = 0
    bytes: int = 0  # of everything
    logs: int = field(default=0, repr=False)
    left_out: int = 0  # logs that were not copied, since :data:`ALL_LOGS` was reached
    away: bool = field(default=False, repr=False)  # the logs of other hosts cannot be read; a try may take a minute


OVERWRITTEN = "what carriage returns overwrote is left out"
AWAY = "the log could not be read: the place of the store's files did not answer"


def build(store: Store, target: Path, request: PagesRequest, clean: Clean) -> Built:
    """Write the report for a store to the folder ``target``. Raises UsageError, before anything is written.

    ``clean``: what every text passes.
    """
    with replacing(target, clean) as folder:
        making = _Making(store, folder, request, clean)
        rows: list[CaseRow] = []
        files = {file.key: file for file in request.files}
        for known in known_cases(store, request.cases):
            elsewhere = bool(request.files) and not request.cases and known.id not in files
            rows.append(row(known, files.pop(known.id, None), elsewhere=elsewhere))
            making.write_case(known)
        rows += [never_run(file) for file in files.values()]
        write_overview(folder, rows, __version__)
        write_runs(folder, store, request.cases)
        _assets(folder)
        built = making.built
        built.cases, built.files, built.bytes = len(rows), folder.files, folder.bytes
    return built


class _Making:
    """A report that is being written."""

    def __init__(self, store: Store, folder: Folder, request: PagesRequest, clean: Clean) -> None:
        self.built = Built()
        self._store = store
        self._folder = folder
        self._packer = cell.Packer(folder, clean, self._log)
        self._request = request
        self._clean = clean
        self._timings = functools.cache(lambda run_id: read_timings(store.findings(run_id)))

    def write_case(self, known: RecordedCase) -> None:
        """The page of a case, and those of its cells that have one."""
        newest = {run.id for run in known.runs[-self._request.runs :]} if self._request.runs else set()
        paged = [run.id for run in known.runs if run.id in newest or run.id in self._request.also]
        pages = {(run.id, record.number) for run, record in known.current}
        pages |= {(run, one.number) for run in paged for one in known.results(run)}
        timings = next(reversed(self._timings(known.last.id)), None)
        write_case(self._folder, known, lambda run, number: (run, number) in pages, paged, timings)
        for (run_id, part), places in groupby(sorted(pages), lambda page: (page[0], page[1] // cell.CELLS)):
            run = known.history.runs[run_id]
            path = f"{name(run.id)}/{name(known.id)}/{part}"
            records = self._store.records(list(places))
            cells = sorted(records.values(), key=lambda record: record.number)
            self._packer.write_cells(path, known, run, cells)
            self.built.cells += len(cells)

    def _log(self, path: str, trial: TrialRecord) -> cell.Log:
        built, store = self.built, self._store.folder
        try:
            if built.away and not log_path(store, trial.log).is_file():
                return cell.Log(text="", note=AWAY)
            recorded = read_log(store, trial.log).decode("utf-8", "replace")
        except (OSError, StoreError) as error:
            if isinstance(error, StoreError) and error.trouble is Trouble.UNREACHABLE:
                built.away = True
                return cell.Log(text="", note=AWAY)
            return cell.Log(text="", note=why_removed(store, trial.log) or "the log is gone")
        text = cell.last_states(recorded, cell.judged_lines(trial))
        note = OVERWRITTEN if text != recorded and plain(text) != plain(recorded) else ""
        kept: Set[int] | None = None
        if len(text) > cell.LOG_BYTES:
            text, shown, left, kept = cell.thin_log(text, cell.judged_lines(trial), self._clean)
            note = "; ".join(filter(None, (left, note)))
        else:
            text = shown = cell.same_lines(text, self._clean)
            if len(text) <= cell.MOST:
                return cell.Log(text=text, note=note, whole=True)
        if built.logs > ALL_LOGS:
            built.left_out += 1
            return cell.Log(text=text, note="the whole log is not in this report, for its size", kept=kept)
        file = f"logs/{path}-{trial.number}.txt"
        self._folder.text(f"data/{file}", plain(shown))
        built.logs += len(shown)
        return cell.Log(text=text, file=file, note=note, kept=kept)


def _assets(folder: Folder) -> None:
    """Copy the assets; the page names them with a hash, so that a browser never mixes two versions."""
    paths = sorted(path for path in ASSETS.iterdir() if path.is_file() and not path.name.startswith((".", "_")))
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    page = texts.pop("index.html")
    stamp = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:10]
    for file, text in texts.items():
        folder.text(f"assets/{file}", text)
    folder.text("index.html", page.replace("{{stamp}}", stamp))
    folder.text(".nojekyll", "")  # GitHub Pages then serves files as they are
