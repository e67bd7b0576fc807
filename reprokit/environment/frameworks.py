"""Which CUDA and which Pythons the frameworks that a case pins are built for. Pure."""

from __future__ import annotations

from reprokit.case.cellspec import CellSpec
from reprokit.environment.model import Environment


def conflicts(spec: CellSpec, environment: Environment) -> list[str]:
    """What the case's requirements are not built for, each in words with the nearest that is."""
    return []
