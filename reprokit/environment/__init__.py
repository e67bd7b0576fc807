"""From a cell to an environment, what the host can serve of it, and what an image measures from inside."""

from __future__ import annotations

from reprokit.environment.comparing import compare, compare_builds
from reprokit.environment.model import Base, Environment
from reprokit.environment.preflighting import preflight
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply

__all__ = ["Base", "Environment", "Supply", "compare", "compare_builds", "preflight", "resolve"]
