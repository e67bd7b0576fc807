"""``reprokit run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from reprokit.cli import options

EXAMPLES = """\b
Examples:
  reprokit run cases/ptxas_unknown_arch.yaml
  reprokit run cases/cityscapes_rmi.yaml --cuda 11.8,12.0 --dataset cityscapes=/data/cityscapes
  reprokit run cases/ --only cuda=11.8 --trials 5 --json result.json
  reprokit run cases/dataloader_shm.yaml --fix       # the fixed variant beside the case
  reprokit run bug-report.md -v                      # a Markdown file that holds a case
  reprokit run --resume                              # go on with the run that was interrupted

\b
Exit status: 0 all as expected, 1 a verdict departs from what the case expects, 2 wrong usage or case file,
3 something is inconclusive (no GPU, build failed ...), 130 interrupted.
"""


@click.command("run", epilog=EXAMPLES)
@options.cases_argument(required=False)
@options.selection_options
@click.option("--tag", "tags", multiple=True, help="Only cases with this tag.")
@click.option("--trials", type=click.IntRange(min=1), help="Trials per cell, instead of what the case says.")
@click.option("--fix", is_flag=True, help="Run the fixed variant beside the case.")
@options.stand_in_options
@options.base_option
@options.jobs_option
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result file.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML.")
@click.option("--resume", is_flag=True, help="Go on with the last interrupted run; decided cells are not repeated.")
@click.option("-v", "--verbose", is_flag=True, help="Stream the output of builds and cells.")
@click.option("-y", "--yes", is_flag=True, help="Answer what would be asked with yes.")
@options.store_option
def command(**given: Any) -> int:
    """Build and run the cells of cases, and judge whether the failure reproduces.

    CASE is a YAML file, a folder of them, a Markdown file that holds a case, - (standard input) or a URL.
    """
    json_file, junit_file = given.pop("json_file"), given.pop("junit_file")
    resume, verbose = given.pop("resume"), given.pop("verbose")
    given.pop("yes")
    store_folder = options.store_path(given.pop("store_folder"))
    # Started first, since it imports while we do; imported here, since `reprokit --help` must not pay for them.
    from reprokit.store.recorder import Recorder

    recorder = Recorder(store_folder)
    from reprokit.runner.session import Session

    # Where the result goes to standard output, people read standard error.
    stream = sys.stderr if Path("-") in (json_file, junit_file) else sys.stdout
    session = Session(store_folder, stream=stream, verbose=verbose, recorder=recorder)
    if resume:
        request = _request(given) if given["cases"] else None
        status = session.resume(request)
    else:
        if not given["cases"]:
            raise click.UsageError("no CASE given (a file, a folder, a Markdown file, - or a URL)")
        status = session.start(_request(given))
    _write(session, store_folder, json_file, junit_file)
    return status


def _request(given: dict[str, Any]) -> Any:
    from reprokit.runner.request import Request

    selection = options.selection_of(given)
    return Request(selection=selection, **options.folders(given), **given)


def _write(session: Any, store_folder: Path, json_file: Path | None, junit_file: Path | None) -> None:
    if json_file is None and junit_file is None:
        return
    from reprokit.report import junit, result

    texts = {json_file: result.dumps(session.record, store_folder)} if json_file else {}
    if junit_file:
        texts[junit_file] = junit.junit(session.record)
    for path, text in texts.items():
        if path == Path("-"):
            click.echo(text, nl=False)
        else:
            result.write(path, text)
