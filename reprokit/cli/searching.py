"""What isolate, bisect and reduce have in common: their options, and how a search is started or resumed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reprokit.cli import options
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import UsageError
from reprokit.search.releases import Policy
from reprokit.search.search_session import SearchSession

if TYPE_CHECKING:
    from reprokit.core.json_record import JsonRecord
    from reprokit.run.request import Request
    from reprokit.search.queries import Search, SearchAnswer

F = TypeVar("F", bound=Callable[..., Any])


def output_options(function: F) -> F:
    """Adds the options --yes, --reviewed, --jobs, --json, --resume, --verbose and --store to a command."""
    function = options.trust_options(options.store_option(function))
    function = options.verbose_option(function)
    function = click.option(
        "--resume", is_flag=True, help="Continue the last interrupted one; decided cells are not repeated."
    )(function)
    return options.jobs_option(options.json_file_option("Write what was found.")(function))


def serve(
    kind: str,
    given: dict[str, Any],
    asked: Callable[[str, dict[str, Any]], tuple[Request, JsonRecord]],
    make: Callable[[SearchSession], Search[SearchAnswer]],
) -> int:
    """Start or resume a search of the ``kind``; its exit status. ``asked``: makes request and arguments of options."""
    case, resume = given.pop("case"), given.pop("resume")
    json_file, verbose = given.pop("json_file"), given.pop("verbose")
    store_folder = options.obeyed_store(given.pop("store_folder"))
    options.check_writable("--json", json_file)
    if not (case or resume):
        raise click.UsageError("no CASE given (a file, the id of a case, a Markdown file, - or a URL)")
    jobs = given["jobs"] if options.typed("jobs") else None
    if resume and any(name not in ("jobs", "yes") and options.typed(name) for name in given):
        raise UsageError("--resume continues with the options of that search: leave out the other options")
    begin = None if resume else asked(case, given)
    # Imported here, since `reprokit --help` must not pay for it.
    stream = sys.stderr if json_file == Path("-") else sys.stdout
    session = SearchSession(store_folder, display=Screen(stream, verbose=verbose))
    try:
        if begin is None:
            return session.resume(kind, [case] if case else [], make, jobs)
        return session.start(kind, *begin, make)
    finally:
        # The decided cells are written to the file even if the search failed.
        if session.record is not None:
            options.write_json(json_file, session.result())


def policy_options(function: F) -> F:
    """--pre, --since, --before: which releases between two count."""
    function = click.option(
        "--before", metavar="DATE", callback=options.unit("instant"), help="Only releases before that day."
    )(function)
    function = click.option(
        "--since", metavar="DATE", callback=options.unit("instant"), help="Only releases of that day or later."
    )(function)
    return click.option("--pre", is_flag=True, help="Count pre-releases too.")(function)


def policy_of(given: dict[str, Any]) -> Policy:
    """What :func:`policy_options` say; takes it out of ``given``."""
    since, before = ((given.pop(name) or "")[:10] for name in ("since", "before"))
    return Policy(since=since, before=before, pre=given.pop("pre"))
