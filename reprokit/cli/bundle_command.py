"""``reprokit bundle``."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.case.matrix import label, parse_group
from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.core.text import first_line, pluralize, whole_number
from reprokit.engine import registry
from reprokit.environment.cases import load_text
from reprokit.intake import bundle, share
from reprokit.report.formats import Scrubber
from reprokit.report.labels import cell_name

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.evidence.records import CellRecord, RunRecord


@click.command(
    "bundle",
    epilog="""\b
Examples:
  reprokit bundle ptxas-unknown-arch cuda=11.7,arch=sm_90 -o bug.tar.gz
  reprokit bundle last 3 -o bug.tar.gz      # cell 3 of the last run
  reprokit bundle last --all -o bugs.tar.zst    # every cell of it that has an image
  reprokit bundle bugs/ --all -o bugs.tar.zst   # of the last run of every case in a folder
  tar xf bug.tar.gz && sh ptxas-unknown-arch/run.sh
""",
)
@click.argument("what", default="last", metavar="[RUN|CASE]")
@click.argument("cell", required=False, metavar="[CELL]")
@click.option("--all", "every", is_flag=True, help="Every cell with an image of the run, or of the cases of a folder.")
@click.option("--case", "case_id", metavar="ID", help="Which case of the run, where it has several.")
@click.option(
    "-o",
    "--output",
    type=options.TargetType(path_type=Path, dir_okay=False),
    required=True,
    help="The file to write: .tar.zst, .tar.gz or .tar; also s3://BUCKET/KEY.",
)
@click.option("-y", "--yes", is_flag=True, help="Bundle the case even if its text seems to contain a secret.")
@options.engine_option
@options.store_option
def command(
    what: str,
    cell: str | None,
    case_id: str | None,
    every: bool,
    output: Path | str,
    yes: bool,
    engine: str | None,
    store_folder: Path | None,
) -> int:
    """Write recorded cells with their images to an archive that runs without reprokit, registries and indexes.

    RUN is the id of a run, the beginning of one, or `last`; CASE is a case file or the id of a case. CELL is the number
    of a cell, or values of it: cuda=11.8,gcc=12. The archive holds the image, the case and its lock, the logs, what was
    measured, and run.sh, which needs Docker or Podman alone. Private things are removed from logs and measurements; the
    case and the image are not changed. Real data, GPUs and their driver are not in it.
    """
    if isinstance(output, Path):
        options.check_writable("--output", output)
    bundle.check_target(output)
    store = options.store_of(store_folder)
    subjects = share.subjects_of(store, what) if every and not case_id else [share.subject_of(store, what, case_id)]
    picked: list[tuple[RunRecord, CellRecord, CaseFile]] = []
    for subject in subjects:
        if subject.run is None:
            raise UsageError(f"{what} was not run here yet: run it first, reprokit run {what}")
        if (found := share.secrets_in(subject)) and not yes:
            raise UsageError(
                f"the text of the case seems to contain a secret ({found}): remove it and run the case again, "
                "or bundle it as it is with --yes"
            )
        cells = _cells(subject.run, cell) if every else [_cell(subject.run, cell)]
        kept = [one for one in cells if one.image or not every]
        picked += [(subject.run, one, load_text(one.case_path, subject.text)) for one in kept]
    if not picked:
        raise UsageError(f"no cell of {what}{f' that is {cell}' if cell else ''} has an image")
    chosen, scrub = picked[0][1], Scrubber([run for run, *_ in picked])
    with options.written(output) as target:
        made = bundle.write(
            registry.make(engine or chosen.details.engine_kind or "auto"),
            picked,
            store=store.folder,
            target=target,
            name=Path(output).name.partition(".")[0] or "bundle",
            scrub=scrub,
            cancel=threading.Event(),
        )
        size = f"{target.stat().st_size / 1e6:.0f} MB"
    one = f"{label(chosen.cell)}: {chosen.verdict}: {first_line(chosen.reason)}"
    echo(f"{output}: {one if len(made) == 1 else pluralize(len(made), 'cell')}; {size}")
    name, how = (Path(output).name, "fetch it, and run") if isinstance(output, str) else (output, "run")
    far = len(made) > 1 and str(name).endswith(".zst")
    unpack = f"zstd -dc --long={bundle.MOST_WINDOW} {name} | tar xf -" if far else f"tar xf {name}"
    echo(f"{how} it with: {unpack} && sh {made[0].folder}/run.sh")
    if datasets := dict.fromkeys(name for one in made for name in one.datasets):
        echo(f"not in it: the data of {', '.join(datasets)}", err=True)
    if scrub.left_out:
        echo(f"left out of the texts: {', '.join(scrub.left_out)}", err=True)
    return 0


def _cells(run: RunRecord, text: str | None) -> list[CellRecord]:
    """The cells that are named by a number or by values; all of them without a name."""
    if text is not None and (number := whole_number(text)) is not None:
        return [cell for cell in run.cells if cell.number == number]
    wanted = parse_group(text) if text is not None else {}
    return [cell for cell in run.cells if all(cell.cell.get(name) in values for name, values in wanted.items())]


def _cell(run: RunRecord, text: str | None) -> CellRecord:
    """The cell that is named by its number or its values, or the only one. Raises UsageError."""
    found = _cells(run, text)
    found = ([cell for cell in found if cell.variant == "case"] if text is not None else found) or found
    if len(found) == 1:
        return found[0]
    cells = "".join(f"\n  {cell.number}: {cell_name(cell)}" for cell in (found or run.cells)[:20])
    which = f"{len(found)} cells" if found else "no cell"
    raise UsageError(f"{which} of run {run.id}{f' are {text}' if text else ''}: name one by its number\n{cells[1:]}")
