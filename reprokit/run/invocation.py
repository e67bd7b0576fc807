"""What every command that runs cells has: a store with its recorder, a display, a runner, and the host's facts."""

from __future__ import annotations

import functools
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.files import CaseFile
from reprokit.case.trust import ALLOWANCES, Trust, recorded
from reprokit.core.ownership import hold_lock, ownership
from reprokit.engine import site
from reprokit.engine.gpus import discovery
from reprokit.engine.gpus.discovery import leasable
from reprokit.environment.cases import load_text
from reprokit.evidence.origin import HostRecord, OwnerRecord, WorkflowRecord
from reprokit.evidence.records import RunRecord
from reprokit.run.admitting import HostPolicy, supply_of
from reprokit.run.approving import approve
from reprokit.run.confirming import Planner
from reprokit.run.keeping import Holder, Keeper, RemovalRequest, holders
from reprokit.run.listener import Display, Listener
from reprokit.run.loading import load_all
from reprokit.run.request import Request
from reprokit.run.runner import Runner, RunOptions
from reprokit.run.services import Services
from reprokit.run.sources import SourceTrees
from reprokit.run.task import Task
from reprokit.run.threads import check_open_files
from reprokit.store.folder import SeenBases
from reprokit.store.places import run_folder
from reprokit.store.recorder import Recorder
from reprokit.store.remote import remote_of

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine, EngineInfo
    from reprokit.engine.sharing import ImageShare
    from reprokit.environment.supply import Supply
    from reprokit.run.reusing import Reuse
    from reprokit.store.database import Store


def now() -> str:
    """The time as RFC 3339, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id(store: Path) -> str:
    """The id of a run of the store in a folder: the time, and something that tells apart those of the same second.

    On a server, runs of all hosts begin in that second.
    """
    return f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(6 if remote_of(store) else 2)}"


class Invocation:
    """One command over the store in ``folder``. ``record``: the run that it made, once there is one.

    ``confirming``: what says which decided cells are repeated, by ``confirm`` of a request; None for none.
    """

    def __init__(
        self,
        store_folder: Path,
        *,
        display: Display,
        engine: Callable[[], Engine] | None = None,
        confirming: Callable[[str], Planner | None] = lambda confirm: None,
    ) -> None:
        self.folder = store_folder
        self._display = display
        self._engine = engine
        self._confirming = confirming
        self._opened: Engine | None = None
        self._supplied: Supply | None = None
        self._recorder = Recorder(store_folder)
        self._facts = discovery.facts()
        self._began: float | None = None
        self.record: RunRecord | None = None

    def _open_engine(self, request: Request) -> Engine:
        if self._opened is None:
            check_open_files(request.jobs)
            self._opened = self._engine() if self._engine else _engine(request.engine)
        return self._opened

    def _check_engine(self, request: Request, tasks: Iterable[Task]) -> None:
        """Raise EngineError where cells that this host can serve would wait for an engine, and none answers.

        Nothing is recorded then: it says nothing of a case, and would be the same sentence for every cell.
        """
        host = self._host_policy
        if any(host.serves(task) for task in tasks):
            self._open_engine(request).info()

    @property
    def _host_policy(self) -> HostPolicy:
        return HostPolicy.configured(leasable(self._facts, site.settings().gpus, os.environ))

    def _supply(self, request: Request) -> Supply:
        if self._supplied is None:
            self._supplied = supply_of(request)
        return self._supplied

    def _runner(
        self,
        run_id: str,
        request: Request,
        recorder: Recorder | None,
        listener: Listener,
        tasks: Sequence[Task] = (),
        *,
        compares: bool = True,
    ) -> Runner:
        services = Services(
            run_id=run_id,
            folder=self.folder,
            host=self._host_policy,
            listener=listener,
            cancel=recorder.hurry if recorder is not None else threading.Event(),
            open_engine=lambda: self._open_engine(request),
            supply=lambda: self._supply(request),
            trees=SourceTrees(request.sources_for, listener.note),
            keeper=self._keeper(request, listener),
            share=self._shares(request, listener),
            since=(self._began or time.time()) if request.refresh_bases else 0.0,
            jobs=request.jobs,
        )
        options = RunOptions(
            recorder=recorder,
            confirming=self._confirming(request.confirm),
            reuse=self._reuse(run_id, request, tasks),
            compares=compares,
        )
        return Runner(services, options)

    def _reuse(self, run_id: str, request: Request, tasks: Sequence[Task]) -> Reuse | None:
        """What the run takes over from earlier ones, where it is asked to."""
        if request.reuse is None or not tasks:
            return None
        from reprokit.run.reusing import Reuse

        store = self._open_store()
        try:
            return Reuse(
                store,
                tasks,
                seconds=request.reuse,
                facts=self._host_policy.facts,
                backtrace=request.backtrace,
                run_id=run_id,
            )
        finally:
            store.close()

    def _shares(self, request: Request, listener: Listener) -> Callable[[Trust], ImageShare | None]:
        own = site.settings()
        if not own.registry_images:
            return lambda trust: None
        from reprokit.engine.sharing import RegistryShare

        share = RegistryShare(
            engine=lambda: self._open_engine(request),
            prefix=own.registry_images,
            digests=SeenBases(self.folder),
            note=listener.note,
            pushes=own.registry_push != "never",
        )
        return lambda trust: share if ALLOWANCES[trust].shares_images or own.registry_push == "all" else None

    def _keeper(self, request: Request, listener: Listener) -> Keeper:
        budget = site.settings().budget

        @functools.cache
        def everything() -> list[Holder]:
            return holders(self._open_engine(request), self.folder)

        return Keeper(RemovalRequest(budget=budget, logs=False), everything, listener.note)

    def _open_store(self) -> Store:
        from reprokit.store.database import Store

        return Store(self.folder)

    def _host(self, engine: EngineInfo | None) -> HostRecord:
        return HostRecord(
            engine=str(engine) if engine else None,
            engine_kind=engine.kind if engine else None,
            kernel=self._facts.kernel,
            driver=self._facts.driver,
            gpus=tuple(gpu.name for gpu in self._facts.gpus),
        )

    def _own(self, run_id: str) -> OwnerRecord:
        """Who writes that run: this process, whose lock in the run's folder tells others that it lives."""
        hold_lock(run_folder(self.folder, run_id))
        return OwnerRecord(labels=ownership())

    def _say(self, text: str) -> None:
        self._display.say(text)


def load_again(
    store: Store, record: RunRecord, request: Request, known: Mapping[str, tuple[str, Trust]]
) -> list[CaseFile]:
    """The cases of a run that is gone on with, in its order: files as they are now, other texts as they were read then.

    ``known``: its cases' paths and how far each was trusted, by digest; they stay so. What came from standard input or
    an address is not read again: it may be gone, and it is that text, and no other, of which was said that it may run:
    where that was on another machine, it is asked again. Raises as ``load_all`` does, and UsageError for what may not
    run.
    """
    files = load_all(case for case in request.cases if not _read_once(case))
    texts = [
        load_text("<stdin>" if path == "-" else path, store.case_text(digest))
        for digest, (path, _) in known.items()
        if _read_once(path)
    ]
    if record.owner.is_here:
        trust = {digest: recorded(level) for digest, (_, level) in known.items()}
        files = [replace(file, trust=trust.get(file.digest, file.trust)) for file in [*files, *texts]]
    else:  # what such a record says of a case is not believed
        files += approve([replace(file, trust=Trust.STRANGER) for file in texts], request)
    places = {digest: place for place, digest in enumerate(known)}
    return sorted(files, key=lambda file: places.get(file.digest, len(places)))


def _read_once(path: str) -> bool:
    return path in ("-", "<stdin>") or "://" in path


def _engine(name: str) -> Engine:
    from reprokit.engine import registry

    return registry.make(name)


def workflow(environment: Mapping[str, str]) -> WorkflowRecord | None:
    """Which run of GitHub Actions this is a job of, None for none; ``store merge`` makes one run of its jobs."""
    if environment.get("GITHUB_ACTIONS") != "true" or not environment.get("GITHUB_RUN_ID"):
        return None
    return WorkflowRecord(
        run=environment["GITHUB_RUN_ID"],
        attempt=environment.get("GITHUB_RUN_ATTEMPT", ""),
        repository=environment.get("GITHUB_REPOSITORY", ""),
    )
