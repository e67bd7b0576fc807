"""``reprokit render``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from reprokit.case.files import CaseFile
from reprokit.case.matrix import label
from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.run import by_hand, exporting, rendering
from reprokit.run.approving import approve
from reprokit.run.loading import load_all
from reprokit.run.plan import plan
from reprokit.run.request import Request
from reprokit.run.task import Task


@click.command(
    "render",
    epilog="""\b
Examples:
  reprokit render cases/ptxas_unknown_arch.yaml --cuda 12.0 -o out/
  reprokit render cases/gcc13_missing_cstdint.yaml --gcc 13 --as swe-bench -o tasks/
  reprokit render cases/ptxas_unknown_arch.yaml --devcontainer --only cuda=11.7,arch=sm_90 -o ptxas/
""",
)
@options.cases_argument()
@click.option("--devcontainer", is_flag=True, help="Write one cell as a folder that editors open as a container.")
@click.option("--as", "kind", type=click.Choice(exporting.KINDS), help="Write one cell as a task of another program.")
@options.selection_options
@options.filter_options
@click.option("--fix", is_flag=True, help="The fixed variant too; with --devcontainer, instead.")
@options.stand_in_options
@options.base_option
@options.locked_option
@options.engine_option
@options.trust_options
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write to, new or empty with --devcontainer; without it, the Dockerfiles are printed.",
)
def command(cases: tuple[str, ...], devcontainer: bool, kind: str | None, output: Path | None, **given: Any) -> int:
    """Write the Dockerfile and build context of every image that the cells need, one folder each.

    Each folder builds with plain `docker build FOLDER`. Cells that share an image share a folder. These images contain
    the files of the case. `reprokit run` instead copies the files that no build step reads into each container, so that
    more cells share an image.

    --devcontainer writes the Dockerfile of one cell with the files of its case and devcontainer.json. The editor mounts
    nothing of this host into the container, except real data that --dataset names. Nothing is run.

    --as writes one cell with its fix below -o: a task repository of SWE-bench 5, a task of Harbor, or a test of pytest,
    which runs the command where it is started.

    Of an untrusted case with sources, --yes or a yes at the terminal fetches them.
    """
    fix = given["fix"]
    request = options.request_of({**given, "cases": cases})
    if kind:
        return _export(request, output, kind)
    if not devcontainer:
        return rendering.render_all(_planned(load_all(cases), request), request, output)
    if output is None:
        raise UsageError("--devcontainer writes a folder: name a new or empty one with -o")
    return _write_devcontainer(request, output, fix=fix)


def _planned(files: Sequence[CaseFile], request: Request) -> list[Task]:
    """What is rendered; sources of an untrusted case are fetched only once the user agrees."""
    fetching = [file for file in files if file.case.sources or (file.fixed and file.fixed.sources)]
    agreed = {file.digest: file for file in approve(fetching, request, do="Fetch the sources of")}
    return plan([agreed.get(file.digest, file) for file in files], request)


def _export(request: Request, output: Path | None, kind: str) -> int:
    if output is None:
        raise UsageError(f"--as {kind} writes a folder: name it with -o")
    tasks = by_hand.tasks_named(request, None, fix=False, planning=_planned)
    if len(tasks) != 1:
        raise by_hand.ambiguous_cell(
            tasks, ["reprokit", "render", *request.cases, "--as", kind, "-o", str(output), "--only"]
        )
    fixes: list[Task] = []
    if kind != "pytest" and tasks[0].file.fixed:
        fixes = by_hand.tasks_named(request, None, fix=True, planning=_planned)
    echo(exporting.export(tasks[0], fixes[0] if fixes else None, request, output, kind))
    return 0


def _write_devcontainer(request: Request, output: Path, *, fix: bool) -> int:
    tasks = by_hand.tasks_named(request, None, fix=fix, planning=_planned)
    if len(tasks) != 1:
        words = ["reprokit", "render", *request.cases, "--devcontainer", "-o", str(output), "--only"]
        raise by_hand.ambiguous_cell(tasks, words)
    [task] = tasks
    rendering.write_devcontainer(task, request, output)
    echo(f"{output}: {task.case.id}, {label(task.cell)}: open this folder in a container with your editor")
    echo(f"the command of the case: {by_hand.command_text(task.spec.command)}")
    echo(f"without an editor: docker build {shlex.quote(str(output / rendering.PLACE))}")
    return 0
