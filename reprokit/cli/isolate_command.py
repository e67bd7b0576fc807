"""``reprokit isolate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reprokit.case.matrix import parse_values
from reprokit.cli import options, searching
from reprokit.core.errors import UsageError
from reprokit.search.isolate_case import AskedValues, IsolationRequest, make

if TYPE_CHECKING:
    from reprokit.run.request import Request

EXAMPLES = """\b
Examples:
  reprokit isolate cases/ptxas_unknown_arch.yaml --bad cuda=12.0,arch=sm_35 --good cuda=11.8,arch=sm_90
  reprokit isolate bug.yaml --bad cuda=12.0,gcc=12 --good cuda=11.8,gcc=11 --trials 5
  reprokit isolate bug.yaml                        # two cells of its last run, else as the case expects
  reprokit isolate bug.yaml --reported             # the environments of the report
  reprokit isolate bug.yaml --bad paddle=3.3.1,os=debian-12 --good paddle=2.5.2,os=ubuntu-22.04 \\
      --axis paddle=2.5.2..3.3.1                   # and which release it was, from the package index
  reprokit isolate --resume                        # continue the one that was interrupted

\b
Exit status: 0 found, 1 the bad cell passes or the good cell fails, 2 wrong usage or case file, 3 not decided: a cell
that is needed is unresolved, 130 interrupted.
"""


@click.command("isolate", epilog=EXAMPLES)
@options.one_case_argument
@click.option("--bad", metavar="K=V,K=V", help="A cell in which the failure shows; axes may be left out.")
@click.option("--good", metavar="K=V,K=V", help="A cell in which it does not.")
@click.option("--reported", is_flag=True, help="Take both cells from the environments of the case's report.")
@click.option(
    "--axis",
    "axes",
    multiple=True,
    metavar="NAME=LOW..HIGH",
    help="Search the boundary among these values, too: the releases between two, or A,B,C.",
)
@searching.policy_options
@click.option("--max-cells", type=click.IntRange(min=2), help="Run at most so many cells, not counting the boundary's.")
@options.trials_option
@options.confirm_option
@options.stand_in_options
@options.base_option
@options.refresh_option
@options.engine_option
@searching.output_options
def command(**given: Any) -> int:
    """Find which differences between a failing and a passing cell are the cause, with few runs.

    Both cells are run first. Mixes of the two then show which axis it is, or which axes together; along axes that have
    values in between, the boundary is found. Unresolved cells count as neither PASS nor FAIL.
    """
    return searching.serve("isolate", given, _asked, make)


def _asked(case: str, given: dict[str, Any]) -> tuple[Request, IsolationRequest]:
    arguments = _arguments(given)
    return options.unselected_request_of({**given, "cases": (case,)}), arguments


def _arguments(given: dict[str, Any]) -> IsolationRequest:
    """The arguments of the search; removes them from ``given``. Raises UsageError."""
    axes: dict[str, AskedValues] = {}
    for text in given.pop("axes"):
        name, equals, values = (part.strip() for part in text.partition("="))
        if not (name and equals and values):
            raise UsageError(f"--axis {text}: expected NAME=LOW..HIGH or NAME=A,B")
        low, dots, high = values.partition("..")
        if dots and not (low and high):
            raise UsageError(f"--axis {text}: name both ends of the range (NAME=LOW..HIGH)")
        axes[name] = AskedValues(ends=(low, high)) if dots else AskedValues(values=parse_values(values))
    if given["reported"] and (given["bad"] or given["good"]):
        raise UsageError("--reported takes both cells from the report: leave out --bad and --good")
    policy = searching.policy_of(given)
    names = ("bad", "good", "reported", "max_cells")
    return IsolationRequest(axes=axes, policy=policy, **{name: given.pop(name) for name in names})
