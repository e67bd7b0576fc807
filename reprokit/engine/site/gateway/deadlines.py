"""Ends connections on which something takes too long: a time limit of a socket counts again for every byte."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

POLL_SECONDS = 0.5


class Deadlines:
    """One thread that watches the connections of a gateway while it runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._until: dict[int, tuple[float, socket.socket]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gateway-deadlines", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    @contextmanager
    def limit(self, connection: socket.socket, seconds: float) -> Iterator[None]:
        """Shut ``connection`` down if the block takes longer; what reads or writes it then fails."""
        with self._lock:
            number = next(self._numbers)
            self._until[number] = time.monotonic() + seconds, connection
        try:
            yield
        finally:
            with self._lock:
                self._until.pop(number, None)

    def _watch(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            now = time.monotonic()
            with self._lock:
                late = [one for until, one in self._until.values() if until < now]
            for connection in late:
                with suppress(OSError):
                    # Of the plain socket: that of a TLS one would let bytes through undecrypted.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
