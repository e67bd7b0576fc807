"""The gateway of one build: where it is, and what it answers to each request."""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpcore

from reprokit.core.addresses import Resolver, is_of_this_host, look_up
from reprokit.core.text import whole_number
from reprokit.engine.site.gateway import pages
from reprokit.engine.site.gateway.access import (
    LOCATIONS,
    RELAY_PORT,
    ROOT,
    Allowed,
    Guard,
    NotServed,
    SiteAccess,
    Unreachable,
    basic,
    endpoint,
    shown,
    without_login,
)
from reprokit.engine.site.gateway.connections import Client, ConnectionServer, HttpRequest, Malformed
from reprokit.engine.site.gateway.downloads import OTHERS_WAIT, PIP_WAITS, Downloads, FetchedFile
from reprokit.engine.site.gateway.upstream import Answer, Upstream
from reprokit.engine.site.links import local_path

PIP_SECONDS = "120"
"""pip's timeout: the first bytes of a file may have to come from far, or another build may just be reading it."""
_HANDLED = ("cert", "client-cert", "proxy")
"""pip's options that the gateway follows in the build's place."""
MAX_LINKS = 256 * 2**20
"""Characters of links that are remembered for one build, and of what each takes besides; the oldest are forgotten
first: hostile pages may have addresses of megabytes."""
_BESIDES = 400

_PROJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?")
_CONDITIONS = ("range", "if-range", "if-modified-since", "if-none-match", "cache-control")
_ASKED = ("accept", "user-agent", *_CONDITIONS)
_ANSWERED = (
    *("content-type", "content-length", "content-encoding", "content-range", "accept-ranges", "last-modified", "etag"),
    *("location", "date", "retry-after", "cache-control", "expires"),
)
_BY_HASH = re.compile(r"/by-hash/SHA256/([0-9a-f]{64})$")
_PACKAGE = re.compile(r"/pool/.*\.u?deb$")
_BLOCK = 128 * 1024

Ask = Callable[[str, tuple[str, ...]], Answer]
"""Asks a server for what a build wants: method, and the names of the build's headers that it gets."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a running gateway is."""

    socket: Path
    pip: Mapping[str, tuple[str, ...]]
    """Options for the build's pip, with addresses at the relay."""
    known: Mapping[str, str]
    """Address in the build -> the real one (each a prefix), for logs."""
    notes: list[str]
    """What the build was refused, or could not reach, so far; it grows while the build runs."""
    fetched: list[FetchedFile]
    """What was read from servers so far."""


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
    guard = Guard(allowed, access, resolve=resolve, own=own)
    upstream = Upstream(access, guard, backend or httpcore.SyncBackend())
    local = pages.LocalPlaces(access.indexes, access.pip.get("find-links", ()))
    # What was read with the site's logins is not for builds that do not have them.
    downloads = Downloads(cache / ("own" if allowed.credentials else "open"))
    routes = Routes(access, guard, upstream, downloads, local)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(0o600)
    listener = ConnectionServer(bound, routes.serve)
    try:
        known = _known(access, local)
        yield Address(socket=path, pip=_pip(access), known=known, notes=routes.notes, fetched=downloads.fetched)
    finally:
        listener.stop()
        upstream.close()
        path.unlink(missing_ok=True)


class Routes:
    """The answers for one build."""

    def __init__(
        self, access: SiteAccess, guard: Guard, upstream: Upstream, downloads: Downloads, local: pages.LocalPlaces
    ) -> None:
        self._access, self._guard, self._upstream = access, guard, upstream
        self._downloads, self._local = downloads, local
        self._lock = threading.Lock()
        self._files: dict[str, tuple[str | Path, str, str]] = {}
        self._held = 0
        self._places = _places(access)
        self._gone: dict[tuple[str, int], str] = {}
        self.notes: list[str] = []

    def serve(self, client: Client) -> None:
        """Answer the requests of a connection. Raises OSError when the build hangs up, or has to see it end."""
        while True:
            try:
                if (request := client.request()) is None:
                    return
                self._answer(request, client)
            except OSError:
                raise
            except Exception as error:
                self._refuse(client, error if isinstance(error, NotServed) else _defect(error))

    def _refuse(self, client: Client, error: NotServed) -> None:
        with self._lock:
            if str(error) not in self.notes and len(self.notes) < 50:
                self.notes.append(str(error))
        client.sentence(error)

    def _answer(self, request: HttpRequest, client: Client) -> None:
        if request.method == "CONNECT":
            client.tunnel(self._upstream.tunnel(request.target))
        elif request.method not in ("GET", "HEAD"):
            raise Malformed(f"{request.method} is not served; builds only fetch", 405)
        elif request.target.startswith("/"):
            self._own(request, request.target, client)
        else:
            self._proxied(request, client)

    # Pages and files of the site's indexes.

    def _own(self, request: HttpRequest, target: str, client: Client) -> None:
        path = target.partition("?")[0]
        above, _, project = path.rstrip("/").rpartition("/")
        found: tuple[str, bytes] | None = None
        if path.startswith(("/file/", "/local/")):
            return self._linked(request, target, client)
        if path.startswith("/place/"):  # a page of an index or find-links place that the case names: SCHEME/HOST/...
            url = target.removeprefix("/place/").replace("/", "://", 1)
            found = self._page(request, self._guard.place_of(url), url)
        elif above.startswith("/index/") and above in self._places and _PROJECT.fullmatch(project):
            found = self._page_of_site(request, self._places[above], project)
        elif path.startswith("/links/") and f"{path.rstrip('/')}/" in self._places:
            found = self._page_of_site(request, self._places[f"{path.rstrip('/')}/"], "")
        elif path in self._places:
            return self._constraint(self._places[path], client)
        if found is None:
            raise NotServed("there is no such page", 404)
        return client.page(*found)

    def _page_of_site(self, request: HttpRequest, place: str, project: str) -> tuple[str, bytes] | None:
        """The page of a project on an index, or a find-links page (project '')."""
        if (folder := local_path(place)) is not None:
            links = self._local.links(folder, project)
            return None if links is None else pages.rendered(links, self._putting(place))
        parts = urlsplit(place)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/{project}/").geturl() if project else place
        return self._page(request, place, url)

    def _page(self, request: HttpRequest, place: str, url: str) -> tuple[str, bytes] | None:
        server = endpoint(url)
        if (why := self._gone.get(server)) is not None:
            raise NotServed(why, 424)  # not 502: pip would try that again and again, for each requirement
        try:
            answer = self._upstream.follow(
                url, {**_chosen(request.headers, ("accept",)), "Accept-Encoding": "gzip"}, place=place
            )
        except Unreachable as error:
            self._gone[server] = str(error)
            raise NotServed(str(error), 424) from None
        with closing(answer):
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise NotServed(f"the index {shown(place)} answers {answer.status}", _passed(answer.status))
            body, kind = answer.page(), answer.headers.get("content-type", "")
        return pages.rewritten(kind, body, answer.url, self._putting(place))

    def _putting(self, place: str) -> pages.Put:
        def put(where: str | Path, sha256: str, metadata: str | None) -> str | None:
            """Remember where a link leads; clients quote its path here as they like."""
            if isinstance(where, Path):
                path = self._local.path_of(where)
                beside: str | Path = where.with_name(f"{where.name}.metadata")
            else:
                where, path = without_login(where), pages.path_of(where)
                beside = f"{where}.metadata"
            if path is None:
                return None
            with self._lock:
                self._remember(unquote(path), where, sha256, place)
                if metadata is not None:
                    self._remember(unquote(f"{path}.metadata"), beside, metadata, place)
            return path

        return put

    def _remember(self, path: str, where: str | Path, sha256: str, place: str) -> None:
        if (before := self._files.get(path)) is not None:
            self._held -= _size(path, before[0])
        self._files[path] = where, sha256, place
        self._held += _size(path, where)
        while self._held > MAX_LINKS:
            first = next(iter(self._files))
            self._held -= _size(first, self._files.pop(first)[0])

    def _linked(self, request: HttpRequest, target: str, client: Client) -> None:
        with self._lock:
            found = self._files.get(unquote(target))
        if found is None:
            raise NotServed("no page of this site's indexes, read in this build, links to such a file", 404)
        url, sha256, place = found
        if isinstance(url, Path):
            return _send_file(url if self._local.root_of(url) else None, client)
        if self._upstream.is_of_case(place):
            self._guard.check_link(url)

        def ask(method: str, names: tuple[str, ...]) -> Answer:
            return self._upstream.follow(url, _chosen(request.headers, names), place=place)

        kept = self._downloads.by_hash(sha256) if sha256 else None
        return self._kept_or_passed(request, kept, sha256, ask, client)

    def _constraint(self, place: str, client: Client) -> None:
        if (path := local_path(place)) is not None:
            return _send_file(path, client)
        return _pass(self._upstream.follow(place, {}, place=place), client)

    # What builds fetch themselves: archives of distributions, and tunnels.

    def _proxied(self, request: HttpRequest, client: Client) -> None:
        try:
            parts = urlsplit(request.target)
            host, port = endpoint(request.target)
        except ValueError:
            raise Malformed("the address that the request names cannot be read") from None
        if host in ("127.0.0.1", "localhost") and port == RELAY_PORT:
            return self._own(request, parts._replace(scheme="", netloc="").geturl() or "/", client)
        if parts.scheme != "http" or "@" in parts.netloc:
            raise Malformed("a proxy's request names an http:// address without a login; for https use CONNECT")
        self._guard.check_name(host, port)
        apt = request.headers.get("user-agent", "").startswith("Debian APT")
        url = parts._replace(fragment="").geturl()

        def ask(method: str, names: tuple[str, ...]) -> Answer:
            headers = {**_chosen(request.headers, names), **self._login_of_archive(url)}
            return self._upstream.ask(method, url, headers, of_build=True, apt=apt)

        stated = _BY_HASH.search(parts.path)
        place = self._downloads.by_hash(stated[1]) if stated else None
        if request.method == "GET" and _PACKAGE.search(parts.path):
            with closing(ask("HEAD", ())) as answer:
                version = f"{answer.headers.get('last-modified', '')} {answer.length}"
                if answer.status == 200 and answer.length and "last-modified" in answer.headers:
                    place = self._downloads.by_address(url, version)
        return self._kept_or_passed(request, place, stated[1] if stated else "", ask, client)

    def _login_of_archive(self, url: str) -> dict[str, str]:
        """The login for a mirror that the site's configuration names with one, for what lies below it."""
        places = self._access.archives if self._guard.allowed.credentials else ()
        login = next(filter(None, (self._access.authorization(place, url) for place in places)), "")
        return {"Authorization": login} if login else {}

    # Answering with what is kept, and with what a server says.

    def _kept_or_passed(self, request: HttpRequest, place: Path | None, sha256: str, ask: Ask, client: Client) -> None:
        """Answer with the file at ``place``; where it is missing, read it from its server, and keep it there."""
        if place is None or request.method == "HEAD":
            return _pass(ask(request.method, _ASKED), client)
        if not place.is_file():
            with self._downloads.turn(place, PIP_WAITS if request.target.startswith("/") else OTHERS_WAIT):
                if not place.is_file():
                    return self._fetch(place, sha256, ask, client)
        with suppress(OSError):
            place.touch()  # for `reprokit gc`, which removes what was not used for long
        return _send_file(place, client)

    def _fetch(self, place: Path, sha256: str, ask: Ask, client: Client) -> None:
        began = time.monotonic()
        with closing(ask("GET", ())) as answer:
            where = shown(answer.url)
            if answer.status != 200:
                raise NotServed(f"{where} answers {answer.status}", answer.status if answer.status >= 400 else 502)
            if answer.headers.get("content-encoding", "identity").lower() != "identity":
                raise Unreachable(f"{where} comes packed, which was not asked for")
            client.head(200, "OK", _of_file(answer.length))
            client.body(self._downloads.keep(answer, place, sha256, began))


def _defect(error: Exception) -> NotServed:
    """What the build, and the user where it fails, see in place of a traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace is not None else ""
    return NotServed(
        f"the build gateway failed with {type(error).__name__}: {error}{where}; this is a defect of reprokit itself: "
        "please report it with this line",
        500,
    )


def _size(path: str, where: str | Path) -> int:
    return len(path) + len(str(where)) + _BESIDES


def _send_file(path: Path | None, client: Client) -> None:
    """Answer with a file of this host."""
    try:
        if path is None:
            raise FileNotFoundError
        with path.open("rb") as stream:
            client.head(200, "OK", _of_file(os.fstat(stream.fileno()).st_size))
            client.body(iter(lambda: stream.read(_BLOCK), b""))
    except (FileNotFoundError, IsADirectoryError):
        raise NotServed("there is no such file in this site's folders", 404) from None


def _pass(answer: Answer, client: Client) -> None:
    """Answer with what a server says, as it comes."""
    with closing(answer):
        headers = {name.title(): answer.headers[name] for name in _ANSWERED if name in answer.headers}
        if answer.length is None:
            headers.pop("Content-Length", None)
        client.head(answer.status, "As The Server Says", headers)
        client.body(answer.blocks())


def _of_file(length: int | None) -> dict[str, str]:
    headers = {"Content-Type": "application/octet-stream"}
    return headers if length is None else {**headers, "Content-Length": str(length)}


def _chosen(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name.title(): headers[name][:1000].strip() for name in names if name in headers}


def _passed(status: int) -> int:
    """The status that the build sees for one that an index gave: refusals as they are, failures as one of ours."""
    return status if status in (401, 403, 410, 429) else 424 if status < 500 else 503


def _places(access: SiteAccess) -> dict[str, str]:
    """Path on the gateway -> the place of the site's pip that is read there: an index, a page of links, a file."""
    found = {f"/index/{number}": place for number, place in enumerate(access.indexes)}
    found |= {f"/links/{number}/": place for number, place in enumerate(access.pip.get("find-links", ()))}
    for number, place in enumerate(access.pip.get("constraint", ())):
        local = local_path(place)
        name = local.name if local is not None else place.partition("?")[0].rpartition("/")[2]
        found[f"/plain/{number}/{name or 'constraints.txt'}"] = place
    return found


def _pip(access: SiteAccess) -> dict[str, tuple[str, ...]]:
    """The host's pip options as a build gets them."""
    read: dict[str, tuple[str, ...]] = {}
    for path in _places(access):
        kind = path.split("/")[1]
        read[kind] = (*read.get(kind, ()), f"{ROOT}{path}")
    # With no-index there are none, and the host's own addresses, logins included, stay here all the same.
    pip = {name: values for name, values in access.pip.items() if name not in (*_HANDLED, *LOCATIONS)}
    indexes = read.get("index", ())
    parts = (indexes[:1], indexes[1:], read.get("links", ()), read.get("plain", ()))
    pip |= {name: values for name, values in zip(LOCATIONS, parts, strict=True) if values}
    given = pip.get("timeout", ("0",))[0]
    pip["timeout"] = (given if (whole_number(given) or 0) > int(PIP_SECONDS) else PIP_SECONDS,)
    return pip


def _known(access: SiteAccess, local: pages.LocalPlaces) -> dict[str, str]:
    """Address in the build -> the real one, without logins."""
    known = {f"{ROOT}/{kind}/{scheme}/": f"{scheme}://" for kind in ("file", "place") for scheme in ("https", "http")}
    known |= {f"{ROOT}/local/{number}": str(root) for number, root in enumerate(local.roots)}
    for path, place in _places(access).items():
        real = without_login(place)
        known[f"{ROOT}{path}"] = real.rstrip("/") if path.startswith("/index/") else real
    return known


_TUNNELS = "reprokit"


@dataclass(frozen=True, kw_only=True)
class Tunnels:
    """``proxy``: the address of an HTTP proxy, with a password. ``notes``: what it refused so far, and why."""

    proxy: str
    notes: list[str] = field(default_factory=list)


@contextmanager
def tunnels(access: SiteAccess, *, resolve: Resolver = look_up) -> Iterator[Tunnels]:
    """Serve CONNECT on loopback while the block runs: to public addresses, and to what the site names for builds.

    A program looks up no name itself, redirects included; it goes through the proxy of the site where there is one.
    """
    word = secrets.token_hex(16)
    alone = replace(access, pip={"no-index": ("1",)}, logins={})  # the places of pip are not what it fetches
    guard = Guard(Allowed(credentials=False, any_host=True), alone, resolve=resolve)
    listener = socket.create_server(("127.0.0.1", 0))
    found = Tunnels(proxy=f"http://{_TUNNELS}:{word}@127.0.0.1:{listener.getsockname()[1]}")

    def serve(client: Client) -> None:
        try:
            request = client.request()
            if request is None:
                return
            given = request.headers.get("proxy-authorization", "")
            if request.method != "CONNECT" or not secrets.compare_digest(given, basic(_TUNNELS, word)):
                raise NotServed("this proxy is not for you", 407)
            client.tunnel(upstream.tunnel(request.target))
        except NotServed as error:
            found.notes.append(str(error))
            client.sentence(error)

    with closing(Upstream(alone, guard, httpcore.SyncBackend())) as upstream:
        server = ConnectionServer(listener, serve)
        try:
            yield found
        finally:
            server.stop()
