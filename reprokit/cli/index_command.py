"""``reprokit index``."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from reprokit.case.facts import facts
from reprokit.cli.display.plain import columns
from reprokit.core.errors import UsageError
from reprokit.core.files import write
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.report.catalogue import (
    PAGE_FILE,
    VERDICTS_FILE,
    WRITTEN,
    Library,
    dump_verdicts,
    merge_verdicts,
    page,
    read_verdicts,
)
from reprokit.run.loading import load_all

EXAMPLES = """\b
Examples:
  reprokit index                                # writes cases/README.md
  reprokit run cases/ --fix --json result.json; reprokit index --results result.json
  reprokit index bugs/ --check                  # for CI: is bugs/README.md up to date?

\b
The last verdicts are kept in FOLDER/verdicts.json.
"""
DIFF_LINES = 30


@click.command("index", epilog=EXAMPLES)
@click.argument("folder", required=False, metavar="[FOLDER]", type=click.Path(path_type=Path))
@click.option(
    "--results",
    multiple=True,
    type=click.Path(path_type=Path),
    help="First copy the verdicts of a result file of `reprokit run --json` to FOLDER/verdicts.json.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the page is not up to date.")
def command(folder: Path | None, results: tuple[Path, ...], check: bool) -> int:
    """Write the catalogue page of a folder of cases (cases/ by default), FOLDER/README.md.

    It lists every case: the symptom, the versions with which it fails, its last results, and what it needs.
    """
    folder = folder or Path("cases")
    if check and results:
        raise UsageError("--check writes nothing: leave out --results")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name the folder of cases")
    library = _library(folder, results)
    text = page(library)
    path = folder / PAGE_FILE
    if check:
        return _check(path, text)
    _may_replace(path)
    if results:
        _write(folder / VERDICTS_FILE, dump_verdicts(library.verdicts))
    _write(path, text)
    cells = sum(len(facts.cells) for facts in library.facts.values())
    echo(f"{path}: {pluralize(len(library.files), 'case')}, {pluralize(cells, 'cell')}")
    return 0


def _library(folder: Path, results: tuple[Path, ...]) -> Library:
    files = load_all([str(folder)])
    known = {file.case.id: facts(file.case) for file in files}
    seen = read_verdicts(folder / VERDICTS_FILE)
    for path in results:
        merged = merge_verdicts(seen, path, files, known)
        seen = merged.verdicts
        echo(f"{path}: verdicts of {pluralize(len(merged.taken), 'case')} copied")
        for names, why in (
            (merged.outdated, "not copied, since the case was changed after the run"),
            (merged.strange, f"not copied, since {folder} has no such case"),
        ):
            if names:
                echo(f"{path}: {why}: {', '.join(names)}")
    return Library(folder=folder, files=files, facts=known, verdicts=seen)


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
    echo(f"{path} {what}: run `reprokit index {path.parent}` and commit the result", err=True)
    return 1


def _write(path: Path, text: str) -> None:
    try:
        write(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _may_replace(path: Path) -> None:
    """Refuse to overwrite a page that was written by hand. Raises UsageError."""
    if path.is_file() and WRITTEN not in path.read_text(encoding="utf-8", errors="replace"):
        raise UsageError(f"{path} was not written by reprokit index: move it away")
