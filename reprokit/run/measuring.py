"""Measures what an image is, from inside and once per image, and where that is not what a cell asks for.

A cell whose own variables decide what its command finds is measured once more, under these.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from reprokit.case.cellspec import Limits
from reprokit.core.errors import EngineError
from reprokit.engine.protocol import Engine, ImageInfo, Trial
from reprokit.environment import comparing
from reprokit.environment.measured import Measured, ProbeError
from reprokit.environment.probe import VERSION, command
from reprokit.run.images import BuiltImage
from reprokit.run.locked_build import departures
from reprokit.run.services import Services
from reprokit.run.task import Task

if TYPE_CHECKING:
    from reprokit.store.folder import Measurements

SECONDS = 120.0

FINDING = ("HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONUSERBASE")
"""The variables that decide which programs, libraries and packages a command finds."""


def measure(
    engine: Engine, measurements: Measurements, image: ImageInfo, *, cancel: threading.Event, user: str = "repro"
) -> Measured:
    """What the image is, from the record if this probe has seen it, else from inside. Raises as :func:`run_probe`."""
    known = measurements.get(image.id, VERSION)
    if known is not None:
        return known
    measured = run_probe(engine, image, cancel=cancel, user=user)
    measurements.keep(image.id, VERSION, measured)
    return measured


def measure_for(services: Services, task: Task, ready: BuiltImage) -> Measured:
    """The image as a task's command finds it: measured under the variables of its case. Raises Cancelled.

    What is not found under them is as the image has it: that may be what the case is about, or the command calls it by
    its path.
    """
    env = {name: value for name, value in task.spec.env.items() if name in FINDING}
    if not env:
        return ready.measured
    where = task.spec.workdir
    version = f"{VERSION}-{hashlib.sha256(json.dumps([where, env], sort_keys=True).encode()).hexdigest()[:16]}"
    if known := services.measurements.get(ready.image.id, version):
        return known
    own = ready.measured
    try:
        found = run_probe(services.engine, ready.image, cancel=services.cancel, env=env, workdir=where)
    except EngineError:  # under these variables not even a shell starts
        return own
    if found.python is None:
        return own
    values = {one.name: getattr(found, one.name) or getattr(own, one.name) for one in fields(Measured)}
    values["further"] = {name: found.further.get(name) or has for name, has in own.further.items()}
    services.measurements.keep(ready.image.id, version, known := Measured(**values))
    return known


def run_probe(
    engine: Engine,
    image: ImageInfo,
    *,
    gpus: tuple[str, ...] = (),
    cancel: threading.Event,
    user: str = "repro",
    env: Mapping[str, str] | None = None,
    workdir: str = "/",
) -> Measured:
    """Run the probe in ``image``, without network, seeing ``gpus`` (device ids). Raises EngineError, Cancelled.

    ``user``: a base image has none of ours, and root always.

    An image that cannot even run ``sh`` raises EngineError, which says what it printed.
    """

    output: list[bytes] = []
    trial = Trial(
        image=image.id,
        command=command(),
        env=env or {},
        workdir=workdir,
        limits=Limits(gpus=len(gpus), timeout=SECONDS, network="none", user=user),
        gpus=gpus,
        labels={"org.reprokit.probe": VERSION},
    )
    ending = engine.run(trial, output.append, cancel)
    text = b"".join(output).decode("utf-8", "replace")
    try:
        return Measured.parse(text)
    except ProbeError as error:
        why = "reached its time limit" if ending.timed_out else f"exit status {ending.exit_code}"
        raise EngineError(f"cannot measure the image {image.tag or image.id} from inside ({why}): {error}") from error


def mismatches(services: Services, task: Task, ready: BuiltImage) -> list[str]:
    """Where the image measures otherwise than the cell asks, in words. Raises Cancelled."""
    measured, catalog = measure_for(services, task, ready), services.host.catalog
    differs = comparing.compare(task.cell, measured, catalog)
    differs += comparing.broken_pins(task.spec, measured)
    differs += comparing.compare_builds(task.spec, measured, catalog)
    differs += comparing.lacking_libraries(task.spec, measured)
    if task.held:
        own = not task.datasets
        differs += departures(task.held.lock, task.held.entry, ready.image.tag, ready.measured, comparable=own)
    return differs
