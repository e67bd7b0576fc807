"""A whole report out of a store: what is written, in which order, and what is left out for its size."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.core.private_patterns import PEM
from reprokit.core.version import __version__
from reprokit.evidence.records import TrialRecord
from reprokit.evidence.spans import PARTS, Span, Timings, critical_path, of_findings, sums
from reprokit.evidence.text import CUT_MARK
from reprokit.evidence.text import clean as plain
from reprokit.report.html.case import case_data
from reprokit.report.html.cell import MOST, Log, cell_data, judged, to_show, within
from reprokit.report.html.gathering import RecordedCase, known_cases
from reprokit.report.html.overview import never_run, overview, row
from reprokit.report.html.writing import CELLS, Clean, Folder, Packer, name, replacing
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.places import log_path, read_log, why_removed

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.store.database import Store

ASSETS = Path(__file__).parent / "assets"
RUNS = 2
"""The newest runs of a case whose cells get a page each, beside the cells that the newest verdicts are of."""
LOG_BYTES = 256 * 1024
"""Of a log that is copied: its beginning and its end."""
ALL_LOGS = 200 * 1024**2
"""Bytes of logs in a report, after which they are left out: a site on GitHub Pages has 1 GB."""
LINE = 48 * 1024
"""Characters of one line of a log that is not copied whole."""
WORD = 4096
"""Characters of the longest word that is looked for whole; what is secret in a longer one shows in fewer."""
CONTEXT = 5
"""Lines beside those that are shown which are looked at as well, to tell what is private in these."""


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


AWAY = "the log could not be read: the place of the store's files did not answer"


def build(store: Store, target: Path, request: PagesRequest, clean: Clean) -> Built:
    """Write the report for a store to the folder ``target``. Raises UsageError, before anything is written.

    ``clean``: what every text passes.
    """
    built = Built()

    @functools.cache
    def timing(run_id: str) -> dict[str, Any] | None:
        timings = of_findings(store.findings(run_id))
        return timing_data(run_id, timings[-1]) if timings else None

    with replacing(target, clean) as folder:
        packer = Packer(folder, clean)
        rows: list[dict[str, Any]] = []
        files = {file.case.id: file for file in request.files}
        for known in known_cases(store, request.cases):
            elsewhere = bool(request.files) and not request.cases and known.id not in files
            rows.append(row(known, files.pop(known.id, None), elsewhere=elsewhere))
            _case(store, folder, packer, known, request, clean, built, timing)
        rows += [never_run(file) for file in files.values()]
        folder.data("overview", overview(rows, __version__))
        _assets(folder)
        built.cases, built.files, built.bytes = len(rows), folder.files, folder.bytes
    return built


def _case(
    store: Store,
    folder: Folder,
    packer: Packer,
    known: RecordedCase,
    request: PagesRequest,
    clean: Clean,
    built: Built,
    timing: Callable[[str], dict[str, Any] | None],
) -> None:
    newest = {run.id for run in known.runs[-request.runs :]} if request.runs else set()
    pages = {(run.id, record.number) for run, record in known.current}
    paged = [run for run in known.results if run in newest or run in request.also]
    pages |= {(run, one.number) for run in paged for one in known.results[run]}
    last = next((run for run in reversed(known.runs) if run.id in known.results and not run.searches), known.runs[-1])
    data = case_data(known, lambda run, number: (run, number) in pages)
    folder.data(f"case/{name(known.id)}", {**data, "timing": timing(last.id)})
    for (run_id, part), numbers in itertools.groupby(sorted(pages), lambda page: (page[0], page[1] // CELLS)):
        run = known.history.runs[run_id]
        path = f"{name(run.id)}/{name(known.id)}/{part}"
        records = store.records(list(numbers))

        def log(number: int, trial: TrialRecord, path: str = path) -> Log:
            return _log(store.folder, folder, f"{path}/{number}-{trial.number}.txt", trial, clean, built)

        cells = sorted(records.values(), key=lambda record: record.number)
        packer.write(
            f"cells/{path}", {one.number: cell_data(known, run, one, partial(log, one.number)) for one in cells}
        )
        built.cells += len(cells)


def _log(store: Path, folder: Folder, path: str, trial: TrialRecord, clean: Clean, built: Built) -> Log:
    try:
        if built.away and not log_path(store, trial.log).is_file():
            return Log(text="", note=AWAY)
        text = read_log(store, trial.log).decode("utf-8", "replace")
    except (OSError, StoreError) as error:
        if isinstance(error, StoreError) and error.trouble is Trouble.UNREACHABLE:
            built.away = True
            return Log(text="", note=AWAY)
        return Log(text="", note=why_removed(store, trial.log) or "the log is gone")
    kept: Set[int] | None = None
    shown, note = "", ""
    if len(text) > LOG_BYTES:
        text, shown, note, kept = thinned(text, judged(trial), clean)
    else:
        text = shown = same_lines(text, clean)
        if len(text) <= MOST and plain(text) == text:
            return Log(text=text, whole=True)
    if built.logs > ALL_LOGS:
        built.left_out += 1
        return Log(text=text, note="the whole log is not in this report, for its size", kept=kept)
    folder.text(f"data/logs/{path}", shown)
    built.logs += len(shown)
    return Log(text=text, file=f"logs/{path}", note=note, kept=kept)


def thinned(text: str, judged: Set[int], clean: Clean) -> tuple[str, str, str, Set[int]]:
    """A long log cleaned where it is shown, its other lines emptied; as it is copied; what is said of that; and the
    numbers of the lines that hold what they held. Cleaning takes most of the time that a report takes.
    """
    lines = PEM.sub(lambda key: "<private-key>" + "\n" * key[0].count("\n"), text).split("\n")
    head, tail = LOG_BYTES // 4, LOG_BYTES - LOG_BYTES // 4
    wanted = to_show(lines, judged, head, tail)
    near = {at + by for at in wanted for by in range(-CONTEXT, CONTEXT + 1)}
    near |= {at for at, line in enumerate(lines) if CUT_MARK.fullmatch(line)}  # by these, lines are numbered
    found = same_lines("\n".join(_cut(line) if at in near else "" for at, line in enumerate(lines)), clean)
    parts = found.split("\n")
    first, last = within(lines, head), within(lines[::-1], tail)
    shown, note = found, ""
    if first + last < len(lines):
        left = sum(len(line) + 1 for line in lines[first:-last])
        note = f"{left:,} characters of {len(text):,} are left out in the middle"
        shown = "\n".join([*parts[:first], f"[... {note} ...]", *parts[-last:]])
    return found, shown, note, {at + 1 for at in wanted}


def _cut(line: str) -> str:
    """A line, of a very long one the beginning: no word that may be a secret is cut in two and goes unrecognised."""
    if len(line) <= LINE:
        return line
    last = re.search(r"[\w+/=.~-]*\Z", line[LINE - WORD : LINE])
    start = line[: LINE - len(last[0])] if last and len(last[0]) < WORD else line[:LINE]
    return f"{start} ... {len(line) - len(start)} more characters"


def same_lines(text: str, clean: Clean) -> str:
    """A text cleaned, with as many lines as before: what the judge looked at is known by its line.

    A key of several lines becomes one; empty lines then stand for the others, behind all that lies between the first
    place and the last where lines were lost.
    """
    found, lines = clean(text).split("\n"), text.split("\n")
    lost = len(lines) - len(found)
    if lost <= 0:
        return "\n".join(found)
    end = 0  # of the lines at the end, as many as stayed what they are
    while end < len(found) and found[-1 - end] in (lines[-1 - end], clean(lines[-1 - end])):
        end += 1
    return "\n".join([*found[: len(found) - end], *[""] * lost, *found[len(found) - end :]])


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


BINS = 300
"""Parts that the time of a run is cut into: what took less shows where it took most of one."""
ROWS = 40
"""Workers that are shown at most, those that did most."""
PATH = 15
"""Spans of the critical path that are listed, the longest."""


def timing_data(run_id: str, timings: Timings) -> dict[str, Any]:
    """``timing`` of a case, null where no times are recorded.

    ``rows``: ``[worker, [[from, count, kind], ...]]`` in ``bins``; ``more``: how many workers more there were.
    """
    workers: dict[str, list[Span]] = {}
    for one in timings.spans:
        if one.kind not in PARTS and one.kind != "waiting":
            workers.setdefault(one.worker, []).append(one)
    busiest = sorted(workers, key=lambda name: -sum(one.seconds for one in workers[name]))[:ROWS]
    size = max(timings.seconds, max((one.end for one in timings.spans), default=0.0), 0.001) / BINS
    path = sorted(critical_path(timings), key=lambda one: -one.seconds)[:PATH]
    return {
        "run": run_id,
        "began": timings.began,
        "seconds": round(timings.seconds, 3),
        "bins": BINS,
        "rows": [[name, _row(workers[name], size)] for name in sorted(busiest)],
        "more": len(workers) - len(busiest),
        "sum": {kind: round(seconds, 1) for kind, seconds in sums(timings.spans).items()},
        "path": [
            [one.kind, one.name, round(one.start, 1), round(one.seconds, 1), one.cell]
            for one in sorted(path, key=lambda one: one.start)
        ],
    }


def _row(spans: Sequence[Span], size: float) -> list[list[Any]]:
    """What took most of each bin, equal ones that follow each other as one, without bins in which nothing was done."""
    filled: list[dict[str, float]] = [{} for _ in range(BINS)]
    for one in spans:
        first, last = int(one.start / size), min(int(one.end / size), BINS - 1)
        for at in range(min(first, BINS - 1), last + 1):
            took = min(one.end, (at + 1) * size) - max(one.start, at * size)
            filled[at][one.kind] = filled[at].get(one.kind, 0.0) + took
    kinds = [max(bin_, key=lambda kind: bin_[kind]) if bin_ else "" for bin_ in filled]
    groups = [(kind, list(group)) for kind, group in groupby(range(BINS), key=lambda at: kinds[at])]
    return [[some[0], len(some), kind] for kind, some in groups if kind]
