"""From a cell to the environment that it asks for, to the Dockerfile that makes it, and to what was measured in it.

Takes cells and the host's capabilities as plain data, gives environments, Dockerfiles with their contexts, and
differences between asked and measured. The same input gives the same bytes. Never talks to an engine.
"""

from __future__ import annotations

from reprokit.environment.comparing import compare, compare_builds, compared
from reprokit.environment.model import Base, Environment
from reprokit.environment.preflighting import preflight
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply

__all__ = ["Base", "Environment", "Supply", "compare", "compare_builds", "compared", "preflight", "resolve"]
