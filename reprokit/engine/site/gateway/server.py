"""The gateway of one build: a socket in a private folder, and a thread for each connection, within limits."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from reprokit.engine.site.gateway.access import SiteAccess, without_login
from reprokit.engine.site.gateway.allowed import Allowed, Guard, Resolver, is_of_this_host, look_up
from reprokit.engine.site.gateway.client import Client, Malformed
from reprokit.engine.site.gateway.deadlines import Deadlines
from reprokit.engine.site.gateway.files import Downloads, FetchedFile
from reprokit.engine.site.gateway.local import LocalPlaces
from reprokit.engine.site.gateway.routes import RELAY_PORT, ROOT, Routes
from reprokit.engine.site.gateway.upstream import Connector, Upstream, connect
from reprokit.engine.site.links import local_path

__all__ = ["RELAY_PORT", "Address", "Gateway"]

MAX_CONNECTIONS = 64
"""Of one build at a time; further ones wait."""
PIP_SECONDS = "120"
"""pip's timeout: the first bytes of a file may have to come from far."""
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


class Gateway:
    """What builds fetch, fetched by this host. ``cache``: folder of downloads, shared by builds.

    ``resolve``, ``connector`` and ``own``: how names are looked up, connections made, and addresses recognised as this
    host's; tests have their own.
    """

    def __init__(
        self,
        access: SiteAccess,
        allowed: Allowed,
        cache: Path,
        *,
        resolve: Resolver = look_up,
        connector: Connector = connect,
        own: Callable[[str], bool] = is_of_this_host,
    ) -> None:
        self._access, self._allowed = access, allowed
        # What was read with the site's logins is not for builds that do not have them.
        self._cache = cache / ("own" if allowed.credentials else "open")
        self._resolve, self._connector, self._own = resolve, connector, own

    @contextmanager
    def open(self, folder: Path) -> Iterator[Address]:
        """Serve on ``folder/gateway.sock`` while the block runs. The folder becomes private to this user."""
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        path = folder / "gateway.sock"
        access = self._access
        guard = Guard(self._allowed, access.named, access.direct, resolve=self._resolve, own=self._own)
        deadlines = Deadlines()
        upstream = Upstream(access, guard, deadlines, connector=self._connector)
        local = _local_places(access)
        downloads = Downloads(self._cache)
        routes = Routes(access, guard, upstream, downloads, local)
        server = _Server(path, routes, deadlines)
        try:
            yield Address(
                socket=path,
                pip=_pip(access),
                known=_known(access, local),
                notes=routes.notes,
                fetched=downloads.fetched,
            )
        finally:
            server.stop()
            upstream.close()
            path.unlink(missing_ok=True)


class _Server:
    def __init__(self, path: Path, routes: Routes, deadlines: Deadlines) -> None:
        self._routes, self._deadlines = routes, deadlines
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._stopped = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(8 * MAX_CONNECTIONS)
        self._thread = threading.Thread(target=self._accept, name="gateway", daemon=True)
        deadlines.start()
        self._thread.start()

    def stop(self) -> None:
        """End every connection and every thread."""
        with self._lock:
            self._stopped = True
            open_ones = dict(self._open)
        for one in (self._listener, *open_ones):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with suppress(ValueError):
            self._slots.release()  # a thread may be waiting for a place
        for thread in (self._thread, *open_ones.values()):
            thread.join(timeout=5)
        self._deadlines.stop()

    def _accept(self) -> None:
        while True:
            self._slots.acquire()
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="gateway-client", daemon=True)
            with self._lock:
                if self._stopped:
                    connection.close()
                    return
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                self._requests(Client(connection, self._deadlines))
        finally:
            with self._lock:
                self._open.pop(connection, None)
            with suppress(ValueError):
                self._slots.release()

    def _requests(self, client: Client) -> None:
        while client.keep:
            try:
                request = client.request()
            except Malformed as error:
                client.keep = False
                self._routes.note(str(error))
                client.sentence(error.status, str(error))
                return
            if request is None:
                return
            self._routes.answer(request, client)


def _local_places(access: SiteAccess) -> LocalPlaces:
    def places(values: tuple[str, ...]) -> tuple[Path, ...]:
        return tuple(place for place in map(local_path, values) if place is not None)

    return LocalPlaces(places(access.indexes), places(access.pip.get("find-links", ())))


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
