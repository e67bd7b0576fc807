"""The probe: runs inside an image, once, and tells what the image is."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.cellspec import Limits
from reprokit.core.errors import EngineError
from reprokit.environment.measured import Measured, ProbeError

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine, ImageInfo

__all__ = ["VERSION", "Measured", "ProbeError", "command", "measure"]

VERSION = "2"
"""Version of what is measured and how; recorded with each measurement."""

SECONDS = 120.0


def command() -> tuple[str, ...]:
    """The argv that measures the image it runs in; prints what ``Measured.parse`` reads."""
    folder = Path(__file__).parent
    shell = folder.joinpath("probe_inside.sh").read_text(encoding="utf-8")
    python = folder.joinpath("probe_inside.py").read_text(encoding="utf-8")
    return ("sh", "-c", shell, "probe", python)


def measure(
    engine: Engine, image: ImageInfo, *, gpus: tuple[str, ...], cancel: threading.Event, user: str = "repro"
) -> Measured:
    """Run the probe in ``image``, without network, seeing ``gpus`` (device ids). Raises EngineError, Cancelled.

    ``user``: a base image has none of ours, and root always.

    An image that cannot even run ``sh`` raises EngineError, which says what it printed.
    """
    from reprokit.engine.protocol import Trial

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
