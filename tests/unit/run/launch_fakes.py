"""A launcher without processes: nodes are threads of this process with fake engines, and fail where a test says so."""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reprokit.cli.display.screen import Screen
from reprokit.core.errors import EngineError
from reprokit.core.files import file_digest
from reprokit.run.launch.job import ARCHIVE, CELLS, DIGEST, Job
from reprokit.run.launch.launcher import JobState, Phase
from reprokit.run.request import Request, read_chosen
from reprokit.run.run_session import Session
from tests.unit.fakes import FakeEngine


@dataclass(eq=False)
class FakeLauncher:
    """Implements :class:`reprokit.run.launch.launcher.Launcher`. ``fails``: what becomes of jobs, by number:

    ``lost``: it is, and nothing comes of it; ``late``: its archive comes once all others are there; ``cut``: half of
    the archive; ``half``: it was stopped after so many cells as ``decides`` says; ``refused``: it is not started;
    ``silent``: the run did nothing; ``hangs``: it never ends by itself.
    """

    engine: Callable[[Job, str], FakeEngine]
    fails: Mapping[int, str] = field(default_factory=dict)
    slots: int | None = 2
    nodes: tuple[str, ...] = ()
    decides: int = 1
    name: str = "fake"
    jobs: dict[str, Job] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    closed: bool = False
    on_start: Callable[[Job], None] = lambda job: None
    _done: set[str] = field(default_factory=set)
    _node: dict[str, str] = field(default_factory=dict)

    def start(self, job: Job) -> str:
        ident = str(len(self.jobs) + 1)
        self.jobs[ident] = job
        self.on_start(job)
        free = [node for node in self.nodes if node not in job.avoid] or list(self.nodes)
        self._node[ident] = free[len(self.jobs) % len(free)] if free else ""
        if self._fault(ident) == "refused":
            raise EngineError("the queue is closed")
        if self._fault(ident) not in ("lost", "late", "hangs"):
            threading.Thread(target=self._serve, args=[ident], daemon=True).start()
        return ident

    def _fault(self, ident: str) -> str:
        return self.fails.get(int(ident), "")

    def _serve(self, ident: str) -> None:
        job, fault = self.jobs[ident], self._fault(ident)
        try:
            if fault != "silent":
                serve(job, self.engine(job, self._node[ident]), self.decides if fault == "half" else None)
            if fault == "cut":
                archive = job.folder / ARCHIVE
                archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
        finally:
            self._done.add(ident)

    def states(self, idents: Sequence[str]) -> Mapping[str, JobState]:
        return {ident: self._state(ident, idents) for ident in idents}

    def _state(self, ident: str, idents: Sequence[str]) -> JobState:
        fault = self._fault(ident)
        if fault == "late" and ident in self.cancelled and len(idents) > 1:
            self._serve(ident)
        if fault in ("lost", "late") and ident not in self._done:
            return JobState(phase=Phase.LOST, words="NODE_FAIL", node=self._node[ident])
        return JobState(phase=Phase.ENDED if ident in self._done else Phase.RUNNING, node=self._node[ident])

    def cancel(self, ident: str) -> None:
        self.cancelled.append(ident)
        if self._fault(ident) == "hangs":
            self._done.add(ident)

    def bring(self, ident: str, job: Job) -> None:
        """It shares the folder."""

    def close(self) -> None:
        self.closed = True


def serve(job: Job, engine: FakeEngine, most: int | None = None) -> None:
    """What the script of a job does. ``most``: cells after which the run is stopped."""
    chosen = [
        replace(one, path=str(job.folder / one.path), cells=one.cells[:most])
        for one in read_chosen((job.folder / CELLS).read_text(), "cells")
    ]
    store = job.folder / "store"
    session = Session(store, display=Screen(io.StringIO()), engine=lambda: engine)
    cases = tuple(one.path for one in chosen)
    session.start(Request(cases=cases, chosen=tuple(chosen), base_images="registry", yes=True, ask=False, jobs=2))
    with tarfile.open(job.folder / ARCHIVE, "w:gz") as archive:
        archive.add(store / "runs", "runs")
    (job.folder / DIGEST).write_text(file_digest(job.folder / ARCHIVE))
