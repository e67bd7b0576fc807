"""What of a case's limits this host grants. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reprokit.case.cellspec import Limits
from reprokit.case.limits import LIMITS, PIDS, LimitRow, shown_bytes
from reprokit.case.trust import ALLOWANCES, Trust, limited_by
from reprokit.core.errors import Unsupported

RESERVE = 0.1
"""Share of a machine's memory that no trial gets: the engine, and we, go on while a trial runs out of it."""


def _lower(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


@dataclass(frozen=True, kw_only=True)
class Caps:
    """The most that one trial gets on this host: bytes, cores and seconds; None = whatever a case asks for.

    ``build_time``: the most that an image takes; ``run_time``: all trials of a case at their limits. ``memory_share``:
    of the memory of the engine's machine, None = all but ``RESERVE``, and more where a case asks for it.
    ``network``: whether a trial may have one; ``host_ipc``: the host's shared memory. ``trust``: in the
    cases that they are for.
    """

    memory: int | None = None
    cpus: float | None = None
    timeout: float | None = None
    pids: int | None = None
    disk: int | None = None
    build_time: float | None = None
    run_time: float | None = None
    memory_share: float | None = None
    network: bool = True
    host_ipc: bool = True
    trust: Trust = Trust.OWN

    def within(self, trust: Trust) -> Caps:
        """These, for cases that are trusted so far: of each two limits the lower."""
        allowance = ALLOWANCES[trust]
        return replace(
            self,
            trust=trust,
            timeout=_lower(self.timeout, allowance.timeout),
            pids=_whole(_lower(self.pids, allowance.pids)),
            disk=_whole(_lower(self.disk, allowance.disk)),
            build_time=_lower(self.build_time, allowance.build_time),
            run_time=_lower(self.run_time, allowance.run_time),
            memory_share=_lower(self.memory_share, allowance.memory_share),
            network=self.network and allowance.trial_network,
            host_ipc=self.host_ipc and allowance.host_ipc,
        )

    def grant(self, limits: Limits) -> Limits:
        """The limits in force: those of the case, and the caps where the case leaves a limit open.

        Raises Unsupported where the case asks for more. Less than it asks for would be another experiment.
        """
        granted = self.fill(limits)
        for row in LIMITS:
            most = getattr(self, row.cap) if row.cap else None
            if most is False and row.is_asked(granted):
                raise Unsupported(
                    f"the case asks for resources.{row.key}, which an untrusted case does not get: "
                    "read it, and give --reviewed"
                )
            if not isinstance(most, bool):
                self._refuse(row, getattr(granted, row.key), most)
        return granted

    def fill(self, limits: Limits) -> Limits:
        """The limits, with the caps where the case leaves a limit open. Refuses nothing, as for a build alone."""
        timeout = limits.timeout
        if self.timeout is not None and timeout == Limits().timeout:
            timeout = min(timeout, self.timeout)
        pids = limits.pids
        if pids is None and self.pids is not None and self.pids < PIDS:  # what a trial has otherwise
            pids = self.pids
        return replace(
            limits,
            memory=self.memory if limits.memory is None else limits.memory,
            cpus=self.cpus if limits.cpus is None else limits.cpus,
            pids=pids,
            timeout=timeout,
            disk=self.disk,
            build_time=self.build_time,
        )

    def grant_memory(self, limits: Limits, machine: int) -> Limits:
        """The limits with a memory limit, given the bytes of memory of the engine's machine.

        Raises Unsupported where the case asks for more than its share.
        """
        share = 1 - RESERVE if self.memory_share is None else min(self.memory_share, 1 - RESERVE)
        most = int(machine * share)
        if self.memory_share is not None:
            for name, asked in (("memory", limits.memory), ("shm_size", limits.shm_size)):
                if asked is not None and asked > most:
                    raise Unsupported(
                        f"the case asks for resources.{name} {shown_bytes(asked)}; an untrusted case gets "
                        f"at most {shown_bytes(most)} here: read it, and give --reviewed"
                    )
        return limits if limits.memory is not None else replace(limits, memory=most)

    def _refuse(self, row: LimitRow, asked: float | None, most: float | None) -> None:
        if asked is not None and most is not None and asked > most:
            raise Unsupported(
                f"the case asks for resources.{row.key} {row.shown(asked)}; this host grants at most {row.shown(most)} "
                f"({limited_by(f'max_{row.cap}', self.trust)})"
            )
