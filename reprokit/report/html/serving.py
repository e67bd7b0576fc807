"""A report served to one user of this machine, to look at it."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import sys
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from reprokit.core.errors import UsageError

HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Files of one folder below ``/TOKEN/``, to clients that ask for this machine by its own name.

    Other users of this machine reach the port and do not know the token; a page elsewhere may not read it by a name of
    its own that it lets lead here.
    """

    def __init__(self, *arguments: object, token: str, **named: object) -> None:
        self._token = token
        super().__init__(*arguments, **named)  # type: ignore[arg-type]

    def send_head(self):  # type: ignore[no-untyped-def]
        """As of the base, once the name that was asked for is this machine's, and the path holds the token."""
        asked = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if asked not in (HOST, "localhost"):
            self.send_error(403, "This report is served to this machine alone")
            return None
        _, given, rest = (*self.path.split("/", 2), "", "")[:3]
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode()):
            self.send_error(403, "The address of this report has a token: take it from the terminal")
            return None
        self.path = f"/{rest}"
        return super().send_head()

    def end_headers(self) -> None:
        """A report that is written again is seen at once; no page that a link leads to gets the token."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        super().end_headers()

    def list_directory(self, path: object) -> None:
        """Folders are not listed."""
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


class _Server(ThreadingHTTPServer):
    """A server that ignores readers who leave in the middle of an answer, as a page does that is closed."""

    def handle_error(self, request: object, client_address: object) -> None:
        """As of the base (a traceback on the terminal), but for a connection that the other side ended."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def serve(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve a folder on 127.0.0.1 until Ctrl-C; ``ready`` gets the address. Raises UsageError for a taken port."""
    token = secrets.token_urlsafe(24)
    try:
        server = _Server((HOST, port), partial(_Handler, directory=str(folder), token=token))
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; --port 0 takes any that is free") from error
    with server:
        ready(f"http://{HOST}:{server.server_address[1]}/{token}/")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
