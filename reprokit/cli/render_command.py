"""``reprokit render``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reprokit.cli import options
from reprokit.run import rendering
from reprokit.run.loading import load_all
from reprokit.run.plan import plan


@click.command("render", epilog="Example: reprokit render cases/ptxas_unknown_arch.yaml --cuda 12.0 -o out/")
@options.cases_argument()
@options.selection_options
@options.filter_options
@click.option("--fix", is_flag=True, help="The fixed variant too.")
@options.stand_in_options
@options.base_option
@options.locked_option
@options.engine_option
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write to; without it, the Dockerfiles are printed.",
)
def command(cases: tuple[str, ...], output: Path | None, **given: Any) -> int:
    """Write the Dockerfile and build context of every image that the cells need, one folder each.

    Each folder builds with plain `docker build FOLDER`. Cells that share an image share a folder.

    These images contain the files of the case. `reprokit run` instead copies the files that no build step reads into
    each container, so that more cells share an image.
    """
    request = options.request_of({**given, "cases": cases})
    return rendering.render_all(plan(load_all(cases), request), request, output)
