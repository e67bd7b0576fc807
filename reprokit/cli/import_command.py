"""``reprokit import``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import click

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.intake.bug import BugEntry, PipChanges, WrongBug, requirement, write_cases
from reprokit.intake.importing import kinds

_KINDS = kinds()


@click.command(
    "import",
    epilog="""\b
Examples:
  reprokit import bugsinpy BugsInPy thefuck:1 --out bugs
  reprokit import bugsinpy BugsInPy thefuck tqdm --out bugs
  reprokit import swe-bench lite.jsonl pallets__flask-4992 --specs specs.json --out bugs
  reprokit run bugs --fix
""",
    help="Write cases of the bugs in a data set: each fails at the buggy commit, and passes with the fix.\n\n"
    + "\n\n".join(f"KIND {kind.name}: {kind.takes}." for kind in _KINDS.values())
    + "\n\nWithout BUG, all bugs are written. Nothing is fetched or executed. An entry that cannot become a "
    "valid case is reported, and the others are written.",
)
@click.argument("kind", metavar="KIND")
@click.argument("place", metavar="PATH", type=click.Path(exists=True, path_type=Path))
@click.argument("bugs", metavar="[BUG]...", nargs=-1)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    show_default="this folder",
    help="The folder to write to.",
)
@click.option(
    "--specs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file: " + "; ".join(f"{kind.name}: {kind.specs}" for kind in _KINDS.values() if kind.specs) + ".",
)
@click.option(
    "--pip",
    multiple=True,
    metavar="REQUIREMENT",
    help="Install this instead of what the bugs name of that package, or beside it; may be given several times.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="PACKAGE",
    help="Leave out a Python package that bugs name; may be given several times.",
)
@click.option("--force", is_flag=True, help="Overwrite cases that exist.")
def command(
    kind: str,
    place: Path,
    bugs: tuple[str, ...],
    out: Path,
    specs: Path | None,
    pip: tuple[str, ...],
    without: tuple[str, ...],
    force: bool,
) -> int:
    """Write cases of the bugs in a data set."""
    if kind not in _KINDS:
        raise UsageError(f"no kind of data set {kind!r}{near(kind, _KINDS, prefix='; ')}; known: {', '.join(_KINDS)}")
    if specs and not _KINDS[kind].specs:
        raise UsageError(f"--specs: {kind} says itself how its bugs are installed")
    try:
        changes = PipChanges(
            instead=tuple(requirement(one, "--pip") for one in pip),
            without=tuple(requirement(one, "--without").name for one in without),
        )
    except WrongBug as error:
        raise UsageError(str(error)) from None
    written, refused = 0, 0
    sources: dict[str, None] = {}
    entries: Iterable[BugEntry] = _KINDS[kind].entries(place, bugs, specs)
    if bugs:  # so that one that the data set does not have is refused before anything is written
        entries = list(entries)
    for one in write_cases(entries, out, force=force, changes=changes):
        if one.file is None:
            refused += 1
            echo(f"{one.key}: not written: {one.why_not}", err=True)
        else:
            written += 1
            sources.update(dict.fromkeys(one.sources))
            echo(str(one.file))
    if not written and not refused:
        raise UsageError(f"{place} has no bugs")
    echo(f"{pluralize(written, 'case')} written to {out}; {pluralize(refused, 'bug')} not written", err=True)
    if written:
        stand_ins = "".join(f" --source {name}=DIR" for name in list(sources)[:4]) + " ..." * (len(sources) > 4)
        run = f"reprokit run {shlex.quote(str(out))} --fix"
        echo(f"next: {run}; without access to the git hosts, add{stand_ins}", err=True)
    return 2 if refused or not written else 0
