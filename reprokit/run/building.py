"""Builds an image or finds it, once for all tasks and processes that need it.

A build that passes a limit that no engine holds, its time or what it leaves of this host, is stopped: its cells get
``build-failed`` with the limit as the reason, never a finding.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from reprokit.case.limits import shown_bytes
from reprokit.case.trust import Trust, limited_by
from reprokit.core import cache
from reprokit.core.errors import BuildFailed, Cancelled, EngineError, EngineLost, ImageDamaged, ImageGone, Unsupported
from reprokit.core.ownership import label_image, locked
from reprokit.core.text import seconds as spelt
from reprokit.engine import site
from reprokit.engine.failure import TAIL
from reprokit.engine.images import find_built, moved_name
from reprokit.engine.protocol import Build, Engine, EngineInfo, ImageInfo, Progress
from reprokit.engine.sharing import REPOSITORIES, ImageShare, SharedImage
from reprokit.engine.site import providers
from reprokit.environment.resolving import downloading
from reprokit.environment.steps import short_step
from reprokit.run import uses
from reprokit.run.images import BuiltImage, ImageSpec
from reprokit.run.locked_build import build_locked, ensure_base
from reprokit.run.measuring import measure
from reprokit.run.recovering import check_awake, seconds_slept
from reprokit.run.services import Services
from reprokit.run.threads import start_beside
from reprokit.run.timing import ImageTimer, Timer
from reprokit.store.folder import SeenBases

DOWNLOADS = ("uv-python.sh", "conda_packages.py")
"""Scripts of build steps that fetch interpreters, compilers or libraries, and do nothing else."""

REPLACED = "reprokit/replaced"
"""The name of images that a container used when they were built again."""

ProgressSink = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """How one image is made."""

    on_progress: ProgressSink = lambda progress: None
    waits: Callable[[], bool] = lambda: False
    """Whether to wait with a build for room on the disk."""
    fresh: bool = False
    """Build it again, with what archives and indexes have today, in place of the one that exists."""
    times: ImageTimer = field(default_factory=lambda: ImageTimer(Timer()))


def build_or_find(services: Services, image: ImageSpec, options: BuildOptions | None = None) -> BuiltImage:
    """The image, measured; built if it does not exist. It is in use until its tag is given back.

    What the engine loses is done again. Raises what the engine's methods raise.
    """
    asked = options or BuildOptions()

    def attempt() -> BuiltImage:
        nonlocal asked
        awake = seconds_slept()
        try:
            ready = _attempt(services, image, asked)
            try:
                services.keeper.uses.lease(ready.image.tag, ready.image.id, services.engine)
            except BaseException:
                services.keeper.uses.end(ready.image.tag)
                raise
            return ready
        except BuildFailed:
            check_awake(awake, "the build")
            raise
        except ImageGone as error:  # before it had its lease
            asked = replace(asked, fresh=asked.fresh or isinstance(error, ImageDamaged))
            raise EngineLost(f"another process removed the image, or a base of it: {error}") from error

    return services.recovery.repeated(attempt)


def _attempt(services: Services, image: ImageSpec, options: BuildOptions) -> BuiltImage:
    if image.bundled:
        return _load_bundled(services, image, fresh=options.fresh)
    share = services.share(image.trust)
    if share and not options.fresh and not services.since and not is_here(services.engine, image, services.seen):
        found = _take(services, image, options, share)
        if found is not None:
            return found
    with options.times.span("base"):
        image, bases = _make_bases(services, image, options.on_progress)
    tag = image.name(bases)
    with _using(services, tag):
        return _find_or_build(services, image, bases, options)


def image_name(services: Services, image: ImageSpec) -> str:
    """What the image is called in the engine, whether it exists or not: the bases that it starts from are made ready.

    Raises as :func:`build_or_find`.
    """
    found, bases = _make_bases(services, image, lambda _: None)
    return found.name(bases)


def bases_here(engine: Engine, image: ImageSpec, seen: SeenBases) -> dict[str, ImageInfo] | None:
    """What the image starts from, by reference, where the engine has all of it; nothing is made or fetched."""
    from reprokit.engine import bases

    found: dict[str, ImageInfo] = {}
    for base in image.environment.images:
        if (here := bases.standing(engine, base, seen)) is None:
            return None
        found[base.reference] = here
    return found


def is_here(engine: Engine, image: ImageSpec, seen: SeenBases) -> bool:
    """Whether the engine has the image; where it is not sure of a base, it does not."""
    found = bases_here(engine, image, seen)
    return found is not None and find_built(engine, image.name(found)) is not None


def offer(services: Services, ready: BuiltImage, image: ImageSpec) -> None:
    """Push an image that was built, now or in an earlier run that could not push it."""
    share = None if image.bundled else services.share(image.trust)
    if share and share.owes(shared := as_shared(image, ready.image.tag, ready.bases)):
        with contextlib.suppress(Cancelled):  # its cells are decided, and the next run that needs it pushes it
            share.push(shared, services.cancel)


@contextmanager
def _using(services: Services, tag: str) -> Iterator[None]:
    """The image is in use from here on, and no longer where the block fails."""
    services.keeper.uses.begin(tag, services.cancel)
    try:
        yield
    except BaseException:
        services.keeper.uses.end(tag)
        raise


def _make_bases(
    services: Services, image: ImageSpec, on_progress: ProgressSink
) -> tuple[ImageSpec, dict[str, ImageInfo]]:
    """What the image starts from, and the image itself: the other one where a tag of NVIDIA's is gone."""
    from reprokit.engine import bases

    for base in image.environment.images:
        services.keeper.uses.begin(base.reference, services.cancel)  # before it is looked for
    watch = BuildWatch(services.cancel, image.build_time, services.engine.info(), image.trust)
    try:
        with watch.watching():
            found = _bases(services, image, watch.follow(on_progress), watch.stop)
    except Unsupported as error:
        if image.otherwise is None or not str(error).startswith(bases.NO_TAG):
            raise
        return _make_bases(services, image.otherwise, on_progress)
    return image, found


def _bases(
    services: Services, image: ImageSpec, on_progress: ProgressSink, cancel: threading.Event
) -> dict[str, ImageInfo]:
    """The images that the Dockerfile starts from, by reference. A failure says what is available instead."""
    from reprokit.engine import bases

    engine, seen, since, share = services.engine, services.seen, services.since, services.share(image.trust)
    found: dict[str, ImageInfo] = {}
    for base in image.environment.images:
        # Where the base is there, a step that downloads may be in the engine's cache.
        if image.offline and engine.info().storage and bases.standing(engine, base, seen) is None:
            for provider in downloading(image.environment):
                if why := providers.silent(provider, site.settings()):
                    raise Unsupported(f"{image.offline} ({provider}: {why})")
        if image.held and base == image.environment.base:

            def packages(base: ImageInfo) -> Mapping[str, str]:
                return measure(engine, services.measurements, base, cancel=cancel, user="root").packages["apt"]

            found[base.reference] = ensure_base(engine, image.held.entry, packages, image.trust, cancel, on_progress)
            continue
        try:
            if base.source == "bootstrap":
                found[base.reference] = bases.bootstrapped(engine, base, cancel, on_progress, share)
                continue
            found[base.reference] = bases.ensure(engine, base, image.trust, cancel, on_progress, seen=seen, since=since)
        except (Unsupported, EngineError) as error:
            if image.instead and str(error).startswith(bases.UNAVAILABLE):
                raise type(error)(f"{error}; {image.instead}") from error
            raise
    return found


_LOADING = threading.Lock()


def _load_bundled(services: Services, image: ImageSpec, *, fresh: bool) -> BuiltImage:
    """The image of a bundle. What it was built on, no one knows here."""
    assert image.bundled is not None
    tag, engine = image.bundled.tag, services.engine
    with _using(services, tag):
        started = time.monotonic()
        with _LOADING:  # one archive may hold the images of several cells
            found = (None if fresh else engine.image(tag)) or engine.load(image.bundled.archive, tag)
        seconds = time.monotonic() - started
        measured = measure(engine, services.measurements, found, cancel=services.cancel)
    base = replace(found, tag=image.environment.base.reference, id="", digest="")
    return BuiltImage(spec=image, image=found, bases={base.tag: base}, built=False, seconds=seconds, measured=measured)


def _take(services: Services, image: ImageSpec, options: BuildOptions, share: ImageShare) -> BuiltImage | None:
    """The image as another machine has it, with what it is built on there; None where it is not to be taken."""
    cancel, times = services.cancel, options.times
    theirs = share.bases(image.key, image.environment.images, cancel)
    if not theirs:
        return None
    started = time.monotonic()
    tag = image.name(theirs)
    with _using(services, tag):
        room = services.keeper.room(tag, cancel, waits=options.waits)
        with locked(_lock(tag), cancel, "image"), room, times.span("fetch"):
            found = find_built(services.engine, tag)
            if fetched := found is None:
                options.on_progress(Progress(number=0, total=0, name="take the image from another machine"))
                found = share.fetch(as_shared(image, tag, theirs), cancel)
        if found is None:
            services.keeper.uses.end(tag)
            return None
        share.took(image.key, theirs)
        seconds = time.monotonic() - started
        with times.span("measuring"):
            measured = measure(services.engine, services.measurements, found, cancel=cancel)
    return BuiltImage(
        spec=image, image=found, bases=theirs, built=False, seconds=seconds, measured=measured, fetched=fetched
    )


def _lock(tag: str) -> Path:
    return cache.folder("locks") / f"image-{tag.rpartition(':')[2]}.lock"


def _find_or_build(
    services: Services, image: ImageSpec, bases: Mapping[str, ImageInfo], options: BuildOptions
) -> BuiltImage:
    engine, cancel, times, fresh = services.engine, services.cancel, options.times, options.fresh
    share = services.share(image.trust)
    tag = image.name(bases)
    started = asked = time.monotonic()
    found = before = find_built(engine, tag)
    built = fetched = False
    if found is None or fresh:
        # Two that need the same image, such as a search and what it builds ahead, build it once.
        with locked(_lock(tag), cancel, "image"):
            found = None if fresh else find_built(engine, tag)
            shared = as_shared(image, tag, bases)
            if found is None and share and not fresh:
                with services.keeper.room(tag, cancel, waits=options.waits):
                    options.on_progress(Progress(number=0, total=0, name="look for the image on other machines"))
                    with times.span("fetch"):
                        found = share.fetch(shared, cancel)
                fetched, asked = found is not None, time.monotonic()
            if built := found is None:
                with services.keeper.room(tag, cancel, waits=options.waits):
                    started = time.monotonic()
                    times.add("waiting", asked, "for room on the disk, or another build of it")
                    found = _build(services, image, shared, bases, options)
                    uses.remember(tag, seconds=time.monotonic() - started)
                if share:
                    share.owe(shared)
    assert found is not None
    if before is not None and before.id != found.id:
        try:
            engine.remove_image(before.id)
        except EngineError:  # a container still uses it: it gets a name by which gc knows it as ours
            with contextlib.suppress(EngineError):  # of one that has lost a part
                engine.tag(before.id, f"{REPLACED}:{tag.rpartition(':')[2]}")
    seconds = time.monotonic() - started
    with times.span("measuring"):
        measured = measure(engine, services.measurements, found, cancel=cancel)
    return BuiltImage(
        spec=image, image=found, bases=bases, built=built, seconds=seconds, measured=measured, fetched=fetched
    )


def _build(
    services: Services,
    image: ImageSpec,
    shared: SharedImage,
    bases: Mapping[str, ImageInfo],
    options: BuildOptions,
) -> ImageInfo:
    engine, share = services.engine, services.share(image.trust)
    request = Build(
        tag=shared.tag,
        dockerfile=image.rendered.starting_from({name: base.tag for name, base in bases.items()}),
        context=image.rendered.context,
        labels=shared.labels,
        fresh=options.fresh or image.fresh,
        trust=image.trust,
        steps_of=share.steps(shared) if share and not options.fresh else (),
    )
    watch = BuildWatch(services.cancel, image.build_time, engine.info(), image.trust)

    def see(progress: Progress) -> None:
        options.times.see(progress)
        if progress.took is None:
            options.on_progress(progress)

    with watch.watching(), options.times.span("build"), contextlib.ExitStack() as leases:
        for base in bases.values():
            leases.callback(engine.lease(base.id))
        if image.held:
            return build_locked(engine, request, image.held, image.environment, watch.follow(see), watch.stop)
        try:
            made = engine.build(request, site.current(), watch.follow(see), watch.stop)
        except BuildFailed as error:
            if image.offline and any(script in error.step for script in DOWNLOADS):
                raise Unsupported(image.offline) from error
            raise
    if moved := moved_name(engine, bases.values(), made.tag):
        raise EngineLost(moved)
    return made


def as_shared(image: ImageSpec, tag: str, bases: Mapping[str, ImageInfo]) -> SharedImage:
    """The image as machines share it, which carries the hash that its name has."""
    version = tag.rpartition(":")[2]
    return SharedImage(
        tag=tag,
        repository=REPOSITORIES[image.trust],
        version=version,
        labels=label_image(tag),
        steps=image.steps(bases),
    )


LOOK = 0.2
"""Seconds between two looks at the limits."""

LEAST_MEMORY = 0.02
"""Share of this host's memory, swap included, that a build has to leave: below it the kernel kills what it likes."""

LEAST_DISK = 256 * 1024**2
"""Bytes that a build has to leave on the engine's disk: a full one takes the engine down."""

MOST_TASKS = 0.5
"""Share of the processes that this host can have, with a build and all else; the rest stops a fork bomb."""

_PROC = Path("/proc")


def host_is_short(storage: Path, proc: Path = _PROC) -> str:
    """What this host runs out of, in words; '' for nothing. ``storage``: where the engine keeps its data."""
    try:
        found = re.findall(r"(\w+): +(\d+) kB", (proc / "meminfo").read_text())
        kib = {name: int(value) for name, value in found}
        free, total = kib["MemAvailable"] + kib.get("SwapFree", 0), kib["MemTotal"] + kib.get("SwapTotal", 0)
        if free < LEAST_MEMORY * total:
            return f"only {shown_bytes(free * 1024)} of this host's memory were left"
        tasks = int((proc / "loadavg").read_text().split()[3].partition("/")[2])
        most = min(int((proc / "sys/kernel" / name).read_text()) for name in ("pid_max", "threads-max"))
        if tasks > MOST_TASKS * most:
            return f"this host had {tasks} processes and threads, of at most {most}"
        disk = os.statvfs(storage)
    except (OSError, ValueError, KeyError, IndexError):  # another kernel, or another user's folder
        return ""
    left = disk.f_bavail * disk.f_frsize
    return f"only {shown_bytes(left)} were left on the disk of {storage}" if left < LEAST_DISK else ""


class BuildWatch:
    """Watches one build. ``cancel``: the run's, which stops it as well; ``seconds``: the most that it takes;
    ``trust``: in its case, for messages.
    """

    def __init__(
        self, cancel: threading.Event, seconds: float | None, engine: EngineInfo, trust: Trust = Trust.OWN
    ) -> None:
        self._trust = trust
        self.stop = threading.Event()
        self.reason = ""
        self._cancel = cancel
        self._seconds = seconds
        self._storage = engine.storage
        self._ended = threading.Event()
        self._step = Progress(number=0, total=0, name="")
        self._tail: collections.deque[str] = collections.deque(maxlen=TAIL)

    def follow(self, on_progress: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """``on_progress``, and what the watch itself remembers of the step that it may stop."""

        def seen(progress: Progress) -> None:
            if progress.log:
                self._tail.extend(progress.log.splitlines())
            elif progress.took is None and progress.name != self._step.name:
                self._step = progress
                self._tail.clear()
            on_progress(progress)

        return seen

    def failure(self) -> BuildFailed:
        """What a build that was stopped raises."""
        return BuildFailed(self.reason, step=self._step.name, tail=tuple(self._tail), reason=self.reason)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the block builds. Raises BuildFailed instead of what a build raises that was stopped."""
        thread = start_beside(self._watch, "build-watch")
        try:
            yield
        except (Cancelled, EngineError, BuildFailed) as error:
            if self.reason:
                raise self.failure() from error
            raise
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(LOOK):
            if not self._cancel.is_set():
                self.reason = self._passed(time.monotonic() - started)
            if self.reason or self._cancel.is_set():
                self.stop.set()
                return

    def _passed(self, took: float) -> str:
        """The limit that was passed, in words; ''."""
        where = f" in the step {short_step(self._step.name)}" if self._step.name else ""
        if self._seconds is not None and took > self._seconds:
            return (
                f"the build was stopped{where} after {spelt(self._seconds)}, the most that an image takes here "
                f"({limited_by('max_build_time', self._trust)})"
            )
        short = host_is_short(self._storage) if self._storage else ""
        return f"the build was stopped{where}: {short}" if short else ""
