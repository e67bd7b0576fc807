"""``reprokit history``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.case.matrix import in_group, parse_group
from reprokit.cli import options
from reprokit.cli.display.plain import columns
from reprokit.core.errors import UsageError
from reprokit.core.json_record import JsonDocument
from reprokit.core.ownership import OwnerState
from reprokit.core.terminal import confirm, echo, echo_data
from reprokit.core.text import pluralize
from reprokit.report.history import timeline
from reprokit.report.history.changes import change_json, describe, series_key
from reprokit.report.history.series import gather
from reprokit.report.labels import case_names, served_by, summary

if TYPE_CHECKING:
    from reprokit.evidence.records import CellOutline, CellRecord, RunRecord
    from reprokit.report.history.series import CaseHistory, Series
    from reprokit.store.database import Store

FORMAT = "reprokit-history/v1"


@click.command(
    "history",
    epilog="""\b
Examples:
  reprokit history                                     # the newest runs
  reprokit history ptxas-unknown-arch                  # its cells over time, and what changed when
  reprokit history ptxas-unknown-arch --only cuda=12.0 -v
  reprokit history --forget 20260101-1                 # remove a run, as if it had never been
""",
)
@click.argument("case_id", required=False, metavar="[CASE]")
@click.option("--only", multiple=True, metavar="K=V,K=V", help="Keep only cells that match (several: any of them).")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Newest runs.")
@click.option("-v", "--verbose", is_flag=True, help="Every verdict with its run, and everything that changed.")
@click.option("--json", "as_json", is_flag=True, help="The history of a case, or the list of runs, as JSON.")
@click.option("--forget", metavar="RUN", help="Remove a run with its logs, from pages that are made later too.")
@click.option("-y", "--yes", is_flag=True, help="Remove it without asking.")
@options.store_option
def command(
    case_id: str | None,
    only: tuple[str, ...],
    limit: int,
    verbose: bool,
    as_json: bool,
    forget: str | None,
    yes: bool,
    store_folder: Path | None,
) -> int:
    """List the recorded runs, or every cell of one case (its id, or its file) over time.

    A cell has changed when two results in a row say so, or one that a sequential test decided. A flaky failure is gone
    only when so many passing trials would be unlikely by chance. Inconclusive results are skipped; results of different
    engines are kept apart.
    """
    store = options.store_of(store_folder)
    if forget is not None:
        if case_id or only or as_json:
            raise UsageError("--forget removes one run: leave out CASE, --only and --json")
        return _forget(store, forget, yes)
    if case_id is None:
        if only:
            raise UsageError("--only needs one case: reprokit history CASE")
        _runs(store, limit, as_json)
        return 0
    groups = [parse_group(text) for text in only]
    known, *others = options.known_cases(store, [case_id])
    if others:
        raise UsageError(f"{case_id} has several cases that were run: name one of {', '.join([known, *others])}")
    history = gather(store, [known], lambda cell: not groups or any(in_group(cell, group) for group in groups))
    if not history.series:
        raise UsageError(f"--only: no cell of {known} that was run matches")
    shown = [run for run in history.runs if run in history.seen][-limit:]
    if as_json:
        echo_data(json.dumps(_json(store, history, shown), indent=2, ensure_ascii=False))
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
        cases=list(dict.fromkeys(cell.case_id for cell in cells)),
        verdicts=Counter(str(cell.verdict) if cell.verdict else "undecided" for cell in cells),
    )


def _line(run: RunRecord, cells: Sequence[CellRecord | CellOutline]) -> str:
    names = case_names(cell.case_id for cell in cells)
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


def _print(store: Store, case_id: str, history: CaseHistory, shown: Sequence[str], verbose: bool) -> None:
    stamp = timeline.stamps(history.runs.values())
    first, last = (history.runs[shown[at]].started_at[:10] for at in (0, -1))
    when = first if first == last else f"{first} to {last}"
    echo(f"{case_id}: {pluralize(len(history.series), 'cell')}, {pluralize(len(shown), 'run')}, {when}")
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


def _json(store: Store, history: CaseHistory, shown: Sequence[str]) -> dict[str, Any]:
    every = [(one, each) for one in history.series for each in one.transitions]
    changes = describe(store, history, every)

    def seen(run_id: str) -> dict[str, str]:
        return {"run": run_id, "at": history.runs[run_id].started_at}

    def cell(one: Series) -> dict[str, Any]:
        ends = one.shown or (None, None)
        return {
            **series_key(one),
            "first_seen": ends[0] and seen(ends[0].run_id),
            "last_seen": ends[1] and seen(ends[1].run_id),
            "first_run": seen(one.results[0].run_id),
            "last_run": seen(one.results[-1].run_id),
            "state": one.standing.new.value if one.standing else None,
            "results": [
                {
                    **seen(each.run_id),
                    "number": each.number,
                    "verdict": each.verdict.value if each.verdict else None,
                    "as_expected": each.as_expected,
                }
                for each in one.results.of(shown)
            ],
            "transitions": [change_json(change) for change in changes if change.series is one],
        }

    return {"format": FORMAT, "cells": [cell(one) for one in history.series]}
