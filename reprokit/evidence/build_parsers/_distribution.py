"""What the parsers of the distributions' package managers say alike."""

from __future__ import annotations

from collections.abc import Sequence

from reprokit.core.text import pluralize
from reprokit.evidence.build_parser import BuildCause


def unknown_packages(names: Sequence[str]) -> BuildCause:
    """The distribution has none of these packages."""
    count = pluralize(len(names), "package")
    what = f"package {names[0]}" if len(names) == 1 else f"{count} of these names: {', '.join(names)}"
    return BuildCause(sentence=f"the distribution has no {what}")
