"""``reprokit changes``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, echo_data, style
from reprokit.core.text import pluralize
from reprokit.report.history import timeline
from reprokit.report.history.changes import change_json, describe, moment, series_key
from reprokit.report.history.series import gather

if TYPE_CHECKING:
    from reprokit.report.history.changes import CellChange
    from reprokit.report.history.series import CaseHistory, Series
    from reprokit.store.database import Store

FORMAT = "reprokit-changes/v1"


@click.command(
    "changes",
    epilog="""\b
Examples:
  reprokit changes                                   # of the last seven days
  reprokit changes --since yesterday
  reprokit changes --since 2026-01-31 cases/torch    # of the cases in a folder
  reprokit changes --since 20260131-020000 --exit-code --json > changes.json

\b
Exit status: 0, or with --exit-code 1 when a confirmed change was found; new cells and unconfirmed changes do not count.
""",
)
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option(
    "--since",
    default="7d",
    show_default=True,
    metavar="7d|DATE|DAY|RUN",
    help="Runs that ended in the last hours (12h), days or weeks (2w), since a date (UTC) or a day (yesterday, "
    "monday), or after a run.",
)
@click.option("-v", "--verbose", is_flag=True, help="Every cell and everything that changed, not the first few.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when something changed, for CI.")
@click.option("--json", "as_json", is_flag=True, help="The changes as JSON.")
@options.store_option
def command(
    cases: tuple[str, ...], since: str, verbose: bool, exit_code: bool, as_json: bool, store_folder: Path | None
) -> int:
    """Show which cells have changed, with what changed in their environments, over all cases or these (ids or files).

    A cell has changed when two results in a row say so, or one that a sequential test decided. A flaky failure is gone
    only when so many passing trials would be unlikely by chance. Inconclusive results are skipped.
    """
    store = options.store_of(store_folder)
    history = gather(store, options.known_cases(store, cases))
    at, first = _since(store, since)
    runs = [
        run.id
        for run in history.runs.values()
        # By its end: a run that was interrupted and resumed, or took the whole night, has decided cells since.
        if run.id in history.seen and (run.finished_at or run.started_at) >= at and run.id != first
    ]
    recent = set(runs)
    chosen = [
        (one, each)
        for one in history.series
        for each in one.transitions
        # A new cell is listed once, even if its second result confirmed the first.
        if one.results[each.latest if each.old else each.after].run_id in recent
    ]
    changes = describe(store, history, chosen)
    blind = [one for one in history.series if one.blind is not None and one.results[-1].run_id in recent]
    if as_json:
        echo_data(json.dumps(_json(history, at, runs, changes, blind), indent=2, ensure_ascii=False))
    else:
        _print(history, at, runs, changes, blind, verbose)
    return int(exit_code and any(_counts(change) for change in changes))


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


def _json(
    history: CaseHistory, at: str, runs: Sequence[str], changes: Sequence[CellChange], blind: Sequence[Series]
) -> dict[str, Any]:
    def unjudged(one: Series) -> dict[str, Any]:
        assert one.blind is not None
        first, last = one.results[one.blind], one.results[-1]
        since = {"run": first.run_id, "at": history.runs[first.run_id].started_at}
        return {**series_key(one), "verdict": str(last.verdict), "since": since, "run": last.run_id}

    return {
        "format": FORMAT,
        "since": at,
        "runs": list(runs),
        "changes": [change_json(change) for change in changes],
        "inconclusive": [unjudged(one) for one in blind],
    }


def _print(
    history: CaseHistory,
    at: str,
    runs: Sequence[str],
    changes: Sequence[CellChange],
    blind: Sequence[Series],
    verbose: bool,
) -> None:
    counted = sum(map(_counts, changes))
    new = sum(change.transition.old is None for change in changes)
    tentative = len(changes) - counted - new
    parts = [pluralize(counted, "change") if counted else "nothing has changed"]
    parts += [f"{tentative} not counted yet"] if tentative else []
    parts += [pluralize(new, "new cell")] if new else []
    parts += [f"{len(blind)} without a verdict now"] if blind else []
    echo(f"since {at[:16].replace('T', ' ')} UTC, {pluralize(len(runs), 'run')}: {', '.join(parts)}")
    stamp = timeline.stamps(history.runs.values())
    unjudged = {id(one) for one in blind}
    for case_id, group in groupby(history.series, lambda one: one.case_id):
        series = list(group)
        _, name = timeline.names(series)
        lines = timeline.blocks([one for one in changes if one.series.case_id == case_id], name, stamp, whole=verbose)
        lines += timeline.unjudged(history, [one for one in series if id(one) in unjudged], name, stamp)
        if lines:
            echo(style(f"\n{case_id}", bold=True))
            echo("\n".join(f"  {line}" for line in lines))
