"""Where things are kept between runs that can be made again: fetched sources, compiled templates, answers."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.core.errors import UsageError
from reprokit.core.owned import other_owner

if TYPE_CHECKING:
    from jinja2 import BytecodeCache
    from jinja2.bccache import Bucket


def folder(name: str) -> Path:
    """The folder for one kind of thing below ``$XDG_CACHE_HOME/reprokit`` (``~/.cache/reprokit``); it may not exist.

    Raises UsageError for a cache that another user may write: builds take from it without a question.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return _own(Path(base) if base else Path.home() / ".cache") / name
    except RuntimeError:  # a user without home and name, as in containers: a private folder, for this process alone
        return Path(_scratch()) / name


def _own(base: Path) -> Path:
    found = base / "reprokit"
    owner = other_owner(found)
    if owner or (found.is_dir() and found.stat().st_mode & stat.S_IWOTH):
        whose = f"belongs to {owner}" if owner else "can be written by every user of this host"
        do = "name another folder by XDG_CACHE_HOME" if owner else f"remove what is not yours, and `chmod o-w {found}`"
        raise UsageError(f"the cache {found} {whose}, and what is in it is built and run: {do}")
    return found


@functools.cache
def _scratch() -> str:
    scratch = tempfile.TemporaryDirectory(prefix="reprokit-cache-")
    atexit.register(scratch.cleanup)
    return scratch.name


def compiled_templates() -> BytecodeCache | None:
    """Compiled templates of earlier runs, which Jinja2 checks against the text; None where none can be kept."""
    import jinja2

    place = folder("templates")
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None

    class Cache(jinja2.FileSystemBytecodeCache):
        """A cache that may be deleted while we run: templates are then compiled without it."""

        def dump_bytecode(self, bucket: Bucket) -> None:
            with contextlib.suppress(OSError):
                super().dump_bytecode(bucket)

    return Cache(str(place))
