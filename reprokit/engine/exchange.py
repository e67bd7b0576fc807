"""Requests to the engine that take long: streamed there and back, and cut off when the user does not want them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from reprokit.core import interrupts
from reprokit.core.errors import Cancelled, EngineError
from reprokit.engine.wire import ANSWER_WITHIN, Wire, error_in, raise_for_status, raw_socket

_LOOK = 0.2  # seconds between looks at the cancel event


def build(
    wire: Wire,
    parameters: Mapping[str, str],
    context: Iterable[bytes],
    take: Callable[[dict[str, Any]], None],
    cancel: threading.Event,
) -> str:
    """``POST /build`` with a tar stream; ``take`` gets each message of the answer.

    Returns the engine's error, or '' for success. Raises Cancelled, EngineError.
    """

    def body() -> Iterator[bytes]:
        for piece in context:
            if cancel.is_set():
                raise Cancelled("cancelled while the build context was sent")
            yield piece

    client = wire.client()
    name = f"the build of {parameters['t']}"
    interrupts.would_leave(name, "the engine stops it once it sees that this process has ended")
    response: Any = None
    try:
        with wire.errors():
            response = client.post(
                wire.url("/build"),
                params=parameters,
                data=body(),
                headers={"Content-Type": "application/x-tar"},
                stream=True,
                timeout=ANSWER_WITHIN,
            )
        with wire.errors(), cut_on(response, cancel):
            raise_for_status(response)
            for line in response.iter_lines(chunk_size=None):
                if cancel.is_set():
                    break
                if not line:
                    continue
                message = json.loads(line)
                take(message)
                if error := error_in(message):
                    return error
    except EngineError:
        if not cancel.is_set():
            raise
    finally:
        if response is not None:
            response.close()  # also how the engine learns that no one waits any more: it stops the build
        interrupts.leaves_no_more(name)
    if cancel.is_set():
        raise Cancelled("cancelled during the build")
    return ""


@contextlib.contextmanager
def cut_on(response: Any, cancel: threading.Event, silence: float | None = None) -> Iterator[Callable[[], None]]:
    """A block that reads a streaming answer which ``cancel`` cuts off within a moment, even in mid-read.

    ``silence``: seconds after which it is cut off too, counted from the last call of what the block gets; then
    EngineError is raised. Without it a step may be silent for as long as it likes.
    """
    sock = raw_socket(response)
    sock.settimeout(None)
    done = threading.Event()
    last = [time.monotonic()]
    silent = threading.Event()

    def heard() -> None:
        last[0] = time.monotonic()

    def watch() -> None:
        import socket

        while not done.wait(_LOOK):
            if silence is not None and time.monotonic() - last[0] > silence:
                silent.set()
            if cancel.is_set() or silent.is_set():
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                return

    watcher = threading.Thread(target=watch, name="cancel-watch", daemon=True)
    watcher.start()
    try:
        yield heard
    except Exception as error:
        if silent.is_set():
            raise _given_up(silence) from error
        raise
    else:
        if silent.is_set():
            raise _given_up(silence)
    finally:
        done.set()
        watcher.join()


def _given_up(silence: float | None) -> EngineError:
    return EngineError(f"there was no answer for {silence:g} s, and it was given up")
