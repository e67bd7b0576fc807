"""``reprokit github``: what the steps of workflows call. Texts come from files and variables, never from a shell."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click


@click.group("github")
def command() -> None:
    """The steps of workflows on GitHub Actions, which call them.

    They read the event, the inputs and the token from where the runner put them.
    """


@command.command("run")
def run_command() -> int:
    """Run cases as the action's inputs (INPUT_CASE, INPUT_CUDA ...) say; summary, annotations, outputs, files.

    The last word to the shell is the input `fail-on`: 0, or the exit status of `reprokit run`.
    """
    from reprokit.cli import invoke
    from reprokit.github import action
    from reprokit.github.commands import quoted, set_outputs

    inputs = {
        name.removeprefix("INPUT_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("INPUT_")
    }
    fail_on = inputs.get("fail-on", "").strip() or action.FAIL_ON[0]
    action.fails(fail_on, 0)  # a wrong word is told before hours of work
    words = action.arguments(inputs)
    folder = Path(tempfile.mkdtemp(prefix="reprokit-", dir=os.environ.get("RUNNER_TEMP")))
    store = Path(inputs.get("store", "").strip() or folder / "store").resolve()
    files = [f"--json={folder / 'result.json'}", f"--junit={folder / 'junit.xml'}", f"--store={store}"]
    with quoted():
        status = invoke([words[0], *files, *words[1:]])
    set_outputs({"status": str(status), "folder": str(folder), "store": str(store)})
    if (folder / "result.json").exists():
        _show(folder, store)
    return status if action.fails(fail_on, status) else 0


def _show(folder: Path, store: Path) -> None:
    """What is to be seen of a run on its page: outputs, summary, annotations."""
    import json

    from reprokit.github import action
    from reprokit.github.commands import add_summary, set_outputs
    from reprokit.github.verdicts import markdown
    from reprokit.report.annotations import gha
    from reprokit.store.database import Store

    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    run = Store(store).run(result["run_id"])
    set_outputs(action.outputs(run))
    add_summary(markdown(result))
    for line in gha(run):
        click.echo(line)
    sys.stdout.flush()
