"""The embedded engine behind :class:`reprokit.engine.protocol.Engine`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.engine.protocol import Build, EngineInfo, ImageInfo, Progress, Slot, Trial
from reprokit.errors import EngineError
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.site import Site


class VenvEngine:
    """Virtual environments and processes of this host. Needs no daemon. Safe to share between threads."""

    def info(self) -> EngineInfo:
        """The engine's own description."""
        return EngineInfo(name="venv", version="")

    def image(self, tag: str) -> ImageInfo | None:
        """The environment of that tag or id, or None."""
        raise EngineError(f"--engine venv does not work yet: {tag}")

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        """Make an environment. Raises BuildFailed, Cancelled, EngineError."""
        raise EngineError("--engine venv does not work yet")

    def pull(self, reference: str, cancel: threading.Event) -> ImageInfo | None:
        """There is no registry of virtual environments."""
        return None

    def tag(self, image: str, name: str) -> ImageInfo:
        """Refused: an environment has one name."""
        raise EngineError(f"a virtual environment has no second name: {name}")

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        """Refused: a virtual environment starts from this host."""
        raise EngineError(f"a virtual environment starts from this host, not from an archive: {tar}")

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        """Run a trial to its end, time limit or cancellation. Raises Cancelled, Unsupported, EngineError."""
        raise EngineError("--engine venv does not work yet")

    def sweep(self) -> list[str]:
        """Remove what processes that are gone left behind; returns what was removed, in words."""
        return []
