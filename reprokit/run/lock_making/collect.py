"""From an image that stands to its lock: what it has beyond its base, and the hash of every file that pip put there."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprokit.case.cellspec import Limits
from reprokit.core.errors import BuildFailed, EngineError, Unsupported
from reprokit.core.ownership import IMAGE_LABELS
from reprokit.engine.protocol import Build, Engine, ImageInfo, Progress, Trial
from reprokit.environment import bootstrap, dockerfile
from reprokit.environment.axes import AXES
from reprokit.environment.lock import Artefact, LockedBase, Pins, base_reference
from reprokit.environment.measured import Measured
from reprokit.environment.model import Environment

TAG_PREFIX = "reprokit/lock:"
"""Name of the images in which hashes are taken; each is removed at once."""
SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Standing:
    """An image that stands, with its base, and what was measured in the two."""

    environment: Environment
    image: ImageInfo
    base: ImageInfo
    measured: Measured
    base_measured: Measured


def pins_of(
    engine: Engine, standing: Standing, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> Pins:
    """What a locked build of the same image installs. Raises Unsupported for what cannot be pinned, EngineError."""
    environment = standing.environment
    _check_providers(environment)
    before, after = standing.base_measured.packages, standing.measured.packages
    found = _hashes(engine, standing, cancel, on_progress) if after.get("pip") or environment.installs else {}
    groups = {name: [Artefact(**one) for one in rows] for name, rows in found.get("groups", {}).items()}
    own = [one for one in groups.get("pip", []) if one.name == "pip" and environment.installs]
    return Pins(
        base=_base(standing),
        date=_date(standing.image.created),
        apt={name: version for name, version in after["apt"].items() if before["apt"].get(name) != version},
        pip_itself=tuple(own),
        pip=tuple(one for one in groups.get("pip", []) if one not in own),
        cuda=tuple(groups.get("cuda", [])),
        cudnn=tuple(groups.get("cudnn", [])),
        trees={name: tuple(found) for name, found in groups.items() if name in environment.parts},
        local={canonicalize_name(name): version for name, version in found.get("local", {}).items()},
    )


def _check_providers(environment: Environment) -> None:
    """An interpreter of uv's is one of an exact version, whose hash uv knows; these are not."""
    gcc = environment.gcc
    if environment.base.source == "host":
        raise Unsupported("a lock holds a container image, and a virtual environment of this host is none")
    if gcc and gcc.source == "conda":
        raise Unsupported(
            f"gcc {gcc.version} of conda-forge is solved when it is built, and no lock holds what comes out"
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
    from datetime import datetime, timezone

    moment = datetime.fromisoformat(f"{created[:19]}+00:00") if created else datetime.now(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _hashes(
    engine: Engine, standing: Standing, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> dict[str, Any]:
    """What ``hashes_inside.py`` prints in the image; pip's cache is warm from the build."""
    from reprokit.engine import site

    rendered = _rendered(standing)
    digest = hashlib.sha256(json.dumps([rendered.dockerfile, rendered.tag(standing.image.id)]).encode()).hexdigest()
    tag = TAG_PREFIX + digest[:32]
    build = Build(tag=tag, dockerfile=rendered.dockerfile, context=rendered.context, labels=IMAGE_LABELS)
    try:
        image = engine.build(build, site.current(), on_progress, cancel)
    except BuildFailed as error:
        said = [line for line in error.tail if "ERROR" in line] or list(error.tail[-3:])
        raise EngineError(f"what pip installed cannot be fetched again, to be hashed: {' '.join(said)}") from error
    try:
        found = _read(engine, image, cancel)
    finally:
        engine.remove_image(tag)
    if found["refused"]:
        raise Unsupported("; ".join(found["refused"]))
    return found


def _rendered(standing: Standing) -> dockerfile.Rendered:
    environment = standing.environment
    words = [word for option in (*environment.pip_options, *environment.pip) for word in dockerfile.split_words(option)]
    brought = standing.base_measured.packages.get("pip", {})
    asked = {
        "options": dockerfile.index_options(words),
        # A virtual environment of ours sees nothing of what its base brought.
        "skip": {} if environment.venv else {canonicalize_name(name): version for name, version in brought.items()},
        "groups": {axis.name: found for axis in AXES if axis.locked and (found := axis.locked(environment))},
    }
    files: Mapping[str, bytes | Path] = {
        "reprokit/hashes_inside.py": (Path(__file__).parent / "hashes_inside.py").read_bytes(),
        "reprokit/asked.json": json.dumps(asked, sort_keys=True).encode(),
    }
    return dockerfile.render_one("hashes.j2", files, image=standing.image.tag)


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
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        raise EngineError(f"the hashes that were taken in {image.tag} cannot be read: {text[-200:]}") from None
    return found
