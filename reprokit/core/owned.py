"""Whose a file is: settings are obeyed only where they are the user's own, as git does (safe.directory)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from reprokit.core.text import whole_number


def other_owner(path: Path, environ: Mapping[str, str] = os.environ) -> str:
    """The user who owns the file or folder, or the link to it, where that is not this user or root; else ''.

    Under sudo, what belongs to the user who called it is this user's. What does not exist is no one's.
    """
    own = {0, os.geteuid()}
    if os.geteuid() == 0 and (caller := whole_number(environ.get("SUDO_UID", ""))) is not None:
        own.add(caller)
    with suppress(OSError):
        for found in (path.lstat(), path.stat()):
            if found.st_uid not in own:
                return user_name(found.st_uid)
    return ""


def user_name(uid: int) -> str:
    """``alice``, or ``the user 1001`` where it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"
