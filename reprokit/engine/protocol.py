"""What an engine does for us, in our words. ``reprokit.engine.docker`` is the real one; tests may bring a fake."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reprokit.case.cellspec import Limits
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.engine.site import Site


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """The engine as it describes itself, such as ``name`` "Docker Engine", ``version`` "20.10.24".

    ``unenforced``: which of the limits "memory", "cpus" and "pids" it would take and not hold.
    """

    name: str
    version: str
    kernel: str = ""
    architecture: str = ""
    unenforced: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ImageInfo:
    """An image of the engine. ``id`` is ``sha256:...``; ``size`` in bytes; ``digest`` its registry digest or ''.

    ``created``: when its last layer was made, RFC 3339.
    """

    tag: str
    id: str
    size: int = 0
    digest: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    created: str = ""


@dataclass(frozen=True, kw_only=True)
class Build:
    """What is to be built: ``context`` maps a path in the context to bytes, or to a host file or folder.

    ``fresh``: run every step, whatever the engine has of earlier builds.
    """

    tag: str
    dockerfile: str
    context: Mapping[str, bytes | Path]
    labels: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One piece of build progress: step ``number`` of ``total`` named ``name``; ``log`` holds output of that step."""

    number: int
    total: int
    name: str
    log: str = ""
    cached: bool = False


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A host folder seen by the container, read-only unless said."""

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One execution in a fresh container. ``gpus``: device ids ("0", or a UUID); ``limits.gpus``: the number asked.
    ``gpu_indices``: those of ``gpus`` on the host, where they are known.

    ``files``: path below ``workdir`` -> text, put there before the command starts, owned by the unprivileged user;
    what begins with ``#!`` is executable.
    """

    image: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    limits: Limits
    labels: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    gpu_indices: tuple[int, ...] = ()


Slot = AbstractContextManager[object]


class Engine(Protocol):
    """Everything asked of an engine. Each method may raise ``EngineError``; all are safe to call from threads."""

    def info(self) -> EngineInfo:
        """The engine's own description; raises EngineError (with what to do) when none answers."""

    def image(self, tag: str) -> ImageInfo | None:
        """The image of that tag, or None when the engine has none."""

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        """Build with BuildKit and tag. Raises BuildFailed (theirs: the Dockerfile's step), Cancelled, EngineError."""

    def pull(self, reference: str, cancel: threading.Event) -> ImageInfo | None:
        """Pull a base image; None when the registry says that there is no such image. EngineError when none answers."""

    def tag(self, image: str, name: str) -> ImageInfo:
        """Give an image that the engine holds (an id) another name."""

    def remove_image(self, tag: str) -> None:
        """Take a name from an image, and the image away if that was its last; no error when there is none."""

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        """Make an image from a root file system archive."""

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        """Run to the end, the time limit or ``cancel`` (raises Cancelled), giving output to ``sink`` as it comes.

        ``slot`` is held while the program runs, not while its container is made or removed: who limits how many run
        at a time need not leave the engine idle in between.

        Whatever way it ends, the container and its anonymous volumes are gone when this returns.
        """

    def repeat(self, trial: Trial, files: Path) -> str:
        """The line for a shell that runs the trial without reprokit. ``files``: holds a copy of the trial's files."""

    def sweep(self) -> list[str]:
        """Remove containers of ours whose process is gone (by label); returns what was removed, in words."""

    def gpus_in_use(self) -> Mapping[str, str]:
        """UUID of a GPU -> the container of ours that has it, in words; for all that exist, whoever made them."""
