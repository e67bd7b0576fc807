"""The Docker engine behind :class:`reprokit.engine.protocol.Engine`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.limits import LIMITS
from reprokit.core import ownership
from reprokit.core.errors import EngineError
from reprokit.engine import container_spec, containers
from reprokit.engine.container_spec import docker_run_line
from reprokit.engine.disk import Disk
from reprokit.engine.docker import ENTRY
from reprokit.engine.docker.buildkit import FailedSteps
from reprokit.engine.images import Images
from reprokit.engine.protocol import Build, EngineInfo, ImageInfo, Kept, Progress, Slot, Trial
from reprokit.engine.wire import Wire, endpoint
from reprokit.engine.witness import Witnesses
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.engine.site import Site


BUILDS_UNLIMITED = frozenset({"build memory", "build pids"})
"""What no builder holds: BuildKit of Docker Engine 20.10 takes ``memory`` and ``ulimits`` and ignores them."""


def open_engine(environ: Mapping[str, str]) -> DockerEngine:
    """The Docker Engine that the docker client finds. Raises EngineError when none answers, or another engine."""
    where = endpoint(environ)
    wire = Wire(where=where)
    if wire.is_podman():
        raise EngineError(f"what answers at {where.url} ({where.source}) is Podman: --engine podman takes it")
    return DockerEngine(wire=wire)


class DockerEngine(Images):
    """A Docker Engine at the end of ``wire``, by default where the docker client finds it.

    ``environ`` stands in for the process's environment (DOCKER_HOST, DOCKER_CONTEXT, DOCKER_CERT_PATH ...). Nothing
    is asked of the engine before the first method call. Safe to share between threads.

    ``program``: its command-line client. ``builder``: what builds its images. ``oldest`` and ``newest``: the
    versions that reprokit is made for; ``upgrade``: how to get a newer one.
    """

    entry = ENTRY
    name = "Docker Engine"
    program = "docker"
    builder = "BuildKit"
    oldest = (20, 10)
    newest: tuple[int, int] | None = (29, 999)
    upgrade = "see https://docs.docker.com/engine/install/"
    gpus_by_cdi_alone = False

    def __init__(self, environ: Mapping[str, str] | None = None, wire: Wire | None = None) -> None:
        super().__init__(wire or Wire(environ))
        self._witnesses = Witnesses(self.wire)
        self._disk = Disk(self.wire)
        self._failed_steps = FailedSteps()

    def info(self) -> EngineInfo:
        """The engine's own description. Raises EngineError, with what to do, when none answers."""
        version, details = self.wire.about(), self.wire.details()
        return EngineInfo(
            kind=self.entry.kind,
            capabilities=self.entry.capabilities,
            name=self.name,
            version=version.version,
            kernel=version.kernel,
            architecture=version.architecture,
            unenforced=self._unenforced() | BUILDS_UNLIMITED,
            memory=details.memory,
            storage=self.wire.storage(),
            runtime=self._runtime(),
            ahead=self.wire.ahead(),
            remote=self.wire.endpoint.url if self.wire.endpoint.is_remote else "",
        )

    def ping(self) -> None:
        """Raise EngineError unless the engine answers within seconds."""
        self.wire.ping()

    def _runtime(self) -> str:
        """The runtime of its trials; '' = the engine's default."""
        return container_spec.configured_runtime()

    def _unenforced(self) -> frozenset[str]:
        """The limits that this engine does not hold, as a rootless one does not without delegated cgroups."""
        held = self.wire.details().limits
        return frozenset(row.key for row in LIMITS if held.get(row.held.docker) is False)

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        """Build with BuildKit and tag. Raises BuildFailed, Unsupported, Cancelled, EngineError."""
        from reprokit.engine.docker import buildkit

        with self._witnesses.current().vouching():
            attempt = partial(buildkit.build, self.wire, build, site, on_progress, cancel)
            return self._failed_steps.build(build, attempt, cancel)

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        """Run a trial to its end, time limit or cancellation. Raises Cancelled, Unsupported, EngineError.

        ``slot`` is held while its program runs. Whatever way it ends, the container and its anonymous volumes are gone
        when this returns.
        """
        return containers.run(
            self.wire,
            trial,
            sink,
            cancel,
            slot or nullcontext(),
            self._witnesses,
            podman=self.is_podman,
            runtime=self._runtime(),
        )

    def lease(self, image: str) -> Callable[[], None]:
        """Use an image by its id, until what is returned is called. Raises ImageGone, EngineError."""
        return containers.lease(self.wire, image)

    def repeat(self, trial: Trial, files: Path) -> str:
        """The ``docker run`` line of a trial. ``files``: holds a copy of the trial's files."""
        cdi = containers.cdi_names(self.wire, trial, podman=self.is_podman)
        return docker_run_line(trial, files, self.program, cdi, self._runtime())

    def sweep(self) -> list[str]:
        """Remove containers (and temporary folders) of ours whose process is gone, and those of this process that it
        could not remove before; returns what was removed, in words.

        Images stay; containers of other hosts, of living processes and of others are not touched.
        """
        client = self.wire.client()
        own = containers.remove_left(client, self._witnesses.unremoved, self.wire.endpoint.url)
        removed = [f"container {name} of this run" for name in own]
        for container in containers.list_all(self.wire, label=ownership.PID):
            labels = container.labels
            if not ownership.is_orphan(labels):
                continue
            # One that the engine cannot remove now (a busy mount) must not stop the run; the next sweep tries again.
            with suppress(EngineError):
                if not containers.remove(client, container.id, self.wire.endpoint.url):
                    continue
                run, case = labels.get(ownership.RUN, ""), labels.get(ownership.CASE, "")
                of = f" of run {run}, case {case}" if run or case else ""
                removed.append(f"container {container.id[:12]} ({container.state}){of}")
        return removed + ownership.sweep_folders()

    def gpus_in_use(self) -> dict[str, str]:
        """UUID of a GPU -> the container of ours that has it, in words. Raises EngineError."""
        found = containers.list_all(self.wire, label=ownership.GPUS)
        return {
            gpu: f"container {container.id[:12]} of run {container.labels.get(ownership.RUN, '')}"
            for container in found
            for gpu in container.labels[ownership.GPUS].split(",")
            if container.state not in ("exited", "dead", "stopped")
        }

    def kept(self) -> Sequence[Kept]:
        """Images and base images of ours, and the build cache that no image uses. Raises EngineError."""
        return self._disk.kept()

    def discard(self, several: Sequence[Kept]) -> Sequence[Kept]:
        """Remove images by our names, and build cache; those that are gone. Raises EngineError."""
        self.sweep()  # leases of runs that were killed
        return self._disk.discard(several)
