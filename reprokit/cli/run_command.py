"""``reprokit run``."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.cli import options
from reprokit.cli.case_argument import EXAMPLE
from reprokit.cli.timings import show, timings_options
from reprokit.core.errors import UsageError
from reprokit.core.ownership import private_folder
from reprokit.core.terminal import echo
from reprokit.environment.axes import AXIS_NAMES

if TYPE_CHECKING:
    from reprokit.run.request import Request
    from reprokit.run.run_session import Session

REUSED = "7d"
NO_CASE = (
    "no CASE given (a file, a folder, the id of a case, a Markdown file, - or a URL); "
    f"`reprokit run {EXAMPLE}` runs the case that comes with reprokit"
)
SELECTION = (*AXIS_NAMES, "axis", "only", "skip")
CASES = ("tags", "frameworks", "needs")
BUILDING = ("datasets", "sources", "base_images", "locked", "refresh_bases")
SECTIONS = {
    "Select": (*SELECTION, *CASES, "fix", "cells_file", "failed", "reuse", "resume", "watch"),
    "Trials": ("trials", "confirm", "backtrace"),
    "Build": (*BUILDING, "build_only"),
    "Where": ("engine", "on", "dry_run", "jobs", "store_folder", "yes", "reviewed"),
    "Output": ("json_file", "junit_file", "verbose", "timings", "trace_file"),
}
MODES = {
    "build_only": (
        "--build-only runs nothing",
        (
            *("cells_file", "failed", "reuse", "resume", "watch", "on"),
            *("trials", "confirm", "backtrace", "junit_file", "timings", "trace_file"),
        ),
    ),
    "dry_run": ("--dry-run runs nothing", ("build_only", "failed", "resume", "watch", "junit_file", "json_file")),
    "watch": ("--watch begins with all cells", ("failed", "resume", "cells_file")),
    "reuse": ("--reuse takes over what did not change", ("failed", "resume", "watch")),
    "failed": ("--failed chooses the cells", ("resume", "cells_file")),
}
"""Options that rule out others: why, and which."""
OF_RUN = (*SELECTION, *CASES, *BUILDING, "fix", "cells_file", "trials", "confirm", "backtrace", "engine", "reviewed")
NOT_OF_BUNDLE = (
    *(*SELECTION, *CASES, "fix", "sources", "base_images", "refresh_bases", "locked", "build_only"),
    *("failed", "watch", "resume", "cells_file", "reuse", "on"),
)
"""What chooses or builds cells, and says nothing of a bundle."""
EXAMPLES = """\b
Examples:
  reprokit run ptxas-unknown-arch                    # the case that comes with reprokit
  reprokit run cases/cityscapes_rmi.yaml --cuda 11.8,12.0 --dataset cityscapes=/data/cityscapes
  reprokit run cases/ --only cuda=11.8 --trials 5 --json result.json
  reprokit run cases/ --tag flaky --trials max=60    # until it is decided whether 10 % of trials fail
  reprokit run cases/ --tag quick --needs no-network --fix
  reprokit run cases/dataloader_shm.yaml --fix       # the fixed variant beside the case
  reprokit run --cells entry.json                    # the cells of one job of `reprokit integrate github matrix`
  reprokit run bug-report.md -v                      # a Markdown file that holds a case
  reprokit run https://github.com/OWNER/NAME/issues/1   # shows what the untrusted case does, and asks first
  reprokit run cases/at_check_removed.yaml --locked  # exactly the versions of `reprokit lock`
  reprokit run cases/ --failed                       # what departed or was inconclusive last time
  reprokit run cases/ --reuse=2d                     # cells that ran in the last two days do not run again
  reprokit run bug.yaml --watch                      # again whenever bug.yaml is saved
  reprokit run cases/ --cuda 11.8 --build-only       # the images, so that a run need not build them
  reprokit run cases/ --timings --trace trace.json   # where the time went; Perfetto opens the trace
  reprokit run bug.tar.gz                            # a bundle, with its image: nothing is built
  reprokit run cases/ --on 'ssh gpu1,gpu2'           # on other machines; or Slurm, Kubernetes, Ray
  reprokit run --resume                              # continue the run that was interrupted

\b
Exit status: 0 all as expected, 1 a verdict departs from what the case expects, 2 wrong usage or case file,
3 something is inconclusive (no GPU, build failed ...), 130 interrupted.
"""
ENGINES = "--engine " + options.ENGINES


@click.command("run", cls=options.Sections, sections=SECTIONS, epilog=f"{EXAMPLES}\n{ENGINES}")
@options.cases_argument(required=False)
@options.selection_options
@options.filter_options
@options.trials_option
@click.option(
    "--cells",
    "cells_file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Run exactly the cells that an entry of `reprokit integrate github matrix` names (JSON), instead of CASE.",
)
@options.confirm_option
@click.option("--fix", is_flag=True, help="Run the fixed variant beside the case.")
@click.option(
    "--backtrace",
    is_flag=True,
    help="Take the stacks of all threads where a program crashes or reaches its time limit: resources.backtrace.",
)
@options.stand_in_options
@options.base_option
@options.locked_option
@options.refresh_option
@click.option("--build-only", is_flag=True, help="Build and measure the images, and run nothing.")
@options.engine_option
@options.jobs_option
@click.option(
    "--on",
    default="",
    metavar="LAUNCHER",
    help="Run the cells elsewhere, as jobs that a launcher starts: 'ssh HOST,HOST', ray, ray://HOST:10001, slurm, "
    "kubernetes, or any program, command:'srun sh {job}/job.sh'. --jobs: of them at a time.",
)
@click.option("-n", "--dry-run", is_flag=True, help="With --on: list what would travel to its nodes, and run nothing.")
@options.json_file_option("Write the result file; with --build-only, which images were built, for which cells.")
@options.junit_option
@click.option(
    "--failed", is_flag=True, help="Only cells that departed or were inconclusive in the last run of their case."
)
@click.option(
    "--reuse",
    is_flag=False,
    flag_value=REUSED,
    metavar="[=AGE]",
    help="Take cells that ran in the last AGE (7d) over from this store, where nothing that decides them changed.",
)
@click.option(
    "--watch", is_flag=True, help="Run again what an edit of a case, a source or a data set touches; Ctrl-C ends."
)
@click.option("--resume", is_flag=True, help="Continue the last run that was stopped or has inconclusive cells.")
@options.verbose_option
@timings_options
@options.trust_options
@options.store_option
def command(**given: Any) -> int:
    """Build and run the cells of cases, and judge whether the failure reproduces.

    CASE is a YAML file, a folder of them, the id of a case that was run, lies below this folder or comes with
    reprokit, a Markdown file that holds a case, - (standard input) or a URL.
    """
    files = {"json": given.pop("json_file"), "junit": given.pop("junit_file")}
    timings, trace_file = given.pop("timings"), given.pop("trace_file")
    verbose, build_only = given.pop("verbose"), given.pop("build_only")
    resume, failed, watched = given.pop("resume"), given.pop("failed"), given.pop("watch")
    dry_run = given.pop("dry_run")
    cells_file, given["reuse"] = given.pop("cells_file"), _read_reuse(given)
    for mode, (reason, names) in MODES.items():
        if options.typed(mode):
            options.refuse(reason, *names)
    store_folder = options.obeyed_store(given.pop("store_folder"))
    _check_on(given)
    for option, path in (*files.items(), ("trace", trace_file)):
        options.check_writable(f"--{option}", path)
    from reprokit.cli.display.screen import Screen
    from reprokit.run.run_session import Session
    from reprokit.search.repeating import planner

    is_bundled = _is_bundle(given["cases"])
    if not (given["cases"] or cells_file or resume):
        raise click.UsageError(NO_CASE)
    # Where the result goes to standard output, messages go to standard error.
    stream = sys.stderr if Path("-") in files.values() else sys.stdout

    def start(begin: Callable[[Session], int]) -> int:
        session = Session(store_folder, display=Screen(stream, verbose=verbose), confirming=planner)
        try:
            return begin(session)
        finally:
            # The decided cells are written to the file even if the run failed.
            _write(session, store_folder, files, timings, trace_file)

    if watched:
        from reprokit.run.watching import watch

        def again(request: Request) -> int:
            return start(lambda session: session.start(request))

        return watch(options.request_of(given), again, lambda text: echo(text, err=True))
    if build_only:
        return start(lambda session: _build(session, options.request_of(given), files["json"]))
    if resume:
        return start(lambda session: _resume(session, given))
    if is_bundled:
        return start(lambda session: _run_bundle(session, options.request_of(given)))
    request = _request_of(cells_file, given) if cells_file else options.request_of(given)
    if dry_run:
        return start(lambda session: session.list_travelling(request))
    return start(lambda session: session.start(request, failed=failed))


def _build(session: Session, request: Request, json_file: Path | None) -> int:
    done = session.build(request)
    if json_file is not None:
        from reprokit.cli.documents.records import describe_build

        options.write_json(json_file, describe_build(done))
    return done.exit_status


def _resume(session: Session, given: dict[str, Any]) -> int:
    if not given["cases"]:
        options.refuse("--resume without CASE continues with the options of that run", *OF_RUN)
    jobs = given["jobs"] if options.typed("jobs") else None
    return session.resume(options.request_of(given) if given["cases"] else None, jobs, given["on"])


def _read_reuse(given: dict[str, Any]) -> float | None:
    """The age in seconds. What stands behind ``--reuse`` and begins with no digit is a CASE. Raises UsageError."""
    text = given.pop("reuse")
    if text is None:
        return None
    if not re.match("[0-9]", text):
        given["cases"], text = (text, *given["cases"]), REUSED
    from reprokit.case import units

    try:
        return units.duration(text)
    except ValueError as error:
        raise UsageError(f"--reuse={text}: expected {error}") from None


def _check_on(given: dict[str, Any]) -> None:
    """Raise UsageError for what --on does not take, and for what does not go together with it."""
    if not given["on"]:
        if options.typed("dry_run"):
            raise UsageError("--dry-run lists what travels to other machines: name them by --on")
        return
    from reprokit.run.launch.opening import kind_of

    kind, _ = kind_of(given["on"])
    if options.typed("reuse"):
        raise UsageError("--on: --reuse looks at the images of this host: leave out one of the two")
    if kind in ("ray", "ssh") and options.typed("jobs"):
        raise UsageError("--on: how many jobs run at a time is what the nodes offer: leave out --jobs")
    if kind != "command" and not options.typed("jobs"):
        given["jobs"] = 0  # the CPUs of this host say nothing of others


def _request_of(path: Path, given: dict[str, Any]) -> Request:
    """The Request for the cells that a file names. Raises UsageError."""
    from reprokit.run.request import read_chosen

    options.refuse(f"--cells {path} names the cells and their variants", "cases", *SELECTION, *CASES, "fix")
    chosen = read_chosen(options.read_text("--cells", path), f"--cells {path}")
    given["cases"] = tuple(dict.fromkeys(one.path for one in chosen))
    return dataclasses.replace(options.request_of(given), chosen=chosen)


def _is_bundle(cases: Sequence[str]) -> bool:
    """Whether CASE is a bundle. Raises UsageError for what does not go together with one."""
    from reprokit.run.request import is_bundle

    if not any(is_bundle(case) for case in cases):
        return False
    if len(cases) > 1:
        raise UsageError("a bundle runs alone: name no other CASE")
    options.refuse("a bundle is cells with their images", *NOT_OF_BUNDLE)
    return True


def _run_bundle(session: Session, request: Request) -> int:
    """Run the cells of a bundle, and say whether they give the verdicts that were recorded. Raises as Session.start."""
    from reprokit.intake import unbundling
    from reprokit.store import targets

    [path] = request.cases
    copied = targets.fetched(path) if targets.is_remote(path) else nullcontext(Path(path))
    with copied as bundle, private_folder("bundle") as folder:
        found = unbundling.open_bundle(bundle, folder, path)
        files = unbundling.admit_bundle(found, path, request)
        request, tasks = unbundling.tasks_of(found, files, request)
        status = session.begin(request, files, tasks)
    decided = {cell.number: cell.verdict for cell in session.record.cells} if session.record else {}
    for number, one in enumerate(found.cells, 1):
        verdict = decided.get(number)
        which = f"cell {number}: " if len(found.cells) > 1 else ""
        echo(which + unbundling.compare_verdict(one, verdict.value if verdict else None), err=True)
    return status


def _write(
    session: Session, store_folder: Path, files: Mapping[str, Path | None], timings: bool, trace_file: Path | None
) -> None:
    """Write the files that were asked for, and show the times."""
    record = session.record
    if record is None:
        return
    from reprokit.report.formats import FormatSources, run_format

    sources = FormatSources(folder=store_folder, file_of=session.files.get)
    for form, path in files.items():
        if path:
            options.write_file(path, run_format(form).text(record, sources), "; `reprokit show --json` has it")
    if (timings or trace_file) and session.timings is not None:
        show(record, [session.timings], timings, trace_file, err=Path("-") in files.values())
