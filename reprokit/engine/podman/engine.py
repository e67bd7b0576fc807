"""Podman behind :class:`reprokit.engine.protocol.Engine`, spoken to through its Docker-compatible API."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.engine import images, runtimes
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.podman import ENTRY
from reprokit.engine.protocol import Build, ImageInfo, Progress
from reprokit.engine.wire import ANSWER_WITHIN, raise_for_status

if TYPE_CHECKING:
    from reprokit.engine.protocol import Slot, Trial
    from reprokit.engine.site import Site
    from reprokit.evidence.model import Ending


class PodmanEngine(DockerEngine):
    """Podman's service: containers as Docker's, images built by buildah."""

    entry = ENTRY
    name = "Podman Engine"
    is_podman = True
    program = "podman"
    builder = "buildah"
    oldest = (4, 0)
    newest = None
    upgrade = "sudo apt-get install --only-upgrade podman"
    gpus_by_cdi_alone = True

    def _runtime(self) -> str:
        return ""

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        """As Docker's; Podman's own configuration names its runtime. Raises Unsupported where ours names one."""
        runtimes.refuse("Podman's API")
        return super().run(trial, sink, cancel, slot)

    def _unenforced(self) -> frozenset[str]:
        # Its answer to Docker's question is about the kernel, not about what a rootless service may use of it.
        client = self._wire.client()
        with self._wire.errors():
            answer = client.get(self._wire.podman_url("/info"), timeout=ANSWER_WITHIN)
            raise_for_status(answer)
        controllers = answer.json()["host"].get("cgroupControllers")
        if controllers is None:
            return super()._unenforced()
        needed = {"memory": "memory", "cpus": "cpu", "pids": "pids"}
        return frozenset(limit for limit, controller in needed.items() if controller not in controllers)

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        """Build with buildah and tag. Raises BuildFailed, Unsupported, Cancelled, EngineError."""
        from reprokit.engine.podman import buildah

        with self._witnesses.current().vouching():
            return buildah.build(self._wire, build, site, on_progress, cancel)

    def remove_image(self, tag: str) -> None:
        """Take a name from an image, and the image away if that was its last. Raises EngineError when it is in use."""
        if self.image(tag) is not None:  # Podman 4.3 answers with an error of the server where there is none
            super().remove_image(tag)

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        """Make an image from a root file system archive. Raises EngineError."""
        return images.import_into_podman(self._wire, tar, tag, labels)
