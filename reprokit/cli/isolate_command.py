"""``reprokit isolate``."""

from __future__ import annotations

from typing import Any

import click

from reprokit.case.matrix import parse_values
from reprokit.cli import options, searching
from reprokit.core.errors import UsageError
from reprokit.run.request import Request
from reprokit.search.isolate.case import make

EXAMPLES = """\b
Examples:
  reprokit isolate cases/ptxas_unknown_arch.yaml --bad cuda=12.0,arch=sm_35 --good cuda=11.8,arch=sm_90
  reprokit isolate bug.yaml --bad cuda=12.0,gcc=12 --good cuda=11.8,gcc=11 --trials 5
  reprokit isolate bug.yaml                        # ends from its last run, else as the case expects
  reprokit isolate bug.yaml --reported             # ends are the environments of the report
  reprokit isolate bug.yaml --bad paddle=3.3.1,os=debian-12 --good paddle=2.5.2,os=ubuntu-22.04 \\
      --axis paddle=2.5.2..3.3.1                   # and which release it was, by the package index
  reprokit isolate --resume                        # go on with the one that was interrupted

\b
Exit status: 0 found, 1 an end is not what it was said to be, 2 wrong usage or case file, 3 not decided: an end, or
cells that would tell, cannot be judged, 130 interrupted.
"""


@click.command("isolate", epilog=EXAMPLES)
@click.argument("case", required=False)
@click.option("--bad", metavar="K=V,K=V", help="A cell in which the failure shows; axes may be left open.")
@click.option("--good", metavar="K=V,K=V", help="A cell in which it does not.")
@click.option("--reported", is_flag=True, help="The ends are the environments of the case's report.")
@click.option(
    "--axis",
    "axes",
    multiple=True,
    metavar="NAME=LOW..HIGH",
    help="Look for the boundary among these values, too: the releases between two, or A,B,C.",
)
@options.policy_options
@click.option("--max-cells", type=click.IntRange(min=2), help="Ask for at most so many cells, and then the boundary's.")
@options.trials_option
@options.stand_in_options
@options.base_option
@options.refresh_option
@options.engine_option
@searching.output_options
def command(**given: Any) -> int:
    """Find which differences between a cell that fails and one that does not are the cause, with few runs.

    Both ends are tried first. Mixes of the two then tell which axis it is, or which together; along axes that have
    values between, the boundary is found. What cannot be judged is stepped around, never read as good or bad.
    """
    return searching.serve("isolate", given, _asked, make)


def _asked(case: str, given: dict[str, Any]) -> tuple[Request, dict[str, Any]]:
    arguments = _arguments(given)
    return Request(cases=(case,), **options.folders(given), **given), arguments


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """What is asked for; takes it out of ``given``. Raises UsageError."""
    axes: dict[str, dict[str, Any]] = {}
    for text in given.pop("axes"):
        name, equals, values = (part.strip() for part in text.partition("="))
        if not (name and equals and values):
            raise UsageError(f"--axis {text}: not of the form NAME=LOW..HIGH or NAME=A,B")
        low, dots, high = values.partition("..")
        if dots and not (low and high):
            raise UsageError(f"--axis {text}: both ends of the range have to be named (NAME=LOW..HIGH)")
        axes[name] = {"ends": [low, high]} if dots else {"values": list(parse_values(values))}
    if given["reported"] and (given["bad"] or given["good"]):
        raise UsageError("--reported takes the ends from the report: leave out --bad and --good")
    policy = options.policy_of(given)
    names = ("bad", "good", "reported", "max_cells")
    return {"axes": axes, "policy": policy, **{name: given.pop(name) for name in names}}
