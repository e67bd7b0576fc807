"""Runs a command without affecting it, and records its output."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from reprokit.evidence.model import Ending

HEAD, TAIL = 2 * 1024**2, 6 * 1024**2
"""Bytes of the output that are kept, from its start and its end."""
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
LINGER = 2.0
"""Seconds to wait for output of background processes after the command has ended."""


@dataclass(frozen=True, kw_only=True)
class CommandRun:
    """How a command ended."""

    ending: Ending
    log: str
    """stdout and stderr in the order in which they came."""
    started: float = 0.0
    """Seconds since 1970."""
    interrupted: bool = False


class CannotStart(Exception):
    """The command does not exist (``status`` 127), or cannot be executed (126): the exit statuses of shells."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run(
    command: Sequence[str], *, environ: Mapping[str, str] | None = None, timeout: float | None = None
) -> CommandRun:
    """Run ``command`` with our stdin, and pass its output on unchanged as it arrives.

    It stays in our process group: Ctrl-C reaches it as usual, and we wait until it ends. After ``timeout`` seconds, it
    and its child processes get SIGTERM, then SIGKILL. Raises CannotStart.
    """
    start, started = time.monotonic(), time.time()
    with _interrupts_left_to_it() as seen:
        try:
            process = subprocess.Popen(
                list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=environ
            )
        except FileNotFoundError as error:
            raise CannotStart(f"{error.filename or command[0]}: no such command or file", 127) from error
        except OSError as error:
            raise CannotStart(f"{command[0]}: cannot be executed: {error.strerror}", 126) from error
        output = RecordedOutput()
        streams = ((process.stdout, 1), (process.stderr, 2))
        readers = [threading.Thread(target=_pass_on, args=(*one, output), daemon=True) for one in streams]
        for reader in readers:
            reader.start()
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _stop(process)
        for reader in readers:
            reader.join(LINGER)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    ending = Ending(exit_code=code, timed_out=timed_out, seconds=time.monotonic() - start)
    return CommandRun(ending=ending, log=output.text(), started=started, interrupted=bool(seen))


@dataclass
class RecordedOutput:
    """The start and the end of what was written."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    cut: int = 0

    def add(self, data: bytes) -> None:
        """Keep what was written, as far as it is of the start or the end."""
        with self.lock:
            room = max(0, HEAD - len(self.head))
            self.head += data[:room]
            self.tail += data[room:]
            if len(self.tail) > 2 * TAIL:
                self.cut += len(self.tail) - TAIL
                del self.tail[:-TAIL]

    def text(self) -> str:
        """What was kept."""
        with self.lock:
            gap = f"\n... {self.cut} bytes ...\n".encode() if self.cut else b""
            return bytes(self.head + gap + self.tail).decode("utf-8", "replace")


def _pass_on(source: BinaryIO, target: int, output: RecordedOutput) -> None:
    open_end = True
    while data := source.read(65536):
        output.add(data)
        view = memoryview(data)
        while open_end and view:
            try:
                view = view[os.write(target, view) :]
            except OSError:  # our reader has closed the pipe; the command is not affected
                open_end = False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to a process and its descendants, and SIGKILL to those that still run after ``GRACE`` seconds."""
    family = [process.pid, *_descendants(process.pid)]
    for pid in family:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    for pid in family:
        # A pid may have been reused by another process: its parent must still be one of these processes.
        if pid == process.pid and process.poll() is not None:
            continue
        with suppress(ProcessLookupError, PermissionError):
            if pid == process.pid or _parent(pid) in (*family, 1):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> Iterator[int]:
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, tasks.read_text().split()):
                yield child
                yield from _descendants(child)


def _parent(pid: int) -> int:
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@contextmanager
def _interrupts_left_to_it() -> Iterator[list[int]]:
    """Ctrl-C reaches both the command and this process: ignore it here, but remember that it was pressed."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
