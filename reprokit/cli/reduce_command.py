"""``reprokit reduce``."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.case.matrix import parse_values
from reprokit.case.read import MARKDOWN_SUFFIXES
from reprokit.cli import options, searching
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.terminal import echo
from reprokit.core.version import install_line
from reprokit.search import reduce_case
from reprokit.search.reduce_case import ReductionRequest
from reprokit.search.reduce_parts import KINDS

if TYPE_CHECKING:
    from reprokit.run.request import Request
    from reprokit.search.queries import Search, SearchAnswer
    from reprokit.search.search_session import SearchSession

_EXTRA = f"install the extra 'reduce': {install_line('reduce')}"
_KINDS = "there are env, command, resources, files, datasets, setup, sources, pip, apt, dnf, image, axes and contents"

EXAMPLES = """\b
Examples:
  reprokit reduce bug.yaml -o smaller.yaml                # the cheapest cell that reproduces
  reprokit reduce bug.yaml --only cuda=12.0,gcc=12        # this one
  reprokit reduce bug.yaml --parts env,command,pip        # only these may be removed
  reprokit reduce bug.yaml --max-cells 40 --time 30m
  reprokit reduce --resume                                # continue the one that was interrupted

\b
Exit status: 0 the reduced case was run, fails in the same way, and is written, 1 no cell reproduces or the reduced case
does not, 2 wrong usage or case file, 3 the same, but a cell is inconclusive (no GPU, build failed ...), or the file
cannot be written, 130 interrupted.
"""


@click.command("reduce", epilog=EXAMPLES)
@options.one_case_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write [default: that of CASE with -reduced, here].",
)
@options.selection_options
@click.option(
    "--parts",
    metavar="A,B",
    help="What may be removed: env, command, resources, files, datasets, setup, sources, pip, apt, dnf, image, axes, "
    "contents (of files; needs the extra 'reduce') [default: all].",
)
@click.option("--keep-matrix", is_flag=True, help="Keep all cells in the case; only the one cell is tried.")
@click.option("--max-cells", type=click.IntRange(min=2), help="Run at most so many cells.")
@click.option(
    "--time",
    metavar="30m",
    callback=options.unit("duration"),
    help="Stop after this time, and check the result once more.",
)
@options.trials_option
@options.confirm_option
@options.stand_in_options
@options.base_option
@options.engine_option
@searching.output_options
def command(**given: Any) -> int:
    """Find the smallest case that still fails in the same way, and write it as a new case.

    Environment variables, pieces of the command, resources, files, data, sources, packages and lines of files are
    removed as long as one cell reproduces, with the signature made as strict as the failure in that cell. Limits that
    protect the host (memory, pids, timeout) stay.
    """
    notes: list[str] = []

    def make(session: SearchSession) -> Search[SearchAnswer]:
        search = reduce_case.make(session, session.folder)  # refuses what it cannot reduce, before a note of how
        for note in notes:
            echo(note, err=True)
        return search

    return searching.serve("reduce", given, partial(_asked, notes), make)


def _asked(notes: list[str], case: str, given: dict[str, Any]) -> tuple[Request, ReductionRequest]:
    arguments = _arguments(given, given.pop("output") or Path(_name(case)), notes)
    return options.request_of({**given, "cases": (case,), "needs": (), "frameworks": (), "tags": ()}), arguments


def _arguments(given: dict[str, Any], out: Path, notes: list[str]) -> ReductionRequest:
    """The arguments of the search; removes them from ``given``. Raises UsageError before anything is run.

    ``notes`` gets what to say of them once the case is accepted.
    """
    if out.suffix.lower() in MARKDOWN_SUFFIXES:
        raise UsageError(f"--output {out}: the case is written as YAML: name a file that ends in .yaml")
    if out.exists():
        raise UsageError(f"{out} exists already: name another file with --output")
    options.check_writable("--output", out)
    parts = given.pop("parts")
    kinds = parse_values(parts) if parts is not None else tuple(KINDS)
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"--parts {kind}: no such kind of part{near(kind, KINDS, prefix='; ')}; {_KINDS}")
    if "contents" in kinds and importlib.util.find_spec("lithium") is None:
        if parts is not None:
            raise UsageError(f"--parts contents: Lithium shortens files and is not installed: {_EXTRA}")
        kinds = tuple(kind for kind in kinds if kind != "contents")
        notes.append(f"note: the contents of files are not shortened without Lithium: {_EXTRA}")
    return ReductionRequest(
        out=str(out.absolute()),
        kinds=tuple(kind for kind in KINDS if kind in kinds),
        max_cells=given.pop("max_cells") or 0,
        seconds=given.pop("time") or 0.0,
        keep_matrix=given.pop("keep_matrix"),
    )


def _name(case: str) -> str:
    """The name of the reduced case's file, from that of the case."""
    return "reduced.yaml" if case == "-" else f"{Path(case).stem}-reduced.yaml"
