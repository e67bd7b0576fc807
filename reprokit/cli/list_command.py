"""``reprokit list``."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.case.facts import facts
from reprokit.case.filters import choose
from reprokit.cli import options
from reprokit.cli.display.plain import columns
from reprokit.core.errors import UsageError
from reprokit.core.json_record import JsonRecord
from reprokit.core.terminal import echo, style
from reprokit.core.text import pluralize
from reprokit.report import catalogue
from reprokit.report.labels import served_by, standing, summary
from reprokit.run.loading import load_all

if TYPE_CHECKING:
    from reprokit.case.facts import CaseFacts
    from reprokit.case.files import CaseFile
    from reprokit.evidence.records import CellRecord, RunRecord

EXAMPLES = """\b
Examples:
  reprokit list cases/ --tag loss
  reprokit list --framework paddle --needs no-gpu
  reprokit list --needs gpu --json -
  reprokit run cases/ --fix --json result.json; reprokit list --write cases/README.md --results result.json
  reprokit list --write bugs/README.md --check    # for CI: is the page up to date?
"""
DIFF_LINES = 30


@click.command("list", epilog=EXAMPLES)
@options.cases_argument(required=False)
@options.filter_options
@options.json_file_option("Write all of it as JSON (- to print).")
@click.option(
    "--write",
    "page",
    type=options.FILE,
    metavar="FILE",
    help="Write the catalogue page of the folder that FILE is in: the symptom of each case, the versions with which it "
    "fails, its last results, and what it needs. The last verdicts are kept in verdicts.json beside it.",
)
@click.option(
    "--results",
    multiple=True,
    type=options.FILE,
    help="With --write: first copy the verdicts of a result file of `reprokit run --json` to verdicts.json.",
)
@click.option("--check", is_flag=True, help="With --write: write nothing; exit with 1 if the page is not up to date.")
@options.store_option
def command(
    cases: tuple[str, ...],
    json_file: Path | None,
    page: Path | None,
    results: tuple[Path, ...],
    check: bool,
    store_folder: Path | None,
    **given: Any,
) -> int:
    """List cases (the folder cases/ by default): cells, what they need, and their last results."""
    if page is not None:
        options.refuse("--write lists the folder that FILE is in", "cases", *given, "json_file")
        return _catalogue(page, results, check=check)
    options.refuse("no page is named with --write", "results", "check")
    options.check_writable("--json", json_file)
    if not cases:
        if not Path("cases").is_dir():
            raise UsageError("there is no folder cases/ here: name the cases to list")
        cases = ("cases",)
    files = choose(load_all(cases), options.filter_of(given))
    folder = options.store_path(store_folder)
    store = options.open_store(folder) if folder.is_dir() else None
    rows = [
        _Row(file=file, facts=facts(file.case), seen=store.last_seen(file.key) if store else None) for file in files
    ]
    options.write_json(json_file, [row.listed() for row in rows])
    if json_file != Path("-"):
        _print(rows)
    return 0


@dataclass(frozen=True, kw_only=True)
class LastRun(JsonRecord):
    """The newest run of a case."""

    run_id: str
    started_at: str
    case_changed_since: bool
    engine: str | None
    summary: str
    departures: int


@dataclass(frozen=True, kw_only=True)
class ListedCase(JsonRecord):
    """A case with its last result."""

    id: str
    path: str
    digest: str
    title: str
    tags: tuple[str, ...]
    cells: int
    frameworks: Mapping[str, tuple[str, ...]]
    needs: tuple[str, ...]
    last_run: LastRun | None
    """null where it was never run"""


CaseList = tuple[ListedCase, ...]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A case with its facts. ``seen``: its newest run, and its cells in that run; None if it was never run."""

    file: CaseFile
    facts: CaseFacts
    seen: tuple[RunRecord, list[CellRecord]] | None

    @property
    def changed(self) -> bool:
        """Whether the case was changed since its last run."""
        return self.seen is not None and self.seen[1][0].case_digest != self.file.digest

    @property
    def last(self) -> str:
        """The result of the newest run, in a few words."""
        if self.seen is None:
            return "never run"
        run, cells = self.seen
        return f"{run.started_at[:10]} {'changed since' if self.changed else standing(cells)}{served_by(run.engine)}"

    def listed(self) -> ListedCase:
        """The row for programs."""
        case, last = self.file.case, None
        if self.seen is not None:
            run, cells = self.seen
            last = LastRun(
                run_id=run.id,
                started_at=run.started_at,
                case_changed_since=self.changed,
                engine=run.engine or None,
                summary=summary(cells),
                departures=sum(cell.as_expected is False for cell in cells),
            )
        return ListedCase(
            id=case.id,
            path=self.file.path,
            digest=self.file.digest,
            title=case.title,
            tags=tuple(case.tags),
            cells=len(self.facts.cells),
            frameworks=self.facts.frameworks,
            needs=self.facts.needs,
            last_run=last,
        )


def _print(rows: list[_Row]) -> None:
    """One line per case where all of it fits; in a narrower terminal each title gets the line below."""
    header = ("case", "cells", "needs", "last run")
    cells = [(row.file.case.id, str(len(row.facts.cells)), ", ".join(row.facts.needs), row.last) for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    titles = [" ".join(row.file.case.title.split()) for row in rows]
    room = columns()
    below = sum(widths) + 2 * len(widths) + max(map(len, titles)) > room

    def line(values: tuple[str, ...]) -> str:
        texts = [
            value.rjust(width) if name == "cells" else value.ljust(width)
            for name, value, width in zip(header, values, widths, strict=True)
        ]
        return "  ".join(texts)

    echo(style(line(header) + ("" if below else "  title"), bold=True))
    for values, title in zip(cells, titles, strict=True):
        if below:
            echo(line(values).rstrip())
            folded = textwrap.fill(title, room, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
            echo(style(folded, dim=True))
        else:
            echo(f"{line(values)}  {title}")
    echo(f"{pluralize(len(rows), 'case')}, {pluralize(sum(len(row.facts.cells) for row in rows), 'cell')}")


def _catalogue(path: Path, results: Sequence[Path], *, check: bool) -> int:
    if check:
        options.refuse("--check writes nothing", "results")
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name a file in the folder of cases")
    library = _library(folder, results)
    text = catalogue.page(library)
    if check:
        return _check(path, text)
    if path.is_file() and catalogue.WRITTEN not in path.read_text(encoding="utf-8", errors="replace"):
        raise UsageError(f"{path} was not written by reprokit list --write: move it away")
    if results:
        options.write_file(folder / catalogue.VERDICTS_FILE, catalogue.dump_verdicts(library.verdicts))
    options.write_file(path, text)
    cells = sum(len(facts.cells) for facts in library.facts.values())
    echo(f"{path}: {pluralize(len(library.files), 'case')}, {pluralize(cells, 'cell')}")
    return 0


def _library(folder: Path, results: Sequence[Path]) -> catalogue.Library:
    files = load_all([str(folder)])
    known = {file.case.id: facts(file.case) for file in files}
    seen = catalogue.read_verdicts(folder / catalogue.VERDICTS_FILE)
    for path in results:
        merged = catalogue.merge_verdicts(seen, path, files, known)
        seen = merged.verdicts
        echo(f"{path}: verdicts of {pluralize(len(merged.taken), 'case')} copied")
        for names, why in (
            (merged.outdated, "not copied, since the case was changed after the run"),
            (merged.strange, f"not copied, since {folder} has no such case"),
        ):
            if names:
                echo(f"{path}: {why}: {', '.join(names)}")
    return catalogue.Library(folder=folder, files=files, facts=known, verdicts=seen)


def _check(path: Path, text: str) -> int:
    there = path.read_text(encoding="utf-8") if path.is_file() else ""
    if there == text:
        echo(f"{path}: up to date")
        return 0
    lines = list(
        difflib.unified_diff(there.splitlines(), text.splitlines(), str(path), "as it would be", "", "", 0, "")
    )
    room = columns()
    for line in lines[:DIFF_LINES]:
        echo(line if len(line) <= room else f"{line[: room - 1]}…")
    if len(lines) > DIFF_LINES:
        echo(f"... and {len(lines) - DIFF_LINES} more lines")
    what = "is not up to date" if path.is_file() else "does not exist"
    echo(f"{path} {what}: run `reprokit list --write {path}` and commit the result", err=True)
    return 1
