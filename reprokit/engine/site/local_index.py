"""Package folders of this host, served to builds: find-links folders and PEP 503 trees in ``file:`` URLs.

A build cannot see the host's files, and copying a wheelhouse of many gigabytes into every context would be absurd. A
small server on loopback gives out exactly what pip on the host would find: the files that lie in a find-links folder,
and those that an index's pages link to. Its address holds an unguessable word, and it lives only while builds run.
"""

from __future__ import annotations

import hashlib
import html
import http.server
import secrets
import shutil
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from reprokit.engine.site.links import Link, links_in, links_of


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        """Bind without the base class's look-up of the host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]


class LocalIndexServer:
    """A server of ``indexes`` (PEP 503 trees), ``links`` (find-links places) and ``plain`` files (constraints).

    One per process is enough; :meth:`open` may be entered by many builds at once: the first starts the server, the last
    stops it.
    """

    def __init__(
        self, *, indexes: tuple[Path, ...] = (), links: tuple[Path, ...] = (), plain: tuple[Path, ...] = ()
    ) -> None:
        self._indexes, self._links, self._plain = indexes, links, plain
        self._lock = threading.Lock()
        self._users = 0
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._files: dict[str, Path] = {}
        self.token = secrets.token_urlsafe(18)

    @contextmanager
    def open(self) -> Iterator[str]:
        """Serve while the block runs; yields the server's root address, without a slash at its end."""
        with self._lock:
            self._users += 1
            if self._server is None:
                self._start()
            assert self._server is not None
            address = f"http://127.0.0.1:{self._server.server_address[1]}/{self.token}"
        try:
            yield address
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._stop()

    def addresses(self, root: str) -> dict[tuple[str, Path], str]:
        """Kind ("index", "links", "plain") and place on this host -> its address on the server at ``root``."""
        found = {("index", place): f"{root}/index/{number}" for number, place in enumerate(self._indexes)}
        found |= {("links", place): f"{root}/links/{number}/" for number, place in enumerate(self._links)}
        return found | {("plain", place): self._file_address(root, place, "") for place in self._plain}

    def _start(self) -> None:
        server = self

        class Handler(_Handler):
            serve = server

        self._server = _Server(("127.0.0.1", 0), Handler)
        # A short poll: stopping waits for it, and builds wait for stopping.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="local-index", daemon=True
        )
        self._thread.start()

    def _stop(self) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = self._thread = None
        self._files.clear()

    def page(self, parts: list[str]) -> bytes | None:
        """The page for the path below the token, split at slashes; None when there is none."""
        kind, number, *rest = parts
        places = {"index": self._indexes, "links": self._links}.get(kind, ())
        if not number.isdecimal() or int(number) >= len(places):
            return None
        place = places[int(number)]
        if kind == "links":
            return self._rendered(links_in(place)) if rest in ([], [""]) else None
        project = rest[0] if rest else ""
        if rest[1:] not in ([], [""]) or project in {".", ".."} or "/" in project or "\0" in project:
            return None
        page = place / project / "index.html" if project else place / "index.html"
        return self._rendered(links_of(page)) if page.is_file() and project else None

    def file(self, key: str, name: str) -> Path | None:
        """The file that a page linked to under ``key`` and ``name``, or the metadata that lies beside it."""
        path = self._files.get(key)
        if path is None or name not in {path.name, f"{path.name}.metadata"}:
            return None
        path = path.with_name(name)
        return path if path.is_file() else None

    def _rendered(self, links: list[Link]) -> bytes:
        root = f"/{self.token}"
        lines = ["<!DOCTYPE html><html><body>"]
        for link in links:
            address = self._file_address(root, link.path, link.fragment) if link.path else _whole(link)
            extra = "".join(f' {name}="{html.escape(value)}"' for name, value in link.attributes)
            name = unquote(urlsplit(address).path.rpartition("/")[2])
            lines.append(f'<a href="{html.escape(address)}"{extra}>{html.escape(name)}</a><br>')
        return "\n".join([*lines, "</body></html>\n"]).encode()

    def _file_address(self, root: str, path: Path, fragment: str) -> str:
        # The key says nothing about where on the host the file lies.
        key = hashlib.sha256(f"{self.token}{path}".encode()).hexdigest()[:20]
        self._files[key] = path
        return f"{root}/file/{key}/{quote(path.name)}" + (f"#{fragment}" if fragment else "")


def _whole(link: Link) -> str:
    return f"{link.url}#{link.fragment}" if link.fragment else link.url


class _Handler(http.server.BaseHTTPRequestHandler):
    serve: LocalIndexServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with a page or a file."""
        with suppress(ConnectionError):
            self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """The same without the body."""
        with suppress(ConnectionError):
            self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        token, *parts = [unquote(part) for part in urlsplit(self.path).path.lstrip("/").split("/")]
        page = file = None
        if secrets.compare_digest(token.encode(), self.serve.token.encode()) and len(parts) >= 2:
            if parts[0] == "file" and len(parts) == 3:
                file = self.serve.file(parts[1], parts[2])
            else:
                page = self.serve.page(parts)
        try:
            if file is not None:
                with file.open("rb") as reader:
                    self._head(200, "application/octet-stream", file.stat().st_size)
                    if with_body:
                        shutil.copyfileobj(reader, self.wfile, 1024 * 1024)
                return
        except FileNotFoundError:
            page = None
        body = b"not found\n" if page is None else page
        self._head(404 if page is None else 200, "text/html; charset=utf-8", len(body))
        if with_body:
            self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        # pip's cache is keyed by address, and this address never comes back.
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing: the build's own output tells what pip fetched."""
