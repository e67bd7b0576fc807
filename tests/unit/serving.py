"""A real HTTP server on this machine, for as long as a test needs it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Quiet(http.server.BaseHTTPRequestHandler):
    """A handler that writes nothing to the tests' output, with a short way to answer."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer with that status and body; ``Content_Type`` is the header Content-Type."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class QuietFiles(Quiet, http.server.SimpleHTTPRequestHandler):
    """The same, for the files of a folder."""


@contextmanager
def serving(handler: Callable[..., Any]) -> Iterator[str]:
    """Serve with that handler on a free port; the server's address, ``127.0.0.1:PORT``."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # How often it looks whether it is to end: each test waits for that once.
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
