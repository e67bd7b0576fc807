"""Asked against measured: does the built image hold what the cell's axes ask for? Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reprokit.case.cellspec import CellSpec
from reprokit.environment import compatibility, frameworks
from reprokit.environment.axes import AXES
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.measured import Measured


def compare(asked: Mapping[str, str], measured: Measured, catalog: Catalog = OURS) -> list[str]:
    """The differences in words, one per known axis; other axes are free and are skipped.

    So is what was not looked at: a recorded environment may be older than an axis.
    """
    known = [axis for axis in AXES if axis.name in asked and axis.name in measured]
    return [words for axis in known if (words := axis.differs(asked[axis.name], measured, catalog))]


def compare_builds(spec: CellSpec, measured: Measured, catalog: Catalog = OURS) -> list[str]:
    """The frameworks that are built for another CUDA version than the cell asks for, or for none; in words.

    A case that allows such a conflict, or expects its failure in this cell, has it so on purpose.
    """
    if compatibility.tolerated(spec):
        return []
    return [f"{text} ({compatibility.ALL_THE_SAME})" for text in frameworks.differences(spec, measured, catalog)]
