"""The gateway of one build: a socket in a private folder, and a thread for each connection, within limits."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpcore

from reprokit.engine.site.gateway.access import ROOT, SiteAccess, without_login
from reprokit.engine.site.gateway.allowed import Allowed, Guard, Resolver, is_of_this_host, look_up
from reprokit.engine.site.gateway.client import Client
from reprokit.engine.site.gateway.downloads import Downloads, FetchedFile
from reprokit.engine.site.gateway.pages import LocalPlaces
from reprokit.engine.site.gateway.routes import Routes
from reprokit.engine.site.gateway.upstream import Upstream
from reprokit.engine.site.links import local_path

MAX_CONNECTIONS = 64
"""Of one build at a time; further ones wait."""
PIP_SECONDS = "120"
"""pip's timeout: the first bytes of a file may have to come from far, or another build may just be reading it."""
_HANDLED = ("cert", "client-cert", "proxy")
"""pip's options that the gateway follows in the build's place."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a running gateway is. ``socket``: its Unix socket. ``pip``: options for the build's pip, with addresses at
    the relay. ``known``: address in the build -> the real one (each a prefix), for logs. ``notes``: what the build was
    refused, or could not reach, so far, and ``fetched`` what was read from servers; both grow while the build runs.
    """

    socket: Path
    pip: Mapping[str, tuple[str, ...]]
    known: Mapping[str, str]
    notes: list[str]
    fetched: list[FetchedFile]


@contextmanager
def serving(
    access: SiteAccess,
    allowed: Allowed,
    cache: Path,
    folder: Path,
    *,
    resolve: Resolver = look_up,
    backend: httpcore.NetworkBackend | None = None,
    own: Callable[[str], bool] = is_of_this_host,
) -> Iterator[Address]:
    """Serve one build on ``folder/gateway.sock`` while the block runs. The folder becomes private to this user.

    ``cache``: folder of downloads, shared by builds. ``resolve``, ``backend`` and ``own``: how names are looked up,
    connections made, and addresses recognised as this host's; tests have their own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = folder / "gateway.sock"
    guard = Guard(allowed, access.named, access.direct, resolve=resolve, own=own)
    upstream = Upstream(access, guard, backend or httpcore.SyncBackend())
    local = LocalPlaces(access.indexes, access.pip.get("find-links", ()))
    # What was read with the site's logins is not for builds that do not have them.
    downloads = Downloads(cache / ("own" if allowed.credentials else "open"))
    routes = Routes(access, guard, upstream, downloads, local)
    server = _Server(path, routes)
    try:
        known = _known(access, local)
        yield Address(socket=path, pip=_pip(access), known=known, notes=routes.notes, fetched=downloads.fetched)
    finally:
        server.stop()
        upstream.close()
        path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves the requests of a build until it is stopped."""

    daemon_threads = True
    request_queue_size = 8 * MAX_CONNECTIONS

    def __init__(self, path: Path, routes: Routes) -> None:
        self._routes, self._slots = routes, threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._open: dict[socket.socket, None] = {}
        super().__init__(str(path), socketserver.BaseRequestHandler)
        path.chmod(0o600)
        threading.Thread(target=self.serve_forever, args=(0.1,), name="gateway", daemon=True).start()

    def stop(self) -> None:
        """End every connection, and take no more."""
        stopping = threading.Thread(target=self.shutdown, name="gateway-stop", daemon=True)
        stopping.start()
        waits = True
        while waits:  # for the server, which may itself be waiting for a place
            stopping.join(0.05)
            waits = stopping.is_alive()
            for one in list(self._open):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for a place, then serve a connection in a thread."""
        self._slots.acquire()
        self._open[request] = None
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        with suppress(OSError):
            self._routes.serve(Client(request))

    def shutdown_request(self, request: Any) -> None:
        """End a connection, and give its place to the next."""
        self._open.pop(request, None)
        super().shutdown_request(request)
        self._slots.release()


def _pip(access: SiteAccess) -> dict[str, tuple[str, ...]]:
    """The host's pip options as a build gets them."""
    pip = {name: values for name, values in access.pip.items() if name not in _HANDLED}
    indexes = tuple(f"{ROOT}/index/{number}" for number in range(len(access.indexes)))
    # With no-index there are none, and the host's own addresses, logins included, stay here all the same.
    for name, places in (("index-url", indexes[:1]), ("extra-index-url", indexes[1:])):
        pip.pop(name, None)
        if places:
            pip[name] = places
    for name, kind in (("find-links", "links"), ("constraint", "plain")):
        if values := access.pip.get(name):
            ends = ["/" if kind == "links" else f"/{_name(value)}" for value in values]
            pip[name] = tuple(f"{ROOT}/{kind}/{number}{end}" for number, end in enumerate(ends))
    given = pip.get("timeout", ("0",))[0]
    pip["timeout"] = (given if given.isdecimal() and int(given) > int(PIP_SECONDS) else PIP_SECONDS,)
    return pip


def _known(access: SiteAccess, local: LocalPlaces) -> dict[str, str]:
    """Address in the build -> the real one, without logins."""
    known = {f"{ROOT}/{kind}/{scheme}/": f"{scheme}://" for kind in ("file", "place") for scheme in ("https", "http")}
    known |= {f"{ROOT}/local/{number}": str(root) for number, root in enumerate(local.roots)}
    for number, place in enumerate(access.indexes):
        known[f"{ROOT}/index/{number}"] = without_login(place).rstrip("/")
    for number, place in enumerate(access.pip.get("find-links", ())):
        known[f"{ROOT}/links/{number}/"] = without_login(place)
    for number, place in enumerate(access.pip.get("constraint", ())):
        known[f"{ROOT}/plain/{number}/{_name(place)}"] = without_login(place)
    return known


def _name(place: str) -> str:
    path = local_path(place)
    return path.name if path is not None else place.partition("?")[0].rpartition("/")[2] or "constraints.txt"
