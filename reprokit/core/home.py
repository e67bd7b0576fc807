"""The user's home folder, for users who have none, too."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

NOWHERE = Path("/nonexistent")


def home(environ: Mapping[str, str]) -> Path:
    """``$HOME``, else that of the user; a folder that does not exist for a user without home and name."""
    with suppress(RuntimeError):
        return Path(environ.get("HOME") or "~").expanduser()
    return NOWHERE


def is_file(path: Path) -> bool:
    """Whether there is such a file; a file in a folder that this user cannot read does not count."""
    with suppress(OSError):
        return path.is_file()
    return False
