"""Bytes copied both ways between a build and a server, until either side ends or both are silent."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

SILENCE_SECONDS = 300.0
_BLOCK = 128 * 1024


def tunnel(build: socket.socket, server: socket.socket, early: bytes) -> None:
    """Copy until the connection ends. ``early``: what the build sent before it knew of the server."""
    moved = [time.monotonic()]

    def copy(source: socket.socket, target: socket.socket) -> None:
        while True:
            try:
                block = source.recv(_BLOCK)
            except TimeoutError:
                if time.monotonic() - moved[0] < SILENCE_SECONDS:
                    continue  # the other direction is at work
                break
            except OSError:
                break
            moved[0] = time.monotonic()
            try:
                target.sendall(block)
            except OSError:
                break
            if not block:
                with suppress(OSError):
                    target.shutdown(socket.SHUT_WR)
                return
        for end in (build, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    for end in (build, server):
        end.settimeout(SILENCE_SECONDS)
    if early:
        server.sendall(early)
    back = threading.Thread(target=copy, args=(server, build), name="gateway-tunnel", daemon=True)
    back.start()
    copy(build, server)
    back.join()
