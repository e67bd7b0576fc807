"""What must hold whatever untrusted text says, beyond that nothing crashes."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reprokit.core.errors import CaseError, ReprokitError

_WRITES = {
    "os.mkdir": (0, 2),
    "os.remove": (0, 1),
    "os.rmdir": (0, 1),
    "os.rename": (0, 2, 1, 3),
    "os.link": (1, 3),
    "os.symlink": (1, 2),
    "os.chmod": (0, 2),
    "os.chown": (0, 3),
}
"""Audit events that change the file system: where in their arguments paths are, each with its folder's descriptor."""
_NEVER = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.bind"}
_CHILD = [sys.executable, "-I", "-S"]
"""How the child begins in which templates are rendered."""
_folder: Path | None = None
_hooked = False


class Violation(AssertionError):
    """Untrusted text did what none may."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _folder is None:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) if isinstance(flags, int) else mode != "r"
        if writes:
            _below(path, event)
    elif places := _WRITES.get(event):
        for path, folder in zip(places[::2], places[1::2], strict=True):
            _below(arguments[path], event, arguments[folder])
    elif event in _NEVER and not (event == "subprocess.Popen" and list(arguments[1][:3]) == _CHILD):
        raise Violation(f"{event}: {arguments!r:.200}")


def _below(path: Any, event: str, descriptor: int = -1) -> None:
    if isinstance(path, int) or _folder is None:
        return  # an open file
    base = Path(f"/proc/self/fd/{descriptor}").readlink() if descriptor >= 0 else Path.cwd()
    where = base / os.fsdecode(path)
    # The parent's links count; the file itself may be a link that is being removed.
    real = where.parent.resolve() / where.name
    if str(path) != os.devnull and not real.is_relative_to(_folder):
        raise Violation(f"{event} outside of the folder: {where}")


@contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Raises Violation where the block writes outside of ``folder``, starts a program or opens a connection.

    Errors that are meant for users end the block, after a look at the positions that they name.
    """
    global _folder, _hooked
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True
    _folder = folder.resolve()
    usual, tempfile.tempdir = tempfile.tempdir, str(_folder)
    try:
        yield
    except ReprokitError as error:
        if not str(error).strip():
            raise Violation(f"{type(error).__name__} says nothing") from error
    finally:
        _folder, tempfile.tempdir = None, usual


@contextmanager
def located(text: str) -> Iterator[None]:
    """Raises Violation where a problem of a case is at a position that ``text`` does not have."""
    try:
        yield
    except CaseError as error:
        lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)  # YAML's
        for problem in error.problems:
            inside = 1 <= problem.line <= len(lines) + 1
            longest = len(lines[problem.line - 1]) if inside and problem.line <= len(lines) else 0
            if not inside or not 1 <= problem.column <= longest + 2:
                raise Violation(f"no such position: {problem}") from error
        raise


def holds(condition: bool, what: str) -> None:
    """Raises Violation unless the property holds."""
    if not condition:
        raise Violation(what)
