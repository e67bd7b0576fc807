"""Work that could take any time and memory, done in a child process that may take little of both."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

MEMORY = 160 * 1024**2
"""Bytes of address space of the child. It starts with about 30 MB."""
MOST_SECONDS = 0.3
"""Processor time, in seconds, that questions may take in a row."""
EACH = 0.02
"""Processor time, in seconds, that each question adds to what is left. Jinja2 compiles a short template in 5 ms."""

_CHILD = "import sys; sys.path[:] = {path!r}; from reprokit.core.confined import serve; serve({module!r}, {name!r})"


class Refused(ValueError):
    """The function raised ValueError, with this text, or took too much."""


class _Late(BaseException):
    """Not an Exception: the function may take those for errors of what it was given."""


class ConfinedChild:
    """A child process that calls ``module.name(text, values)``, started when it is first needed, or was killed.

    ``too_long``: what :class:`Refused` says of a call that takes too much.
    """

    def __init__(self, module: str, name: str, too_long: str) -> None:
        self._target = module, name
        self._too_long = too_long
        atexit.register(self.stop)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._left = MOST_SECONDS

    def ask(self, text: str, values: Mapping[str, str]) -> str:
        """What the function gives. Raises Refused."""
        with self._lock:
            self._left = min(MOST_SECONDS, self._left + EACH)
            if self._left <= 0:
                raise Refused(self._too_long)
            answer = self._exchange({"text": text, "values": dict(values), "seconds": self._left})
            # One that had to be killed costs more than its time: a new child must be started.
            self._left = max(0.0, self._left - answer["took"]) if "took" in answer else -MOST_SECONDS
        if "error" in answer:
            raise Refused(answer["error"] or self._too_long)
        return str(answer["text"])

    def fresh_budget(self) -> None:
        """Give what comes next all of the time, whatever came before took."""
        with self._lock:
            self._left = MOST_SECONDS

    def _exchange(self, question: dict[str, Any]) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        done = False
        try:
            process.stdin.write(_line(question))
            process.stdin.flush()
            answer = process.stdout.readline()
            done = answer.endswith(b"\n")
        except BrokenPipeError:
            answer = b""
        finally:
            if not done:  # killed at a limit, or this process was interrupted: no later question may get this answer
                self.stop()
        return dict(json.loads(answer)) if done else {"error": ""}

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid():
            self._owner = os.getpid()
            path, (module, name) = [str(Path(entry).absolute()) for entry in sys.path], self._target
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _CHILD.format(path=path, module=module, name=name)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,  # Ctrl-C is this process's business
            )
        return self._process

    def stop(self) -> None:
        """End the child, if this process has one."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    assert pipe is not None
                    pipe.close()


def serve(module: str, name: str) -> None:
    """The child: answer each line of stdin with one on stdout, until stdin ends."""
    call = getattr(import_module(module), name)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, _late)
    for line in sys.stdin.buffer:
        question = json.loads(line)
        started = _spent()
        try:
            # The kernel ends the child where the interpreter does not come back from one call of C in time.
            signal.setitimer(signal.ITIMER_VIRTUAL, question["seconds"] + 0.2)
            signal.setitimer(signal.ITIMER_PROF, question["seconds"])
            answer: dict[str, Any] = {"text": call(question["text"], question["values"])}
        except ValueError as error:
            answer = {"error": "" if isinstance(error.__cause__, MemoryError) else str(error)}
        except (_Late, MemoryError):
            answer = {"error": ""}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.buffer.write(_line({**answer, "took": _spent() - started}))
        sys.stdout.buffer.flush()


def _late(*_: object) -> None:
    raise _Late


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
