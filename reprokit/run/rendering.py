"""Writes the images that tasks need as folders: for plain ``docker build``, or for a development container."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from reprokit.case.cellspec import SourceSpec
from reprokit.case.limits import option_words
from reprokit.case.matrix import label
from reprokit.case.trust import Trust
from reprokit.core.errors import EngineError, Unsupported, UsageError
from reprokit.core.terminal import echo, echo_data
from reprokit.engine import bases, registry
from reprokit.engine.protocol import Engine, ImageInfo, Trial
from reprokit.environment.dockerfile import Rendered
from reprokit.environment.model import SourceTree
from reprokit.run import sources
from reprokit.run.admitting import supply_of
from reprokit.run.images import ImageSpec, image_for
from reprokit.run.locked_build import ensure_base as ensure_base
from reprokit.run.measuring import run_probe
from reprokit.run.request import Request
from reprokit.run.sources import SourceTrees, StandIns
from reprokit.run.task import Task
from reprokit.run.trials import trial_of


def render_all(tasks: Sequence[Task], request: Request, output: Path | None) -> int:
    """Print the Dockerfiles, or write a folder per image below ``output``. 0, or 3 where some cell has no image."""
    supply = supply_of(request)
    trees = _Lenient(request.sources_for)
    images: dict[str, tuple[ImageSpec, list[Task]]] = {}
    refused = 0
    for task in tasks:
        try:
            image = image_for(task, supply, trees, whole=True)
        except Unsupported as error:
            refused += 1
            echo(f"{task.case.id}: {label(task.cell)}: unsupported: {error}", err=True)
            continue
        images.setdefault(image.key, (image, []))[1].append(task)
    taken: set[Path] = set()
    for image, sharing in images.values():
        names = "".join(f"\n#   {task.case.id}: {label(task.cell)} [{task.variant}]" for task in sharing)
        if output is None:
            echo_data(f"# {len(sharing)} cell(s) of this image:{names}\n{image.rendered.dockerfile}")
            continue
        folder = output / folder_name(sharing[0])
        if folder in taken:  # values that differ only in what a folder's name cannot hold
            folder = folder.with_name(f"{folder.name}-{hashlib.sha256(image.key.encode()).hexdigest()[:8]}")
        taken.add(folder)
        write_folder(folder, image)
        echo(f"{folder}: {len(sharing)} cell(s), FROM {image.environment.base.reference}")
    if output is not None:
        make_bases({image.environment.base.reference: image for image, _ in images.values()}, request)
    for text in trees.missing.values():
        echo(f"the build context is incomplete: {text}", err=True)
    return 3 if refused else 0


def make_bases(images: Mapping[str, ImageSpec], request: Request) -> None:
    """Make the base images that no registry has, so that plain ``docker build`` finds what FROM names."""
    made = [image for image in images.values() if image.environment.base.source == "bootstrap"]
    if not made:
        return
    engine, cancel = registry.make(request.engine), threading.Event()
    for image in made:
        base = image.environment.base
        try:
            if image.held is None:
                bases.bootstrapped(engine, base, cancel, lambda progress: None)
            else:
                packages = partial(_packages, engine)
                ensure_base(engine, image.held.entry, packages, image.trust, cancel, lambda progress: None)
        except (EngineError, Unsupported) as error:
            echo(f"note: {base.reference} is not in the engine and cannot be made here: {error}", err=True)


def _packages(engine: Engine, base: ImageInfo) -> Mapping[str, str]:
    measured = run_probe(engine, base, cancel=threading.Event(), user="root")
    return measured.packages["apt"]


class _Lenient(SourceTrees):
    """A source that cannot be fetched here leaves its folder empty: the Dockerfile is still worth reading."""

    def __init__(self, stand_ins: StandIns) -> None:
        super().__init__(stand_ins, lambda text: echo(f"note: {text}", err=True))
        self.missing: dict[str, str] = {}
        self._empty = tempfile.TemporaryDirectory(prefix="reprokit-render-")

    def _fetch(self, name: str, source: SourceSpec, trust: Trust) -> SourceTree:
        try:
            return super()._fetch(name, source, trust)
        except sources.SourceError as error:
            self.missing[f"{name} {source.git} {source.ref}"] = str(error)
        return SourceTree(
            name=name, commit="", digest="sha256:missing", archive=Path(self._empty.name), path=source.path
        )


def whole_image(task: Task, request: Request) -> ImageSpec:
    """The image of one task, with all files of the case. Raises Unsupported, UsageError, sources.SourceError."""
    trees = SourceTrees(request.sources_for, lambda text: echo(f"note: {text}", err=True))
    return image_for(task, supply_of(request), trees, whole=True)


def folder_name(task: Task) -> str:
    """A folder name that tells case and cell apart: ``ptxas-unknown-arch_cuda-12.0``."""
    cell = "_".join(f"{name}-{value}" for name, value in task.cell.items())
    words = "_".join(part for part in (task.case.id, cell, "fix" if task.variant == "fix" else "") if part)
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in words)[:180]


def write_context(folder: Path, rendered: Rendered) -> None:
    """Write a Dockerfile and its context to a new folder, so that ``docker build FOLDER`` makes the image."""
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(rendered.dockerfile, encoding="utf-8")
    for name, content in rendered.context.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            shutil.copytree(content, target, symlinks=True)


def write_folder(folder: Path, image: ImageSpec) -> None:
    """Write Dockerfile and context to ``folder``, whole or not at all; replaces what an earlier render wrote there."""
    if folder.exists() and not (folder / "Dockerfile").is_file():
        raise UsageError(f"{folder} exists and holds no Dockerfile: not overwriting it; choose another --output")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".render-") as scratch:
        made = Path(scratch) / "made"
        write_context(made, image.rendered)
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)


PLACE = ".devcontainer"
_SUBSTITUTED = re.compile(r"\$\{\s*(?:\w*env|config|command|input|workspace|\w*workspacefolder|devcontainerid)", re.I)
"""What editors replace by something of the user's host. There is no way to write it as it is."""


def write_devcontainer(task: Task, request: Request, output: Path) -> None:
    """Write ``output``/.devcontainer, whole or not at all; makes a base image that no registry has.

    Raises UsageError where ``output`` is not empty, and Unsupported where the cell has no image.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is not an empty folder: name a new one with --output")
    image = whole_image(task, request)
    text = json.dumps(_devcontainer_content(task), indent=2, ensure_ascii=False) + "\n"
    if found := _SUBSTITUTED.search(text):
        raise UsageError(
            f"{task.file.path}: its text has {found[0]}...}}, which an editor replaces by something of your host: "
            "it cannot be exported; reprokit shell opens the cell"
        )
    rendered = replace(image.rendered, context={**image.rendered.context, "devcontainer.json": text.encode()})
    write_folder(output / PLACE, replace(image, rendered=rendered))
    make_bases({image.environment.base.reference: image}, request)


def _devcontainer_content(task: Task) -> Mapping[str, Any]:
    """What devcontainer.json says of a cell. Nothing of the host is mounted but data that the user named."""
    trial, limits = trial_of(task, "", ""), task.spec.limits
    options = option_words(limits, ("shm_size", "ipc", "ulimits"))
    return {
        "name": f"{task.case.id}: {label(task.cell)}{' (fix)' if task.variant == 'fix' else ''}",
        "build": {"dockerfile": "Dockerfile", "context": "."},
        "workspaceFolder": task.spec.workdir,
        "workspaceMount": "",
        "containerEnv": dict(trial.env),
        "remoteUser": limits.user,
        "updateRemoteUserUID": False,
        "init": True,
        **({"runArgs": options} if options else {}),
        **({"hostRequirements": {"gpu": True}} if limits.gpus else {}),
        **({"mounts": _mounts(trial)} if trial.mounts else {}),
    }


def _mounts(trial: Trial) -> list[str]:
    if wrong := next((one.source for one in trial.mounts if set('",') & set(f"{one.source}{one.target}")), None):
        raise UsageError(f"{wrong}: an editor cannot mount a path with a comma or a quote")
    return [f"type=bind,source={one.source},target={one.target},readonly" for one in trial.mounts]
