"""Starts a sandbox: becomes who runs it, and then bubblewrap, by the description on standard input.

Standard library only, and nothing of reprokit: it runs with ``python -I -S``. The description, which
:mod:`reprokit.engine.venv.sandbox` writes, begins with its length in ten digits. It is read to its end and no further:
standard input stays open for process 1 of the sandbox (:mod:`reprokit.engine.venv.inside`), which takes orders from it.
Standard error becomes the ``status`` pipe, on which whatever goes wrong is reported.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
from typing import Any, NoReturn

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
KEYCTL_JOIN_SESSION_KEYRING = 1
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    """Raise OSError, saying ``what``, when a C function failed."""
    if result == -1:
        raise OSError(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    words = [os.fsencode(text) if text else None for text in (source, target, kind, options)]
    checked(libc.mount(*words[:3], ctypes.c_ulong(flags), words[3]), f"mount {source} on {target}")


def stage(sources: list[str], place: str) -> None:
    """Show ``sources`` as ``place``/0, /1 and so on, to this process and its children alone.

    The user that root becomes may not pass the folders above them.
    """
    checked(libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    opened = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]
    mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for number, descriptor in enumerate(opened):
        target = f"{place}/{number}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target)  # noqa: PTH102 - every start of a sandbox would import pathlib for it
        else:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        mount(f"/proc/self/fd/{descriptor}", target, flags=MS_BIND | MS_REC)


def exactly(size: int) -> bytes:
    """So many bytes of standard input."""
    found = b""
    while len(found) < size:
        more = os.read(0, size - len(found))
        if not more:
            raise OSError("the description ends early")
        found += more
    return found


def handed(text: str) -> int:
    """A descriptor, for process 1, of a file in memory that holds ``text``."""
    descriptor = os.memfd_create("reprokit", 0)
    os.write(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def enter(asked: dict[str, Any]) -> NoReturn:
    """Become bubblewrap."""
    inside = asked["inside"]
    inside["outputs"] = [os.dup(1), os.dup(2)]
    inside["joins"] = [os.open(path, os.O_WRONLY) for path in asked["cgroups"]]
    for descriptor in (*inside["outputs"], *inside["joins"]):
        os.set_inheritable(descriptor, True)
    os.dup2(inside["status"], 2)
    if asked["user"] is not None:
        stage(asked["staged"], asked["stage"])
        os.setgroups([])
        os.setresgid(asked["user"], asked["user"], asked["user"])
        os.setresuid(asked["user"], asked["user"], asked["user"])
    # Not earlier: who becomes another user loses it.
    checked(libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "prctl")
    if os.getppid() != asked["parent"]:
        os._exit(1)
    if number := SYS_KEYCTL.get(os.uname().machine):  # a new session keyring: ours may hold keys
        libc.syscall(ctypes.c_long(number), ctypes.c_long(KEYCTL_JOIN_SESSION_KEYRING), None)
    words = [*asked["bubblewrap"], str(handed(json.dumps(inside))), str(handed(asked["program"]))]
    os.execve(words[0], words, {})


def main() -> None:
    """The process of its own."""
    asked = json.loads(exactly(int(exactly(10))))
    try:
        enter(asked)
    except BaseException as error:
        os.write(asked["inside"]["status"], str(error).encode())


if __name__ == "__main__":
    main()
