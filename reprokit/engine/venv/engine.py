"""The embedded engine behind :class:`reprokit.engine.protocol.Engine`."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.limits import LIMITS
from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core import ownership
from reprokit.core.errors import Unsupported
from reprokit.engine import container_spec
from reprokit.engine.protocol import Build, EngineInfo, ImageInfo, Kept, Progress, Slot, Trial
from reprokit.engine.venv import ENTRY, environments
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.engine.site import Site


UNENFORCED = frozenset({"mounts", "disk", "build memory", "build pids", *(row.key for row in LIMITS if row.held.venv)})
"""What a process of this host is not kept from. A trial's time and memory are looked at, and end it."""


class VenvEngine:
    """Virtual environments and processes of this host. Needs no daemon. Safe to share between threads."""

    def info(self) -> EngineInfo:
        """The engine's own description."""
        from reprokit.engine.venv import host

        uv = host.uv_version()
        kernel = os.uname()
        return EngineInfo(
            kind=ENTRY.kind,
            capabilities=ENTRY.capabilities,
            name="venv",
            version=f"(uv {uv})" if uv else "(python -m venv)",
            kernel=kernel.release,
            architecture=kernel.machine,
            unenforced=UNENFORCED,
            memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            storage=environments.top(),
        )

    def ping(self) -> None:
        """It is this process that runs trials: it always answers."""

    def image(self, tag: str) -> ImageInfo | None:
        """The environment of that tag or id, or None. What stands for this host as a base is always there."""
        if tag.startswith("host:"):
            return ImageInfo(tag=tag, id=f"sha256:{hashlib.sha256(tag.encode()).hexdigest()}")
        kept = environments.find(tag)
        return kept.info if kept else None

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        """Make an environment. Raises BuildFailed, Unsupported, Cancelled, EngineError."""
        _refuse(build.trust)
        return environments.build(build, site, on_progress, cancel)

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        """Run a trial to its end, time limit or cancellation. Raises Cancelled, Unsupported, EngineError."""
        from reprokit.engine.venv import trials

        _refuse(trial.trust)
        return trials.run(trial, environments.get(trial.image), sink, cancel, slot or nullcontext())

    def repeat(self, trial: Trial, files: Path) -> str:
        """The shell line that runs a trial by hand. ``files``: holds a copy of the trial's files."""
        from reprokit.engine.venv.trials import shell_line

        return shell_line(trial, files)

    def remove_image(self, tag: str) -> None:
        """Remove an environment; nothing happens when there is none."""
        environments.remove(tag)

    def sweep(self) -> list[str]:
        """Remove what processes that are gone left behind; returns what was removed, in words."""
        return [*environments.sweep(), *ownership.sweep_folders()]

    def gpus_in_use(self) -> Mapping[str, str]:
        """None: what a process that is gone left on a GPU, the driver tells."""
        return {}

    def kept(self) -> Sequence[Kept]:
        """Environments, the interpreters that uv installed for them, and what pip downloaded."""
        return environments.list_kept()

    def discard(self, several: Sequence[Kept]) -> Sequence[Kept]:
        """Remove some of them; those that are gone."""
        return [one for one in several if environments.discard(one)]

    # An environment has one name, starts from this host, and stays on it.

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        """There is no registry of virtual environments."""
        return None

    def push(self, reference: str, cancel: threading.Event) -> str:
        """Not possible. Raises Unsupported."""
        raise Unsupported("a virtual environment is a part of this host, and no image that could be pushed")

    def lease(self, image: str) -> Callable[[], None]:
        """Nothing: no other user of this host has this user's environments."""
        return lambda: None

    def save(self, image: str, target: Path, cancel: threading.Event) -> None:
        """Not possible. Raises Unsupported."""
        raise Unsupported("a virtual environment is a part of this host, and no image that could be saved")

    def load(self, archive: Path, tag: str) -> ImageInfo:
        """Not possible. Raises Unsupported."""
        raise Unsupported("a virtual environment is a part of this host: no image can be loaded into it")

    def tag(self, image: str, name: str) -> ImageInfo:
        """Not possible. Raises Unsupported."""
        raise Unsupported(f"a virtual environment has no second name: {name}")

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        """Not possible. Raises Unsupported."""
        raise Unsupported(f"a virtual environment starts from this host, not from an archive: {tar}")


def _refuse(trust: Trust) -> None:
    """Raise Unsupported for what runs in containers alone."""
    container_spec.refuse_runtime("the engine venv")
    if not ALLOWANCES[trust].on_host:
        raise Unsupported("an untrusted case needs a container engine: choose another --engine than venv")
