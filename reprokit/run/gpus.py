"""Which cell of a run gets which GPUs, and when; what happens when one of them is lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from reprokit.core.errors import Cancelled, EngineError, Unsupported
from reprokit.core.interrupts import GaveUp
from reprokit.core.ownership import process_start_time
from reprokit.engine.gpus import discovery
from reprokit.engine.gpus.leases import ANSWER_HOLDS, LeaseHolder, LeaseRequest, Leases, default_folder
from reprokit.engine.gpus.nvml import XidWatch
from reprokit.environment import preflighting
from reprokit.environment.host import Gpu, HostFacts
from reprokit.evidence.usage import GpuRecord
from reprokit.run.services import Services
from reprokit.run.task import Task
from reprokit.run.threads import Workers

POLL = 0.2
"""Seconds after which a GPU that was held by another process is tried again."""

TELL_AFTER = 2.0
TELL_AGAIN = 60.0
"""Seconds for which a cell waits for other processes before a note says so, and before another one does."""


class GpuAllocation:
    """The GPUs leased to one cell, held until its last container is gone."""

    def __init__(self, scheduler: GpuScheduler, task: Task, claim: LeaseRequest) -> None:
        self._scheduler = scheduler
        self._task = task
        self._claim = claim
        self._begin = 0

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """What it holds now, in the host's order."""
        return self._claim.gpus

    def begin(self) -> None:
        """A trial begins: errors of before are not of it."""
        self._begin = self._scheduler.xids.mark()

    def _xids(self) -> tuple[tuple[str, int], ...]:
        return self._scheduler.xids.since(self._begin, {gpu.parent or gpu.uuid for gpu in self.gpus})

    def why_lost(self, text: str | None, now: HostFacts) -> str:
        """Why a failure is the GPU's and not the case's, '' when it is not; ``text`` is what log or engine say.

        ``text`` is None for a failure that matches the signature: that is the finding, unless the GPU is gone.
        ``now``: what the driver says after it. A GPU that it no longer knows is not leased again in this run.
        """
        if now.driver is None:
            return f"the driver no longer answers for {self._names(self.gpus)} ({now.note})"
        if missing := discovery.missing_gpus(self.gpus, now):
            why = f"{self._names(missing)} was lost during the trial" + (f" ({now.note})" if now.note else "")
            self._scheduler.forget(missing, why)
            return why
        if text is None:
            return ""
        if words := discovery.lost_gpu_words(text):
            return f"the trial lost its GPU ({words!r})"
        failed = [(uuid, xid) for uuid, xid in self._xids() if xid in discovery.XIDS]
        return "; ".join(f"the driver reported Xid {xid} of {uuid} during the trial" for uuid, xid in failed)

    def records(self, now: HostFacts) -> tuple[GpuRecord, ...]:
        """What a trial had, as the driver says after it; of one that it no longer knows, what it said before."""
        found = {gpu.uuid: gpu for gpu in now.gpus}
        xids = self._xids()
        return tuple(
            GpuRecord.pick(
                gpu,
                driver=now.driver or "",
                others=len(gpu.processes),
                xids=tuple(xid for uuid, xid in xids if uuid == (gpu.parent or gpu.uuid)),
                **vars(gpu.state),
            )
            for gpu in (found.get(gpu.uuid, gpu) for gpu in self.gpus)
        )

    @staticmethod
    def _names(gpus: Sequence[Gpu]) -> str:
        return " and ".join(f"GPU {gpu.place} ({gpu.uuid})" for gpu in gpus)

    def renew(self) -> None:
        """Other GPUs in place of lost ones; the same where there are not enough others. Raises Cancelled."""
        others = self._scheduler.able(self._task)
        if all(gpu in others for gpu in self.gpus) or len(others) < self._task.spec.limits.gpus:
            return
        self.close()
        self._claim = self._scheduler.claim(self._task, others)
        while not self._claim.attempt():
            if self._scheduler.cancel.wait(POLL):
                raise Cancelled("stopped while it waited for a GPU")

    def close(self) -> None:
        """Give them back."""
        self._claim.close()


@dataclass(eq=False)
class _Waiting:
    task: Task
    work: Callable[[GpuAllocation], None]
    refuse: Callable[[Exception], None]
    able: tuple[Gpu, ...]
    claim: LeaseRequest
    done: Future[None] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    reported: float = 0.0


class GpuScheduler:
    """Hands GPUs to the cells of one run as they become free; a cell that waits for them takes no slot.

    A cell acquires a slot of the semaphore before its GPUs, and keeps both until its last trial has ended: no GPU is
    held while programs that need none are waited for. Of cells that wait, that with the most ``seconds`` is first, else
    that with the lowest number. A GPU on which a program computes that is not of reprokit is leased all the same
    (``gpu_others`` is share), once that has ended (wait), or not in this run (refuse).
    """

    def __init__(self, services: Services, seconds: Callable[[Task], float] = lambda task: 0.0) -> None:
        host = services.host
        self.cancel = services.cancel
        self._services = services
        self._seconds = seconds
        self._leases = Leases(host.gpu_leases or default_folder(), run=services.run_id, in_use=self._in_use)
        self._foreign: dict[str, tuple[int, float]] = {}
        self._refused: set[str] = set()
        self._gone: dict[str, str] = {}
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()
        self._open = True
        self._workers = Workers(services.semaphore.count + 1, "gpu")
        self._serving: Future[None] | None = None
        self.xids = XidWatch()

    def __enter__(self) -> GpuScheduler:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()
        given_up = isinstance(error, GaveUp)
        if self._serving is not None and not given_up:
            wait([self._serving])
        self._workers.shutdown(wait=not given_up)
        self.xids.close()

    def submit(
        self, task: Task, work: Callable[[GpuAllocation], None], refuse: Callable[[Exception], None]
    ) -> Future[None]:
        """Call ``work`` in a thread of its own once the task's GPUs are there, or ``refuse`` when they never can be.

        The future is done when that has returned. It can be cancelled before.
        """
        able = self.able(task)
        entry = _Waiting(task, work, refuse, able, self.claim(task, able))
        with self._changed:
            if self._serving is None:
                self.xids.start()
                self._serving = self._workers.submit(self._serve)
            self._waiting.append(entry)
            self._waiting.sort(key=lambda entry: (-self._seconds(entry.task), entry.task.number))
            self._changed.notify_all()
        return entry.done

    def able(self, task: Task) -> tuple[Gpu, ...]:
        """The GPUs of this host on which the task can run, without those that were lost."""
        host = self._services.host
        return tuple(
            gpu for gpu in preflighting.able(task.spec, host.facts, host.catalog) if gpu.uuid not in self._gone
        )

    def claim(self, task: Task, able: Sequence[Gpu]) -> LeaseRequest:
        """A claim on as many of ``able`` as the task asks for."""
        return self._leases.claim(able, task.spec.limits.gpus)

    def forget(self, gpus: Sequence[Gpu], why: str) -> None:
        """Lease these no more."""
        self._refused -= {gpu.uuid for gpu in gpus}
        new = [gpu.uuid for gpu in gpus if gpu.uuid not in self._gone]
        self._gone.update(dict.fromkeys(new, why))
        if new:
            self._services.listener.note(f"{why}; not leased again in this run")

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or not self._open)
                waiting = list(self._waiting)
            if not waiting:
                return
            if self.cancel.is_set():
                for entry in waiting:
                    entry.done.cancel()
            if not self._services.semaphore.acquire(urgent=True, timeout=POLL):
                continue
            if not self._serve_one(waiting):
                self._services.semaphore.release()
                self.cancel.wait(POLL)

    def _serve_one(self, waiting: Sequence[_Waiting]) -> bool:
        """Start the first cell that can have its GPUs now; one thread only calls this."""
        in_vain: set[tuple[tuple[Gpu, ...], int]] = set()
        for entry in waiting:
            if (able := self.able(entry.task)) != entry.able:  # one was lost meanwhile
                entry.claim.close()
                entry.able, entry.claim = able, self.claim(entry.task, able)
            wants = able, entry.task.spec.limits.gpus
            # Who wants the same as one that got nothing gets nothing either.
            if wants in in_vain and not entry.done.cancelled():
                continue
            try:
                if len(able) < wants[1]:
                    why = "; ".join(dict.fromkeys(self._gone.values()))
                    raise Unsupported(why) if self._refused.issuperset(self._gone) else EngineError(why)
                if not entry.done.cancelled() and not entry.claim.attempt():
                    in_vain.add(wants)
                    self._tell(entry)
                    continue
                if self.able(entry.task) != able:  # lost by its last holder since they were counted
                    continue
            except Exception as error:
                if self._leave(entry):
                    entry.claim.close()
                    entry.refuse(error)
                    entry.done.set_result(None)
                continue
            if self._leave(entry):
                self._workers.submit(self._run, entry)
                return True
        return False

    def _leave(self, entry: _Waiting) -> bool:
        """Take it off the list; whether it goes on, rather than being cancelled."""
        with self._changed:
            self._waiting.remove(entry)
        if entry.done.set_running_or_notify_cancel():
            return True
        entry.claim.close()
        return False

    def _run(self, entry: _Waiting) -> None:
        allocation = GpuAllocation(self, entry.task, entry.claim)
        try:
            entry.work(allocation)
        finally:
            allocation.close()
            self._services.semaphore.release()
            entry.done.set_result(None)

    def _tell(self, entry: _Waiting) -> None:
        now = time.monotonic()
        who = entry.claim.waits_for()
        self._services.listener.state([entry.task.number], "waiting", f"for a GPU: {who}")
        holders = entry.claim.holders()
        if (
            who
            and (not holders or any(holder.pid != os.getpid() for holder in holders))
            and now - entry.since > TELL_AFTER
            and (not entry.reported or now - entry.reported > TELL_AGAIN)
        ):
            entry.reported = now
            self._services.listener.note(f"{entry.task.case.id} waits for a GPU: {who}")

    def _in_use(self, gpu: Gpu, died: LeaseHolder | None) -> str:
        """Why a GPU without a lease is not free: a container that outlived its process, or what that one started."""
        if died is not None and died.ended_with_the_host:
            died = None
        containers = self._services.engine.gpus_in_use()
        if died is not None or gpu.uuid in containers:
            for text in self._services.engine.sweep():
                self._services.listener.note(f"left behind by a run that was killed, removed: {text}")
            containers = self._services.engine.gpus_in_use()
        if gpu.uuid in containers:
            return f"{containers[gpu.uuid]} still uses it"
        if died is None and self._services.host.gpu_others == "share":
            return ""
        # Its container may be in an engine that we cannot ask. A program that computed there before is not of it.
        now = next((found for found in discovery.facts().gpus if found.uuid == gpu.uuid), None)
        pids = now.processes if now else ()
        if died and (left := [pid for pid in pids if (process_start_time(pid) or 0.0) > died.since]):
            return f"process {left[0]} still computes on it, and its last lease holder was killed ({died})"
        return self._used_by_others(gpu, pids) if self._services.host.gpu_others != "share" else ""

    def _used_by_others(self, gpu: Gpu, pids: Sequence[int]) -> str:
        """Why a GPU on which these processes compute is not leased now. One that stays is refused, if so configured."""
        pids = [pid for pid in pids if pid != os.getpid()]
        if not pids:
            self._foreign.pop(gpu.uuid, None)
            return ""
        others = self._services.host.gpu_others
        words = f"process {pids[0]} computes on it, which no run of reprokit started (gpu_others = {others})"
        pid, since = self._foreign.setdefault(gpu.uuid, (pids[0], time.monotonic()))
        # A process that has just ended is listed for a moment.
        if others == "refuse" and pid in pids and time.monotonic() - since >= ANSWER_HOLDS:
            self._refused.add(gpu.uuid)
            self._gone.setdefault(gpu.uuid, f"GPU {gpu.place} ({gpu.uuid}): {words}")
        elif pid not in pids:
            self._foreign[gpu.uuid] = (pids[0], time.monotonic())
        return words
