"""The environments that a bug report describes: blocks that programs print or people type, lists and Dockerfiles.

:func:`find` gives every block of a text, :func:`together` groups those that describe the same environment, and
:func:`merge` makes one of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reprokit.intake.environments import blocks, columns, lines, packages, recipes, tools
from reprokit.intake.environments.lines import Line
from reprokit.intake.environments.model import Claim, Found, Rank, merge, together

__all__ = ["Claim", "Found", "Rank", "find", "merge", "together"]

FINDERS: Sequence[Callable[[Sequence[Line]], Iterable[Found]]] = (
    recipes.find,
    tools.find,
    packages.find,
    columns.find,
    blocks.find,
)
"""From the most to the least specific: a line that one has read is not read by the next ones."""


def find(text: str) -> list[Found]:
    """Every environment block in a text (a whole report, or part of one), in the order of the text."""
    rest = lines.split(text)
    found: list[Found] = []
    for finder in FINDERS:
        new = list(finder(rest))
        rest = list(lines.without(rest, [(one.first, one.last) for one in new]))
        found += new
    return sorted(found, key=lambda one: (one.first, one.last))
