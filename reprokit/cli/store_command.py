"""``reprokit store``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.run.invocation import now
from reprokit.store.database import Store
from reprokit.store.files import files_of
from reprokit.store.remote import remote_of, shown

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.evidence.records import CellRecord, RunRecord
    from reprokit.report.history.rejudging import Again, Skipped
    from reprokit.store.merging import MergeResult, Planned

FILE = click.Path(path_type=Path, dir_okay=False)
_json_option = options.json_option("Print it as JSON.")


@click.group(
    "store",
    epilog="""\b
Examples:
  reprokit store check
  reprokit store backup reprokit-backup.tar.gz        # also while a run writes
  reprokit store export runs.tar.gz 20260101-1 last   # these runs with their logs
  reprokit store import runs.tar.gz --store other
  reprokit store rebuild                              # where the database is damaged
  reprokit store copy .reprokit postgresql://me@db.example/reprokit
  reprokit store sync                                 # after a server was away
  reprokit store merge artifacts/ --store nightly     # the runs of several jobs as one
  reprokit store rejudge --all                        # judge again by the rules of this version

\b
Exit status: 0 done and nothing wrong, 2 wrong usage, or a store or file that cannot be used,
3 something is damaged, missing or was left out. `merge` and `rejudge` have their own.
""",
)
def command() -> None:
    """Check, back up, copy, export, import, merge, judge again and rebuild the record of runs.

    The store is a folder: a database, and of each run a journal and logs. What a run decides is in its journal before
    it is shown; the database is made from the journals. A team has the database on a server, and its hosts each such a
    folder.
    """


@command.command("check")
@_json_option
@options.store_option
def check(as_json: bool, store_folder: Path | None) -> int:
    """Check the database, the journals against it, and that the logs which records name exist."""
    from reprokit.store.upkeep import check as looked_at

    folder = options.existing_store(store_folder)
    done = looked_at(folder)
    if as_json:
        options.echo_document(done)
        return 3 if done.problems else 0
    for text in (*done.problems, *done.notes):
        echo(text)
    counts = ", ".join(
        pluralize(count, name) for count, name in ((done.runs, "run"), (done.journals, "journal"), (done.logs, "log"))
    )
    verdict = pluralize(len(done.problems), "problem") if done.problems else "nothing is wrong"
    echo(f"{shown(folder)}: {counts}: {verdict}")
    return 3 if done.problems else 0


@command.command("backup")
@click.argument("file", type=FILE)
@options.store_option
def backup(file: Path, store_folder: Path | None) -> int:
    """Write the whole store to one archive (.tar or .tar.gz), as it is now, also while a run writes.

    To restore it, extract the archive into a new folder and name that with --store.
    """
    from reprokit.store.archive import back_up

    options.check_writable("FILE", file)
    count = back_up(options.store_of(store_folder), file)
    echo(f"{file}: {pluralize(count, 'run')}; restore: mkdir FOLDER && tar -xf {file} -C FOLDER")
    return 0


@command.command("export")
@click.argument("file", type=FILE)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@options.store_option
def export(file: Path, runs: tuple[str, ...], store_folder: Path | None) -> int:
    """Write runs, all or those named, with their logs to one archive that `import` reads."""
    from reprokit.store.archive import export as written

    options.check_writable("FILE", file)
    count = written(options.store_of(store_folder), file, runs)
    echo(f"{file}: {pluralize(count, 'run')}")
    return 0


@command.command("import")
@click.argument("file", type=FILE)
@_json_option
@options.store_option
def import_(file: Path, as_json: bool, store_folder: Path | None) -> int:
    """Add the runs of an exported archive to the store, as `merge` does. Its content is validated, whoever wrote it."""
    from reprokit.engine import site
    from reprokit.store.archive import ImportLimits
    from reprokit.store.archive import import_ as add_runs

    if not file.exists():
        raise UsageError(f"{file} does not exist")
    settings = site.settings()
    limits = ImportLimits(size=settings.max_fetch_size, entries=settings.max_fetch_entries)
    done = add_runs(Store(options.store_path(store_folder), up_to_date=True), file, now(), limits)
    if as_json:
        options.echo_document(done)
        return 3 if done.problems else 0
    for problem in done.problems:
        echo(f"left out: {problem}")
    echo(f"{pluralize(done.added, 'run')} added" if done.added else "nothing new: the store has all of it")
    return 3 if done.problems else 0


@command.command("rebuild")
@_json_option
@options.store_option
def rebuild(as_json: bool, store_folder: Path | None) -> int:
    """Make a new database from the journals of runs, and what only the old one has; that is kept beside it."""
    from reprokit.store.upkeep import rebuild as rebuilt

    if remote_of(options.store_path(store_folder)):
        count = _again(options.store_path(store_folder))
        echo(f"{shown(options.store_path(store_folder))}: has what the journals of {pluralize(count, 'run')} here have")
        return 0
    if os.environ.get("REPROKIT_DATABASE"):
        raise UsageError(
            "REPROKIT_DATABASE names the database: restore it with its own tools; rebuild makes a SQLite file"
        )
    folder = options.existing_store(store_folder)
    done = rebuilt(folder, now().replace(":", "").replace("-", "").partition(".")[0])
    if as_json:
        options.echo_document(done)
        return 3 if done.lost else 0
    for text in done.lost:
        echo(f"lost: {text}")
    kept = f"; the old database is {done.old}" if done.old else ""
    echo(f"{folder}: a new database with {pluralize(done.runs, 'run')}{kept}")
    return 3 if done.lost else 0


def _again(folder: Path) -> int:
    """Bring all journals of this host into the database of a server; how many there are."""
    from reprokit.store.journal import recorded

    runs = recorded(folder)
    with contextlib.closing(Store(folder, up_to_date=True)) as store:
        store.replay(folder, runs)
    return len(runs)


@command.command("copy")
@click.argument("source", metavar="FROM", type=options.StoreType())
@click.argument("target", metavar="TO", type=options.StoreType())
@_json_option
def copy(source: Path, target: Path, as_json: bool) -> int:
    """Add every run of the store FROM, with its logs, to the store TO: folders, or addresses of databases.

    Each run is copied whole, read again and compared. Repeat it after an interruption: it goes on with what is missing.
    """
    from reprokit.store.upkeep import copy as copied

    source, target = source.expanduser().resolve(), target.expanduser().resolve()
    if not source.is_dir():
        raise UsageError(f"{source} does not exist: name a store to copy from")
    with (
        contextlib.closing(Store(source)) as old,
        contextlib.closing(Store(target, up_to_date=True)) as new,
    ):
        new.check_writable()
        if place := files_of(target):
            place.check()
        done = copied(old, new)
    if as_json:
        options.echo_document(done)
        return 3 if done.problems else 0
    for problem in done.problems:
        echo(problem)
    runs = done.copied + done.same
    compared = ", ".join(
        pluralize(count, name) for count, name in ((runs, "run"), (done.cells, "cell"), (done.trials, "trial"))
    )
    echo(f"{pluralize(done.copied, 'run')} and {pluralize(done.logs, 'log')} copied, {done.same} there already")
    echo(f"compared by digest: {compared}: {'see above' if done.problems else 'all the same'}")
    return 3 if done.problems else 0


@command.command("sync")
@_json_option
@options.store_option
def sync(as_json: bool, store_folder: Path | None) -> int:
    """Deliver what this host still keeps for the database and the place of files of a store on a server."""
    from reprokit.store.journal import path_of
    from reprokit.store.upkeep import sync as delivered

    folder = options.existing_store(store_folder)
    done = delivered(folder)
    if as_json:
        options.echo_document(done)
        return 3 if done.refused else 0
    for run_id, why in done.refused.items():
        echo(f"run {run_id}: {why}: it stays in {path_of(folder, run_id)}; remove that folder to give it up")
    open_ended = f"; {pluralize(len(done.not_ended), 'run')} not ended" if done.not_ended else ""
    echo(f"{shown(folder)}: {pluralize(len(done.delivered), 'run')} delivered{open_ended}")
    return 3 if done.refused else 0


@command.command(
    "merge",
    epilog="""\b
Examples:
  reprokit store merge artifacts/ --store nightly     # every store below the folder, one artifact each
  reprokit store merge artifacts/ --planned matrix.json  # and list the cells of the matrix that no job recorded
  reprokit store merge /mnt/other/.reprokit                 # import the runs of another store

\b
Exit status: as `reprokit run` for the newest run that was merged from jobs; at least 3 when something could not be
read.
""",
)
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", type=click.Path(path_type=Path))
@click.option(
    "--planned",
    type=FILE,
    metavar="FILE",
    help="The output of `reprokit integrate github matrix`: its cells that no job recorded become cancelled.",
)
@options.json_file_option("Write the result file.")
@options.junit_option
@click.option(
    "--keep", type=click.IntRange(min=1), metavar="N", help="Then delete all but the newest N runs, with their logs."
)
@options.store_option
def merge(
    folders: tuple[Path, ...],
    planned: Path | None,
    json_file: Path | None,
    junit_file: Path | None,
    keep: int | None,
    store_folder: Path | None,
) -> int:
    """Merge the stores of several jobs into one: all jobs of one workflow run become one run with each cell once.

    FOLDER is a store, or a folder with stores below it, such as downloaded artifacts. Runs that do not belong to a job
    are imported unchanged. Merging again changes nothing, except that results of later jobs are added.
    """
    from reprokit.store import merging

    options.check_writable("--json", json_file)
    options.check_writable("--junit", junit_file)
    found = merging.find(folders)
    plan = _planned(planned) if planned else None
    store = Store(options.store_path(store_folder), up_to_date=True)
    done = merging.merge((merging.read(name, folder) for name, folder in found), store, plan, now())
    # Where the result goes to standard output, messages go to standard error.
    _print_merged(done, err=Path("-") in (json_file, junit_file))
    _write_result(done, store, json_file, junit_file)
    if keep and (gone := merging.forget(store, keep)):
        echo(f"{pluralize(len(gone), 'old run')} deleted", err=True)
    store.close()
    own = done.nights[-1].exit_status or 0 if done.nights else 0
    return 1 if own == 1 else 3 if own or done.problems else 0


def _planned(path: Path) -> Planned:
    from reprokit.run.invocation import workflow
    from reprokit.run.plan import planned_cells
    from reprokit.run.request import read_every_job

    jobs = read_every_job(options.read_text("--planned", path), f"--planned {path}")
    known = workflow(os.environ)
    return planned_cells(jobs, replace(known, attempt="") if known else None)


def _print_merged(done: MergeResult, *, err: bool) -> None:
    from reprokit.report.labels import failure_lines, summary

    for problem in done.problems:
        echo(f"skipped: {problem}", err=err)
    for job, count in done.lost.items():
        echo(f"lost: {job}: {pluralize(count, 'cell')} that no job recorded", err=err)
    for run in done.nights:
        jobs = len(run.request.merged or ())
        echo(f"run {run.id}, {run.started_at}: {pluralize(jobs, 'job')}, {pluralize(len(run.cells), 'cell')}", err=err)
        echo(summary(run.cells), err=err)
        for line in failure_lines(run.cells):
            echo(line, err=err)
    if done.imported:
        echo(f"{pluralize(len(done.imported), 'run')} imported unchanged", err=err)
    if not done.changed:
        echo("nothing new: the store has all of it already", err=err)


def _write_result(done: MergeResult, store: Store, json_file: Path | None, junit_file: Path | None) -> None:
    if json_file is None and junit_file is None:
        return
    if not done.nights:
        raise UsageError("--json and --junit: no run was merged from jobs, so there is no result to write")
    from reprokit.report.formats import FormatSources, run_format

    run = done.nights[-1]
    for path, form in ((json_file, "json"), (junit_file, "junit")):
        if path:
            options.write_file(path, run_format(form).text(run, FormatSources.of(store, run)))


@command.command(
    "rejudge",
    epilog="""\b
Examples:
  reprokit store rejudge                              # the last run, by the rules of this version
  reprokit store rejudge --all --write                # everything that was ever run; the earlier verdicts are kept, too
  reprokit store rejudge ptxas-unknown-arch           # every run of a case
  reprokit store rejudge last --case edited.yaml      # which verdicts would a new signature give?

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
@options.json_option("List the changes as JSON.")
@options.store_option
def rejudge(
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
    from reprokit.report.history import rejudging

    found: list[Again] = []
    skipped: list[Skipped] = []
    for one in _judged(store, list(_cells(store, target, everything, file)), file):
        if isinstance(one, rejudging.Again):
            found.append(one)
        else:
            skipped.append(one)
    if write:
        _record(store, found, file)
    if as_json:
        options.echo_document(rejudging.describe_rejudged(found, skipped, written=write))
    else:
        for line in rejudging.list_rejudged(found, skipped, written=write):
            echo(line)
    if not found:
        return 3
    return int(not write and any(one.differs for one in found))


def _one_case(path: Path) -> CaseFile:
    from reprokit.run.loading import load

    files = load(str(path))
    if len(files) != 1:
        raise UsageError(f"--case {path}: holds {len(files)} cases; name a file with one")
    return files[0]


def _cells(
    store: Store, target: str | None, everything: bool, file: CaseFile | None
) -> Iterator[tuple[RunRecord, Sequence[CellRecord]]]:
    """The cells to judge, by run, the oldest first. Raises UsageError."""
    known = store.case_keys()
    wanted = {file.key} & set(known) if file else set(known)
    if file and not wanted:
        raise UsageError(f"--case: no run of the case {file.case.id!r} is recorded")
    if target is None and not everything and file is None:
        target = "last"
    if target is not None and not Path(target).exists() and not store.cases_named(target):
        run = store.run(target)
        cells = [cell for cell in run.cells if cell.case_key in wanted]
        if file and not cells:
            raise UsageError(f"--case: run {run.id} has no cell of the case {file.case.id!r}")
        yield run, cells
        return
    if target is not None:
        asked = set(options.known_cases(store, [target]))
        if not asked & wanted:
            raise UsageError(f"{target} is not the case of --case, {', '.join(wanted)}: name only one of them")
        wanted &= asked
    for run, outlines in reversed(list(store.outlines(None))):
        if any(one.case_key in wanted and not one.reused_from for one in outlines):
            cells = [cell for cell in store.run(run.id).cells if cell.case_key in wanted and not cell.reused_from]
            yield replace(run, cells=tuple(cells)), cells


def _judged(
    store: Store, runs: Iterable[tuple[RunRecord, Sequence[CellRecord]]], file: CaseFile | None
) -> Iterator[Again | Skipped]:
    from reprokit.environment.cases import recorded_case, recorded_trouble
    from reprokit.report.history.changes import stamp
    from reprokit.report.history.rejudging import CannotJudge, rejudge

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


def _record(store: Store, found: Sequence[Again], file: CaseFile | None) -> None:
    """Record the new verdicts, those of a run in one transaction."""
    texts = {file.digest: (file.case.id, file.case.title, file.text)} if file else {}
    by_run: dict[str, list[CellRecord]] = {}
    for one in found:
        if one.stale:
            by_run.setdefault(one.run.id, []).append(one.after)
    for run_id, cells in by_run.items():
        store.decide(run_id, *cells, texts=texts)
