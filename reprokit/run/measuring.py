"""Measures what an image is, from inside and once per image, and where that is not what a cell asks for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from reprokit.case.cellspec import Limits
from reprokit.core.errors import EngineError
from reprokit.engine.protocol import Engine, ImageInfo, Trial
from reprokit.environment import comparing
from reprokit.environment.catalog import Catalog
from reprokit.environment.measured import Measured, ProbeError
from reprokit.environment.probe import VERSION, command
from reprokit.run.images import BuiltImage
from reprokit.run.locked_build import departures
from reprokit.run.task import Task

if TYPE_CHECKING:
    from reprokit.store.folder import Measurements

SECONDS = 120.0


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


def run_probe(
    engine: Engine, image: ImageInfo, *, gpus: tuple[str, ...] = (), cancel: threading.Event, user: str = "repro"
) -> Measured:
    """Run the probe in ``image``, without network, seeing ``gpus`` (device ids). Raises EngineError, Cancelled.

    ``user``: a base image has none of ours, and root always.

    An image that cannot even run ``sh`` raises EngineError, which says what it printed.
    """

    output: list[bytes] = []
    trial = Trial(
        image=image.id,
        command=command(),
        env={},
        workdir="/",
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


def mismatches(task: Task, ready: BuiltImage, catalog: Catalog) -> list[str]:
    """Where the image measures otherwise than the cell asks, in words."""
    differs = comparing.compare(task.cell, ready.measured, catalog)
    differs += comparing.compare_builds(task.spec, ready.measured, catalog)
    differs += comparing.lacking_libraries(task.spec, ready.measured)
    if task.held:
        own = not task.datasets
        differs += departures(task.held.lock, task.held.entry, ready.image.tag, ready.measured, comparable=own)
    return differs
