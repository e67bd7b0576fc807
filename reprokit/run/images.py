"""From tasks to images: what each needs, and which tasks share one. Fetches sources, asks no engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from reprokit.case.cellspec import FileSpec, SourceSpec
from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core.errors import ReprokitError, Unsupported
from reprokit.engine.protocol import ImageInfo
from reprokit.environment import dockerfile, sanitizing
from reprokit.environment.measured import Measured
from reprokit.environment.model import Environment, SourceTree
from reprokit.environment.on_host import resolve_on
from reprokit.environment.resolving import resolve, without_downloads, without_registry
from reprokit.environment.supply import Supply
from reprokit.run import sources
from reprokit.run.locked_build import locked_environment
from reprokit.run.sources import SourceTrees
from reprokit.run.task import BundledImage, Task

if TYPE_CHECKING:
    from reprokit.environment.lock import PinnedEnvironment


@dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """An image that tasks need: where it starts and what is built on it."""

    environment: Environment
    rendered: dockerfile.Rendered
    sources: Mapping[str, SourceTree] = field(default_factory=dict)
    held: PinnedEnvironment | None = None
    instead: str = ""
    """What is available where a registry's image is not, in words."""
    otherwise: ImageSpec | None = None
    """What is built where it starts from an image of NVIDIA's whose tag is gone: CUDA has other providers."""
    offline: str = ""
    """Why the cell is not available where the downloads of a provider do not answer; '' if it needs none."""
    trust: Trust = Trust.OWN
    """In the cases that share it."""
    build_time: float | None = None
    """The most seconds that its build takes."""
    bundled: BundledImage | None = None
    """The image itself, where it is not built."""
    fresh: bool = False
    """Built by all its steps, whatever the engine has of earlier builds."""

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
    """An image that exists."""

    spec: ImageSpec
    """What it was made as: where a tag is gone, that is not what was asked for."""
    image: ImageInfo
    bases: Mapping[str, ImageInfo]
    """What its Dockerfile starts from, by reference; the first is its base."""
    built: bool
    """Now, rather than before."""
    seconds: float
    """That this took."""
    measured: Measured
    fetched: bool = False
    """It came from another machine, through the site's registry."""

    @property
    def base(self) -> ImageInfo:
        """What the image itself is built on."""
        return next(iter(self.bases.values()))


TasksOfImage = tuple[ImageSpec, list[Task]]


def handed_files(task: Task) -> Mapping[str, FileSpec]:
    """The case's files that each container gets at its start, because no step of the build needs them."""
    return {} if dockerfile.build_reads_files(task.spec, task.datasets) else task.spec.files


def image_for(task: Task, supply: Supply, trees: SourceTrees, *, whole: bool = False) -> ImageSpec:
    """The image that a task needs. Raises Unsupported, or sources.SourceError.

    ``whole``: with all files of the case in it, so that it can be run by hand.
    """
    spec = task.spec
    if task.refused:
        raise Unsupported(task.refused)
    if task.bundled:
        text = f"# the image {task.bundled.tag} of {task.file.path}\n"
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
    if task.rebuilt:
        rendered = replace(rendered, dockerfile=f"# built again for {task.rebuilt}\n{rendered.dockerfile}")
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
        fresh=bool(task.rebuilt),
    )


def _without_tag(
    task: Task, supply: Supply, chosen: Environment, trees: SourceTrees, *, whole: bool
) -> ImageSpec | None:
    """The image that serves the task if NVIDIA has deleted the tag that it starts from; None where nothing would."""
    if chosen.cuda is None or chosen.cuda.source != "image":
        return None
    gone = chosen.base.reference
    try:
        found = image_for(task, replace(supply, missing=supply.missing | {gone}), trees, whole=whole)
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


def group_by_image(tasks: Iterable[Task], image_of: Callable[[Task], ImageSpec | None]) -> list[TasksOfImage]:
    """Tasks by the image that they share, in their order, without those that ``image_of`` finds none for."""
    images: dict[str, TasksOfImage] = {}
    for task in tasks:
        if image := image_of(task):
            images.setdefault(image.key, (image, []))[1].append(task)
    return list(images.values())


class UnfetchedTrees(SourceTrees):
    """Sources that are named and not fetched: which images are the same depends on what they are asked to be."""

    def __init__(self, empty: Path) -> None:
        super().__init__(lambda trust: {}, lambda note: None)
        self._empty = empty

    def _fetch(self, name: str, source: SourceSpec, trust: Trust) -> SourceTree:
        return SourceTree(name=name, commit="", digest="", archive=self._empty, path=source.path)


def image_and_layers(task: Task, supply: Supply, trees: UnfetchedTrees) -> tuple[str, tuple[str, ...]] | None:
    """The key of a task's image, and its layers; None where the cell is refused before anything is built."""
    try:
        image = image_for(task, supply, trees)
    except ReprokitError:
        return None
    sources = [f"COPY {name} {source.git} {source.ref} {source.patch}" for name, source in task.spec.sources.items()]
    return " ".join([image.key, *sources]), (*steps(image.rendered.dockerfile), *sources, image.key)


def steps(dockerfile: str) -> tuple[str, ...]:
    """The instructions of a Dockerfile; each with all before it is a layer."""
    lines = [line for line in dockerfile.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return tuple(line for line in lines if line.split()[0] in ("FROM", "RUN", "COPY", "ADD"))
