"""``reprokit integrate github``: steps of workflows. Texts come from files and variables, not from a shell."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from reprokit.case.filters import choose
from reprokit.cli import invoke, options
from reprokit.core.errors import UsageError
from reprokit.core.files import write
from reprokit.core.github_api import from_environment
from reprokit.core.terminal import echo, echo_data
from reprokit.core.workflow_commands import add_summary, quoted, set_outputs
from reprokit.core.workflow_commands import command as workflow_command
from reprokit.engine import site
from reprokit.environment.cases import load_text
from reprokit.github import action, issue, used_runner
from reprokit.github import reply as replies
from reprokit.github.event import pinned, read_event, run_url
from reprokit.report.formats import FormatSources, Scrubber, run_format
from reprokit.run.admitting import supply_of
from reprokit.run.loading import load_all
from reprokit.run.plan import cells_of
from reprokit.run.plan import plan as tasks_of
from reprokit.run.request import Request
from reprokit.store.database import Store


@click.group("github")
def command() -> None:
    """The steps of workflows on GitHub Actions, which call them.

    They read the event, the inputs and the token from where the runner put them.
    """


@command.command("run")
def run_command() -> int:
    """Run cases as the action's inputs (INPUT_CASE, INPUT_CUDA ...) say; summary, annotations, outputs, files.

    The input `fail-on` decides whether the exit status is 0 or that of `reprokit run`.
    """
    inputs = {
        name.removeprefix("INPUT_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("INPUT_")
    }
    fail_on = inputs.get("fail-on", "").strip() or action.FAIL_ON[0]
    action.fails(fail_on, 0)  # reports a wrong value before hours of work
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
    """Show a run on the page of its workflow run: outputs, summary, annotations."""
    run_id = json.loads((folder / "result.json").read_text(encoding="utf-8"))["run_id"]
    kept = Store(store)
    run = kept.run(run_id)
    set_outputs(action.outputs(run))
    sources = FormatSources.of(kept, run)
    add_summary(run_format("md").text(run, sources))
    echo(run_format("gha").text(run, sources), nl=False)
    sys.stdout.flush()


@command.command("run-cells")
@options.store_option
def run_cells_command(store_folder: Path | None) -> int:
    """Run the cells of one job of a night: ENTRY is its part of the matrix (JSON), ARGUMENTS are more options.

    Inconclusive cells, such as those that lack a GPU, are shown and do not fail the step. A job that is there for its
    GPU fails where none of its trials had one, and says why.
    """
    folder = Path(tempfile.mkdtemp(prefix="reprokit-", dir=os.environ.get("RUNNER_TEMP")))
    entry, result = folder / "entry.json", folder / "result.json"
    entry.write_text(os.environ.get("ENTRY", ""), encoding="utf-8")
    try:
        more = shlex.split(os.environ.get("ARGUMENTS", ""))
    except ValueError as error:
        raise UsageError(f"ARGUMENTS: {error}") from None
    from reprokit.github.matrix import is_for_gpu, without_gpu

    store = options.store_path(store_folder)
    with quoted():
        status = invoke(["run", f"--cells={entry}", f"--store={store}", f"--json={result}", *more])
    if status in (0, 1, 3) and is_for_gpu(os.environ.get("ENTRY", "")):
        run_id = json.loads(result.read_text(encoding="utf-8"))["run_id"]
        if reasons := without_gpu(Store(store).run(run_id)):
            echo(workflow_command("error", f"no trial of this job had a GPU: {reasons}", title="No cell ran on a GPU"))
            return 1
    return 0 if status == 3 else status


@command.command("check-issue")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder.")
def check_issue_command(output: Path) -> int:
    """Find the case in the issue of the event and check it; nothing of it is run, and no token is needed.

    Writes reply.json, and the case's text as case.yaml. Outputs: state (none, invalid, valid, closed), digest, answer
    (whether a comment may be needed), runner (JSON: the labels of GPU_RUNNER where the case asks for a GPU and there
    are such runners, else of HOSTED_RUNNER).
    """
    happened = read_event()
    body = happened.text("issue", "body")
    found = issue.review(body)
    reply = replies.of_review(found)
    if happened.action in ("labeled", "unlabeled") and not issue.LABEL.fullmatch(happened.text("label", "name")):
        reply = replies.Reply(state="none", digest=found.digest)  # a label that is not ours
        needed = False
    elif happened.action == "closed":
        reply, needed = replies.Reply(state="closed", digest=found.digest), True
    else:
        needed = found.state != "none" or happened.action != "opened"
    _write_reply(output, reply, found.text)
    gpu = found.file is not None and issue.wants_gpu(found.file)
    labels = os.environ.get("GPU_RUNNER", "none") if gpu else "none"
    labels = os.environ.get("HOSTED_RUNNER", "ubuntu-24.04") if labels == "none" else labels
    runner = json.dumps([label.strip() for label in labels.split(",") if label.strip()])
    answer = str(needed).lower()
    set_outputs({"state": reply.state, "digest": found.digest, "answer": answer, "runner": runner})
    echo(f"issue {happened.number('issue', 'number')}: {reply.state}, {len(found.problems)} problems")
    return 0


@command.command("admit")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def admit_command(folder: Path) -> int:
    """Decide whether the label of the event runs the case. Output: admitted. Rewrites reply.json of check-issue."""
    happened = read_event()
    found = issue.review(happened.text("issue", "body"))
    if found.state != "valid":
        raise UsageError("the issue holds no valid case: see the comment of check-issue for the errors")
    reason = replies.admit(happened, found, from_environment())
    by = happened.text("sender", "login")
    reply = replies.refused(found, reason) if reason else replies.running(found, by, run_url(os.environ))
    _write_reply(folder, reply, found.text)
    set_outputs({"admitted": str(not reason).lower()})
    echo(reason or "admitted")
    return 0


@command.command("run-issue")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder.")
def run_issue_command(folder: Path, output: Path) -> int:
    """Run case.yaml of check-issue, if its sha256 is CASE_DIGEST, and write the results to the folder.

    The step fails only where nothing was run; no verdict fails it. Nothing is run on a self-hosted runner that holds
    images, caches or credentials, unless the variable RUNNER_MAY_HOLD names them.
    """
    used_runner.check(os.environ, output)
    digest = os.environ.get("CASE_DIGEST", "")
    case = pinned(folder, digest)
    output.mkdir(parents=True, exist_ok=True)
    files = [f"--json={output / 'result.json'}", f"--junit={output / 'junit.xml'}", f"--store={output / 'store'}"]
    fix = ["--fix"] if load_text("case.yaml", case.read_text(encoding="utf-8")).fixed else []
    with quoted():
        status = invoke(["run", *files, *fix, f"--reviewed=sha256:{digest}", "--", str(case)])
    return 0 if status in (0, 1, 3) else status


@command.command("comment")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--result", type=click.Path(path_type=Path), help="Folder of run-issue: answer with its verdicts.")
def comment_command(folder: Path, result: Path | None) -> int:
    """Post reply.json as our one comment on the event's issue, or update it, and update the labels."""
    happened, reply, url = read_event(), replies.read_reply(folder), run_url(os.environ)
    if result is not None:
        text = (folder / "case.yaml").read_text(encoding="utf-8")
        reply = replies.answer_run(
            reply.digest, text, replies.read_result(result, reply.digest), run_url(os.environ), Scrubber([])
        )
    echo_data(replies.answer(from_environment(), happened.number("issue", "number"), reply, url))
    return 0


def _write_reply(folder: Path, reply: replies.Reply, text: str) -> None:
    write(folder / "reply.json", json.dumps(reply.to_json()))
    if reply.state in ("valid", "running", "refused"):
        write(folder / "case.yaml", text)


@command.command("matrix")
@options.cases_argument()
@options.selection_options
@options.filter_options
@options.base_option
@click.option("--fix", is_flag=True, help="Also the fixed variants of cases that have one.")
@click.option(
    "--max-jobs",
    type=click.IntRange(min=1, max=256),
    default=20,
    show_default=True,
    metavar="N",
    help="At most so many jobs (Actions accepts 256; 20 run at a time on its free plan).",
)
@click.option("--runner", default="ubuntu-24.04", show_default=True, metavar="LABEL,...", help="Hosted runners.")
@click.option(
    "--gpu-runner",
    default="none",
    show_default=True,
    metavar="LABEL,...|none",
    help="Runners for cells that need a GPU. none: no such runners, the cells become unsupported.",
)
@options.store_option
def matrix_command(
    cases: tuple[str, ...],
    base_images: str | None,
    fix: bool,
    max_jobs: int,
    runner: str,
    gpu_runner: str,
    store_folder: Path | None,
    **given: Any,
) -> int:
    """Print the cells as JSON for `strategy.matrix`, grouped by their images; each job is: reprokit run --cells."""
    from reprokit.github.matrix import Runners, known, plan

    supply = supply_of(Request(cases=cases, base_images=base_images or site.settings().base_images))
    runners = Runners(
        hosted=_labels("--runner", runner),
        gpu=() if gpu_runner == "none" else _labels("--gpu-runner", gpu_runner),
        most=max_jobs,
    )
    files = load_all(cases)
    selection, wanted = options.selection_of(given), options.filter_of(given)
    # --fix adds the variants of the cases that have a fix; it does not limit the cases to those.
    request = Request(cases=cases, selection=selection, filter=wanted)
    chosen = cells_of(choose(files, wanted), request) if fix else ()
    fix = any(file.fixed is not None and file.case.fix_applies(cell) for file, cell in chosen)
    tasks = tasks_of(files, dataclasses.replace(request, fix=fix))
    found = plan(tasks, supply, known(files, options.store_path(store_folder)), runners)
    echo_data(found.text())
    echo(str(found), err=True)
    return 0


def _labels(option: str, text: str) -> tuple[str, ...]:
    labels = tuple(filter(None, (label.strip() for label in text.split(","))))
    if not labels:
        raise UsageError(f"{option}: give at least one label")
    return labels
