"""``reprokit explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.report import explanation
from reprokit.run.loading import load

if TYPE_CHECKING:
    from reprokit.report.explanation import Explained
    from reprokit.store.database import Store

FORMAT = "reprokit-explanation/v1"


@click.command(
    "explain",
    epilog="""\b
Examples:
  reprokit explain                                  # the last run
  reprokit explain 20260101-1 --json why.json       # a run, by the beginning of its id
  reprokit explain cases/ptxas_unknown_arch.yaml    # the newest verdict of each cell of a case, from any run
""",
)
@click.argument("what", default="last", metavar="[RUN|CASE]")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write it as JSON.")
@options.store_option
def command(what: str, json_file: Path | None, store_folder: Path | None) -> int:
    """Show under which conditions a case reproduces: the smallest that hold in the cells that do and in no other.

    RUN is the id of a run, the beginning of one, or `last`; CASE is a case file, a folder of them, or the id of a case,
    whose newest verdicts are used together. Only decided cells count; where several explanations fit, it lists them,
    with cells whose results would distinguish them.
    """
    options.check_writable("--json", json_file)
    cases = _explained(options.store_of(store_folder), what)
    report = {"format": FORMAT, "cases": [{"id": one.id, "explanation": explanation.to_json(one)} for one in cases]}
    if json_file != Path("-"):
        for number, one in enumerate(cases):
            echo("\n" * (number > 0) + "\n".join(explanation.full(one)))
    options.write_json(json_file, report)
    return 0


def _explained(store: Store, what: str) -> list[Explained]:
    """The explanations of a run, or of cases. Raises UsageError where none is recorded or no cells can be compared."""
    file_of = explanation.files_in(store)
    if Path(what).exists():
        wanted = [(file.case.id, file.digest) for file in load(what)]
    elif what in store.case_ids():
        last = store.last_seen(what)
        if last is None:
            raise UsageError(f"the case {what!r} was only used in searches: name the run of one, or the case's file")
        wanted = [(what, last[1][0].case_digest)]
    else:
        cases = explanation.of_run(store.run(what), file_of)
        several = [one for one in cases if len(one.records) > 1]
        if len(cases) > 1 and not several:
            raise UsageError(f"run {what}: no case of it has two cells to compare")
        return several or cases
    found = [records for _, digest in wanted if (records := explanation.newest(store.of_case(digest), file_of(digest)))]
    if not found:
        raise UsageError(f"no run of the current text of the case {wanted[0][0]!r} is recorded; run it first")
    return [explanation.of_records(records, file_of) for records in found]
