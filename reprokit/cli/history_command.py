"""``reprokit history``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.case.matrix import in_group, parse_group
from reprokit.cli import options
from reprokit.cli.display.plain import columns
from reprokit.core.errors import UsageError
from reprokit.core.json_record import JsonDocument
from reprokit.core.ownership import OwnerState
from reprokit.core.terminal import confirm, echo, style
from reprokit.core.text import pluralize
from reprokit.report.history import timeline
from reprokit.report.history.changes import describe, describe_changes, describe_history, moment
from reprokit.report.history.series import gather
from reprokit.report.labels import case_names, served_by, summary

if TYPE_CHECKING:
    from reprokit.evidence.records import CellOutline, CellRecord, RunRecord
    from reprokit.report.history.changes import CellChange
    from reprokit.report.history.series import CaseHistory, Series
    from reprokit.store.database import Store


@click.command(
    "history",
    epilog="""\b
Examples:
  reprokit history                                     # the newest runs
  reprokit history ptxas-unknown-arch                  # its cells over time, and what changed when
  reprokit history ptxas-unknown-arch --only cuda=12.0 -v
  reprokit history --since yesterday                   # which cells have changed, over all cases
  reprokit history --since 2026-01-31 cases/torch      # of the cases in a folder
  reprokit history --since 20260131-020000 --exit-code --json > changes.json
  reprokit history --forget 20260101-1                 # remove a run with its logs

\b
Exit status: 0, or with --exit-code 1 when a confirmed change was found; new cells and unconfirmed changes do not count.
""",
)
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option("--only", multiple=True, metavar="K=V,K=V", help="Keep only cells that match (several: any of them).")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Newest runs.")
@click.option(
    "--since",
    metavar="7d|DATE|DAY|RUN",
    help="Which cells have changed in runs that ended in the last hours (12h), days or weeks (2w), since a date (UTC) "
    "or a day (yesterday, monday), or after a run; of all cases, or of these.",
)
@click.option("--exit-code", is_flag=True, help="With --since: exit with 1 when something changed, for CI.")
@click.option("-v", "--verbose", is_flag=True, help="Every verdict with its run, and everything that changed.")
@options.json_option("The list of runs, the history of a case, or the changes, as JSON.")
@click.option("--forget", metavar="RUN", help="Remove a run with its logs, from pages that are made later too.")
@click.option("-y", "--yes", is_flag=True, help="Remove it without asking.")
@options.store_option
def command(
    cases: tuple[str, ...],
    only: tuple[str, ...],
    limit: int,
    since: str | None,
    exit_code: bool,
    verbose: bool,
    as_json: bool,
    forget: str | None,
    yes: bool,
    store_folder: Path | None,
) -> int:
    """List the recorded runs, every cell of one case (its id, or its file) over time, or what has changed since when.

    A cell has changed when its trials exclude a constant rate, at most 1 % of unchanged months aside, and two results
    say so, or one that a sequential test decided. Inconclusive results are skipped; results of different engines are
    kept apart.
    """
    if exit_code and since is None:
        raise UsageError("--exit-code tells whether something has changed: name since when, with --since")
    store = options.store_of(store_folder)
    groups = [parse_group(text) for text in only]

    def keep(cell: Mapping[str, str]) -> bool:
        return not groups or any(in_group(cell, group) for group in groups)

    if forget is not None:
        options.refuse("--forget removes one run", "cases", "only", "since", "as_json")
        return _forget(store, forget, yes)
    if since is not None:
        options.refuse("--since names the runs", "limit", "yes")
        changes = _changes(store, gather(store, options.known_cases(store, cases), keep), since)
        if as_json:
            options.echo_document(
                describe_changes(changes.history, changes.since, changes.runs, changes.found, changes.blind)
            )
        else:
            changes.print(verbose)
        return int(exit_code and any(map(_counts, changes.found)))
    if not cases:
        if only:
            raise UsageError("--only needs one case: reprokit history CASE")
        _runs(store, limit, as_json)
        return 0
    known, *others = options.known_cases(store, cases)
    if others:
        raise UsageError(
            f"{' '.join(cases)}: several cases that were run: name one of {', '.join([known, *others])}, or --since"
        )
    history = gather(store, [known], keep)
    if not history.series:
        raise UsageError(f"--only: no cell of {known} that was run matches")
    shown = [run for run in history.runs if run in history.run_ids][-limit:]
    if as_json:
        options.echo_document(describe_history(store, history, shown))
    else:
        _print(store, known, history, shown, verbose)
    return 0


def _runs(store: Store, limit: int, as_json: bool) -> None:
    runs = store.outlines(limit)
    if as_json:
        options.echo_document(RunList([_listed(*one) for one in runs]))
        return
    for one in runs:
        echo(_line(*one))


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run. `exit_status` is null while it is not finished; `search`: its kind, where it is one."""

    id: str
    started_at: str
    finished_at: str | None
    exit_status: int | None
    engine: str
    search: str | None
    cases: list[str]
    verdicts: dict[str, int]


@dataclass(frozen=True)
class RunList(JsonDocument):
    """Runs, in the order in which `history` lists them."""

    FORMAT = "reprokit-runs/v1"

    runs: list[ListedRun]


def _listed(run: RunRecord, cells: Sequence[CellOutline]) -> ListedRun:
    return ListedRun(
        id=run.id,
        started_at=run.started_at,
        finished_at=run.finished_at,
        exit_status=run.exit_status,
        engine=run.engine,
        search=run.request.search.kind if run.request.search else None,
        cases=list(dict.fromkeys(cell.case_key for cell in cells)),
        verdicts=Counter(str(cell.verdict) if cell.verdict else "undecided" for cell in cells),
    )


def _line(run: RunRecord, cells: Sequence[CellRecord | CellOutline]) -> str:
    names = case_names(cell.case_key for cell in cells)
    if run.request.search:
        names = f"{run.request.search.kind} {names}".rstrip()
    status = "unfinished" if run.exit_status is None else f"exit {run.exit_status}"
    return f"{run.id}  {run.started_at}  {status:>10}  {names}: {summary(cells)}{served_by(run.engine)}"


def _forget(store: Store, reference: str, yes: bool) -> int:
    """Remove a run. Raises UsageError where there is none, it is in progress, or the user does not want it."""
    run = store.run(reference)
    if run.finished_at is None and run.owner.state is OwnerState.ALIVE:
        raise UsageError(f"run {run.id} is in progress: stop {run.owner} first")
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"{_line(run, run.cells)}\nthere is no terminal to ask at: give --yes to remove this run")
        echo(_line(run, run.cells))
        if not confirm("Remove this run with its logs?"):
            raise UsageError("nothing was removed")
    store.forget(run.id)
    echo(f"run {run.id} removed")
    return 0


def _print(store: Store, key: str, history: CaseHistory, shown: Sequence[str], verbose: bool) -> None:
    stamp = timeline.stamps(history.runs.values())
    first, last = (history.runs[shown[at]].started_at[:10] for at in (0, -1))
    when = first if first == last else f"{first} to {last}"
    echo(f"{key}: {pluralize(len(history.series), 'cell')}, {pluralize(len(shown), 'run')}, {when}")
    for line in timeline.grid(history, history.series, shown, columns()):
        echo(line)
    if verbose:
        echo()
        for line in timeline.every_verdict(history, history.series, shown):
            echo(line)
    every = [(one, each) for one in history.series for each in one.transitions]
    chosen = [(one, each) for one, each in every if one.results[each.after].run_id in shown]
    _, name = timeline.names(history.series)
    echo()
    for line in timeline.blocks(describe(store, history, chosen), name, stamp, whole=verbose):
        echo(line)
    if earlier := len(every) - len(chosen):
        echo(f"{pluralize(earlier, 'earlier transition')}: -n {len(history.runs)} shows all")


@dataclass(frozen=True, kw_only=True)
class _Changes:
    """What has changed since a time in these runs, and the series that have no verdict now."""

    history: CaseHistory
    since: str
    runs: list[str]
    found: list[CellChange]
    blind: list[Series]

    def print(self, verbose: bool) -> None:
        """Print how many there are, and those of each case."""
        counted = sum(map(_counts, self.found))
        new = sum(change.transition.old is None for change in self.found)
        tentative = len(self.found) - counted - new
        parts = [pluralize(counted, "change") if counted else "nothing has changed"]
        parts += [f"{tentative} not counted yet"] if tentative else []
        parts += [pluralize(new, "new cell")] if new else []
        parts += [f"{len(self.blind)} without a verdict now"] if self.blind else []
        since = self.since[:16].replace("T", " ")
        echo(f"since {since} UTC, {pluralize(len(self.runs), 'run')}: {', '.join(parts)}")
        stamp = timeline.stamps(self.history.runs.values())
        unjudged = {id(one) for one in self.blind}
        for key, group in groupby(self.history.series, lambda one: one.case_key):
            series = list(group)
            _, name = timeline.names(series)
            changes = [one for one in self.found if one.series.case_key == key]
            lines = timeline.blocks(changes, name, stamp, whole=verbose)
            lines += timeline.list_unjudged(self.history, [one for one in series if id(one) in unjudged], name, stamp)
            if lines:
                echo(style(f"\n{key}", bold=True))
                echo("\n".join(f"  {line}" for line in lines))


def _changes(store: Store, history: CaseHistory, text: str) -> _Changes:
    at, first = _since(store, text)
    runs = [
        run.id
        for run in history.runs.values()
        # By its end: a run that was interrupted and resumed, or took the whole night, has decided cells since.
        if run.id in history.run_ids and (run.finished_at or run.started_at) >= at and run.id != first
    ]
    recent = set(runs)
    chosen = [
        (one, each)
        for one in history.series
        for each in one.transitions
        # A new cell is listed once, even if its second result confirmed the first.
        if one.results[each.latest if each.old else each.after].run_id in recent
    ]
    blind = [one for one in history.series if one.blind is not None and one.results[-1].run_id in recent]
    found = describe(store, history, chosen)
    return _Changes(history=history, since=at, runs=runs, found=found, blind=blind)


def _since(store: Store, text: str) -> tuple[str, str]:
    """(time to start from, id of the run before it or ''). Raises UsageError."""
    try:
        if at := moment(text, datetime.now(timezone.utc)):
            return at, ""
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since {text}: {error}; write it as 7d, 2026-01-31 or 2026-01-31T02:00Z") from None
    try:
        run = store.run(text)
    except UsageError as error:
        raise UsageError(
            f"--since {text}: neither a span (7d, 12h), a date (2026-01-31), a day (today, yesterday, monday) "
            f"nor a run: {error}"
        ) from None
    return run.started_at, run.id


def _counts(change: CellChange) -> bool:
    return change.transition.confirmed and change.transition.old is not None
