"""Logs of real programs, each with a sidecar that says what must be read out of it.

A log ``NAME.log`` was recorded from the program in ``NAME.yaml`` (paths of the recording machine replaced) and is never
edited. ``versions.json`` holds what the rules made of each log, by the rules' version: see :mod:`.versions`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
LOGS = sorted(path.stem for path in FOLDER.glob("*.log"))


@cache
def load(name: str) -> tuple[str, dict[str, Any]]:
    """The text of the log of that name, and its sidecar."""
    text = (FOLDER / f"{name}.log").read_bytes().decode("utf-8", "replace")
    return text, yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
