"""``reprokit build``."""

from __future__ import annotations

from typing import Any

import click

from reprokit.cli import options
from reprokit.cli.display.screen import Screen
from reprokit.run.run_session import Session


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
@options.store_option
def command(**given: Any) -> int:
    """Build and measure the images of cells without running them, so that `reprokit run` need not build them."""
    verbose, store_folder = given.pop("verbose"), options.obeyed_store(given.pop("store_folder"))
    given["trials"] = None
    return Session(store_folder, display=Screen(verbose=verbose)).build(options.request_of(given))
