"""From tasks to images: which tasks share one, and building, reusing and measuring it."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from reprokit.case.cellspec import CellSpec, FileSpec, SourceSpec
from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core import cache
from reprokit.core.errors import BuildFailed, EngineError, Unsupported
from reprokit.core.ownership import IMAGE_LABELS, INPUTS, locked
from reprokit.engine import site
from reprokit.engine.protocol import Build, Engine, ImageInfo, Progress
from reprokit.engine.sharing import REPOSITORIES, ImageShare, SharedImage
from reprokit.engine.site import providers
from reprokit.environment import dockerfile, sanitizing
from reprokit.environment.measured import Measured
from reprokit.environment.model import Environment, SourceTree
from reprokit.environment.on_host import resolve_on
from reprokit.environment.probe import VERSION as PROBE_VERSION
from reprokit.environment.resolving import downloading, resolve, without_downloads, without_registry
from reprokit.environment.supply import Supply
from reprokit.evidence.records import ImageRecord
from reprokit.run import probe, sources, uses
from reprokit.run.build_limits import BuildWatch
from reprokit.run.keeping import Keeper
from reprokit.run.locked_build import build_locked, ensure_base, locked_environment
from reprokit.run.task import BundledImage, Task
from reprokit.run.timing import ImageTimer, Timer

if TYPE_CHECKING:
    from reprokit.environment.lock import PinnedEnvironment
    from reprokit.store.folder import Measurements, SeenBases

DOWNLOADS = ("uv-python.sh", "conda_packages.py")
"""Scripts of build steps that fetch interpreters, compilers or libraries, and do nothing else."""


@dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """An image that tasks need: where it starts and what is built on it.

    ``instead``: what is available where a registry's image is not, in words. ``otherwise``: what is built where that
    image is one of NVIDIA's, and its tag is gone: CUDA has other providers. ``offline``: why the cell is not available
    where the downloads of a provider do not answer, '' if it needs none. ``trust``: in the cases that share it.
    ``build_time``: the most seconds that its build takes. ``bundled``: the image itself, where it is not built.
    """

    environment: Environment
    rendered: dockerfile.Rendered
    sources: Mapping[str, SourceTree] = field(default_factory=dict)
    held: PinnedEnvironment | None = None
    instead: str = ""
    otherwise: ImageSpec | None = None
    offline: str = ""
    trust: Trust = Trust.OWN
    build_time: float | None = None
    bundled: BundledImage | None = None

    @property
    def key(self) -> str:
        """The same for tasks that share the image."""
        tag = self.rendered.tag(f"{self.environment.base.source}:{self.environment.base.reference}")
        return f"{tag} {domain}" if (domain := ALLOWANCES[self.trust].domain) else tag

    def tag(self, bases: Mapping[str, ImageInfo]) -> str:
        """The image's identity, given what it starts from by reference.

        Content decides, not where it came from: the same base of another mirror gives the same tag. A locked base is
        known by what it holds, whatever id an engine gives it.
        """
        return self.rendered.tag(self._start(bases))

    def steps(self, bases: Mapping[str, ImageInfo]) -> tuple[str, ...]:
        """What images with the same first steps are found by; of the user's own cases alone.

        Steps that the engine takes from a registry are in its build cache for every later build, whoever's it is.
        """
        return () if ALLOWANCES[self.trust].domain else self.rendered.beginnings(self._start(bases))

    def _start(self, bases: Mapping[str, ImageInfo]) -> str:
        return self.environment.base.reference if self.held else " ".join(base.id for base in bases.values())

    def name(self, bases: Mapping[str, ImageInfo]) -> str:
        """What the image is called in the engine: :meth:`tag`, with the domain of its cases.

        So an image that an untrusted case made is never taken for one of the user's own cases, whatever is in it.
        """
        repository, _, digest = self.tag(bases).partition(":")
        domain = ALLOWANCES[self.trust].domain
        return f"{repository}:{domain}-{digest}" if domain else f"{repository}:{digest}"


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """An image that exists: built now or before, in how many seconds, and what was measured in it.

    ``spec``: what it was made as: where a tag is gone, that is not what was asked for. ``bases``: what its Dockerfile
    starts from, by reference; the first is its base. ``fetched``: it came from another
    machine, through the site's registry, in these seconds.
    """

    spec: ImageSpec
    image: ImageInfo
    bases: Mapping[str, ImageInfo]
    built: bool
    seconds: float
    measured: Measured
    fetched: bool = False

    @property
    def base(self) -> ImageInfo:
        """What the image itself is built on."""
        return next(iter(self.bases.values()))


StandIns = Callable[[Trust], Mapping[str, Path]]
"""The folders that stand in for sources of cases that are trusted so far, by name."""


class SourceTrees:
    """Fetches each source of a run once, whatever number of cells names it."""

    def __init__(self, stand_ins: StandIns, note: Callable[[str], None]) -> None:
        self._stand_ins = stand_ins
        self._note = note
        self._trees: dict[tuple[str, SourceSpec, Trust], SourceTree] = {}
        self._failed: dict[tuple[str, SourceSpec, Trust], sources.SourceError] = {}

    def of(self, trust: Trust, spec: CellSpec) -> dict[str, SourceTree]:
        """The trees of a cell of a case that is trusted so far, by name. Raises sources.SourceError."""
        found = {}
        for name, source in spec.sources.items():
            # The path is where it goes, not what it is: the same tree may go to two places.
            key = (name, replace(source, path=""), trust)
            if key in self._failed:
                raise self._failed[key]
            if key not in self._trees:
                try:
                    self._trees[key] = self._fetch(name, source, trust)
                except sources.SourceError as error:
                    self._failed[key] = error  # a host that did not answer is not asked again for every cell
                    raise
                if self._trees[key].note:
                    self._note(self._trees[key].note)
            found[name] = replace(self._trees[key], path=source.path)
        return found

    def _fetch(self, name: str, source: SourceSpec, trust: Trust) -> SourceTree:
        return sources.fetch(name, source, trust, stand_in=self._stand_ins(trust).get(name))


def handed_files(task: Task) -> Mapping[str, FileSpec]:
    """The case's files that each container gets at its start, because no step of the build needs them."""
    return {} if dockerfile.build_reads_files(task.spec, task.datasets) else task.spec.files


def wanted(task: Task, supply: Supply, trees: SourceTrees, *, whole: bool = False) -> ImageSpec:
    """The image that a task needs. Raises Unsupported, or sources.SourceError.

    ``whole``: with all files of the case in it, so that it can be run by hand.
    """
    spec = task.spec
    if task.refused:
        raise Unsupported(task.refused)
    if task.bundled:
        text = f"# the image of {task.file.path}\n"
        return ImageSpec(
            environment=_resolved(task, supply),
            rendered=dockerfile.Rendered(dockerfile=text, context={}),
            trust=task.file.trust,
            bundled=task.bundled,
        )
    if task.held and supply.host:
        raise Unsupported("a lock holds a container image, to which a virtual environment of this host cannot keep")
    if spec.environment.sanitize and supply.host:
        raise Unsupported("environment.sanitize is for images: run it with --engine docker or podman")
    if lacking := sanitizing.unmet(spec):
        raise Unsupported(lacking)
    if task.held:
        environment, fetched = locked_environment(task.held, spec, partial(trees.of, task.file.trust))
    else:
        environment = _resolved(task, supply)
        fetched = trees.of(task.file.trust, spec)
    if not whole and (files := handed_files(task)):
        _check_places(files, fetched.values())
        spec = replace(spec, files={})
    pins = task.held.entry.pins if task.held else None
    rendered = dockerfile.render(environment, spec, sources=fetched, given_datasets=set(task.datasets), pins=pins)
    instead = "" if task.held else without_registry(task.spec, supply, environment)
    offline = "" if task.held or supply.host else without_downloads(task.spec, supply, environment)
    return ImageSpec(
        environment=environment,
        rendered=rendered,
        sources=fetched,
        held=task.held,
        instead=instead,
        otherwise=None if task.held else _without_tag(task, supply, environment, trees, whole=whole),
        offline=offline,
        trust=task.file.trust,
        build_time=spec.limits.build_time,
    )


def _without_tag(
    task: Task, supply: Supply, chosen: Environment, trees: SourceTrees, *, whole: bool
) -> ImageSpec | None:
    """The image that serves the task if NVIDIA has deleted the tag that it starts from; None where nothing would."""
    if chosen.cuda is None or chosen.cuda.source != "image":
        return None
    gone = chosen.base.reference
    try:
        found = wanted(task, replace(supply, missing=supply.missing | {gone}), trees, whole=whole)
    except Unsupported:
        return None
    note = f"the registry has no image {gone} any more: CUDA is served otherwise"
    return replace(found, environment=replace(found.environment, notes=(note, *found.environment.notes)))


def _resolved(task: Task, supply: Supply) -> Environment:
    if supply.host is None:
        return resolve(task.spec, supply)
    written = task.case.resources.model_fields_set
    return resolve_on(supply.host, task.spec, catalog=supply.catalog, written=written)


def _check_places(files: Iterable[str], trees: Iterable[SourceTree]) -> None:
    """Raise SourceError for a file that would take the place of something else than a file of a source's tree.

    The engine unpacks without a word: a link to a folder becomes an empty folder, and a folder a file.
    """
    for path, tree in itertools.product(files, trees):
        if not PurePosixPath(path).is_relative_to(tree.path):
            continue
        *folders, place = itertools.accumulate(
            PurePosixPath(path).relative_to(tree.path).parts, Path, initial=tree.archive
        )
        wrong = next((part for part in folders[1:] if part.is_symlink() or (part.exists() and not part.is_dir())), None)
        if wrong is None and place.is_dir() and not place.is_symlink():
            wrong = place
        if wrong is not None:
            kind = "a symbolic link" if wrong.is_symlink() else "a folder" if wrong.is_dir() else "a file"
            where = wrong.relative_to(tree.archive)
            raise sources.SourceError(
                f"files.{path} cannot be put into the source {tree.name}: its {where} is {kind}; choose another path"
            )


def make_ready(
    engine: Engine,
    measurements: Measurements,
    image: ImageSpec,
    *,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
    seen: SeenBases,
    since: float = 0.0,
    fresh: bool = False,
    keeper: Keeper,
    waits: Callable[[], bool] = lambda: False,
    share: ImageShare | None = None,
    times: ImageTimer | None = None,
) -> BuiltImage:
    """Find or build the image and measure it (once per image, ever). Raises what the engine's methods raise.

    ``keeper``: what makes room for it, and has it in use from now on, until its tag is given back. ``waits``: whether
    to wait with a build for room. ``seen`` and ``since``: which images of a registry count, as in
    :func:`reprokit.engine.bases.ensure`. ``fresh``: build it again, with what archives and indexes have today, in
    place of the one that exists. ``share``: where images come from that another machine has built, and go to.
    ``times``: takes its times.
    """
    times = times or ImageTimer(Timer())
    if image.bundled:
        return _loaded(engine, measurements, image, image.bundled, cancel, keeper)
    if share and not fresh and not since and not is_here(engine, image, seen):
        found = _taken(engine, measurements, image, on_progress, cancel, keeper, waits, share, times)
        if found is not None:
            return found
    with times.span("base"):
        image, found_bases = _starts(engine, measurements, image, on_progress, cancel, seen, since, keeper, share)
    tag = image.name(found_bases)
    keeper.uses.begin(tag, cancel)
    try:
        return _find_or_build(
            engine,
            measurements,
            image,
            tag,
            found_bases,
            on_progress,
            cancel,
            fresh=fresh,
            keeper=keeper,
            waits=waits,
            share=share,
            times=times,
        )
    except BaseException:
        keeper.uses.end(tag)
        raise


def name_of(
    engine: Engine,
    measurements: Measurements,
    image: ImageSpec,
    *,
    cancel: threading.Event,
    seen: SeenBases,
    since: float,
    keeper: Keeper,
    share: ImageShare | None,
) -> str:
    """What the image is called in the engine, whether it stands or not: the bases that it starts from are made ready.

    The arguments, and what is raised, are those of :func:`make_ready`.
    """
    found, bases = _starts(engine, measurements, image, lambda _: None, cancel, seen, since, keeper, share)
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
    return found is not None and engine.image(image.name(found)) is not None


def _starts(
    engine: Engine,
    measurements: Measurements,
    image: ImageSpec,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
    seen: SeenBases,
    since: float,
    keeper: Keeper,
    share: ImageShare | None,
) -> tuple[ImageSpec, dict[str, ImageInfo]]:
    """What the image starts from, and the image itself: the other one where a tag of NVIDIA's is gone."""
    from reprokit.engine import bases

    for base in image.environment.images:
        keeper.uses.begin(base.reference, cancel)  # before it is looked for
    watch = BuildWatch(cancel, image.build_time, engine.info(), image.trust)
    try:
        with watch.watching():
            found = _bases(engine, measurements, image, watch.follow(on_progress), watch.stop, seen, since, share)
    except Unsupported as error:
        if image.otherwise is None or not str(error).startswith(bases.NO_TAG):
            raise
        return _starts(engine, measurements, image.otherwise, on_progress, cancel, seen, since, keeper, share)
    return image, found


def _loaded(
    engine: Engine,
    measurements: Measurements,
    image: ImageSpec,
    bundled: BundledImage,
    cancel: threading.Event,
    keeper: Keeper,
) -> BuiltImage:
    """The image of a bundle. What it was built on, no one knows here."""
    keeper.uses.begin(bundled.tag, cancel)
    try:
        started = time.monotonic()
        found = engine.image(bundled.tag) or engine.load(bundled.archive, bundled.tag)
        seconds = time.monotonic() - started
        measured = measure(engine, measurements, found, cancel=cancel)
    except BaseException:
        keeper.uses.end(bundled.tag)
        raise
    base = replace(found, tag=image.environment.base.reference, id="", digest="")
    return BuiltImage(spec=image, image=found, bases={base.tag: base}, built=False, seconds=seconds, measured=measured)


def _taken(
    engine: Engine,
    measurements: Measurements,
    image: ImageSpec,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
    keeper: Keeper,
    waits: Callable[[], bool],
    share: ImageShare,
    times: ImageTimer,
) -> BuiltImage | None:
    """The image as another machine has it, with what it is built on there; None where it is not to be taken."""
    theirs = share.bases(image.key, image.environment.images, cancel)
    if not theirs:
        return None
    started = time.monotonic()
    tag = image.name(theirs)
    keeper.uses.begin(tag, cancel)
    try:
        with locked(_lock(tag), cancel, "image"), keeper.room(tag, cancel, waits=waits), times.span("fetch"):
            found = engine.image(tag)
            if fetched := found is None:
                on_progress(Progress(number=0, total=0, name="take the image from another machine"))
                found = share.fetch(as_shared(image, tag, theirs), cancel)
        if found is None:
            keeper.uses.end(tag)
            return None
        share.took(image.key, theirs)
        seconds = time.monotonic() - started
        with times.span("measuring"):
            measured = measure(engine, measurements, found, cancel=cancel)
    except BaseException:
        keeper.uses.end(tag)
        raise
    return BuiltImage(
        spec=image, image=found, bases=theirs, built=False, seconds=seconds, measured=measured, fetched=fetched
    )


def _lock(tag: str) -> Path:
    return cache.folder("locks") / f"image-{tag.rpartition(':')[2]}.lock"


def _find_or_build(
    engine: Engine,
    measurements: Measurements,
    image: ImageSpec,
    tag: str,
    found_bases: Mapping[str, ImageInfo],
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
    *,
    fresh: bool,
    keeper: Keeper,
    waits: Callable[[], bool],
    share: ImageShare | None,
    times: ImageTimer,
) -> BuiltImage:
    started = asked = time.monotonic()
    found = before = engine.image(tag)
    built = fetched = False
    if found is None or fresh:
        # Two that need the same image, such as a search and what it builds ahead, build it once.
        with locked(_lock(tag), cancel, "image"):
            found = None if fresh else engine.image(tag)
            shared = as_shared(image, tag, found_bases)
            if found is None and share and not fresh:
                with keeper.room(tag, cancel, waits=waits):
                    on_progress(Progress(number=0, total=0, name="look for the image on other machines"))
                    with times.span("fetch"):
                        found = share.fetch(shared, cancel)
                fetched, asked = found is not None, time.monotonic()
            if built := found is None:
                names = {name: base.tag for name, base in found_bases.items()}
                request = Build(
                    tag=tag,
                    dockerfile=image.rendered.starting_from(names),
                    context=image.rendered.context,
                    labels=shared.labels,
                    fresh=fresh,
                    trust=image.trust,
                    steps_of=share.steps(shared) if share and not fresh else (),
                )
                with keeper.room(tag, cancel, waits=waits):
                    started = time.monotonic()
                    times.add("waiting", asked, "for room on the disk, or another build of it")
                    watch = BuildWatch(cancel, image.build_time, engine.info(), image.trust)

                    def seen(progress: Progress) -> None:
                        times.see(progress)
                        if progress.took is None:
                            on_progress(progress)

                    with watch.watching(), times.span("build"):
                        found = _built(engine, image, request, watch.follow(seen), watch.stop)
                    uses.remember(tag, seconds=time.monotonic() - started)
                if share:
                    share.owe(shared)
    assert found is not None
    if before is not None and before.id != found.id:
        with contextlib.suppress(EngineError):  # a container still uses it
            engine.remove_image(before.id)
    seconds = time.monotonic() - started
    with times.span("measuring"):
        measured = measure(engine, measurements, found, cancel=cancel)
    return BuiltImage(
        spec=image, image=found, bases=found_bases, built=built, seconds=seconds, measured=measured, fetched=fetched
    )


def as_shared(image: ImageSpec, tag: str, bases: Mapping[str, ImageInfo]) -> SharedImage:
    """The image as machines share it, which carries the hash that its name has."""
    version = tag.rpartition(":")[2]
    return SharedImage(
        tag=tag,
        repository=REPOSITORIES[image.trust],
        version=version,
        labels={**IMAGE_LABELS, INPUTS: version},
        steps=image.steps(bases),
    )


def _built(
    engine: Engine,
    image: ImageSpec,
    request: Build,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
) -> ImageInfo:
    if image.held:
        return build_locked(engine, request, image.held, image.environment, on_progress, cancel)
    try:
        return engine.build(request, site.current(), on_progress, cancel)
    except BuildFailed as error:
        if image.offline and any(script in error.step for script in DOWNLOADS):
            raise Unsupported(image.offline) from error
        raise


def _bases(
    engine: Engine,
    measurements: Measurements,
    image: ImageSpec,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
    seen: SeenBases,
    since: float,
    share: ImageShare | None,
) -> dict[str, ImageInfo]:
    """The images that the Dockerfile starts from, by reference. A failure says what is available instead."""
    from reprokit.engine import bases

    found: dict[str, ImageInfo] = {}
    for base in image.environment.images:
        # Where the base is there, a step that downloads may be in the engine's cache.
        if image.offline and engine.info().storage and bases.standing(engine, base, seen) is None:
            for provider in downloading(image.environment):
                if why := providers.silent(provider, site.settings()):
                    raise Unsupported(f"{image.offline} ({provider}: {why})")
        if image.held and base == image.environment.base:

            def packages(base: ImageInfo) -> Mapping[str, str]:
                return measure(engine, measurements, base, cancel=cancel, user="root").packages["apt"]

            found[base.reference] = ensure_base(engine, image.held.entry, packages, cancel, on_progress)
            continue
        try:
            found[base.reference] = bases.ensure(engine, base, cancel, on_progress, seen=seen, since=since, share=share)
        except (Unsupported, EngineError) as error:
            if image.instead and str(error).startswith(bases.UNAVAILABLE):
                raise type(error)(f"{error}; {image.instead}") from error
            raise
    return found


def measure(
    engine: Engine, measurements: Measurements, image: ImageInfo, *, cancel: threading.Event, user: str = "repro"
) -> Measured:
    """What the image is, from the record if this probe has seen it, else from inside."""
    known = measurements.get(image.id, PROBE_VERSION)
    if known is not None:
        return known
    measured = probe.measure(engine, image, gpus=(), cancel=cancel, user=user)
    measurements.keep(image.id, PROBE_VERSION, measured)
    return measured


def image_record(ready: BuiltImage) -> ImageRecord:
    """The image as the record of a cell has it."""
    return ImageRecord(
        tag=ready.image.tag,
        id=ready.image.id,
        built=ready.built,
        seconds=round(ready.seconds, 3),
        size=ready.image.size,
        fetched=ready.fetched,
        digest=ready.image.digest,
    )
