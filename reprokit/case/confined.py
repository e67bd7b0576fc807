"""Templates that could take any time and memory, rendered in a child process that may take little of both.

One child serves all templates of this process. Their time comes from one budget, which every template adds a little
to: many templates that each take long are refused as one that does.
"""

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
from pathlib import Path
from typing import Any

from reprokit.case.inspection import RenderError

MEMORY = 160 * 1024**2
"""Bytes of address space of the child. It starts with about 30 MB."""
MOST_SECONDS = 0.3
"""Processor time that templates may take in a row."""
EACH = 0.02
"""Processor time, in seconds, that each template adds to what is left. Jinja2 compiles a short one in 5 ms."""

TOO_LONG = "the template takes too much time or memory: loop less, and make smaller texts"

_CHILD = "import sys; sys.path[:] = {path!r}; from reprokit.case.confined import serve; serve()"


class _Late(BaseException):
    """Not an Exception: code that renders templates treats those as errors in the template."""


class _Child:
    """The child process, started when it is first needed, and again after it was killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._left = MOST_SECONDS

    def ask(self, text: str, values: Mapping[str, str]) -> str:
        """The rendered text. Raises RenderError."""
        with self._lock:
            self._left = min(MOST_SECONDS, self._left + EACH)
            if self._left <= 0:
                raise RenderError(TOO_LONG)
            answer = self._exchange({"text": text, "values": dict(values), "seconds": self._left})
            # One that had to be killed costs more than its time: a new child must be started.
            self._left = max(0.0, self._left - answer["took"]) if "took" in answer else -MOST_SECONDS
        if "error" in answer:
            raise RenderError(answer["error"])
        return str(answer["text"])

    def fresh_budget(self) -> None:
        """Give the templates of a further case all of the time, whatever those of the last one took."""
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
        return dict(json.loads(answer)) if done else {"error": TOO_LONG}

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid():
            self._owner = os.getpid()
            path = [str(Path(entry).absolute()) for entry in sys.path]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _CHILD.format(path=path)],
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


_child = _Child()
atexit.register(_child.stop)
fresh_budget = _child.fresh_budget


def render_confined(text: str, values: Mapping[str, str]) -> str:
    """``text`` with the values put in. Raises RenderError, also where it takes too much time or memory."""
    return _child.ask(text, values)


def serve() -> None:
    """The child: answer each line of stdin with one on stdout, until stdin ends."""
    from reprokit.case.sandbox import filled

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
            answer: dict[str, Any] = {"text": filled(question["text"], question["values"])}
        except RenderError as error:
            answer = {"error": TOO_LONG if isinstance(error.__cause__, MemoryError) else str(error)}
        except (_Late, MemoryError):
            answer = {"error": TOO_LONG}
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
