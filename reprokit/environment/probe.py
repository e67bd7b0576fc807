"""The command that runs inside an image and prints what the image is. Pure: :mod:`reprokit.run.measuring` runs it."""

from __future__ import annotations

from pathlib import Path

from reprokit.environment.axes import AXES

VERSION = "6"
"""Version of what is measured and how; recorded with each measurement."""


def command() -> tuple[str, ...]:
    """The argv that measures the image it runs in; prints what ``Measured.parse`` reads."""
    folder = Path(__file__).parent
    shell = folder.joinpath("probe_inside.sh").read_text(encoding="utf-8")
    # The end comes last of all: output that was cut off is refused.
    shell = "\n".join((shell, *(axis.measure.script for axis in AXES), "section end\n"))
    python = folder.joinpath("probe_inside.py").read_text(encoding="utf-8")
    return ("sh", "-c", shell, "probe", python)
