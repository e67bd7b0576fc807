"""``reprokit store``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.run.invocation import now
from reprokit.store.database import Store
from reprokit.store.files import files_of
from reprokit.store.remote import remote_of, shown

FILE = click.Path(path_type=Path, dir_okay=False)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


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

\b
Exit status: 0 done and nothing wrong, 2 wrong usage, or a store or file that cannot be used,
3 something is damaged, missing or was left out.
""",
)
def command() -> None:
    """Check, back up, copy, export, import and rebuild the record of runs.

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

    folder = _folder(store_folder)
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
    from reprokit.store.archive import import_ as taken_over

    if not file.exists():
        raise UsageError(f"{file} does not exist")
    done = taken_over(Store(options.store_path(store_folder), up_to_date=True), file, now())
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
    folder = _folder(store_folder)
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

    folder = _folder(store_folder)
    done = delivered(folder)
    if as_json:
        options.echo_document(done)
        return 3 if done.refused else 0
    for run_id, why in done.refused.items():
        echo(f"run {run_id}: {why}: it stays in {path_of(folder, run_id)}; remove that folder to give it up")
    open_ended = f"; {pluralize(len(done.not_ended), 'run')} not ended" if done.not_ended else ""
    echo(f"{shown(folder)}: {pluralize(len(done.delivered), 'run')} delivered{open_ended}")
    return 3 if done.refused else 0


def _folder(given: Path | None) -> Path:
    folder = options.store_path(given)
    if not folder.is_dir():
        raise UsageError(f"nothing was run here yet: {folder} does not exist")
    return folder
