"""``reprokit gc``."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options
from reprokit.core.errors import EngineError, UsageError
from reprokit.core.json_record import JsonDocument
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize, seconds, size
from reprokit.engine import kinds, registry, site
from reprokit.run.keeping import (
    Removal,
    RemovalPlan,
    RemovalRequest,
    by_kind,
    collect,
    cost,
    holders,
    plan_collection,
    stock,
)

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine, Kept

EXAMPLES = """\b
Examples:
  reprokit gc                                # what is kept, and where
  reprokit gc --budget 20G --dry-run         # what would be removed, and what making it again takes
  reprokit gc --budget 20G --keep ptxas-unknown-arch
  reprokit gc --older-than 30d

\b
Exit status: 0 what is kept is within the budget, 2 wrong usage,
3 it is not: what runs use, or --keep names, needs more; or an engine failed.
"""


@click.command("gc", epilog=EXAMPLES)
@click.option(
    "--budget",
    metavar="SIZE",
    callback=options.unit("size"),
    help="Remove until what is kept takes no more than this, such as 20G [default: budget of the configuration].",
)
@click.option(
    "--older-than",
    metavar="TIME",
    callback=options.unit("duration"),
    help="Remove what was not used for this long, such as 30d.",
)
@click.option("--keep", multiple=True, metavar="PATTERN", help="Keep what has this name, or is of this case: * and ?.")
@click.option("--build-cache", is_flag=True, help="Also build cache that no image uses and that may not be reprokit's.")
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be removed.")
@options.json_option("Print it as JSON (format reprokit-gc/v1).")
@options.engine_option
@options.store_option
def command(
    budget: int | None,
    older_than: float | None,
    keep: tuple[str, ...],
    build_cache: bool,
    dry_run: bool,
    as_json: bool,
    engine: str | None,
    store_folder: Path | None,
) -> int:
    """Remove what reprokit keeps on this disk, until it fits into a budget; without one, show what is kept.

    First goes what takes the least time to make again, times how often it was used, for each byte and each day since
    its last use. Images go by reprokit's labels alone, with their build cache. Verdicts stay, and logs go last. What a
    run uses stays.
    """
    store = options.store_path(store_folder)
    wanted = RemovalRequest(
        budget=site.settings().budget if budget is None else budget,
        older_than=older_than,
        keep=keep,
        other_cache=build_cache,
    )
    asked = wanted.budget is not None or older_than is not None
    if keep and not asked:
        raise UsageError("--keep: say how much goes: reprokit gc --budget SIZE, or --older-than TIME")
    places = holders(_engine(engine, quiet=as_json), store)
    found = stock(places, wanted, lambda: _cases(store))
    plan = plan_collection(found, wanted)
    done: list[Removal] = []
    if not as_json:
        _show_kept(found.items, plan)
        for removal in plan.removals if dry_run or not asked else ():
            _show(removal, "would go" if asked else "leftover")
    if dry_run or not asked:
        done, left = list(plan.removals), plan.left
    else:

        def removed(removal: Removal) -> None:
            done.append(removal)
            if not as_json:
                _show(removal, "removed")

        left = collect(places, wanted, removed, cases=lambda: _cases(store)).total
    is_over = wanted.budget is not None and left > wanted.budget
    if as_json:
        options.echo_document(_result(found.items, plan, done, left, dry_run or not asked))
    elif asked:
        _conclude(found.items, wanted, done, left, dry_run)
    return 3 if is_over else 0


def _engine(name: str | None, *, quiet: bool) -> Engine | None:
    """The engine, if one answers: what is in files can be removed without. Raises EngineError for one that is named."""
    chosen = name or site.settings().engine
    try:
        found = registry.make(chosen)
        info = found.info()
    except EngineError as error:
        if chosen != kinds.AUTO:
            raise
        if not quiet:
            echo(f"no engine answers, so that its images are not counted: {error}", err=True)
        return None
    unused = registry.unused_engine(os.environ) if chosen == kinds.AUTO else ""
    for note in (info.clocks, unused):
        if note and not quiet:
            echo(note, err=True)
    return found


def _cases(store: Path) -> dict[str, set[str]]:
    """Tag of an image -> ids of the cases that ran in it; nothing where no run is recorded."""
    from reprokit.store.folder import has_database

    if not has_database(store):
        return {}
    from reprokit.store.database import Store

    with contextlib.closing(Store(store)) as opened:
        return opened.image_cases()


def _show_kept(items: Iterable[Kept], plan: RemovalPlan) -> None:
    budget = "" if plan.budget is None else f" (budget {size(plan.budget)})"
    echo(f"reprokit keeps {size(plan.total)} on this disk{budget}:")
    for kind, (count, total) in by_kind(items).items():
        echo(f"  {kind:20} {count:5}  {size(total):>8}")


def _show(removal: Removal, word: str) -> None:
    kept = removal.kept
    idle = max(time.time() - kept.used, 0.0)
    when = f"{idle / 86400:.0f} days" if idle >= 2 * 86400 else f"{idle / 3600:.0f} h"
    about = "" if kept.seconds is not None else "about "
    of = f", of {', '.join(sorted(kept.cases)[:3])}" if kept.cases else ""
    echo(
        f"{word}: {kept.kind} {kept.name}: frees {size(removal.freed)}, used {when} ago, "
        f"{about}{seconds(cost(kept))} to make again{of}"
    )


def _conclude(items: Iterable[Kept], wanted: RemovalRequest, done: list[Removal], left: int, dry_run: bool) -> None:
    freed = sum(one.freed for one in done)
    again = seconds(sum(cost(one.kept) for one in done))
    what = f"{pluralize(len(done), 'thing')}, {size(freed)}"
    verb = "would be removed" if dry_run else "removed"
    echo(f"{what} {verb}; making all of it again takes {again}" if done else "nothing to remove")
    echo(f"{size(left)} {'would be' if dry_run else 'are'} kept")
    if wanted.budget is not None and left > wanted.budget:
        largest = sorted((one for one in items if one.stays), key=lambda one: -one.bytes)[:5]
        why = "; ".join(f"{kept.kind} {kept.name} ({size(kept.bytes)}): {kept.stays}" for kept in largest)
        echo(f"the budget of {size(wanted.budget)} is exceeded by what cannot be removed: {why}", err=True)


@dataclass(frozen=True)
class KeptKind:
    """How much of a kind is kept."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Stays:
    """What cannot go, and why."""

    kind: str
    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What was, or would be, removed; `seconds` make it again."""

    kind: str
    name: str
    freed: int
    seconds: float
    seconds_known: bool
    last_used: float
    cases: list[str]


@dataclass(frozen=True, kw_only=True)
class GcResult(JsonDocument):
    """What is kept on this disk, in bytes."""

    FORMAT = "reprokit-gc/v1"

    dry_run: bool
    budget: int | None
    total: int
    left: int
    kept: list[KeptKind]
    stays: list[Stays]
    removed: list[Removed]
    rebuild_seconds: float


def _result(items: list[Kept], plan: RemovalPlan, done: list[Removal], left: int, dry_run: bool) -> GcResult:
    return GcResult(
        dry_run=dry_run,
        budget=plan.budget,
        total=plan.total,
        left=left,
        kept=[KeptKind(kind, number, total) for kind, (number, total) in by_kind(items).items()],
        stays=[Stays(one.kind, one.name, one.stays) for one in items if one.stays],
        removed=[
            Removed(
                kind=one.kept.kind,
                name=one.kept.name,
                freed=one.freed,
                seconds=round(cost(one.kept), 3),
                seconds_known=one.kept.seconds is not None,
                last_used=one.kept.used,
                cases=sorted(one.kept.cases),
            )
            for one in done
        ],
        rebuild_seconds=round(sum(cost(one.kept) for one in done), 3),
    )
