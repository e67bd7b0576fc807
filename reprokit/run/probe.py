"""Runs the probe inside an image, once, and reads what it measured."""

from __future__ import annotations

import threading

from reprokit.case.cellspec import Limits
from reprokit.core.errors import EngineError
from reprokit.engine.protocol import Engine, ImageInfo, Trial
from reprokit.environment.measured import Measured, ProbeError
from reprokit.environment.probe import VERSION, command

SECONDS = 120.0


def measure(
    engine: Engine, image: ImageInfo, *, gpus: tuple[str, ...], cancel: threading.Event, user: str = "repro"
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
