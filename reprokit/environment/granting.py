"""What of a case's limits this host grants. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reprokit.case.cellspec import Limits
from reprokit.core.errors import Unsupported

MIB = 1024**2


def _bytes(size: float) -> str:
    return f"{size / MIB:.6g} MiB" if size % (MIB * 1024) else f"{size / MIB / 1024:g} GiB"


@dataclass(frozen=True, kw_only=True)
class Caps:
    """The most that one trial gets on this host: bytes, cores and seconds; None = whatever a case asks for."""

    memory: int | None = None
    cpus: float | None = None
    timeout: float | None = None

    def grant(self, limits: Limits) -> Limits:
        """The limits in force: those of the case, and the caps where the case leaves a limit open.

        Raises Unsupported where the case asks for more. Less than it asks for would be another experiment.
        """
        self._refuse("memory", limits.memory, self.memory, _bytes)
        self._refuse("cpus", limits.cpus, self.cpus, lambda cores: f"{cores:g}")
        timeout = limits.timeout
        if self.timeout is not None and timeout == Limits().timeout:
            timeout = min(timeout, self.timeout)
        self._refuse("timeout", timeout, self.timeout, lambda seconds: f"{seconds:g} s")
        return replace(
            limits,
            memory=self.memory if limits.memory is None else limits.memory,
            cpus=self.cpus if limits.cpus is None else limits.cpus,
            timeout=timeout,
        )

    @staticmethod
    def _refuse(name: str, asked: float | None, cap: float | None, shown: Callable[[float], str]) -> None:
        if asked is not None and cap is not None and asked > cap:
            raise Unsupported(
                f"the case asks for resources.{name} {shown(asked)}; this host grants at most {shown(cap)} "
                f"(max_{name} in its configuration)"
            )
