"""Steps of the nightly workflow: ``python -m reprokit.github.night history|summary|issues``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from reprokit.core import github_api, json_text, workflow_commands
from reprokit.core.errors import ReprokitError, UsageError
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.github import changes
from reprokit.github.event import run_url
from reprokit.report.formats import FormatSources, run_format
from reprokit.report.history.changes import ChangeList, DescribedChange
from reprokit.report.history.timeline import times
from reprokit.report.markdown.text import code, line, table
from reprokit.store.database import Store

ARTIFACT = "nightly-store"
SHOWN = 40
"""Rows of a table in the summary."""


@click.group()
def main() -> None:
    """Steps of the nightly workflow."""


@main.command("history")
@click.option("--branch", default="main", show_default=True, help="Only what a run on this branch left.")
def history(branch: str) -> None:
    """Find the newest store that an earlier night left as an artifact: the output `run` is the id of its run, or ''."""
    # All pages: pull requests can leave more artifacts of that name than one page holds.
    found = _newest(list(github_api.from_environment().all("actions", "artifacts", name=ARTIFACT)), branch)
    workflow_commands.set_outputs({"run": str(found["workflow_run"]["id"]) if found else ""})
    if found:
        echo(f"history: the store of {found['created_at']}, run {found['workflow_run']['id']}")
    else:
        echo(workflow_commands.command("warning", f"no earlier night left an artifact {ARTIFACT}: history starts here"))


def _newest(artifacts: Sequence[Mapping[str, Any]], branch: str) -> Mapping[str, Any] | None:
    """The newest artifact that still exists and comes from a run of this repository on ``branch``; None without one.

    Pure. A pull request from a fork may leave artifacts of any name, from a branch of any name: those do not count.
    """
    own = [
        one
        for one in artifacts
        if one["name"] == ARTIFACT
        and not one["expired"]
        and (run := one.get("workflow_run"))
        and run["head_branch"] == branch
        and run["head_repository_id"] == run["repository_id"]
    ]
    return max(own, key=lambda one: (one["created_at"], one["id"]), default=None)


@main.command("summary")
@click.argument("store_folder", metavar="STORE", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.argument("changes_file", metavar="CHANGES", type=click.Path(path_type=Path, dir_okay=False))
def summarise(store_folder: Path, changes_file: Path) -> None:
    """Write the newest run, and what changed, into the job's summary."""
    store = Store(store_folder)
    run = store.run("last")
    found = _changes(changes_file)
    tonight = [one for one in found if (one.confirmed_by or one.after).run == run.id]
    if lost := [cell for cell in run.cells if run.request.merged is not None and not cell.details.job]:
        echo(workflow_commands.command("warning", f"{pluralize(len(lost), 'cell')} left no record: see the summary"))
    counts = f"{pluralize(len(run.cells), 'cell')} in {pluralize(len(run.request.merged or [run]), 'job')}"
    text = run_format("md").text(run, FormatSources.of(store, run))
    workflow_commands.add_summary(f"{list_changes(tonight)}\n{counts}\n\n{text}")


def list_changes(found: Sequence[DescribedChange]) -> str:
    """Changes as Markdown, with a note on those that do not count yet; new cells are only counted."""
    transitions = [one for one in found if one.from_ is not None]
    new = len(found) - len(transitions)
    if not transitions:
        return "Nothing has changed" + (f"; {pluralize(new, 'new cell')}.\n" if new else ".\n")
    rows = []
    for one in transitions[:SHOWN]:
        counts = "" if one.confirmed else f"seen {times(one.seen)}, does not count yet"
        rows.append([code(one.case, table=True), code(changes.name_change(one), table=True), one.words, counts])
    more = f"\nand {len(transitions) - SHOWN} more\n" if len(transitions) > SHOWN else ""
    return "What changed:\n\n" + table(["case", "cell", "", ""], rows) + more


@main.command("issues")
@click.argument("changes_file", metavar="CHANGES", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--most", type=click.IntRange(min=0), default=changes.MOST, show_default=True, help="New issues at most.")
def issues(changes_file: Path, most: int) -> None:
    """Open, update and close the issues about changed verdicts."""
    repository = github_api.from_environment()
    found = _changes(changes_file)
    here = all(os.environ.get(f"GITHUB_{key}") for key in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    tonight = changes.NightLinks(url=run_url(os.environ) if here else "", report=os.environ.get("REPORT_URL", ""))
    actions = changes.plan(found, list(changes.ours(repository)), tonight, most)
    for text in changes.carry_out(repository, actions):
        echo(line(text))
    if not actions:
        echo("no issue has to be opened, updated or closed")


def _changes(path: Path) -> tuple[DescribedChange, ...]:
    try:
        found = json_text.loads(path.read_text(encoding="utf-8"))
        if found["format"] != ChangeList.FORMAT:
            raise ValueError(f"its format is {found['format']}")
        return ChangeList.from_json(found).changes
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: expected the output of `reprokit history --since 7d --json`: {error}") from None


def run() -> int:
    """Entry point: an expected error becomes one line, an annotation of the step. Returns the exit status."""
    try:
        main.main(standalone_mode=False)
    except ReprokitError as error:
        echo(workflow_commands.command("error", str(error)))
        return error.exit_status
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(run())
