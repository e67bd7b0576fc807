"""What the steps of a run work with, made once for it: engine, store, host, listener, cancelling, timings."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.engine import site
from reprokit.run.admitting import HostPolicy
from reprokit.run.debuggers import DebugFiles, DebugImages, Symboliser, servers
from reprokit.run.keeping import Keeper
from reprokit.run.listener import Listener
from reprokit.run.recovering import ENGINE_WAIT, EngineRecovery
from reprokit.run.sources import SourceTrees
from reprokit.run.threads import PrioritySemaphore
from reprokit.run.timing import Timer
from reprokit.store.folder import Measurements, SeenBases

if TYPE_CHECKING:
    from reprokit.case.trust import Trust
    from reprokit.engine.protocol import Engine, EngineInfo
    from reprokit.engine.sharing import ImageShare
    from reprokit.environment.supply import Supply


@dataclass(kw_only=True)
class Services:
    """``engine`` and ``recovery`` are there once :meth:`open` was called: a run of which no cell needs one has none."""

    run_id: str
    folder: Path
    """The store's."""
    host: HostPolicy
    listener: Listener
    cancel: threading.Event
    """Set when the run is to stop."""
    open_engine: Callable[[], Engine]
    supply: Callable[[], Supply]
    """What cells can be made of here. Raises UsageError."""
    trees: SourceTrees
    keeper: Keeper = field(default_factory=Keeper)
    """Keeps what is on the disk within a budget, and what this run uses from being removed."""
    share: Callable[[Trust], ImageShare | None] = lambda trust: None
    """Through what images of cases that are trusted so far are shared with other machines."""
    since: float = 0.0
    """Since when a registry's images count as they are now; 0: as the store first saw them."""
    jobs: int = 1
    engine: Engine = field(init=False)
    recovery: EngineRecovery = field(init=False)
    timer: Timer = field(default_factory=Timer)
    debuggers: DebugImages = field(default_factory=DebugImages)

    def __post_init__(self) -> None:
        self.measurements = Measurements(self.folder)
        self.seen = SeenBases(self.folder)
        self.semaphore = PrioritySemaphore(max(1, self.jobs))
        self.symboliser = Symboliser(DebugFiles(servers(site.settings().debuginfod, os.environ)))

    def open(self) -> EngineInfo:
        """What the engine says of itself, once it answers. Raises UsageError, EngineError."""
        if not hasattr(self, "engine"):
            self.engine = self.open_engine()
            patience = ENGINE_WAIT if self.host.engine_wait is None else self.host.engine_wait
            self.recovery = EngineRecovery(
                engine=self.engine, cancel=self.cancel, note=self.listener.note, patience=patience
            )
        info = self.engine.info()
        if info.clocks:
            self.listener.note(info.clocks)
        return info

    def sweep(self, how: str) -> None:
        """Remove what runs left behind ``how``. Raises EngineError."""
        for text in self.engine.sweep():
            self.listener.note(f"left behind {how}, removed: {text}")
