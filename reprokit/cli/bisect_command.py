"""``reprokit bisect``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.case.matrix import parse_values
from reprokit.cli import options, searching
from reprokit.core.errors import UsageError
from reprokit.search.bisect_case import GIVE_RANGE, BisectionRequest, make
from reprokit.search.releases import Policy

if TYPE_CHECKING:
    from reprokit.run.request import Request

EXAMPLES = """\b
Examples:
  reprokit bisect cases/np_dtype_synonym.yaml --axis numpy=1.16.6..1.17.5 --only shape=1
  reprokit bisect cases/paddleseg_type_promotion.yaml --axis paddle=2.6.2..3.3.1 --only paddleseg=v2.9.0
  reprokit bisect case.yaml --axis torch --values 2.1.0,2.3.0,2.6.0   # these releases, and no others
  reprokit bisect case.yaml --axis python=3.8..3.13             # python, gcc, cuda, cudnn, os: reprokit's own catalog
  reprokit bisect case.yaml --source PaddleSeg=v2.9.0..develop  # the commits of a source
  reprokit bisect case.yaml --source PaddleSeg=v2.9.0..develop --source PaddleSeg=~/PaddleSeg   # of this repository
  reprokit bisect imported.yaml                                 # since which commit it is fixed, as the case says
  reprokit bisect imported.yaml --since-works v1.2              # since which commit it is broken
  reprokit bisect --resume                                      # continue the one that was interrupted

\b
Exit status: 0 found, 1 both ends have the same result, 2 wrong usage or case file, 3 an end is unresolved, or a value
between the two neighbours is unresolved, was not tried or is not known, 130 interrupted.
"""

RANGE = re.compile(r"(?P<low>[^\s.,][^\s,]*?)\.\.(?P<high>[^\s.,][^\s,]*)")


@click.command("bisect", epilog=EXAMPLES)
@options.one_case_argument
@options.selection_options
@searching.policy_options
@click.option("--values", metavar="A,B,C", help="Search these values, in this order, and no others.")
@click.option("--since-works", metavar="REF", default="", help="Since which commit after REF it is broken.")
@click.option("--tags-only", is_flag=True, help="Only the tagged commits of the source.")
@click.option("--max-cells", type=click.IntRange(min=2), help="Run at most so many cells.")
@click.option(
    "--time", metavar="30m", callback=options.unit("duration"), help="Stop after this time, and say how to go on."
)
@click.option("--every", is_flag=True, help="Run each value of an unresolved stretch, not only its edges.")
@options.trials_option
@options.confirm_option
@options.stand_in_options
@options.base_option
@options.refresh_option
@options.engine_option
@searching.output_options
def command(**given: Any) -> int:
    """Find the release or commit since which a case is broken or fixed.

    --axis NAME=LOW..HIGH, --axis NAME with --values A,B,C, or --source NAME=REF..REF gives the range; else it
    ends at the commit of the fix, where the case names one. --only, --os ... fix the other axes.
    Both ends are run first; unresolved values are skipped.
    """
    return searching.serve("bisect", given, _asked, make)


def _asked(case: str, given: dict[str, Any]) -> tuple[Request, BisectionRequest]:
    arguments = _arguments(given)
    return options.request_of({**given, "cases": (case,)}), arguments


def _arguments(given: dict[str, Any]) -> BisectionRequest:
    """The arguments of the search; removes them from ``given``. Raises UsageError when there is not one range."""
    by_hand = given.pop("values")
    values = list(parse_values(by_hand)) if by_hand is not None else []
    axes = {text: found for text in given["axis"] if (found := _range(text, values))}
    sources = {text: found for text in given["sources"] if (found := _range(text))}
    since_works = given.pop("since_works")
    if (count := len(axes) + len(sources)) > 1 or (count and since_works):
        raise UsageError(f"{GIVE_RANGE}; {count} were given{' beside --since-works' if since_works else ''}")
    given["axis"] = tuple(text for text in given["axis"] if text not in axes)
    given["sources"] = tuple(text for text in given["sources"] if text not in sources)
    name, low, high = next(iter({**axes, **sources}.values()), ("", "", ""))
    if name and low == high:
        raise UsageError(f"{name}={low}..{high}: both ends are the same")
    policy = searching.policy_of(given)
    tags_only = given.pop("tags_only")
    if sources and policy != Policy():
        raise UsageError("--pre, --since and --before apply to releases; for a source's commits use --tags-only")
    if axes and tags_only:
        raise UsageError("--tags-only applies to a source's commits; for releases use --pre, --since and --before")
    if values and (sources or policy != Policy()):
        raise UsageError("--values names every value of an axis: leave out --source, --pre, --since and --before")
    if values and (values[0], values[-1]) != (low, high):
        raise UsageError(f"--values {by_hand}: the first is to be {low} and the last {high}, as --axis {name} says")
    return BisectionRequest(
        source=name if sources else "",
        axis="" if sources else name,
        ends=(low, high) if name else (),
        since_works=since_works,
        values=tuple(values),
        tags_only=tags_only,
        max_cells=given.pop("max_cells"),
        seconds=given.pop("time") or 0.0,
        every=given.pop("every"),
        policy=policy,
    )


def _range(text: str, values: Sequence[str] = ()) -> tuple[str, str, str] | None:
    """(name, low, high) of ``NAME=LOW..HIGH``, or of ``NAME`` with the ends of ``values``; None for anything else."""
    name, equals, value = text.partition("=")
    if values and not equals:
        return name.strip(), values[0], values[-1]
    found = RANGE.fullmatch(value)
    if not found or Path(value).expanduser().is_dir():
        return None
    return name.strip(), found["low"], found["high"]
