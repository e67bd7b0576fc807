"""Who made what, and is its maker still alive? Locks between processes, ownership labels, and what is left behind.

A process is named by its pid, its start time and the place in which that pid means something: boot and pid namespace.
From elsewhere, the lock that it holds until it ends tells whether it lives. Where nothing tells, it may be alive.

The package filelock takes the file itself for a lock where a file system has none, so that a killed process would hold
it for ever; psutil knows no process of another pid namespace. Who owns `core` owns these two.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from reprokit.core import cache
from reprokit.core.errors import Cancelled
from reprokit.core.text import whole_number

POLL_SECONDS = 0.05
"""How often a process that waits looks again."""
_LOCKLESS = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP))


@contextmanager
def locked(path: Path, cancel: threading.Event | None = None, what: str = "") -> Iterator[None]:
    """Hold the lock file ``path``, which is made if it is missing, while the block runs; wait for it until ``cancel``.

    Raises Cancelled, which says ``what`` the other process was making, and OSError where the file cannot be made or
    its file system has no locks. The kernel ends the lock of a process that died.
    """
    cancel = cancel or threading.Event()
    while (file := _taken(path)) is None:
        if cancel.wait(POLL_SECONDS):
            raise Cancelled(f"stopped while another process made the {what}")
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def locked_if_free(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold the lock file ``path`` while the block runs; False where another process has it for ``seconds``.

    Raises OSError as :func:`locked`.
    """
    deadline = time.monotonic() + seconds
    while (file := _taken(path)) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    try:
        yield file is not None
    finally:
        if file is not None:
            os.close(file)


def lockless(path: Path) -> str:
    """Why no process can lock the file ``path``, which is made if it is missing, in the system's words.

    Network file systems may have no locks. '' where there are some, and where the file cannot be made.
    """
    try:
        with locked_if_free(path):
            return ""
    except OSError as error:
        return os.strerror(error.errno) if error.errno in _LOCKLESS else ""


def _taken(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed; None where another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of a link, the file that it leads to would be made.
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(file)
        if isinstance(error, BlockingIOError):
            return None
        if isinstance(error, OSError) and error.errno in _LOCKLESS:
            # A store without locks is refused before: this is in the cache.
            text = f"{os.strerror(error.errno)}; name a cache on a file system that has locks by XDG_CACHE_HOME"
            raise OSError(error.errno, text, str(path)) from None
        raise
    if os.fstat(file).st_nlink:
        return file
    os.close(file)  # removed by another process just before: what is locked next is a new file
    return _taken(path)


_LOCAL = frozenset(
    ("aufs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs")
)
"""File systems that one kernel alone can mount: a lock that is free on them is held by no process anywhere."""

_LOCK_NAME = re.compile(r"/(?:.*/)?owner-[0-9a-f]{32}\.lock")

_held: dict[Path, int] = {}


def hold_owner_lock(folder: Path) -> str:
    """Lock a new file in ``folder`` until this process ends; its name, '' where that cannot be."""
    hidden, path = (folder / f"{start}owner-{uuid.uuid4().hex}.lock" for start in (".", ""))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            # Locked under another name, so that the file of this name is never seen without its lock.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path = folder.resolve() / path.name
            hidden.rename(path)
        except OSError:
            os.close(file)
            hidden.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()  # of a run that leaves nothing else
            raise
    except OSError:  # a full disk, a file system without locks
        return ""
    if not _held:
        atexit.register(release_owner_locks)
    _held[path] = file
    return f"{os.fstat(file).st_ino}:{path}"


def release_owner_locks() -> None:
    """Remove the files that this process holds, at its end. Those of a process that is killed stay, without a lock."""
    while _held:
        path, file = _held.popitem()
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()  # the folder of a run that left nothing else
        os.close(file)


def is_owner_lock_held(name: str, *, same_kernel: bool) -> bool | None:
    """Whether a living process holds the lock of that name; None where that is not known here.

    ``same_kernel``: whether this kernel ran the owner. Otherwise a free lock says nothing on a network file system,
    which need not pass locks on.
    """
    inode, _, path = name.partition(":")
    if not _LOCK_NAME.fullmatch(path):  # of a record that may be untrusted: opening a device can act on it
        return None
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if str(os.fstat(file).st_ino) != inode:  # a copy, or another file system
            return None
        locked = is_locked(file)
        return locked if locked or same_kernel or is_local(path) else None
    finally:
        os.close(file)


def is_locked(file: int) -> bool | None:
    """Whether a process holds the lock of an open file; None where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look do not take each other for the owner
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def is_local(path: str, mounts: str | None = None) -> bool:
    """Whether a file is on a file system of this machine alone. ``mounts``: the text of ``/proc/self/mountinfo``."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text("utf-8", errors="surrogateescape")
        except OSError:
            return False
    place, kind = Path(path).resolve(), ""
    longest = -1
    for line in mounts.splitlines():
        own, _, other = line.partition(" - ")
        point = own.split()[4].replace("\\040", " ")
        if place.is_relative_to(point) and len(point) >= longest:  # a later mount covers an earlier one
            longest, kind = len(point), other.split()[0]
    return kind in _LOCAL


PREFIX = "org.reprokit."
RUN = PREFIX + "run"
CASE = PREFIX + "case"
CELL = PREFIX + "cell"
PID = PREFIX + "pid"
PID_START = PREFIX + "pid-start"
HOST = PREFIX + "host"
"""Host name, boot id and pid namespace, with slashes between them (the last two on Linux)."""
MACHINE = PREFIX + "machine"
LOCK = PREFIX + "lock"
"""The lock that the process holds, as :func:`hold_owner_lock` names it."""
IMPORTED = PREFIX + "imported"
"""In the record of a run that was brought from another store."""
IMAGE = PREFIX + "image"
GPUS = PREFIX + "gpus"
"""UUIDs of the GPUs that a container has, with commas between them."""

LEASE = PREFIX + "lease"
"""The id of the image that a container, which never starts, keeps from being removed."""

IMAGE_LABELS: Mapping[str, str] = {IMAGE: "1"}
"""What images of ours carry. Nothing of a single run: images are shared between runs."""

INPUTS = PREFIX + "inputs"
"""The hash of what an image was built from, with the domain of its case: as in its name."""


def label_image(tag: str) -> dict[str, str]:
    """The labels of an image that is built under that name: by them :func:`carries_name` knows it again."""
    return {**IMAGE_LABELS, INPUTS: tag.rpartition(":")[2]}


def carries_name(labels: Mapping[str, str], tag: str) -> bool:
    """Whether an image with these labels is the one that was built under that name, and not one tagged over it."""
    return labels.get(INPUTS) == tag.rpartition(":")[2]


_INITIAL_PIDS = "pid:[4026531836]"
"""The pid namespace that the kernel starts with: outside of every container."""

_lock = ""


def hold_lock(folder: Path) -> None:
    """Hold this process's lock in ``folder``, such as a run's, where those who share the folder see it."""
    global _lock
    _lock = hold_owner_lock(folder) or _lock


def ownership(run_id: str = "", case_id: str = "", cell: Mapping[str, str] | None = None) -> dict[str, str]:
    """The labels of a container made by this process for that run, case and cell (``cell`` as sorted JSON)."""
    if not _lock:
        hold_lock(cache.folder("owners"))
    pid = os.getpid()
    return {
        RUN: run_id,
        CASE: case_id,
        CELL: json.dumps(dict(cell or {}), sort_keys=True),
        PID: str(pid),
        PID_START: started(pid) or "",
        HOST: here(),
        MACHINE: machine(),
        LOCK: _lock,
    }


@functools.cache
def here() -> str:
    """Where this process's pids mean something: host name, boot id and pid namespace (the last two on Linux)."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        pass  # no Linux: the host's name has to do
    return "/".join(parts)


def boot_id() -> str:
    """What names the time since the last start of this machine's kernel; '' where the system does not say."""
    return _parts(here())[1]


@functools.cache
def machine() -> str:
    """What names this machine across restarts (machine-id(5)); '' where nothing does."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            found = Path(path).read_text("ascii").strip()
        except (OSError, ValueError):
            continue
        if len(found) == 32:
            # That of a container may be its image's, and the same wherever the image runs.
            return found if here().endswith(_INITIAL_PIDS) else f"{found}/{platform.node()}"
    return ""


def started(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; '' where the system does not say; None where it is gone.

    Field 22 of /proc/PID/stat (proc(5)), counted behind the command name, which may hold spaces and brackets.
    A zombie is gone: it will never clean up.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # gone, of another user where /proc hides these (hidepid), or no Linux
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            return ""
        return ""
    return None if fields[0] in {"Z", "X"} else fields[19]


def process_start_time(pid: int) -> float | None:
    """When a process started, in seconds since 1970 (to a hundredth); None where it is gone or the system is silent."""
    ticks = started(pid)
    try:
        uptime = float(Path("/proc/uptime").read_text("ascii").split()[0])
    except OSError:
        return None
    return time.time() - uptime + int(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


class OwnerState(Enum):
    """What is known of the process that made something."""

    ALIVE = "alive"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Place:
    """Where someone looks from: ``host`` as of :func:`here`, ``machine`` as of :func:`machine`.

    ``started_at``: when the process of a pid started (None: there is none). ``is_held``: whether a lock is held.
    """

    host: str
    machine: str
    started_at: Callable[[int], str | None] = started
    is_held: Callable[..., bool | None] = is_owner_lock_held


def state_of_owner(labels: Mapping[str, str], place: Place | None = None) -> OwnerState:
    """Whether the process that ``labels`` name is alive, as seen from ``place`` (by default from this process).

    EXITED is said only where that is certain. Labels of others, and of owners that cannot be seen, give UNKNOWN.
    """
    place = place or Place(here(), machine())
    pid, host = labels.get(PID, ""), labels.get(HOST, "")
    if (process := whole_number(pid)) is None:
        return OwnerState.UNKNOWN
    (_, boot, pids), (_, own_boot, own_pids) = _parts(host), _parts(place.host)
    same_kernel = boot == own_boot != ""
    if host == place.host or (same_kernel and pids == own_pids != ""):  # a host name may change meanwhile
        now = place.started_at(process)
        other = now is None or (now != "" and now != labels.get(PID_START, ""))
        return OwnerState.EXITED if other else OwnerState.ALIVE
    held = place.is_held(labels.get(LOCK, ""), same_kernel=same_kernel)
    if held is not None:
        return OwnerState.ALIVE if held else OwnerState.EXITED
    if boot and own_boot and not same_kernel and labels.get(MACHINE) == place.machine != "":
        return OwnerState.EXITED  # it ran before this machine started
    return OwnerState.UNKNOWN


def is_orphan(labels: Mapping[str, str]) -> bool:
    """Whether labels say: ours, and the process that made it has certainly exited."""
    return state_of_owner(labels) is OwnerState.EXITED


def _parts(host: str) -> tuple[str, str, str]:
    name, _, rest = host.partition("/")
    boot, _, pids = rest.partition("/")
    return name, boot, pids


_FOLDER_NAME = re.compile(r"reprokit-(?P<place>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d*)-.+")
_LOCKED = ".locked"
"""The end of the name of a folder that its owner holds locked, as long as it lives."""


def _place_digest() -> str:
    # A temporary folder may be shared with containers, in which the same pid is another process.
    return hashlib.sha256(here().encode()).hexdigest()[:8]


def is_left(name: str) -> bool:
    """Whether a name tells an owner of this host that is gone."""
    named = _FOLDER_NAME.fullmatch(name)
    if named is None or named["place"] != _place_digest():
        return False
    labels = {PID: named["pid"], PID_START: named["start"], HOST: here()}
    return is_orphan(labels)


@contextmanager
def private_folder(purpose: str, *, socket: bool = False) -> Iterator[Path]:
    """A new folder of mode 0700 whose name tells its owner, locked by it; gone when the block ends.

    One for a ``socket`` lies in the system's temporary folder, and not below a user's deep TMPDIR, when that is too
    long for a unix socket's path (108 bytes).
    """
    pid = os.getpid()
    root = tempfile.gettempdir()
    prefix = f"reprokit-{_place_digest()}-{pid}-{started(pid) or ''}-{purpose}-"
    if socket and len(root) + len(prefix) > 75:
        root = "/tmp"
    hidden = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=root))
    lock = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folder = hidden.with_name(hidden.name[1:] + _LOCKED)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hidden.rename(folder)  # so that a folder of this name is never seen without its lock
        yield folder
    finally:
        remove_tree(folder)
        os.close(lock)


def remove_tree(folder: Path) -> bool:
    """Remove a folder with all that is in it, folders of ours that forbid it included; whether it is gone.

    What a tool that was killed has mounted below it is unmounted first, and never looked into: it may be the host's.
    """
    for mount in reversed(_mounts_below(folder)):
        done = subprocess.run(["umount", "--lazy", "--", mount], check=False, capture_output=True)
        if done.returncode:
            return False
    with suppress(RecursionError):  # foreign code may have made folders in folders, thousands deep
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for words in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # neither follows a link that it finds below
            subprocess.run([*words, "--", str(folder)], check=False, capture_output=True)
    return not folder.exists()


def _mounts_below(folder: Path) -> list[str]:
    """The mount points at or below a folder, in the order in which they were mounted."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    top = str(folder.parent.resolve() / folder.name)  # as the kernel names it, wherever links lead to it
    escaped = re.compile(r"\\([0-7]{3})")
    points = [escaped.sub(lambda octal: chr(int(octal[1], 8)), line.split(" ", 5)[4]) for line in lines]
    return [point for point in points if point == top or point.startswith(f"{top}/")]


def places() -> tuple[Path, ...]:
    """The folders in which such folders are."""
    return tuple({Path(tempfile.gettempdir()), Path("/tmp")})


def sweep_folders(roots: tuple[Path, ...] | None = None) -> list[str]:
    """Remove such folders of this user whose owner is gone; returns what was removed, in words."""
    return [f"temporary folder {folder}" for folder in orphan_folders(roots) if remove_tree(folder)]


def orphan_folders(roots: tuple[Path, ...] | None = None) -> list[Path]:
    """Such folders of this user whose owner is gone."""
    found = []
    for root in roots or places():
        for folder in sorted(root.glob("reprokit-*")):
            with suppress(OSError):
                if not folder.is_symlink() and folder.lstat().st_uid == os.getuid() and _is_left_folder(folder):
                    found.append(folder)
    return found


def _is_left_folder(folder: Path) -> bool:
    named = _FOLDER_NAME.fullmatch(folder.name)
    if named is None or named["place"] == _place_digest():
        return is_left(folder.name)
    # Made in another pid namespace, or before the last restart: its pid means nothing here.
    if not folder.name.endswith(_LOCKED) or not is_local(str(folder)):
        return False
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return is_locked(file) is False
    finally:
        os.close(file)
