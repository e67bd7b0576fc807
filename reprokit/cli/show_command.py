"""``reprokit show``."""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options
from reprokit.cli.display.plain import columns
from reprokit.cli.timings import show, timings_options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, echo_data
from reprokit.evidence.spans import read_timings
from reprokit.report import detail, explanation
from reprokit.report.explanation import ExplainedCase, Explanations, explain_case
from reprokit.report.formats import FormatSources, run_format
from reprokit.report.labels import failure_lines
from reprokit.run.loading import load

if TYPE_CHECKING:
    from reprokit.evidence.records import RunRecord
    from reprokit.report.explanation import Explained
    from reprokit.search.queries import SearchResult
    from reprokit.store.database import Store


@click.command(
    "show",
    epilog="""\b
Examples:
  reprokit show                    # the last run
  reprokit show last 3             # cell 3 of it: verdict, command, log with the signature marked, environment
  reprokit show 20260101-1 3 --dockerfile
  reprokit show last 3 --log > trial.log
  reprokit show last --timings     # where the time went, and what would have to get faster
  reprokit show --why              # under which conditions the cases of the last run reproduce
  reprokit show cases/ptxas_unknown_arch.yaml --why  # by the newest verdict of each cell, from any run
""",
)
@click.argument("run", default="last", metavar="[RUN|CASE]")
@click.argument("cell", required=False, type=int, metavar="[CELL]")
@click.option("--trial", type=click.IntRange(min=1), default=1, show_default=True, help="Which trial's log.")
@click.option(
    "--log",
    "part",
    flag_value="log",
    help="Only the complete log; what would act on a terminal is shown as its number.",
)
@click.option("--dockerfile", "part", flag_value="dockerfile", help="Only the Dockerfile.")
@click.option("--environment", "part", flag_value="environment", help="Only the environment, as measured.")
@click.option("--repeat", "part", flag_value="repeat", help="Only the docker run line that repeats the trial by hand.")
@click.option(
    "--why",
    is_flag=True,
    help="Under which conditions cases reproduce: the smallest that hold in the cells that do and in no other.",
)
@click.option(
    "--json",
    "part",
    flag_value="json",
    help="The result file of the run; with --timings, its times; with --why, the conditions.",
)
@timings_options
@options.store_option
def command(
    run: str,
    cell: int | None,
    trial: int,
    part: str | None,
    why: bool,
    timings: bool,
    trace_file: Path | None,
    store_folder: Path | None,
) -> int:
    """Show a recorded run (its id, the beginning of it, or `last`), or one cell of it by its number.

    Of a cell: the verdict and its reason, the command, the log with what the signature matched, the environment as far
    as it was found, and what to type to go on. What is long has an option of its own.

    --why also takes a case file, a folder of them, or the id of a case, whose newest verdicts are used together. Only
    decided cells count; where several explanations fit, it lists them, with cells whose results would distinguish them.
    """
    store = options.store_of(store_folder)
    folder = store.folder
    if why:
        options.refuse("--why is about whole cases", "cell", "trial", "timings", "trace_file")
        if part not in (None, "json"):
            raise UsageError(f"--why is about whole cases: leave out --{part}")
        _explain(store, run, as_json=part == "json")
        return 0
    record = store.run(run)
    if timings or trace_file:
        if cell is not None or part not in (None, "json"):
            raise UsageError("--timings and --trace are about a whole run: leave out CELL and what belongs to it")
        show(record, read_timings(store.findings(record.id)), timings, trace_file, as_json=part == "json")
        return 0
    if part == "json":
        echo_data(run_format("json").text(record, FormatSources.of(store, record)), nl=False)
        return 0
    if cell is None:
        if part:
            raise UsageError(f"--{part} needs a cell: reprokit show {run} CELL --{part}")
        _table(record)
        if record.searches:
            _search(FormatSources.of(store, record).search)
        else:
            cases = explanation.explain_run(record, explanation.files_in(store))
            echo("".join(f"{line}\n" for line in explanation.conclude(cases, record.id)[0]), nl=False)
        return 0
    found = record.cell(cell)
    if part:
        print_text = echo_data if part in ("dockerfile", "repeat") else echo  # those two are for programs
        print_text(detail.part(found, part, folder, trial), nl=False)
        return 0
    text = store.case_text(found.case_digest)
    echo("\n".join(detail.cell(record, found, folder, trial, case_text=text, colour=sys.stdout.isatty())))
    return 0


def _table(record: RunRecord) -> None:
    from reprokit.cli.display.live import console, print_table

    own = console()
    status = "not finished" if record.exit_status is None else f"exit status {record.exit_status}"
    if record.request.search:
        echo(f"reprokit {shlex.join(record.request.search.line)}")
    engine = record.host.engine or (
        "no engine was needed" if record.exit_status is not None else "engine not recorded yet"
    )
    echo(f"run {record.id}, {record.started_at}, {status}, {engine}")
    if own.is_terminal:
        print_table(own, record.cells)
    else:
        plain = console(io.StringIO(), columns())
        with plain.capture() as captured:
            print_table(plain, record.cells)
        echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
    for line in failure_lines(record.cells):
        echo(line)


def _search(search: SearchResult | None) -> None:
    if search and search.answer:
        echo("\n".join(search.answer.words))
    elif search:
        echo(f"no answer yet; continue with: reprokit {search.kind} --resume")


def _explain(store: Store, what: str, *, as_json: bool) -> None:
    cases = _explained(store, what)
    if as_json:
        found = (ExplainedCase(id=one.id, explanation=explain_case(one)) for one in cases)
        options.echo_document(Explanations(cases=tuple(found)))
        return
    for number, one in enumerate(cases):
        echo("\n" * (number > 0) + "\n".join(explanation.full(one)))


def _explained(store: Store, what: str) -> list[Explained]:
    """The explanations of a run, or of cases. Raises UsageError where none is recorded or no cells can be compared."""
    file_of = explanation.files_in(store)
    if Path(what).exists():
        wanted = [(file.key, file.digest) for file in load(what)]
    elif keys := store.cases_named(what):
        last = {key: store.last_seen(key) for key in keys}
        wanted = [(key, seen[1][0].case_digest) for key, seen in last.items() if seen]
        if not wanted:
            raise UsageError(f"the case {what!r} was only used in searches: name the run of one, or the case's file")
    else:
        cases = explanation.explain_run(store.run(what), file_of)
        several = [one for one in cases if len(one.records) > 1]
        if len(cases) > 1 and not several:
            raise UsageError(f"run {what}: no case of it has two cells to compare")
        return several or cases
    recorded = (explanation.newest(store.of_case(key, digest), file_of(digest)) for key, digest in wanted)
    found = [records for records in recorded if records]
    if not found:
        raise UsageError(f"no run of the current text of the case {wanted[0][0]!r} is recorded; run it first")
    return [explanation.explain_records(records, file_of) for records in found]
