"""What this host makes environments of, and whether it and its engine serve a cell, before anything is built for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.cellspec import Limits
from reprokit.case.limits import LIMITS
from reprokit.case.trust import limited_by
from reprokit.core.errors import Unsupported, UsageError
from reprokit.core.text import seconds
from reprokit.engine import registry, site
from reprokit.engine.protocol import ELSEWHERE
from reprokit.environment.catalog import Catalog
from reprokit.environment.granting import Caps
from reprokit.environment.host import HostFacts
from reprokit.environment.preflighting import preflight
from reprokit.environment.supply import Supply

if TYPE_CHECKING:
    from reprokit.engine.protocol import EngineInfo
    from reprokit.evidence.records import CellRecord
    from reprokit.run.request import Request
    from reprokit.run.task import Task


def supply_of(request: Request) -> Supply:
    """The host's supply for a request. Asks the registry where the request leaves it open. Raises UsageError."""
    if registry.capabilities(request.engine).recipe == "script":
        measure = registry.entry(request.engine).host
        assert measure is not None, f"the engine {request.engine} makes environments by a script, and measures no host"
        return Supply(base_source="bootstrap", host=measure(), catalog=site.catalog())
    from reprokit.engine.bases import detect_source

    settings = site.settings()
    return Supply(
        base_source=detect_source(request.base_images),
        python=settings.python_providers,
        gcc=settings.gcc_providers,
        catalog=site.catalog(),
    )


@dataclass(frozen=True, kw_only=True)
class HostPolicy:
    """What this host has, and what its configuration lets a run use of it."""

    facts: HostFacts
    catalog: Catalog = field(default_factory=site.catalog)
    caps: Caps = field(default_factory=Caps)
    gpu_leases: Path | None = None
    """Where the leases lie; None for the host's usual place."""
    gpu_others: str = "share"
    """What becomes of a GPU on which a program computes that is not of reprokit, see :class:`.GpuScheduler`."""
    engine_wait: float | None = None
    """Seconds for which an engine that went away is waited for; None for the default."""

    @classmethod
    def configured(cls, facts: HostFacts) -> HostPolicy:
        """As the configuration of this host says."""
        own = site.settings()
        return cls(
            facts=facts,
            caps=site_caps(),
            gpu_leases=own.gpu_leases,
            gpu_others=own.gpu_others,
            engine_wait=own.engine_wait,
        )

    def admit(self, task: Task) -> Task:
        """The task as this host serves it. Raises Unsupported when it cannot."""
        notes = preflight(task.spec, self.facts, self.catalog)
        return replace(self.cap(task), notes=notes)

    def serves(self, task: Task) -> bool:
        """Whether this host has what the task needs, so that it is an engine's turn."""
        try:
            preflight(task.spec, self.facts, self.catalog)
        except Unsupported:
            return False
        return not task.refused

    def cap(self, task: Task) -> Task:
        """The task within the caps for its case. Raises Unsupported where it asks for more."""
        return with_limits(task, self._caps_for(task).grant(task.spec.limits))

    def fill(self, task: Task) -> Task:
        """The task with the caps for its case where it leaves limits open: building needs no more."""
        return with_limits(task, self._caps_for(task).fill(task.spec.limits))

    def admit_to(self, engine: EngineInfo, task: Task) -> Task:
        """The task as the engine serves it. Raises Unsupported when it cannot."""
        check_reached(task, engine)
        return with_limits(task, grant_by_engine(task.spec.limits, engine, self._caps_for(task)))

    def _caps_for(self, task: Task) -> Caps:
        return self.caps.within(task.file.trust)


def site_caps() -> Caps:
    """The most that trials and builds get on this host, by its configuration."""
    own = site.settings()
    return Caps(
        memory=own.max_memory,
        cpus=own.max_cpus,
        timeout=own.max_timeout,
        pids=own.max_pids,
        disk=own.max_disk,
        build_time=own.max_build_time,
        run_time=own.max_run_time,
    )


def with_limits(task: Task, limits: Limits) -> Task:
    """The task with other limits."""
    return replace(task, spec=replace(task.spec, limits=limits))


def grant_by_engine(limits: Limits, engine: EngineInfo, caps: Caps) -> Limits:
    """The limits with which the engine runs a trial: one of memory, too, where the case names none.

    Raises Unsupported as :func:`check_limits` does, and where the case asks for more memory than ``caps`` grant.
    """
    check_limits(limits, engine)
    if not engine.memory or "memory" in engine.unenforced:
        return limits
    return caps.grant_memory(limits, engine.memory)


def check_reached(task: Task, engine: EngineInfo) -> None:
    """Raise Unsupported for GPUs and data sets of this host, where the engine is on another machine."""
    asked = [f"the data set {name} ({folder})" for name, folder in sorted(task.datasets.items())]
    asked += ["resources.gpus"] if task.spec.limits.gpus else []
    if asked and engine.remote:
        raise Unsupported(f"{', '.join(asked)}: {ELSEWHERE.format(engine.remote)}")


def check_run_time(tasks: Sequence[Task], caps: Caps) -> None:
    """Raise UsageError for a case whose trials take longer than it gets, if each takes all of its time."""
    took: dict[str, float] = {}
    for task in tasks:
        took[task.case.id] = took.get(task.case.id, 0.0) + task.trials.max * task.spec.limits.timeout
        most = caps.within(task.file.trust).run_time
        if most is not None and took[task.case.id] > most:
            raise UsageError(
                f"{task.file.path}: its trials may take more than {seconds(most)} together, the most that a case gets "
                f"here ({limited_by('max_run_time', task.file.trust)}); "
                "choose fewer cells with --only, or fewer trials with --trials"
            )


def check_limits(limits: Limits, engine: EngineInfo) -> None:
    """Raise Unsupported for GPUs that the engine cannot give, and for a limit that it would accept and not hold.

    A trial without them proves nothing. Where a recipe is a script, :func:`resolve_on` judges cores and processes: it
    knows what the case itself asks for, and such an engine runs the user's own cases alone.
    """
    if limits.gpus and not engine.capabilities.gpus:
        raise Unsupported(f"resources.gpus: {engine} cannot give a trial GPUs; choose another engine by --engine")
    judged = [row for row in LIMITS if not row.held.venv or engine.capabilities.recipe != "script"]
    asked = [row.key for row in judged if row.held.docker and row.is_asked(limits)]
    lost = [f"resources.{key}" for key in asked if key in engine.unenforced]
    if lost:
        raise Unsupported(
            f"{engine} cannot hold {' and '.join(lost)} here (a rootless engine needs cgroups v2 "
            "with delegated controllers: https://rootlesscontaine.rs/getting-started/common/cgroup2/); "
            "use an engine that root runs"
        )


def check_engine(done: Iterable[CellRecord], now: str) -> None:
    """Raise UsageError when a run whose ``done`` cells another kind of engine served would go on with ``now``."""
    before = {kind for record in done if (kind := record.details.engine_kind)}
    if before - {now}:
        begun = ", ".join(sorted(before))
        raise UsageError(
            f"this run was begun with {begun} and cannot go on with {now}: have {begun} answer again, or leave out "
            "--resume to run again"
        )
