"""``reprokit report``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options
from reprokit.core.errors import CaseError, RecordError, UsageError
from reprokit.core.interrupts import signals
from reprokit.core.ownership import private_folder
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.report.formats import FormatSources, PagesFormat, RunFormat, Scrub, Scrubber, formats
from reprokit.report.html import writing
from reprokit.report.html.building import PagesRequest
from reprokit.run.loading import load_all
from reprokit.store import targets

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.evidence.records import RunRecord
    from reprokit.report.html.building import Built
    from reprokit.store.database import Store

PORT = 8000


def _help() -> str:
    """The help of --format: what each format is, and whether it is scrubbed."""
    offered = ", ".join(f"{form.name} ({form.help})" for form in formats().values())
    as_recorded = " and ".join(name for name, form in formats().items() if not form.scrubbed)
    return f"What to write: {offered}. Private things are left out of all but {as_recorded}."


@click.command(
    "report",
    epilog="""\b
Examples:
  reprokit report -o site/                     # every case that was run, as pages that open from the disk
  reprokit report ptxas-unknown-arch -o site/  # one case
  reprokit report -o s3://BUCKET/site          # to a bucket that serves pages
  reprokit report --serve                      # to look at here and now
  reprokit report --format junit -o out.xml    # the last run
  reprokit report 20260101-1 --format csv
  reprokit report --format md >> "$GITHUB_STEP_SUMMARY"
""",
)
@click.argument("what", nargs=-1, metavar="[RUN|CASE]...")
@click.option(
    "-o",
    "--output",
    type=options.TargetType(path_type=Path, allow_dash=True),
    help="The folder of the pages, or the file of another format, also s3://BUCKET/... [default: standard output].",
)
@click.option("--format", "name", type=click.Choice(list(formats())), default="html", show_default=True, help=_help())
@click.option("--serve", is_flag=True, help="Serve the pages on this machine, until Ctrl-C.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Of --serve; 0: any.")
@click.option(
    "--cases",
    "folder",
    type=click.Path(exists=True, path_type=Path),
    help="A folder of cases: those that were never run are listed too [default: cases/, where there is one].",
)
@click.option(
    "--runs",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="The newest runs of each case whose cells all get a page; the cells of the newest verdicts always do.",
)
@click.option(
    "--as-recorded",
    is_flag=True,
    help="Leave tokens, e-mail addresses, home directories and host names in the texts of the pages.",
)
@options.store_option
def command(
    what: tuple[str, ...],
    output: Path | str | None,
    name: str,
    serve: bool,
    port: int,
    folder: Path | None,
    runs: int,
    as_recorded: bool,
    store_folder: Path | None,
) -> int:
    """Write a report: pages of all cases or of these, or one run in another format.

    The pages are a folder of plain files: they open from the disk, and GitHub Pages or any other server can serve them.
    Nothing is loaded from elsewhere. Since such pages are often public, tokens, e-mail addresses, home directories and
    host names are left out of all texts, as far as they are recognised; --as-recorded keeps them.
    """
    form = formats()[name]
    if isinstance(form, RunFormat):
        if serve or folder or as_recorded or options.typed("runs"):
            raise UsageError(f"--serve, --cases, --runs and --as-recorded are about pages, not about --format {name}")
        if len(what) > 1:
            raise UsageError(f"--format {name} is about one run or case, not about {len(what)}")
        return _write(form, what[0] if what else "last", output or Path("-"), store_folder)
    if output is None and not serve:
        raise UsageError("say where the pages go: -o FOLDER (or --serve to look at them here, or another --format)")
    if output == Path("-"):
        raise UsageError("-o -: pages are a folder; name one")
    if isinstance(output, str) and serve:
        raise UsageError(f"-o {output}: --serve shows a folder of this host: leave out one of the two")
    store = options.store_of(store_folder)
    request = _request(store, what, folder, runs)
    assert isinstance(form, PagesFormat)
    pages = _Pages(form, request, str if as_recorded else form.scrubber(store.runs(limit=None)))
    if isinstance(output, str):
        with targets.sent_folder(output, writing.MARKER, writing.is_ours, writing.LAST) as made:
            built = _written(store, pages, made)
        _say(pages, built, f"{output.rstrip('/')}/index.html")
        return 0
    if serve:
        return _serve(store, pages, output, port)
    assert output is not None
    _build(store, pages, output)
    return 0


@dataclass(frozen=True)
class _Pages:
    """What is to be written, in which format, and what every text passes."""

    form: PagesFormat
    request: PagesRequest
    scrub: Scrub


@dataclass(frozen=True)
class _Chosen:
    cases: tuple[str, ...]
    runs: tuple[str, ...]


def _chosen(store: Store, what: Sequence[str]) -> _Chosen:
    """The cases, and the runs, that words name. Raises UsageError for what is neither."""
    known = set(store.case_keys())
    cases: list[str] = []
    runs: list[str] = []
    for text in what:
        if text in known or Path(text).exists():
            cases += options.known_cases(store, [text])
            continue
        try:
            run = store.run(text)
        except UsageError:
            if re.match("last$|[0-9]", text):
                raise
            cases += options.known_cases(store, [text])  # which says what is near
            continue
        runs.append(run.id)
        cases += [cell.case_key for cell in run.cells]
    return _Chosen(cases=tuple(dict.fromkeys(cases)), runs=tuple(dict.fromkeys(runs)))


def _request(store: Store, what: Sequence[str], folder: Path | None, runs: int) -> PagesRequest:
    chosen = _chosen(store, what)
    files = {file.key: file for file in _files(folder)}
    if what:  # the folder then only says what these cases are like now
        files = {key: file for key, file in files.items() if key in chosen.cases}
        files |= {file.key: file for file in load_all([text for text in what if Path(text).exists()])}
    return PagesRequest(cases=chosen.cases, files=tuple(files.values()), runs=runs, also=chosen.runs)


def _files(folder: Path | None) -> Sequence[CaseFile]:
    place = folder or Path("cases")
    if not place.is_dir():
        return ()
    try:
        return load_all([str(place)])
    except CaseError as error:
        if folder:
            raise
        echo(f"{place}/ is left out: {len(error.problems)} problems (reprokit validate {place})", err=True)
        return ()


def _build(store: Store, pages: _Pages, target: Path) -> None:
    """Write the pages, and report what was written and what was not. Raises RecordError where that fails."""
    _say(pages, _written(store, pages, target), str(target / "index.html"))


def _written(store: Store, pages: _Pages, target: Path) -> Built:
    try:
        return pages.form.write(store, target, pages.request, pages.scrub)
    except OSError as error:
        raise RecordError(f"{target}: the report cannot be written: {error.strerror}") from error


def _say(pages: _Pages, built: Built, index: str) -> None:
    size = f"{built.bytes / 1e6:.1f} MB in {pluralize(built.files, 'file')}"
    echo(f"{index}: {pluralize(built.cases, 'case')}, {pluralize(built.cells, 'page')} of cells, {size}")
    if isinstance(pages.scrub, Scrubber) and pages.scrub.left_out:
        echo(f"left out of the texts: {', '.join(pages.scrub.left_out)} (--as-recorded keeps them)")
    if built.left_out:
        echo(f"{pluralize(built.left_out, 'log')} left out, for the size: --runs 0 has fewer pages of cells", err=True)


def _serve(store: Store, pages: _Pages, output: Path | None, port: int) -> int:
    from reprokit.report.html.writing import serve

    with signals(), private_folder("report") as scratch:
        target = output or scratch / "site"
        _build(store, pages, target)
        serve(target, port, lambda url: echo(f"{url}  (Ctrl-C ends it)"))
    return 0


def _write(form: RunFormat, what: str, output: Path | str, store_folder: Path | None) -> int:
    """One run in a format that is one text."""
    if isinstance(output, Path):
        options.check_writable("-o", output)
    store = options.store_of(store_folder)
    run = _run(store, what)
    with options.written(output) as target:
        options.write_file(target, form.text(run, FormatSources.of(store, run)))
    return 0


def _run(store: Store, what: str) -> RunRecord:
    """The run that is named, or the newest run of a case with the cells of that case alone. Raises UsageError."""
    chosen = _chosen(store, [what])
    if chosen.runs:
        return store.run(chosen.runs[0])
    if len(chosen.cases) > 1:
        raise UsageError(f"{what} holds several cases that were run: name one of {', '.join(chosen.cases)}")
    [key] = chosen.cases
    return options.last_run(store, key)
