"""``reprokit lock``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from reprokit.cli import options
from reprokit.cli.display.screen import Screen
from reprokit.cli.documents.records import describe_locks
from reprokit.core.errors import UsageError
from reprokit.run.run_session import Session


@click.command(
    "lock",
    epilog="""\b
Examples:
  reprokit lock cases/ptxas_unknown_arch.yaml      # writes cases/ptxas_unknown_arch.lock.yaml
  reprokit run cases/ptxas_unknown_arch.yaml --locked
  reprokit lock cases/ --check                     # for CI: exit 1 where a lock is missing or stale
  reprokit lock cases/ptxas_unknown_arch.yaml --upgrade
""",
)
@options.cases_argument()
@options.selection_options
@options.filter_options
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a lock is missing or stale.")
@click.option("--upgrade", is_flag=True, help="Build again with today's versions, and replace up-to-date locks, too.")
@options.stand_in_options
@options.base_option
@options.engine_option
@options.trust_options
@options.jobs_option
@options.verbose_option
@options.json_file_option("Write which locks are fresh, stale or written.")
@options.store_option
def command(json_file: Path | None, **given: Any) -> int:
    """Record what each cell is built from: base image, packages, hashes of wheels, commits of sources.

    The images of the case and of its fix are built, or found, and their contents are written to CASE.lock.yaml beside
    the case. `--locked` then builds the same images again, with the same identity on any machine. It is refused where
    the lock is missing or stale: where a cell asks for another environment, other sources or files than when it was
    locked. Title, description, command and expectations do not make it stale.

    Without --locked, a run ignores the lock and uses the versions that are available today.
    Cells with an up-to-date lock are skipped. An unsupported cell is locked as such, with the reason.
    Exit status: 0, or 3 where a cell cannot be locked, or is unsupported.
    """
    verbose, store_folder = given.pop("verbose"), options.obeyed_store(given.pop("store_folder"))
    upgrade, check = given.pop("upgrade"), given.pop("check")
    if upgrade and check:
        raise UsageError("--check writes nothing, but --upgrade does: leave one out")
    given["trials"] = None
    options.check_writable("--json", json_file)
    stream = sys.stderr if json_file == Path("-") else sys.stdout
    session = Session(store_folder, display=Screen(stream, verbose=verbose))
    done = session.lock(options.request_of(given), upgrade=upgrade, check=check)
    options.write_json(json_file, describe_locks(done))
    return done.exit_status
