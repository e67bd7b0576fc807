"""The environments that a bug report describes: blocks that programs print, forms that people fill in, and lists.

:func:`find` gives every block of a text, :func:`together` groups those that describe the same environment, and
:func:`merge` makes one of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from reprokit.intake.environments import collected, forms, lines, packages, programs
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank, ReportedValue, merge, same_version, together

__all__ = ["EnvironmentBlock", "Rank", "ReportedValue", "find", "merge", "same_version", "together"]

FINDERS: Sequence[Callable[[Sequence[ReportLine]], Iterable[EnvironmentBlock]]] = (
    collected.find,
    programs.find,
    packages.find,
    forms.find,
)
"""From the most to the least specific: a line that one has read is not read by the next ones."""
MOST = 64
"""Most blocks of one sort: what comes behind them is not read."""


def find(text: str) -> list[EnvironmentBlock]:
    """Every environment block in a text (a whole report, or part of one), in the order of the text."""
    rest = lines.split(text)
    found: list[EnvironmentBlock] = []
    for finder in FINDERS:
        new = list(islice(finder(rest), MOST))
        rest = list(lines.without(rest, [(one.first, one.last) for one in new]))
        found += new
    return sorted(found, key=lambda one: (one.first, one.last))
