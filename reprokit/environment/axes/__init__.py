"""The axes: one module each, found by listing this folder. A new axis is one new file here, and its test.

Each module has ``AXIS``, an :class:`~reprokit.environment.axis.Axis`. Nothing else in the code base lists axes.
"""

from __future__ import annotations

import sys

from reprokit.case.axes import KnownAxes
from reprokit.core.discovery import registered
from reprokit.environment.axis import Axis


def _resolving(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes, each behind those of ``after``, else in their order."""
    ordered: dict[str, Axis] = {}
    while waiting := [axis for axis in axes if axis.name not in ordered]:
        able = [axis for axis in waiting if set(axis.after) <= set(ordered)]
        if not able:
            raise TypeError(f"axes wait for each other, or for one that does not exist: {[a.name for a in waiting]}")
        ordered[able[0].name] = able[0]
    return tuple(ordered.values())


AXES: tuple[Axis, ...] = tuple(sorted(registered(sys.modules[__name__], Axis).values(), key=lambda axis: axis.place))
"""Every axis, in the order in which help, reports and documentation name them."""

BY_NAME = {axis.name: axis for axis in AXES}

AXIS_NAMES = tuple(BY_NAME)
"""The names of the known axes, which are the options of the command line, too."""

RESOLVING = _resolving(AXES)
"""Every axis, in the order in which they are resolved: each behind those that decide on it."""

KNOWN = KnownAxes(axis.syntax for axis in AXES)
"""What the case format must know of the axes."""

READERS = {axis.name: axis.wording.read for axis in AXES}
"""Axis -> what reads its version from a text of a report."""

REPORTED = {axis.name: axis.wording.keys for axis in AXES if not axis.wording.incidental}
"""Axis -> what reports call it, of those that a draft gets from a report."""
