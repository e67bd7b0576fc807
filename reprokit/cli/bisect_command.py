"""``reprokit bisect``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from reprokit.cli import options
from reprokit.errors import UsageError

EXAMPLES = """\b
Examples:
  reprokit bisect cases/np_dtype_synonym.yaml --axis numpy=1.16.6..1.17.5 --only shape=1
  reprokit bisect cases/paddleseg_type_promotion.yaml --axis paddle=2.6.2..3.3.1 --only paddleseg=v2.9.0
  reprokit bisect case.yaml --axis python=3.8..3.13             # Python, gcc, cuda, cudnn, os: reprokit's own catalog
  reprokit bisect case.yaml --source PaddleSeg=v2.9.0..develop  # the commits of a source
  reprokit bisect case.yaml --source PaddleSeg=v2.9.0..develop --source PaddleSeg=~/PaddleSeg   # of this repository
  reprokit bisect --resume                                      # go on with the one that was interrupted

\b
Exit status: 0 found, 1 both ends read alike, 2 wrong usage or case file, 3 an end or what lies at the boundary cannot
be judged, 130 interrupted.
"""

RANGE = re.compile(r"(?P<low>[^\s.,][^\s,]*?)\.\.(?P<high>[^\s.,][^\s,]*)")


@click.command("bisect", epilog=EXAMPLES)
@click.argument("case", required=False)
@options.selection_options
@options.policy_options
@click.option("--tags-only", is_flag=True, help="Of a source's commits only those with a tag.")
@options.trials_option
@options.stand_in_options
@options.base_option
@options.refresh_option
@options.engine_option
@options.jobs_option
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result file.")
@click.option("--resume", is_flag=True, help="Go on with the last interrupted one; what was decided is not repeated.")
@click.option("-v", "--verbose", is_flag=True, help="Stream the output of builds and cells.")
@options.store_option
def command(**given: Any) -> int:
    """Find the release, or the commit, since which a case is broken, or fixed.

    --axis NAME=LOW..HIGH or --source NAME=REF..REF says along what. The other axes are fixed by --only, --os ...
    Both ends are tried first; what cannot be judged is stepped around.
    """
    case, resume = given.pop("case"), given.pop("resume")
    json_file, verbose = given.pop("json_file"), given.pop("verbose")
    store_folder = options.store_path(given.pop("store_folder"))
    options.check_writable("--json", json_file)
    if not (case or resume):
        raise click.UsageError("no CASE given (a file, a Markdown file, - or a URL)")
    jobs = given["jobs"] if options.typed("jobs") else None
    arguments = None
    if resume:
        asked = [name for name in given if name != "jobs" and options.typed(name)]
        if asked:
            raise UsageError("--resume goes on with what was asked then: leave out the other options")
    else:
        arguments = _arguments(given)
    # Imported here, since `reprokit --help` must not pay for them.
    from reprokit.search.bisect.case import make
    from reprokit.search.session import SearchSession

    session = SearchSession(store_folder, stream=sys.stderr if json_file == Path("-") else sys.stdout, verbose=verbose)
    try:
        if arguments is None:
            return session.resume("bisect", [case] if case else [], make, jobs)
        return session.start("bisect", options.request_of({**given, "cases": (case,)}), arguments, make)
    finally:
        if session.record is not None:
            options.write_json(json_file, session.result())


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """What is asked for; takes it out of ``given``. Raises UsageError when that is not one range."""
    axes = {text: found for text in given["axis"] if (found := _range(text))}
    sources = {text: found for text in given["sources"] if (found := _range(text))}
    if len(axes) + len(sources) != 1:
        raise UsageError(
            "one --axis NAME=LOW..HIGH or one --source NAME=REF..REF says along what; "
            + (f"there are {len(axes) + len(sources)}" if axes or sources else "there is none")
        )
    given["axis"] = tuple(text for text in given["axis"] if text not in axes)
    given["sources"] = tuple(text for text in given["sources"] if text not in sources)
    name, low, high = next(iter({**axes, **sources}.values()))
    if low == high:
        raise UsageError(f"{name}={low}..{high}: both ends are the same")
    policy = {key: given.pop(key) or "" for key in ("since", "before")} | {"pre": given.pop("pre")}
    tags_only = given.pop("tags_only")
    if sources and any(policy.values()):
        raise UsageError("--pre, --since and --before are of releases; a source's commits take --tags-only")
    if axes and tags_only:
        raise UsageError("--tags-only is of a source's commits; releases take --pre, --since and --before")
    ends = {"ends": [low, high]}
    return {"source": name, **ends, "tags_only": tags_only} if sources else {"axis": name, **ends, **policy}


def _range(text: str) -> tuple[str, str, str] | None:
    """(name, low, high) of ``NAME=LOW..HIGH``; None for anything else, such as a folder that exists."""
    name, _, value = text.partition("=")
    found = RANGE.fullmatch(value)
    if not found or Path(value).expanduser().is_dir():
        return None
    return name.strip(), found["low"], found["high"]
