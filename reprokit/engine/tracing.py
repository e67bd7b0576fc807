"""The tracer beside a trial's command: started in its container as its user, and asked at the time limit."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from reprokit.engine.stream import Demux
from reprokit.engine.wire import Wire

GATE = "kill -STOP $$; "
"""What a traced command waits behind."""
ASKED_WITHIN = 10.0
"""Seconds for which a trial is held at its time limit for its stacks."""
MOST = 512 * 1024
"""Bytes of stacks that are kept of a trial."""

_LAST_WORDS = 30.0  # seconds that the engine may take to pass on what was said; mostly none
_READY = b"[reprokit: ready]\n"
# Whatever becomes of the debugger, the command goes on.
_SCRIPT = """
until grep -qs '^State:.T' /proc/[0-9]*/status; do sleep 0.02; done
if command -v gdb > /dev/null; then
  gdb -q -batch -nx -ex 'python import os; exec(os.environ.pop("REPROKIT_TRACER"))' 2> /dev/null && exit
  echo '[reprokit: no stacks: gdb could not be run here]'
else
  echo '[reprokit: no stacks: this image has no gdb]'
fi
kill -CONT -1
"""


@functools.cache
def _source() -> str:
    return (Path(__file__).parent / "tracer_inside.py").read_text(encoding="utf-8")


class Tracing:
    """The tracer of a running container ``name``, whose command waits behind ``GATE``: it runs when this returns.

    Raises EngineError.
    """

    def __init__(self, wire: Wire, name: str, user: str) -> None:
        client = wire.client()
        with wire.errors():
            made = client.exec_create(
                name,
                ["sh", "-c", _SCRIPT],
                stdin=True,
                user=user,
                environment={"REPROKIT_TRACER": _source(), "LD_PRELOAD": ""},
            )
        body = json.dumps({"Detach": False, "Tty": False}).encode()
        headers = [("Connection", "Upgrade"), ("Upgrade", "tcp"), ("Content-Type", "application/json")]
        headers.append(("Content-Length", str(len(body))))
        self._attached = wire.hijack(f"/exec/{made['Id']}/start", headers=headers, body=body, expect_first=True)
        self._demux = Demux()
        self._said = bytearray()
        self._take(self._attached.early)
        self._reader = threading.Thread(target=self._read, name="tracer", daemon=True)
        self._reader.start()

    def _take(self, data: bytes) -> None:
        for _, piece in self._demux.feed(data):
            self._said += piece[: MOST - len(self._said)]

    def _read(self) -> None:
        try:
            while data := self._attached.response.raw._fp.fp.read1(65536):
                self._take(data)
        except (OSError, ValueError, AttributeError):  # closed, here or there
            pass

    def ask(self, is_cancelled: Callable[[], bool]) -> None:
        """Wait until the tracer has taken the stacks of everything, for ``ASKED_WITHIN`` seconds at most."""
        try:
            self._attached.socket.sendall(b"\n")
        except OSError:
            return
        until = time.monotonic() + ASKED_WITHIN
        while self._reader.is_alive() and time.monotonic() < until and not is_cancelled():
            self._reader.join(0.1)

    def close(self) -> None:
        """Listen no more."""
        self._attached.close()

    def said(self) -> bytes:
        """What it said of the trial, as lines for the end of its log; the container has ended."""
        self._reader.join(_LAST_WORDS)
        said = bytes(self._said).replace(_READY, b"")
        return said[: said.rfind(b"\n") + 1]
