"""Where things are kept between runs that can be made again: fetched sources, compiled templates, answers."""

from __future__ import annotations

import atexit
import functools
import os
import tempfile
from pathlib import Path


def folder(name: str) -> Path:
    """The folder for one kind of thing below ``$XDG_CACHE_HOME/reprokit`` (``~/.cache/reprokit``); it may not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "reprokit" / name
    try:
        return Path.home() / ".cache" / "reprokit" / name
    except RuntimeError:  # a user without home and name, as in containers: a private folder, for this process alone
        return Path(_scratch()) / name


@functools.cache
def _scratch() -> str:
    scratch = tempfile.TemporaryDirectory(prefix="reprokit-cache-")
    atexit.register(scratch.cleanup)
    return scratch.name
