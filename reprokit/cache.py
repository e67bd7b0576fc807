"""Where things are kept between runs that can be made again: fetched sources, compiled templates, answers."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """The folder for one kind of thing below ``$XDG_CACHE_HOME/reprokit`` (``~/.cache/reprokit``); it may not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "reprokit" / name
