"""From an image that exists to its lock: what it has beyond its base, and the hash of every file that pip put there."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprokit.case.cellspec import Limits
from reprokit.core import json_text
from reprokit.core.errors import BuildFailed, EngineError, Unsupported
from reprokit.core.ownership import IMAGE_LABELS
from reprokit.engine import site
from reprokit.engine.protocol import Build, Engine, ImageInfo, Progress, Trial
from reprokit.environment import bootstrap, dockerfile, installing
from reprokit.environment.axes import AXES
from reprokit.environment.lock import Artefact, LockedBase, Pins, base_reference
from reprokit.environment.measured import Measured
from reprokit.environment.model import Environment

TAG_PREFIX = "reprokit/lock:"
"""Name of the images in which hashes are taken; each is removed at once."""
SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Standing:
    """An image that exists, with its base, and what was measured in the two.

    ``before``: builds of the image as each step of pip leaves it, but for the last step.
    """

    environment: Environment
    image: ImageInfo
    base: ImageInfo
    measured: Measured
    base_measured: Measured
    before: tuple[Build, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Hashed:
    """The files of the axes by group, those that each step of pip put there, and name -> version of local packages."""

    groups: Mapping[str, tuple[Artefact, ...]] = field(default_factory=dict)
    steps: tuple[tuple[Artefact, ...], ...] = ((),)
    local: Mapping[str, str] = field(default_factory=dict)


def pins_of(
    engine: Engine, standing: Standing, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> Pins:
    """What a locked build of the same image installs. Raises Unsupported for what cannot be pinned, EngineError."""
    environment = standing.environment
    _check_providers(environment)
    before, after = standing.base_measured.packages, standing.measured.packages
    hashed = _Hashed()
    if after.get("pip") or environment.installs:
        hashed = _hashes(engine, standing, cancel, on_progress)
    own = [one for step in hashed.steps for one in step if one.name == "pip" and environment.installs]
    *earlier, last = (tuple(one for one in step if one not in own) for step in hashed.steps)
    return Pins(
        base=_base(standing),
        date=_date(standing.image.created),
        apt={name: version for name, version in after["apt"].items() if before["apt"].get(name) != version},
        pip_itself=tuple(own),
        pip=last,
        pip_steps=tuple(earlier),
        cuda=hashed.groups.get("cuda", ()),
        cudnn=hashed.groups.get("cudnn", ()),
        trees={name: found for name, found in hashed.groups.items() if name in environment.parts},
        local=hashed.local,
    )


def _check_providers(environment: Environment) -> None:
    """An interpreter of uv's is one of an exact version, whose hash uv knows; these are not."""
    gcc = environment.gcc
    if environment.base.source == "host":
        raise Unsupported("a lock holds a container image, and a virtual environment of this host is not one")
    if environment.manager == "dnf":
        raise Unsupported(f"a lock holds no RPM packages, and {environment.os or 'this image'} has them")
    parts = {"python": environment.python, "gcc": gcc, "cuda": environment.cuda, "cudnn": environment.cudnn}
    if solved := [f"{name} {part.version}" for name, part in parts.items() if part and part.source == "conda"]:
        verb = "is" if len(solved) == 1 else "are"
        raise Unsupported(
            f"{' and '.join(solved)} of conda-forge {verb} solved when it is built, and no lock holds what comes out"
        )
    if gcc and gcc.source == "image" and "@sha256:" not in gcc.image:
        raise Unsupported(f"gcc {gcc.version} comes from the image {gcc.image}, which is not known by its digest")


def _base(standing: Standing) -> LockedBase:
    base = standing.environment.base
    if base.source == "bootstrap":
        packages = standing.base_measured.packages["apt"]
        return LockedBase(
            name=base.name,
            source=base.source,
            reference=base_reference(base.name, bootstrap.RECIPE, packages),
            recipe=bootstrap.RECIPE,
            packages=packages,
        )
    if "@sha256:" not in base.reference and not standing.base.digest:
        raise Unsupported(
            f"the base image {base.reference} is in this engine alone, so that no lock can name it for another: "
            "push it to a registry and name it from there"
        )
    pinned = base.reference if "@" in base.reference else f"{base.reference}@{standing.base.digest}"
    return LockedBase(name=base.name, source=base.source, reference=pinned)


def _date(created: str) -> str:
    """An engine's time stamp in whole seconds, UTC."""
    moment = datetime.fromisoformat(f"{created[:19]}+00:00") if created else datetime.now(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _hashes(
    engine: Engine, standing: Standing, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> _Hashed:
    """What pip installed; its cache is warm from the build."""
    environment = standing.environment
    brought = standing.base_measured.packages.get("pip", {})
    # A virtual environment of ours sees nothing of what its base brought.
    skip = {} if environment.venv else {str(canonicalize_name(name)): version for name, version in brought.items()}
    axes = {axis.name: wheels for axis in AXES if axis.locked and (wheels := axis.locked(environment))}
    steps: list[tuple[Artefact, ...]] = []
    local: dict[str, str] = {}
    groups: dict[str, tuple[Artefact, ...]] = {}
    for number, before in enumerate((*standing.before, None)):
        own = environment.pip[number : number + 1]
        said = [text for step in own for text in (*step.options, *step.requirements)]
        words = [word for text in (*environment.pip_options, *said) for word in installing.split_words(text)]
        asked = {"options": installing.index_options(words), "skip": skip, "groups": {} if before else axes}
        with _as_left(engine, before, standing.image.tag, cancel, on_progress) as image:
            found = _asked_inside(engine, image, asked, cancel, on_progress, before=environment.pip_before)
        groups = {name: tuple(Artefact(**one) for one in rows) for name, rows in found["groups"].items()}
        steps.append(groups.pop("pip"))
        local |= {canonicalize_name(name): version for name, version in found["local"].items()}
        skip = {**skip, **local, **{one.name: one.version for one in steps[-1]}}
    return _Hashed(groups=groups, steps=tuple(steps), local=local)


@contextlib.contextmanager
def _as_left(
    engine: Engine, before: Build | None, whole: str, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> Iterator[str]:
    """The tag of the image as a step of pip leaves it, most of which the engine's cache has; ``whole``: after all."""
    if before is None:
        yield whole
        return
    try:
        engine.build(before, site.current(), on_progress, cancel)
    except BuildFailed as error:
        raise EngineError(f"the steps of pip cannot be taken again, one by one: {error}") from error
    try:
        yield before.tag
    finally:
        engine.remove_image(before.tag)


def _asked_inside(
    engine: Engine,
    image: str,
    asked: Mapping[str, Any],
    cancel: threading.Event,
    on_progress: Callable[[Progress], None],
    *,
    before: str = "",
) -> dict[str, Any]:
    """What ``hashes_inside.py`` prints in an image; ``before``: the limit of its pip."""
    files: Mapping[str, bytes | Path] = {
        "reprokit/hashes_inside.py": (Path(__file__).parent / "hashes_inside.py").read_bytes(),
        "reprokit/asked.json": json.dumps(asked, sort_keys=True).encode(),
    }
    rendered = dockerfile.render_one("hashes.j2", files, image=image, before=before)
    tag = lock_tag()
    build = Build(tag=tag, dockerfile=rendered.dockerfile, context=rendered.context, labels=IMAGE_LABELS)
    try:
        made = engine.build(build, site.current(), on_progress, cancel)
    except BuildFailed as error:
        said = [line for line in error.tail if "ERROR" in line] or list(error.tail[-3:])
        raise EngineError(f"what pip installed cannot be fetched again, to be hashed: {' '.join(said)}") from error
    try:
        found = _read(engine, made, cancel)
    finally:
        engine.remove_image(tag)
    if found["refused"]:
        raise Unsupported("; ".join(found["refused"]))
    return found


def lock_tag() -> str:
    """A name for an image that is removed at once: of its own, since another process may lock the same cell."""
    return TAG_PREFIX + uuid.uuid4().hex


def _read(engine: Engine, image: ImageInfo, cancel: threading.Event) -> dict[str, Any]:
    output: list[bytes] = []
    trial = Trial(
        image=image.id,
        command=("cat", "/reprokit-hashes.json"),
        env={},
        workdir="/",
        limits=Limits(timeout=SECONDS, user="root"),
    )
    engine.run(trial, output.append, cancel)
    text = b"".join(output).decode("utf-8", "replace")
    try:
        found: dict[str, Any] = json_text.loads(text)
    except ValueError:
        raise EngineError(f"the hashes that were taken in {image.tag} cannot be read: {text[-200:]}") from None
    return found
