"""Runs one program shut off from the host, by the description on standard input. Started as a program of its own.

Standard library only, and nothing of reprokit: it runs with ``python -I -S``, its child becomes the first process of a
new PID namespace where the host permits one, and it must start fast. The description is what
:mod:`reprokit.engine.venv.sandbox` writes; its ``status`` is the descriptor that takes an empty line when the program
has started, and one JSON object at the end::

    {"code": 0, "seconds": 1.5}    the program ended; above 128: 128 + the signal that ended it
    {"error": "..."}               it was never started

SIGTERM is passed on to the program; SIGINT kills everything. Two ways to hold the processes together:

- with namespaces, the program's parent is process 1 of a PID namespace: when that ends, the kernel ends all others;
- without, this process is the reaper of all that the program leaves behind, and ends them itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from typing import Any, NoReturn

Asked = dict[str, Any]

CLONE = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000  # NEWNS, NEWUTS, NEWIPC, NEWPID
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
SYS_MOUNT_SETATTR = 442
"""The same number on every architecture; Linux 5.12 and later: mount_setattr(2)."""

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    """Raise OSError, saying ``what``, when a C function failed."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(f"{what}: {os.strerror(number)}")


# --- the file system --------------------------------------------------------------------------------------------------


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    words = [os.fsencode(text) if text else None for text in (source, target, kind)]
    checked(
        libc.mount(*words, ctypes.c_ulong(flags), options.encode() if options else None),
        f"mount {source} on {target}",
    )


def bind(source: str, target: str) -> None:
    """Show ``source``, with all that is mounted in it, at ``target`` too."""
    mount(source, target, flags=MS_BIND | MS_REC)


def read_only(target: str) -> None:
    """Make a mount and all that is mounted in it read-only."""
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    number = ctypes.c_long(SYS_MOUNT_SETATTR)
    size = ctypes.c_size_t(len(attributes))
    checked(
        libc.syscall(number, AT_FDCWD, os.fsencode(target), AT_RECURSIVE, attributes, size),
        f"mount {target} read-only",
    )


class Root:
    """A new root: what the host has, some of it hidden, and places for more. Lies at the folder ``at``."""

    def __init__(self, at: str, hidden: list[str]) -> None:
        self.at = at
        self._hidden = hidden
        self._ours: set[int] = set()  # devices of the file systems of ours, in which places can be made
        self._empty("/")
        self._adopt("/")
        for path in hidden:
            if os.path.isdir(path) and os.stat(self.place(path)).st_dev not in self._ours:
                self._empty(path)

    def place(self, path: str) -> str:
        """Where ``path`` of the new root lies for now."""
        return self.at if path == "/" else self.at + path

    def make(self, path: str, *, folder: bool) -> None:
        """Make something to mount on at ``path``; the host's own folders on the way stay as they are."""
        if os.path.lexists(self.place(path)):
            return
        above = os.path.dirname(path)
        while not os.path.lexists(self.place(above)):
            above = os.path.dirname(above)
        if os.stat(self.place(above)).st_dev not in self._ours:
            self._empty(above)
            self._adopt(above)
        os.makedirs(self.place(path if folder else os.path.dirname(path)), exist_ok=True)
        if not folder:
            self._touch(path)

    def _empty(self, path: str) -> None:
        mount("tmpfs", self.place(path), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m")
        self._ours.add(os.stat(self.place(path)).st_dev)

    def _touch(self, path: str) -> None:
        with open(self.place(path), "x"):  # noqa: PTH123  # pathlib would double the time to start
            pass

    def _adopt(self, folder: str) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                path, hidden = entry.path, entry.path in self._hidden
                if entry.is_symlink():
                    os.symlink(os.readlink(path), self.place(path))
                elif entry.is_dir():
                    os.mkdir(self.place(path))
                    self._empty(path) if hidden else bind(path, self.place(path))
                else:
                    self._touch(path)
                    bind(path, self.place(path))

    def enter(self) -> None:
        """Make this the root of the process, and let go of the old one."""
        number = SYS_PIVOT_ROOT.get(os.uname().machine)
        if number is None:
            raise OSError(f"pivot_root: its number is not known for {os.uname().machine}")
        os.chdir(self.at)
        # The old root comes to lie on top of the new one, from where it is taken off: pivot_root(2), NOTES.
        checked(libc.syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
        checked(libc.umount2(b".", MNT_DETACH), "umount the old root")
        os.chdir("/")


def change_root(asked: Asked) -> None:
    """Give this process its own file system: the host's, read-only, and the ``mounts`` in their places."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    root = Root(asked["root"], ["/proc", *asked["hidden"]])
    folders = [one["kind"] == "tmpfs" or os.path.isdir(one["source"]) for one in asked["mounts"]]
    for one, folder in zip(asked["mounts"], folders):  # noqa: B905  # this runs on the host's Python, old ones included
        root.make(one["target"], folder=folder)
    read_only(root.at)
    mount("proc", root.place("/proc"), "proc")
    for one, folder in zip(asked["mounts"], folders):  # noqa: B905
        target = root.place(one["target"])
        if one["kind"] == "tmpfs":
            mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={one['size']}")
            continue
        if folder:
            os.makedirs(target, exist_ok=True)  # below a mount that came before
        bind(one["source"], target)
        if one["kind"] == "read-only":
            read_only(target)
    root.enter()


# --- the other namespaces ---------------------------------------------------------------------------------------------


def unshare(asked: Asked) -> None:
    """Leave the host's namespaces; who is not root needs a user namespace to do so."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE | (CLONE_NEWNET if asked["cut_off"] else 0) | (CLONE_NEWUSER if uid else 0)
    checked(libc.unshare(flags), "unshare")
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as stream:  # noqa: PTH123
                stream.write(text)


def raise_loopback() -> None:
    """A container without network has its loopback: SIOCSIFFLAGS with IFF_UP and IFF_RUNNING, netdevice(7)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))


def prctl(option: int, value: int) -> None:
    """prctl(2)."""
    checked(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


# --- the program ------------------------------------------------------------------------------------------------------


def become(asked: Asked, joins: list[int], report: int) -> NoReturn:
    """Turn this process into the program, or tell ``report`` why not."""
    try:
        os.setsid()
        for descriptor in joins:
            os.write(descriptor, b"0")  # "0" is the process that writes
        for name, limit in asked["rlimits"].items():
            resource.setrlimit(getattr(resource, name), (limit, limit))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        drop_privileges(asked["user"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # without namespaces it can kill the process that would end it
        os.chdir(asked["folder"])
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        os.environ.clear()
        os.environ.update(asked["environ"])
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


def drop_privileges(user: int | None) -> None:
    """No capability and no way to one; as the user id ``user``, if root is to become another."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if os.getuid() != 0:
        return
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) == -1:
            break
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def silence() -> None:
    """Let go of the output: it is the program's, and ends with it."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def follow(asked: Asked, joins: list[int]) -> None:
    """Start the program, wait for its end, and say how it ended."""
    began = time.monotonic()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        become(asked, joins, writing)
    os.close(writing)
    silence()
    signal.signal(signal.SIGTERM, lambda number, _: kill(child, number))
    with os.fdopen(reading, "rb") as stream:
        refused = stream.read().decode(errors="replace")
    if not refused:
        os.write(asked["status"], b"\n")
    code = reap(child)
    say(asked, {"error": refused} if refused else {"code": code, "seconds": round(time.monotonic() - began, 6)})


def reap(child: int) -> int:
    """Wait for a child, and for whatever else ends meanwhile; its exit status, as a shell tells it."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def kill(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def say(asked: Asked, what: dict[str, Any]) -> None:
    """Tell the engine how it ended."""
    os.write(asked["status"], json.dumps(what).encode())


def with_namespaces(asked: Asked, joins: list[int]) -> None:
    """Run the program below the first process of a PID namespace, whose end ends all."""
    unshare(asked)
    began = time.monotonic()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        os.close(writing)
        first_process(asked, joins, reading)
    silence()
    signal.signal(signal.SIGTERM, lambda number, _: kill(first, number))
    signal.signal(signal.SIGINT, lambda *_: kill(first, signal.SIGKILL))
    os.write(writing, b"g")
    if reap(first) == 128 + signal.SIGKILL:
        say(asked, {"code": 128 + signal.SIGKILL, "seconds": round(time.monotonic() - began, 6)})


def first_process(asked: Asked, joins: list[int], parent: int) -> NoReturn:
    """What process 1 of the namespace does. It dies with its parent."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.read(parent, 1):  # nothing: the parent died before it could be known
            socket.sethostname(asked["hostname"])
            if asked["cut_off"]:
                raise_loopback()
            change_root(asked)
            follow(asked, joins)
    except BaseException as error:
        say(asked, {"error": str(error)})
    os._exit(0)


def without_namespaces(asked: Asked, joins: list[int]) -> None:
    """Run the program as a child of this process, which inherits and ends all that it leaves behind."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, lambda *_: kill_all())
    try:
        follow(asked, joins)
    finally:
        while kill_all():
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
            time.sleep(0.005)


def kill_all() -> int:
    """Kill every process below this one; how many there were. One may have started another meanwhile."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:  # noqa: PTH123
                below.setdefault(int(stream.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    found: list[int] = []
    parents = [os.getpid()]
    while parents:
        children = below.get(parents.pop(), [])
        found += children
        parents += children
    for pid in found:
        kill(pid, signal.SIGKILL)
    return len(found)


def main() -> None:
    """The process of its own."""
    asked = json.load(sys.stdin)
    try:
        os.set_inheritable(asked["status"], False)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # until there is a program to pass it on to
        # SIGINT, since without namespaces a sudden death would leave the program alone.
        prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != asked["parent"]:
            return
        joins = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in asked["cgroups"]]
        (with_namespaces if asked["namespaces"] else without_namespaces)(asked, joins)
    except BaseException as error:
        say(asked, {"error": str(error)})


if __name__ == "__main__":
    main()
