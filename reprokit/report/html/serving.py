"""A report served to this machine alone, to look at it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from reprokit.core.errors import UsageError

HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Files of one folder, to clients that ask for this machine by its own name: a page elsewhere may not read them."""

    def send_head(self):  # type: ignore[no-untyped-def]
        """As of the base, once the name that was asked for is this machine's."""
        asked = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if asked not in (HOST, "localhost"):
            self.send_error(403, "This report is served to this machine alone")
            return None
        return super().send_head()

    def end_headers(self) -> None:
        """A report that is written again is seen at once."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


def serve(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve a folder on 127.0.0.1 until Ctrl-C; ``ready`` gets the address. Raises UsageError for a taken port."""
    try:
        server = ThreadingHTTPServer((HOST, port), partial(_Handler, directory=str(folder)))
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; --port 0 takes any that is free") from error
    with server:
        ready(f"http://{HOST}:{server.server_address[1]}/")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
