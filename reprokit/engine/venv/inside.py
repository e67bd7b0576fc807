"""Watches one program of the engine venv. It runs with ``python -I -S``, and imports nothing of reprokit.

Standard input begins with the request of ``processes.py``: its length in ten digits, then JSON. Then it takes orders:
``T`` sends the program SIGTERM; anything else, and its end, kills all that runs. The ``status`` descriptor takes a
line with the program's process group when it has started, and one JSON object at the end: the fields of ``Ended``, or
``{"error": "..."}``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import resource
import select
import signal
import time
from typing import Any, NoReturn

ProgramRequest = dict[str, Any]

PR_SET_CHILD_SUBREAPER = 36
"""Orphans below this process become its children, whatever session they are in: prctl(2)."""
LOOK_SECONDS = 0.02
"""How often the memory of a trial with a limit is looked at."""

libc = ctypes.CDLL(None, use_errno=True)


def become(asked: ProgramRequest, report: int) -> NoReturn:
    """Turn this process into the program, or tell ``report`` why not."""
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(asked["folder"])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        os.environ.clear()
        os.environ.update(asked["environ"])
    except BaseException as error:
        os.write(report, f"{asked['command'][0]}: {error}".encode())
        os._exit(126)
    # execvp(3) of the C library: the end is that which a shell, and the first process of a container, has.
    command = [os.fsencode(word) for word in asked["command"]]
    libc.execvp(command[0], (ctypes.c_char_p * (len(command) + 1))(*command, None))
    why = ctypes.get_errno()
    os.write(2, command[0] + f": {os.strerror(why)}\n".encode())
    os._exit(127 if why == errno.ENOENT else 126)


def read(path: str) -> str:
    """The text of a file of /proc; '' where its process is gone."""
    try:
        with open(path, encoding="ascii", errors="replace") as stream:  # noqa: PTH123
            return stream.read()
    except OSError:
        return ""


def descendants() -> list[int]:
    """All processes below this one, zombies included, parents first."""
    found = children(os.getpid())
    for process in found:  # which grows meanwhile
        found += children(process)
    return found


def children(process: int) -> list[int]:
    """The processes whose parent a process is; [] for one that is gone."""
    found: list[str] = []
    if not os.access(f"/proc/self/task/{os.getpid()}/children", os.R_OK):  # a kernel without CONFIG_PROC_CHILDREN
        every = {one: read(f"/proc/{one}/stat").rpartition(")")[2].split() for one in os.listdir("/proc")}  # noqa: PTH208
        return [int(one) for one, words in every.items() if one.isdigit() and words[1:2] == [str(process)]]
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
            found += read(f"/proc/{process}/task/{thread}/children").split()
    return [int(one) for one in found]


def largest_above(limit: int) -> int:
    """The process below this one with the most memory, where all together use more than ``limit`` bytes; 0 otherwise.

    Resident pages are read first, since that is cheap. Proportional ones decide: what processes share counts once, and
    pages of files, which the kernel takes back, do not count.
    """
    several = descendants()
    resident = sum(int(text.split()[1]) for one in several if (text := read(f"/proc/{one}/statm")))
    if resident * os.sysconf("SC_PAGE_SIZE") <= limit:
        return 0
    used = {one: proportional(read(f"/proc/{one}/smaps_rollup")) for one in several}
    return max(used, key=used.__getitem__) if sum(used.values()) > limit else 0


def proportional(text: str) -> int:
    """Bytes of a process by its smaps_rollup; kernels before 5.4 do not tell pages of files from others."""
    sizes = {name: 1024 * int(size) for name, size in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)}
    own = sizes["Pss_Anon"] + sizes.get("Pss_Shmem", 0) if "Pss_Anon" in sizes else sizes.get("Pss", 0)
    return own + sizes.get("SwapPss", 0)


def kill_all() -> None:
    """Send SIGKILL to everything below this process."""
    for process in descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def end_all() -> None:
    """Kill until nothing is left below this process: what is killed leaves its children to this one."""
    while True:
        kill_all()
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
        except ChildProcessError:
            return


def follow(asked: ProgramRequest) -> dict[str, Any]:
    """Start the program, and see it and what it started to their end, which is returned."""
    ended, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    began = time.monotonic()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        become(asked, writing)
    os.close(writing)
    hollow = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):  # the output ends with those that write to it
        os.dup2(hollow, descriptor)
    with os.fdopen(reading, "rb") as stream:
        refused = stream.read().decode(errors="replace")
    if refused:
        return {"error": refused}
    os.write(asked["status"], b"%d\n" % child)
    limit, oom = asked["memory"], False
    while (code := reap(child)) is None:
        ready = select.select([0, ended], [], [], LOOK_SECONDS if limit else None)[0]
        if ended in ready:
            os.read(ended, 4096)
        if 0 in ready:
            obey(child)
        if limit and (largest := largest_above(limit)):
            oom = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(largest, signal.SIGKILL)
    seconds = time.monotonic() - began
    end_all()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "code": code,
        "seconds": round(seconds, 6),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 6),
        "peak_memory": used.ru_maxrss * 1024,
        "oom": oom,
    }


def obey(child: int) -> None:
    """Take the next order."""
    order = os.read(0, 1)
    if order == b"T":
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        return
    kill_all()
    if not order:
        end_all()
        os._exit(1)  # no one waits for the program's end any more


def reap(child: int) -> int | None:
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
    with os.fdopen(0, "rb", buffering=0, closefd=False) as stream:
        size = int(stream.read(10))
        text = b""
        while len(text) < size:
            text += stream.read(size - len(text)) or os._exit(1)
    asked = json.loads(text)
    os.set_inheritable(asked["status"], False)
    try:
        if libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0):
            raise OSError(f"prctl: {os.strerror(ctypes.get_errno())}")
        report = follow(asked)
    except BaseException as error:
        report = {"error": str(error)}
    os.write(asked["status"], json.dumps(report).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
