"""What an engine takes and gives: the protocol behind which Docker, Podman and virtual environments are alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reprokit.case.cellspec import FileSpec, Limits
from reprokit.case.trust import Trust
from reprokit.core.tty import Terminal
from reprokit.engine.kinds import Capabilities
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.engine.outputs import Collector
    from reprokit.engine.site import Site


ELSEWHERE = (
    "the engine at {} is on another machine, which has none of this host's files and GPUs: run reprokit there, or "
    "choose an engine of this host"
)
"""Why an engine of another machine cannot serve what is to come from this host."""


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """The engine as it describes itself, such as ``name`` "Docker Engine", ``version`` "20.10.24".

    ``kind`` and ``capabilities``: as in the ENTRY of its package. ``unenforced``: which of "memory", "cpus", "pids",
    "network" (none), "mounts" (read-only), "disk", "build memory" and "build pids" it would accept on this host and not
    hold. ``memory``: bytes of its machine, 0 = not known. ``storage``: the folder of this host in which it keeps images
    and containers; None = on another machine, or not known. ``runtime``: in which its trials run, '' = its default.
    ``remote``: its address where that is another machine, which has none of this host's files and GPUs; else ''.
    """

    kind: str
    name: str
    version: str
    capabilities: Capabilities = field(default_factory=Capabilities)
    kernel: str = ""
    architecture: str = ""
    unenforced: frozenset[str] = frozenset()
    memory: int = 0
    storage: Path | None = None
    runtime: str = ""
    remote: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (f", runtime {self.runtime}" if self.runtime else "")


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

    ``fresh``: run every step, whatever the engine has of earlier builds. ``trust``: in the case that it is built for.
    ``steps_of``: images of a registry, there or not, whose steps stand in for those of this build that are the same;
    with any, the new image says which steps its layers are, for builds of others.
    """

    tag: str
    dockerfile: str
    context: Mapping[str, bytes | Path]
    labels: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""
    fresh: bool = False
    trust: Trust = Trust.OWN
    steps_of: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One piece of build progress: step ``number`` of ``total`` named ``name``; ``log`` holds output of that step.

    ``took``: says that the step has ended, after so many seconds; None: it begins or goes on. ``download``: not a
    step but a file that was fetched, from ``began`` on by the monotonic clock (None: it ends now).
    """

    number: int
    total: int
    name: str
    log: str = ""
    cached: bool = False
    took: float | None = None
    began: float | None = None
    download: bool = False


def say_downloads(fetched: Iterable[tuple[str, float, float, int]], on_progress: Callable[[Progress], None]) -> None:
    """Tell the files that a build fetched: of each its name, when that began, how long it took, and its size."""
    for name, began, took, _ in fetched:
        on_progress(Progress(number=0, total=0, name=name, took=took, began=began, download=True))


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

    ``files``: by their path below ``workdir``, put there before the command starts, owned by the unprivileged user.
    ``trust``: in the case that it is a trial of. ``outputs``: gets what it wrote, once its program has ended.

    ``terminal``: of a user, before the program in place of a log; the time limit then does not count.
    ``capabilities``: of Linux, such as "SYS_PTRACE", beyond those of a trial, which has none. ``core_dumps``: it may
    leave core files. ``traced``: the stacks of what crashes in it, and of what runs at its time limit, are passed on
    behind its output, by the debuggers of its image.
    """

    image: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    limits: Limits
    labels: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    files: Mapping[str, FileSpec] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    gpu_indices: tuple[str, ...] = ()
    trust: Trust = Trust.OWN
    terminal: Terminal | None = None
    capabilities: tuple[str, ...] = ()
    core_dumps: bool = False
    traced: bool = False
    outputs: Collector | None = None


Slot = AbstractContextManager[object]
"""What is held while a trial's program runs: a place among the programs that may run at a time."""


class Engine(Protocol):
    """Everything that reprokit asks of an engine. ``docs/new-engine.md`` says how to write one.

    All methods are safe to call from several threads at once. Any of them may raise EngineError, which says that the
    engine failed or went away and what to do about it: such a cell gets the verdict ``engine-error``, never a finding.
    EngineLost, a kind of it, says that doing it again may help: the caller waits until :meth:`ping` returns, and does.
    The tests in ``tests/conformance`` hold for every engine.
    """

    def info(self) -> EngineInfo:
        """Ask the engine what it is.

        Returns:
            Its description, as it is recorded with every run.

        Raises:
            EngineError: No engine answers; the text says how to get one.
        """

    def ping(self) -> None:
        """Return at once where the engine answers.

        Raises:
            EngineError: It did not answer within seconds.
        """

    def image(self, tag: str) -> ImageInfo | None:
        """Look an image (or what stands for one, such as a virtual environment) up.

        Args:
            tag: Its tag, or its id (``sha256:...``).

        Returns:
            The image, or None when the engine has none of that tag or id.
        """

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        """Build an image and give it its tag. A build that fails leaves no image of that tag.

        Args:
            build: The Dockerfile or script, its context, the tag and the labels.
            site: The settings of this site (indexes, proxies, certificates), which must not stay in the image.
            on_progress: Called for each step as it starts, and for output as it comes.
            cancel: When it is set, the build is stopped at once.

        Returns:
            The image that was built.

        Raises:
            BuildFailed: A step of the Dockerfile or script failed; ``step`` names it, ``tail`` holds its last lines.
            Unsupported: The engine cannot build such a thing.
            Cancelled: ``cancel`` was set.
        """

    def pull(self, reference: str, cancel: threading.Event) -> ImageInfo | None:
        """Fetch a base image from its registry.

        Args:
            reference: The image's name as a Dockerfile has it behind FROM.
            cancel: When it is set, the download is stopped.

        Returns:
            The image, or None when the registry says that it has no such image.

        Raises:
            EngineError: No registry answers.
            Cancelled: ``cancel`` was set.
        """

    def push(self, reference: str, cancel: threading.Event) -> str:
        """Send an image to the registry that its name begins with, with the engine's own credentials.

        Args:
            reference: The image's name, such as ``registry.example.com/reprokit/own:amd64-5f0c``.
            cancel: When it is set, the upload is stopped.

        Returns:
            The image's digest there, ``sha256:...``; '' where the engine does not say it.

        Raises:
            EngineError: The registry does not answer, or does not take it.
            Unsupported: It makes no images.
            Cancelled: ``cancel`` was set.
        """

    def tag(self, image: str, name: str) -> ImageInfo:
        """Give an image another name.

        Args:
            image: The id of an image that the engine has.
            name: The new tag.

        Returns:
            The image under its new name.
        """

    def remove_image(self, tag: str) -> None:
        """Take a name from an image, and remove the image if that was its last. No error when there is none.

        Args:
            tag: The image's tag or id.

        Raises:
            EngineError: A container uses the image.
        """

    def save(self, image: str, target: Path, cancel: threading.Event) -> None:
        """Write an image with all its layers to a file, as ``docker save`` does.

        Args:
            image: Its tag or id.
            target: The file, which is overwritten.
            cancel: When it is set, writing is stopped.

        Raises:
            ImageGone: The engine has no such image.
            Unsupported: It makes no images.
            Cancelled: ``cancel`` was set.
        """

    def load(self, archive: Path, tag: str) -> ImageInfo:
        """Take an image from an archive as ``docker save`` writes it, whose manifest has been checked.

        Args:
            archive: The file, which holds one image.
            tag: The one name that its manifest gives the image.

        Returns:
            The image.

        Raises:
            Unsupported: It makes no images.
        """

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        """Make an image from an archive of a root file system.

        Args:
            tar: The archive, a file of this host.
            tag: The image's tag.
            labels: The image's labels.

        Returns:
            The image.
        """

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        """Run a trial to its end, to its time limit, or until it is cancelled.

        However it ends, and whatever ``sink`` raises, nothing that the trial started or made is left on return.

        Args:
            trial: The image, the command, its limits, and what the command finds.
            sink: Called with the program's output as it comes: in the order in which it was written, unless
                ``limits.output`` asks for separate streams, whose order no one knows. Where the trial has a terminal,
                all goes there instead.
            cancel: When it is set, the trial is stopped at once.
            slot: Held while the program runs, and not while its container is made or removed: the engine need not
                be idle in between.

        Returns:
            The exit status, and whether the time limit or the memory limit stopped a program. A program that was
            killed by a signal ends with 128 + the signal. This is what the engine itself saw, from the start to the
            end: that the output ended says nothing, and neither does what another daemon finds afterwards.

        Raises:
            Cancelled: ``cancel`` was set.
            EngineLost: The engine did not see the program's own end, because it was stopped or restarted meanwhile,
                another process stopped the container, or a connection was cut.
            ImageGone: The engine has no such image.
            Unsupported: The engine cannot give the trial what it asks for, such as a GPU.
        """

    def repeat(self, trial: Trial, files: Path) -> str:
        """Say how the trial is run by hand.

        Args:
            trial: The trial.
            files: A folder of this host that holds a copy of the trial's files.

        Returns:
            A line for a shell that runs the trial without reprokit.
        """

    def sweep(self) -> list[str]:
        """Remove what runs of this host whose process has exited left behind, found by its ownership labels.

        Returns:
            What was removed, in words; empty when there was nothing.
        """

    def gpus_in_use(self) -> Mapping[str, str]:
        """Say which GPUs are used by what this engine runs, whichever run of reprokit started it.

        Returns:
            UUID of a GPU -> the container that has it, in words.
        """

    def kept(self) -> Sequence[Kept]:
        """List what the engine keeps on disk for reprokit, and for no one else.

        Returns:
            Images and base images by their ownership labels, caches of builds that are certainly ours, or what
            stands for them. A part that something else holds too is left out: removing ours would not free it.
        """

    def discard(self, several: Sequence[Kept]) -> Sequence[Kept]:
        """Remove what :meth:`kept` listed, and what only that needed, from the disk.

        Args:
            several: Things of the list. What lies on another of them is removed before that.

        Returns:
            Those that are gone; not so what something uses.
        """


IMAGE, BASE, BUILD_CACHE = "image", "base image", "build cache"
OTHER_CACHE = "build cache that may be another program's"
"""What no image uses, and what may not be ours: removed only where the user asks for it."""
ENVIRONMENT, INTERPRETER, DOWNLOADS = "environment", "interpreter", "downloads"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One thing that is kept on disk.

    ``key``: its identity; for what runs use it is the key under which they mark it as in use. ``name``: for messages.
    ``parts``: id -> bytes of what it consists of; what several share, such as layers, is named alike by all of them.
    ``used``: when it was used last, seconds since 1970; ``times``: how often, as far as that is known. ``seconds``: how
    long it takes to make it again, None where that is not known. ``needs``: keys of what it is made on, which cannot be
    removed before it. ``stays``: why it must not be removed, or ''. ``also``: further keys under which it is used.
    ``cases``: ids of the cases that it is of.
    """

    kind: str
    key: str
    name: str
    parts: Mapping[str, int]
    used: float
    times: int = 1
    seconds: float | None = None
    needs: frozenset[str] = frozenset()
    stays: str = ""
    also: frozenset[str] = frozenset()
    cases: frozenset[str] = frozenset()

    @property
    def bytes(self) -> int:
        """Bytes of all its parts, shared ones included."""
        return sum(self.parts.values())
