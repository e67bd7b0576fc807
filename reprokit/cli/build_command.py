"""``reprokit build``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from reprokit.cli import options
from reprokit.cli.display.screen import Screen
from reprokit.run.run_session import BuildResult, Session

FORMAT = "reprokit-build/v1"


@click.command("build", epilog="Example: reprokit build cases/ --cuda 11.8 --jobs 4")
@options.cases_argument()
@options.selection_options
@options.filter_options
@click.option("--fix", is_flag=True, help="The fixed variant too.")
@options.stand_in_options
@options.base_option
@options.locked_option
@options.refresh_option
@options.engine_option
@options.trust_options
@options.jobs_option
@click.option("-v", "--verbose", is_flag=True, help="Stream the output of builds.")
@options.json_file_option("Write which images were built, for which cells.")
@options.store_option
def command(json_file: Path | None, **given: Any) -> int:
    """Build and measure the images of cells without running them, so that `reprokit run` need not build them."""
    verbose, store_folder = given.pop("verbose"), options.obeyed_store(given.pop("store_folder"))
    given["trials"] = None
    options.check_writable("--json", json_file)
    stream = sys.stderr if json_file == Path("-") else sys.stdout
    session = Session(store_folder, display=Screen(stream, verbose=verbose))
    done = session.build(options.request_of(given))
    options.write_json(json_file, _json(done))
    return done.exit_status


def _json(done: BuildResult) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "images": [
            {
                "tag": ready.image.tag,
                "id": ready.image.id,
                "built": ready.built,
                "seconds": round(ready.seconds, 3),
                "size": ready.image.size,
                "cells": [{"case": one.case.id, "cell": dict(one.cell), "variant": one.variant} for one in tasks],
            }
            for ready, tasks in done.built
        ],
        "failed": [
            {
                "case": one.case_id,
                "cell": dict(one.cell),
                "variant": one.variant,
                "verdict": str(one.verdict),
                "reason": one.reason,
            }
            for one in done.failed
        ],
    }
