"""Process 1 of a sandbox: starts the program, takes orders about it, and says how it ended. bubblewrap starts it.

Standard library only, and nothing of reprokit: it runs with ``python -I -S`` on the Python that reprokit has, and it
must start fast. Its argument is the descriptor of its description, which :mod:`reprokit.engine.venv.sandbox` writes.
The ``status`` descriptor takes an empty line when the program has started, and one JSON object at the end::

    {"code": 0, "seconds": 1.5}    the program ended; above 128: 128 + the signal that ended it
    {"error": "..."}               it was never started

Standard input takes orders: ``T`` sends the program SIGTERM; anything else, and its end, kills all that runs. When
this process ends, the kernel ends whatever the program left.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import struct
import sys
import termios
import time
from typing import Any, NoReturn

SandboxRequest = dict[str, Any]

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 22, 38
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_RESTRICT_SELF = 444, 446
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1, 2
"""The kernel's landlock.h. The system calls have the same number on every architecture; scopes came with Linux 6.12."""

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """The result of a C function. Raises OSError, saying ``what``, when it failed."""
    if result == -1:
        raise OSError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


# --- what bubblewrap does not shut off --------------------------------------------------------------------------------


def scoped() -> bool:
    """Keep the program away from abstract sockets and processes of others by Landlock; whether this kernel can."""
    attributes = struct.pack("QQQ", 0, 0, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL)
    ruleset = libc.syscall(
        ctypes.c_long(SYS_LANDLOCK_CREATE_RULESET), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)
    )
    if ruleset == -1:
        return False
    checked(libc.syscall(ctypes.c_long(SYS_LANDLOCK_RESTRICT_SELF), ruleset, ctypes.c_uint(0)), "landlock")
    os.close(ruleset)
    return True


KEYS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}
"""Numbers of system calls: add_key, request_key, keyctl."""
KERNEL = {"x86_64": (103, 298, 321, 323), "aarch64": (116, 241, 280, 282)}
"""syslog, perf_event_open, bpf, userfaultfd."""
RINGS = (425, 426, 427)
"""io_uring, the same on every architecture."""
IOCTL = {"x86_64": 16, "aarch64": 29}
SOCKET = {"x86_64": 41, "aarch64": 198}
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they type into a terminal."""
FAMILIES = (1, 2, 10, 16)
"""unix, inet, inet6, netlink. Others, such as vsock, know no namespaces."""

_LOAD, _EQUAL, _ABOVE, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000

Step = tuple[int, int, int, int]


def answer(value: int, result: int) -> list[Step]:
    """Steps of a filter: the ``result`` for what was loaded, if it is ``value``."""
    return [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, result)]


def call_filter(machine: str, *, unix: bool) -> bytes:
    """The filter of system calls, for seccomp(2). ``unix``: sockets of that family may be made."""
    permission, absent = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    steps: list[Step] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    if machine == "x86_64":
        steps += [(_ABOVE, 0, 1, X32), (_RETURN, 0, 0, absent)]
    for number in (*KEYS[machine], *KERNEL[machine]):
        steps += answer(number, permission)
    for number in RINGS:
        steps += answer(number, absent)
    typing = [step for number in TERMINAL_INPUT for step in answer(number, permission)]
    steps += [(_EQUAL, 0, len(typing) + 2, IOCTL[machine]), (_LOAD, 0, 0, 24), *typing, (_RETURN, 0, 0, _ALLOW)]
    kinds = [step for family in (FAMILIES if unix else FAMILIES[1:]) for step in answer(family, _ALLOW)]
    steps += [(_EQUAL, 0, len(kinds) + 2, SOCKET[machine]), (_LOAD, 0, 0, 16), *kinds]
    steps += [(_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def shut_off(asked: SandboxRequest) -> None:
    """Refuse what no namespace keeps apart, from here on and for good.

    Abstract sockets belong to a network: with the host's, without Landlock, no socket of that family can be made.
    """
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "prctl")
    machine = os.uname().machine
    if machine not in KEYS:
        raise OSError(f"the numbers of system calls are not known for {machine}")
    text = call_filter(machine, unix=scoped() or asked["cut_off"])
    program = struct.pack("HxxxxxxP", len(text) // 8, ctypes.addressof(held := ctypes.create_string_buffer(text)))
    checked(libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), program, 0, 0), "seccomp")
    del held


# --- the program ------------------------------------------------------------------------------------------------------


def become(asked: SandboxRequest, report: int) -> NoReturn:
    """Turn this process into the program, or tell ``report`` why not."""
    try:
        os.setsid()
        for descriptor in asked["joins"]:
            os.write(descriptor, b"0")  # "0" is the process that writes
        for name, limit in asked["rlimits"].items():
            resource.setrlimit(getattr(resource, name), (limit, limit))
        if asked["terminal"]:
            os.dup2(asked["outputs"][0], 0)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        else:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(asked["folder"])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        os.environ.clear()
        os.environ.update(asked["environ"])
        for target, descriptor in enumerate(asked["outputs"], 1):
            os.dup2(descriptor, target)
        shut_off(asked)
    except BaseException as error:
        os.write(report, f"{asked['command'][0]}: {error}".encode())
        os._exit(126)
    execute([os.fsencode(word) for word in asked["command"]])


def execute(command: list[bytes]) -> NoReturn:
    """execvp(3), or the end that a shell, and the first process of a container, has for what cannot be executed."""
    libc.execvp(command[0], (ctypes.c_char_p * (len(command) + 1))(*command, None))
    number = ctypes.get_errno()
    os.write(2, command[0] + f": {os.strerror(number)}\n".encode())
    os._exit(127 if number == errno.ENOENT else 126)


def follow(asked: SandboxRequest) -> dict[str, Any]:
    """Start the program, and see it to its end, which is returned."""
    ended, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    began = time.monotonic()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        become(asked, writing)
    for descriptor in (writing, *asked["outputs"], *asked["joins"]):
        os.close(descriptor)
    with os.fdopen(reading, "rb") as stream:
        refused = stream.read().decode(errors="replace")
    if refused:
        return {"error": refused}
    os.write(asked["status"], b"\n")
    while (code := reaped(child)) is None:
        ready = select.select([0, ended], [], [])[0]
        if ended in ready:
            os.read(ended, 4096)
        if 0 in ready:
            obey(child)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "code": code,
        "seconds": round(time.monotonic() - began, 6),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 6),
        "peak_memory": used.ru_maxrss * 1024,
    }


def obey(child: int) -> None:
    """Take the next order."""
    order = os.read(0, 1)
    if not order:
        os._exit(1)  # no one waits for the program's end any more
    with contextlib.suppress(ProcessLookupError):
        if order == b"T":
            os.kill(child, signal.SIGTERM)
        else:
            os.kill(-1, signal.SIGKILL)  # all but this process


def reaped(child: int) -> int | None:
    """The exit status of a child, as a shell tells it, or None while it runs. Reaps whatever else ended, too."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            if pid == 0:
                return None
    return None


def main() -> None:
    """The process of its own."""
    with open(int(sys.argv[1]), encoding="utf-8") as stream:  # noqa: PTH123
        asked = json.load(stream)
    try:
        for descriptor in (asked["status"], *asked["outputs"], *asked["joins"]):
            os.set_inheritable(descriptor, False)
        checked(libc.prctl(PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0), "prctl")
        said = follow(asked)
    except BaseException as error:
        said = {"error": str(error)}
    os.write(asked["status"], json.dumps(said).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
