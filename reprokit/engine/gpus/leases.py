"""Who holds which GPU: one lock file for each, in a folder that all users of the host share.

A lease is an ``flock``, which the kernel ends when its holder dies. A file that still tells a holder when it is free
was left by one that was killed, and whose container may still compute. A trial gets all its GPUs or none; of those
that wait, the holder of the queue's lock alone keeps what it has, so that no small trials starve a large one.

The package filelock makes a file for one user, and says nothing of who held it. Who owns `engine` owns this.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import pwd
import re
import stat
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from reprokit.core.errors import EngineError
from reprokit.core.ownership import boot_id
from reprokit.environment.host import Gpu

QUEUE = "queue"
ANSWER_HOLDS = 2.0
"""Seconds for which "it is still in use" is believed before it is asked again: the engine is asked for it."""

_NAME = re.compile(r"[\w.-]+")
_TRIES = 100  # another process creates or removes the file at the same moment; twice is already unlikely


@dataclass(frozen=True, kw_only=True)
class LeaseHolder:
    """Who holds a GPU, as its file tells: ``since`` in seconds since 1970, ``run`` the id of its run.

    ``boot``: the id of the boot in which it took the lease, '' where reprokit 0.1 wrote the file.
    """

    pid: int
    user: str
    host: str
    since: float
    run: str
    boot: str = ""

    @property
    def ended_with_the_host(self) -> bool:
        """Whether this machine was restarted since: then nothing that it started still runs."""
        return bool(self.boot) and self.boot != boot_id()

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"pid {self.pid} of user {self.user} since {since}" + (f" (run {self.run})" if self.run else "")


def default_folder(locks: Path = Path("/run/lock"), otherwise: Path = Path("/tmp")) -> Path:
    """Where the files lie unless ``gpu_leases`` says otherwise: the same place for every user of the host.

    ``/run/lock`` where the distribution lets all users write there (Debian, Ubuntu), else below ``/tmp``.
    """
    try:
        shared = stat.S_IMODE(locks.stat().st_mode) & 0o1002 == 0o1002
    except OSError:
        shared = False
    return (locks if shared else otherwise) / "reprokit-gpus"


class Leases:
    """The lock files in ``folder``. ``in_use(gpu, died)`` says why a GPU without a lease is not free, '' if it is.

    ``died`` is its last holder if that was killed, else None. ``run``: the id of the run that takes leases here.
    """

    def __init__(self, folder: Path, *, run: str, in_use: Callable[[Gpu, LeaseHolder | None], str]) -> None:
        self._folder = folder
        self._run = run
        self.in_use = in_use

    def claim(self, gpus: Sequence[Gpu], count: int) -> LeaseRequest:
        """Ask for ``count`` of ``gpus``, those with the least memory first. Nothing is held before ``attempt``."""
        # One that does not tell its memory shares the host's: the last to be leased.
        return LeaseRequest(self, sorted(gpus, key=lambda gpu: (gpu.memory or float("inf"), gpu.index)), count)

    def holder(self, gpu: Gpu) -> LeaseHolder | None:
        """The lease holder, as the file says; None when there is none, or when one is just starting."""
        try:
            file = _open(self._folder, gpu.uuid)
        except FileNotFoundError:
            return None
        try:
            return _read(file)
        finally:
            os.close(file)

    def lock(self, name: str) -> int | None:
        """An open file that holds the lock of that name until it is closed; None when another process has it."""
        for _ in range(_TRIES):
            try:
                file = _open(self._folder, name)
            except FileNotFoundError:
                _make(self._folder, name)
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Locked, but is it still the file of that name? One that was tidied away protects nothing.
                current = (self._folder / name).lstat()
                if os.path.samestat(os.fstat(file), current):
                    return file
            except BlockingIOError:
                os.close(file)
                return None
            except FileNotFoundError:
                pass
            except OSError as error:  # a file system without locks
                os.close(file)
                raise _unusable(self._folder / name, error) from error
            os.close(file)
        raise EngineError(f"the GPU leases in {self._folder} cannot be used: {name} vanishes again and again")

    def sign(self, file: int) -> None:
        """Write into a locked file that this process holds it, from now on. Raises EngineError (a full disk)."""
        user = str(os.getuid())
        with suppress(KeyError):
            user = pwd.getpwuid(os.getuid()).pw_name
        holder = LeaseHolder(
            pid=os.getpid(), user=user, host=platform.node(), since=time.time(), run=self._run, boot=boot_id()
        )
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(asdict(holder)).encode(), 0)
        except OSError as error:
            raise _unusable(self._folder, error) from error


class LeaseRequest:
    """One trial's wish for GPUs; closing it gives back whatever it holds."""

    def __init__(self, leases: Leases, gpus: Sequence[Gpu], count: int) -> None:
        self._leases = leases
        self._gpus = gpus
        self._count = count
        self._files: dict[str, int] = {}
        self._queue: int | None = None
        self._refused: dict[str, tuple[float, str]] = {}
        self._signed = False

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that it holds, in the host's order."""
        return tuple(sorted((gpu for gpu in self._gpus if gpu.uuid in self._files), key=lambda gpu: gpu.index))

    def attempt(self) -> bool:
        """Take what is free; whether it has all that it wants. Never waits. Raises EngineError."""
        for gpu in self._gpus:
            if len(self._files) == self._count:
                break
            if gpu.uuid in self._files or self._refusal(gpu):
                continue
            if (file := self._leases.lock(gpu.uuid)) is not None:
                self._files[gpu.uuid] = file
        if len(self._files) == self._count and self._all_free():
            self._signed = True
            for file in self._files.values():
                self._leases.sign(file)
            self._leave_queue()
            return True
        if self._queue is None:
            self._queue = self._leases.lock(QUEUE)
        if self._queue is None:
            self._drop()
        return False

    def waits_for(self) -> str:
        """Who holds what it waits for, in words."""
        words = []
        for gpu in self._gpus:
            if gpu.uuid in self._files:
                continue
            if why := self._refusal(gpu):
                words.append(f"GPU {gpu.index} ({gpu.uuid}): {why}")
            elif holder := self._leases.holder(gpu):
                words.append(f"GPU {gpu.index} ({gpu.uuid}) is held by {holder}")
        return "; ".join(words)

    def holders(self) -> list[LeaseHolder]:
        """Those whom it waits for."""
        others = (self._leases.holder(gpu) for gpu in self._gpus if gpu.uuid not in self._files)
        return [holder for holder in others if holder is not None]

    def close(self) -> None:
        """Give everything back."""
        if self._signed:
            for file in self._files.values():
                with suppress(OSError):  # then the next holder asks whether we were killed
                    os.ftruncate(file, 0)
        self._signed = False
        self._drop()
        self._leave_queue()

    def _refusal(self, gpu: Gpu) -> str:
        until, why = self._refused.get(gpu.uuid, (0.0, ""))
        return why if time.monotonic() < until else ""

    def _all_free(self) -> bool:
        """Whether nothing of an earlier holder still runs on them; those on which something does are let go."""
        for gpu in self.gpus:
            if why := self._leases.in_use(gpu, _read(self._files[gpu.uuid])):
                self._refused[gpu.uuid] = (time.monotonic() + ANSWER_HOLDS, why)
                os.close(self._files.pop(gpu.uuid))
        return len(self._files) == self._count

    def _drop(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])

    def _leave_queue(self) -> None:
        if self._queue is not None:
            os.close(self._queue)
            self._queue = None


def _open(folder: Path, name: str) -> int:
    """Open a lock file. Raises FileNotFoundError, and EngineError for anything else than such a file.

    Never follows a link and never creates: in a folder that all may write to, both are traps (and the kernel's
    fs.protected_regular refuses to open another user's file with O_CREAT).
    """
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise EngineError(f"this GPU's id cannot be a file's name: {name!r}")
    path = folder / name
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path, error) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _unusable(path, OSError("it is not a regular file"))
    return file


def _make(folder: Path, name: str) -> None:
    """Make a lock file that every user can lock, whole from its first moment on; the folder too where it lacks."""
    hidden = folder / f".{uuid.uuid4().hex}"
    try:
        _make_folder(folder)
        file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(file, 0o666)  # whatever the umask
            with suppress(FileExistsError):
                os.link(hidden, folder / name)
        finally:
            os.close(file)
            hidden.unlink()
    except OSError as error:
        raise _unusable(folder, error) from error


def _make_folder(folder: Path) -> None:
    if not os.path.lexists(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        hidden = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
        hidden.mkdir()
        # As /tmp: all may add files, no one may remove another's. One that was there before keeps the mode it has:
        # it may be a group's, or a user's home.
        hidden.chmod(0o1777)
        try:
            hidden.rename(folder)
        except OSError:  # another process was faster
            hidden.rmdir()
    if stat.S_ISLNK(folder.lstat().st_mode):
        raise OSError("it is a symbolic link")


def _unusable(path: Path, error: OSError) -> EngineError:
    return EngineError(
        f"the GPU leases in {path} cannot be used: {error.strerror or error}. It has to be a folder in which all users "
        "of this host can write (mode 1777); 'gpu_leases' in reprokit's config names another"
    )


def _read(file: int) -> LeaseHolder | None:
    """What a lock file tells. Any user may have written it, so it is nothing but words to show."""
    try:
        found = json.loads(os.pread(file, 4096, 0))
        found = {"boot": "", **found}
        names = ("user", "host", "run", "boot")
        words = {name: "".join(c for c in str(found[name])[:64] if c.isprintable()) for name in names}
        return LeaseHolder(pid=int(found["pid"]), since=float(found["since"]), **words)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
