"""What a cell asks of the engine's limits, before anything is built for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprokit.case.cellspec import Limits
from reprokit.core.errors import Unsupported

if TYPE_CHECKING:
    from reprokit.engine.protocol import EngineInfo


def check_limits(limits: Limits, engine: EngineInfo) -> None:
    """Raise Unsupported for GPUs that the engine cannot give, and for a limit that it would accept and not hold.

    A trial without them proves nothing.
    """
    if limits.gpus and not engine.capabilities.gpus:
        raise Unsupported(f"resources.gpus: {engine} cannot give a trial GPUs; choose another engine by --engine")
    asked = {"memory": limits.memory, "cpus": limits.cpus, "pids": limits.pids}
    lost = [f"resources.{name}" for name, value in asked.items() if value is not None and name in engine.unenforced]
    if lost:
        raise Unsupported(
            f"{engine} cannot hold {' and '.join(lost)} here (a rootless engine needs cgroups v2 "
            "with delegated controllers: https://rootlesscontaine.rs/getting-started/common/cgroup2/); "
            "use an engine that root runs"
        )
