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
from reprokit.core.text import seconds
from reprokit.core.tty import Terminal
from reprokit.engine.kinds import Capabilities
from reprokit.environment.steps import context_of
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.engine.outputs import Collector
    from reprokit.engine.site import Site


CLOCKS_DIFFER = 5.0
"""Seconds by which the clocks of two machines may differ before a user has to know."""

ELSEWHERE = (
    "the engine at {} is on another machine, which has none of this host's files and GPUs: run reprokit there, or "
    "choose an engine of this host"
)
"""Why an engine of another machine cannot serve what is to come from this host."""


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """The engine as it describes itself."""

    kind: str
    name: str  # such as "Docker Engine"
    version: str  # such as "20.10.24"
    capabilities: Capabilities = field(default_factory=Capabilities)
    kernel: str = ""
    architecture: str = ""
    unenforced: frozenset[str] = frozenset()
    """What it would accept on this host and not hold: keys of ``resources`` ("network": none), "mounts" (read-only),
    "disk", "build memory" and "build pids"."""
    memory: int = 0  # bytes of its machine, 0 = not known
    storage: Path | None = None  # this host's folder of its images and containers; None = elsewhere, or not known
    runtime: str = ""  # in which its trials run, '' = its default
    ahead: float = 0.0  # seconds by which its clock is ahead of this host's
    remote: str = ""  # its address where that is another machine, which has none of this host's files and GPUs

    @property
    def clocks(self) -> str:
        """In words, by how much its clock and this host's differ; '' where that is next to nothing."""
        if abs(self.ahead) < CLOCKS_DIFFER:
            return ""
        apart = seconds(abs(self.ahead)) if abs(self.ahead) < 7200 else f"{abs(self.ahead) / 3600:.0f} h"
        where = "ahead of" if self.ahead > 0 else "behind"
        return f"the clock of {self} is {apart} {where} this host's: set both by NTP (see timedatectl)"

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (f", runtime {self.runtime}" if self.runtime else "")


@dataclass(frozen=True, kw_only=True)
class ImageInfo:
    """An image of the engine."""

    tag: str
    id: str  # "sha256:..."
    size: int = 0  # bytes on the engine's disk
    digest: str = ""  # of its registry, '' = none
    labels: Mapping[str, str] = field(default_factory=dict)
    created: str = ""  # when its last layer was made, RFC 3339


@dataclass(frozen=True, kw_only=True)
class Build:
    """What is to be built."""

    tag: str
    dockerfile: str
    context: Mapping[str, bytes | Path]  # a path in the context -> bytes, or a host file or folder
    labels: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""
    fresh: bool = False  # run every step, whatever the engine has of earlier builds
    trust: Trust = Trust.OWN  # in the case that it is built for
    steps_of: Sequence[str] = ()
    """Images of a registry, there or not, whose steps stand in for the same ones of this build; with any, the new image
    says which steps its layers are, for builds of others."""

    def __post_init__(self) -> None:
        """Raise UsageError for a context that :func:`reprokit.environment.steps.context_of` would not make."""
        context_of(self.context.items())


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One piece of build progress: step ``number`` of ``total`` named ``name``."""

    number: int
    total: int
    name: str
    log: str = ""  # output of that step
    cached: bool = False
    took: float | None = None  # the step has ended, after so many seconds; None: it begins or goes on
    began: float | None = None  # by the monotonic clock; None: it ends now
    download: bool = False  # not a step but a file that was fetched


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
    """One execution in a fresh container."""

    image: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    limits: Limits
    labels: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    files: Mapping[str, FileSpec] = field(default_factory=dict)
    """By their path below ``workdir``, put there before the command starts, owned by the unprivileged user."""
    gpus: tuple[str, ...] = ()  # device ids ("0", or a UUID); ``limits.gpus`` is the number asked
    gpu_indices: tuple[str, ...] = ()  # those of ``gpus`` on the host, where they are known
    trust: Trust = Trust.OWN  # in the case that it is a trial of
    terminal: Terminal | None = None
    """Of a user, before the program in place of a log; the time limit then does not count."""
    capabilities: tuple[str, ...] = ()  # of Linux, such as "SYS_PTRACE", beyond those of a trial, which has none
    core_dumps: bool = False
    traced: bool = False
    """The stacks of what crashes, and of what runs at the time limit, follow the output, by the image's debuggers."""
    outputs: Collector | None = None  # gets what it wrote, once its program has ended


Slot = AbstractContextManager[object]
"""What is held while a trial's program runs: a place among the programs that may run at a time."""


class Engine(Protocol):
    """Everything that reprokit asks of an engine. ``docs/dev/new-engine.md`` says how to write one.

    All methods are safe to call from several threads at once. Any of them may raise EngineError, which says that the
    engine failed or went away and what to do about it: such a cell gets the verdict ``engine-error``, never a finding.
    EngineLost, a kind of it, says that doing it again may help: the caller waits until :meth:`ping` returns, and does.
    The tests in ``tests/conformance`` hold for every engine.
    """

    def info(self) -> EngineInfo:
        """Ask the engine what it is, as it is recorded with every run. EngineError says how to get one."""

    def ping(self) -> None:
        """Return at once where the engine answers; raise EngineError where it did not within seconds."""

    def image(self, tag: str) -> ImageInfo | None:
        """Look an image (or what stands for one) up by its tag or id (``sha256:...``); None when there is none."""

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        """Build an image and give it its tag. A build that fails leaves no image of that tag.

        Args:
            build: The Dockerfile or script, its context, the tag and the labels.
            site: The settings of this site (indexes, proxies, certificates), which must not stay in the image.
            on_progress: Called for each step as it starts, and for output as it comes.
            cancel: When it is set, the build is stopped at once.

        Raises:
            BuildFailed: A step of the Dockerfile or script failed; ``step`` names it, ``tail`` holds its last lines.
            Unsupported: The engine cannot build such a thing.
            Cancelled: ``cancel`` was set.
        """

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        """Fetch a base image, named as behind FROM; None when its registry says that it has no such image.

        ``trust``: in the case that needs it, which says whether its registry gets this host's login.

        Raises EngineError where no registry answers, Unsupported where it would get one all the same, Cancelled.
        """

    def push(self, reference: str, cancel: threading.Event) -> str:
        """Send an image to the registry that its name begins with, with the engine's own credentials.

        Returns its digest there, ``sha256:...``, or '' where the engine does not say it. Raises EngineError where the
        registry does not answer or take it, Unsupported for an engine that makes no images, Cancelled.
        """

    def tag(self, image: str, name: str) -> ImageInfo:
        """Give the image of that id another name; returns it under that."""

    def remove_image(self, tag: str) -> None:
        """Take a name from an image, and remove it if that was its last. No error when there is none.

        Raises EngineError where a container uses the image.
        """

    def lease(self, image: str) -> Callable[[], None]:
        """Use the image of that id: until what is returned is called, no user of the engine removes it.

        The end of this process ends it, too: at the latest, :meth:`sweep` of the next run. Raises ImageGone.
        """

    def save(self, image: str, target: Path, cancel: threading.Event) -> None:
        """Write an image with all its layers to a file, which is overwritten, as ``docker save`` does.

        Raises ImageGone, Unsupported for an engine that makes no images, Cancelled.
        """

    def load(self, archive: Path, tag: str) -> ImageInfo:
        """Take the one image of an archive as ``docker save`` writes it, whose manifest has been checked.

        ``tag``: the one name that its manifest gives it. Raises Unsupported for an engine that makes no images.
        """

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        """Make an image from an archive of a root file system, a file of this host."""

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
            slot: Held while the program runs, and not while its container is made or removed.

        Returns:
            The exit status (128 + the signal that killed the program), and whether the time or memory limit stopped
            one. This is what the engine itself saw, from the start to the end: that the output ended says nothing.

        Raises:
            Cancelled: ``cancel`` was set.
            EngineLost: The engine did not see the program's own end: it was stopped or restarted meanwhile, another
                process stopped the container, or a connection was cut.
            ImageGone: The engine has no such image.
            Unsupported: The engine cannot give the trial what it asks for, such as a GPU.
        """

    def repeat(self, trial: Trial, files: Path) -> str:
        """Say in a line for a shell how to run the trial by hand. ``files``: a folder with a copy of its files."""

    def sweep(self) -> list[str]:
        """Remove what runs of this host whose process has exited left, by its ownership labels; returns it in words."""

    def gpus_in_use(self) -> Mapping[str, str]:
        """UUID of a GPU -> the container of this engine that has it, in words, whichever run of reprokit started it."""

    def kept(self) -> Sequence[Kept]:
        """List what the engine keeps on disk for reprokit, and for no one else: what may go.

        Images by their labels, and caches of builds that are certainly ours. A part that something else holds too is
        left out: removing ours would not free it.
        """

    def discard(self, several: Sequence[Kept]) -> Sequence[Kept]:
        """Remove what :meth:`kept` listed, and what only that needed; returns what is gone, not what something uses.

        What lies on another thing of ``several`` is removed before that.
        """


IMAGE, BASE, BUILD_CACHE = "image", "base image", "build cache"
OTHER_CACHE = "build cache that may be another program's"
"""What no image uses, and what may not be ours: removed only where the user asks for it."""
ENVIRONMENT, INTERPRETER, DOWNLOADS = "environment", "interpreter", "downloads"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One thing that is kept on disk."""

    kind: str
    key: str  # under which runs mark what they use
    name: str  # for messages
    parts: Mapping[str, int]
    """Id -> bytes of what it consists of; what several share, such as layers, is named alike by all of them."""
    used: float  # when it was used last, seconds since 1970
    times: int = 1  # how often it was used, as far as that is known
    seconds: float | None = None  # that it takes to make it again, None = not known
    needs: frozenset[str] = frozenset()  # keys of what it is made on, which cannot be removed before it
    stays: str = ""  # why it must not be removed
    also: frozenset[str] = frozenset()  # further keys under which it is used
    cases: frozenset[str] = frozenset()  # ids of the cases that it is of

    @property
    def bytes(self) -> int:
        """Bytes of all its parts, shared ones included."""
        return sum(self.parts.values())
