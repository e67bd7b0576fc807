"""The kinds of data sets: one module for each, with one :class:`~reprokit.intake.bug.DatasetKind`.

To add one, add a module and its test: `reprokit new --data-set`, its help and its messages go by this list. A kind
never fetches anything: git and pip get what a case names when it is run.
"""

from __future__ import annotations

import sys

from reprokit.core.discovery import registered
from reprokit.intake.bug import DatasetKind


def kinds() -> dict[str, DatasetKind]:
    """All kinds of data sets, by the name that is typed."""
    return {kind.name: kind for kind in registered(sys.modules[__name__], DatasetKind).values()}
