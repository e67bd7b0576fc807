"""Logs of builds that failed, made by :mod:`.make` on an engine from ``cases.yaml``, which says what is expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "cases.yaml").read_text(encoding="utf-8"))


def load(name: str) -> tuple[str, tuple[str, ...]]:
    """The failed step of that case, and its last lines."""
    step, *lines = (FOLDER / f"{name}.log").read_text(encoding="utf-8").splitlines()
    return step, tuple(lines)
