"""What the gateway answers to each request of a build."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reprokit.engine.site.gateway import pages
from reprokit.engine.site.gateway.access import SiteAccess, endpoint, shown, without_login
from reprokit.engine.site.gateway.allowed import Guard, HostRefused, Unreachable
from reprokit.engine.site.gateway.client import Client, HttpRequest, Malformed
from reprokit.engine.site.gateway.files import Arriving, Downloads, Failed, Stored
from reprokit.engine.site.gateway.local import LocalPlaces
from reprokit.engine.site.gateway.pages import Hash
from reprokit.engine.site.gateway.tunnel import tunnel
from reprokit.engine.site.gateway.upstream import Answer, Upstream, closing
from reprokit.engine.site.links import local_path

RELAY_PORT = 17890
"""The port on a build's loopback at which its relay to the gateway listens. Everywhere the same: an image does not
tell where it was built."""
ROOT = f"http://127.0.0.1:{RELAY_PORT}"

MAX_FILES = 1_000_000
"""Links that are remembered for one build; the oldest are forgotten first."""

_PROJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?")
_ASKED = ("accept", "user-agent")
_CONDITIONS = ("range", "if-range", "if-modified-since", "if-none-match", "cache-control")
_ANSWERED = (
    *("content-type", "content-length", "content-range", "accept-ranges", "last-modified", "etag", "location"),
    *("date", "retry-after", "cache-control", "expires"),
)
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_CONNECT = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_BY_HASH = re.compile(r"/by-hash/SHA256/([0-9a-f]{64})$")
_PACKAGE = re.compile(r"/pool/.*\.u?deb$")


class Routes:
    """The answers for one build. ``notes``: what it was refused or could not reach, as sentences, each once."""

    def __init__(
        self, access: SiteAccess, guard: Guard, upstream: Upstream, downloads: Downloads, local: LocalPlaces
    ) -> None:
        self._access, self._guard, self._upstream = access, guard, upstream
        self._downloads, self._local = downloads, local
        self._lock = threading.Lock()
        self._files: dict[str, tuple[str, Hash | None, str]] = {}
        self._gone: dict[tuple[str, int], str] = {}
        self.notes: list[str] = []

    def answer(self, request: HttpRequest, client: Client) -> None:
        """Answer one request. Raises OSError when the build hangs up, or has to see the connection end."""
        only_head = request.method == "HEAD"
        try:
            if request.method == "CONNECT":
                self._tunnel(request.target, client)
            elif request.method not in ("GET", "HEAD"):
                raise Malformed(f"{request.method} is not served; builds only fetch", 405)
            elif request.target.startswith("/"):
                self._own(request, request.target, client)
            else:
                self._proxied(request, client)
        except HostRefused as error:
            self._note(client, 403, str(error), only_head)
        except Unreachable as error:
            self._note(client, 502, str(error), only_head)
        except Failed as error:
            self._note(client, error.status, str(error), only_head)
        except Malformed as error:
            client.keep = False
            self._note(client, error.status, str(error), only_head)

    def _note(self, client: Client, status: int, text: str, only_head: bool) -> None:
        self.note(text)
        client.sentence(status, text, only_head=only_head)

    def note(self, text: str) -> None:
        """Remember a sentence for whoever asks why a build failed."""
        with self._lock:
            if text not in self.notes and len(self.notes) < 50:
                self.notes.append(text)

    # Pages and files of the site's indexes.

    def _own(self, request: HttpRequest, target: str, client: Client) -> None:
        path, _, _ = target.partition("?")
        _, kind, *rest = path.split("/")
        only_head = request.method == "HEAD"
        found: tuple[str, bytes] | None = None
        if kind == "file":
            return self._file(request, target, client)
        if kind in ("local", "plain") and len(rest) >= 2:
            return self._local_file(request, kind, rest, client)
        if kind == "place":
            found = self._named_page(request, target)
        elif kind == "index" and len(rest) in (2, 3) and rest[2:] in ([], [""]) and _PROJECT.fullmatch(rest[1]):
            found = self._index(request, rest[0], rest[1])
        elif kind == "links" and len(rest) in (1, 2) and rest[1:] in ([], [""]):
            found = self._links(request, rest[0])
        if found is None:
            client.sentence(404, "there is no such page", only_head=only_head)
        else:
            client.page(200, *found, only_head=only_head)
        return None

    def _index(self, request: HttpRequest, number: str, project: str) -> tuple[str, bytes] | None:
        place = _of(self._access.indexes, number)
        if place is None:
            return None
        if (folder := local_path(place)) is not None:
            return self._local.index_page(folder, project, self._putting(place))
        parts = urlsplit(place)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/{project}/").geturl()
        return self._page(request, place, url)

    def _links(self, request: HttpRequest, number: str) -> tuple[str, bytes] | None:
        place = _of(self._access.pip.get("find-links", ()), number)
        if place is None:
            return None
        if (folder := local_path(place)) is not None:
            return self._local.links_page(folder, self._putting(place))
        return self._page(request, place, place)

    def _named_page(self, request: HttpRequest, target: str) -> tuple[str, bytes] | None:
        """A page of an index or find-links place that the case names: ``/place/SCHEME/HOST/...``."""
        url = target.removeprefix("/place/").replace("/", "://", 1)
        return self._page(request, self._guard.place_of(url), url)

    def _page(self, request: HttpRequest, place: str, url: str) -> tuple[str, bytes] | None:
        server = endpoint(url)
        if (why := self._gone.get(server)) is not None:
            raise Failed(why, 424)  # not 502: pip would try that again and again, for each requirement
        headers = {"Accept-Encoding": "gzip", **_chosen(request.headers, ("accept",)), "User-Agent": "reprokit"}
        try:
            answer = self._upstream.follow(url, headers, place=place)
        except Unreachable as error:
            self._gone[server] = str(error)
            raise Failed(str(error), 424) from None
        with closing(answer):
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise Failed(f"the index {shown(place)} answers {answer.status}", _passed(answer.status))
            body, kind, address = answer.page(), answer.headers.get("content-type", ""), answer.url
        return pages.rewritten(kind, body, address, self._putting(place))

    def _putting(self, place: str) -> pages.Put:
        return lambda url, stated, metadata: self._put(url, stated, metadata, place)

    def _put(self, url: str, stated: Hash | None, metadata: Hash | bool | None, place: str) -> str:
        """Remember where a link leads; returns its path here."""
        plain, path = without_login(url), pages.path_of(url)
        with self._lock:
            self._files[pages.key_of(path)] = plain, stated, place
            if metadata:
                expected = metadata if isinstance(metadata, Hash) else None
                self._files[pages.key_of(f"{path}.metadata")] = f"{plain}.metadata", expected, place
            while len(self._files) > MAX_FILES:
                del self._files[next(iter(self._files))]
        return path

    def _file(self, request: HttpRequest, target: str, client: Client) -> None:
        with self._lock:
            found = self._files.get(pages.key_of(target))
        if found is None:
            raise Failed("no page of this site's indexes, read in this build, links to such a file", 404)
        url, expected, place = found
        if self._upstream.is_of_case(place):
            self._guard.check_link(url)

        def ask(headers: Mapping[str, str]) -> Answer:
            answer = self._upstream.follow(url, {**headers, "User-Agent": "reprokit"}, place=place)
            if answer.headers.get("content-encoding", "identity").lower() != "identity" and expected is not None:
                answer.close()
                raise Unreachable(f"{url.partition('?')[0]} comes packed, which was not asked for")
            return answer

        if expected is None or request.method == "HEAD":
            with closing(ask(_chosen(request.headers, _CONDITIONS))) as answer:
                self._pass(request, answer, client)
            return
        self._kept(request, self._downloads.verified(expected, lambda: ask({})), client)

    def _local_file(self, request: HttpRequest, kind: str, rest: list[str], client: Client) -> None:
        if kind == "plain" and (place := _of(self._access.pip.get("constraint", ()), rest[0])) is not None:
            if local_path(place) is None:
                with closing(self._upstream.follow(place, {"User-Agent": "reprokit"}, place=place)) as answer:
                    self._pass(request, answer, client)
                return
            found = self._local.plain(Path(local_path(place) or ""))
        else:
            found = self._local.file(kind, rest[0], unquote("/".join(rest[1:])))
        if found is None:
            raise Failed("there is no such file in this site's folders", 404)
        self._kept(request, found, client)

    def _kept(self, request: HttpRequest, found: Stored | Arriving, client: Client) -> None:
        """Answer with a file of this host, or one that is on its way, or the part of it that was asked for."""
        try:
            tag, total = f'"{found.tag}"', found.total
            headers = {"Content-Type": "application/octet-stream", "ETag": tag, "Accept-Ranges": "bytes"}
            part = _RANGE.fullmatch(request.headers.get("range", ""))
            status, start, end = 200, 0, total
            if part is not None and total is not None and request.headers.get("if-range", tag) == tag:
                start, end = int(part[1]), min(int(part[2]) + 1, total) if part[2] else total
                if start >= end:
                    client.head(
                        416, "Range Not Satisfiable", {"Content-Range": f"bytes */{total}", "Content-Length": "0"}
                    )
                    return
                status, headers["Content-Range"] = 206, f"bytes {start}-{end - 1}/{total}"
            if end is not None:
                headers["Content-Length"] = str(end - start)
            elif client.chunks:
                headers["Transfer-Encoding"] = "chunked"
            else:  # nothing would tell a part from the whole
                raise Malformed("a file of unknown length is served to HTTP/1.1 only", 505)
            client.head(status, "OK" if status == 200 else "Partial Content", headers)
            if request.method != "HEAD":
                self._send(found.blocks(start, end), client, end is None)
        finally:
            found.close()

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

        def ask(method: str, names: tuple[str, ...] = _ASKED) -> Answer:
            headers = {**_chosen(request.headers, names), **self._login_of_archive(url)}
            return self._upstream.ask(method, url, headers, of_build=True, apt=apt)

        if request.method == "GET" and (found := self._archived(parts.path, url, ask)) is not None:
            return self._kept(request, found, client)
        with closing(ask(request.method, (*_ASKED, *_CONDITIONS))) as answer:
            self._pass(request, answer, client)
        return None

    def _archived(self, path: str, url: str, ask: Callable[[str], Answer]) -> Stored | Arriving | None:
        """A file of a distribution's archive that this host keeps; None for what it does not keep."""
        if (stated := _BY_HASH.search(path)) is not None:
            return self._downloads.verified(Hash(algorithm="sha256", value=stated[1]), lambda: ask("GET"))
        if not _PACKAGE.search(path):
            return None
        with closing(ask("HEAD")) as answer:
            for _ in answer.blocks():
                pass
            modified, length = answer.headers.get("last-modified", ""), answer.headers.get("content-length", "")
            if answer.status != 200 or not modified or not length:
                return None
        return self._downloads.by_address(url, f"{modified} {length}", lambda: ask("GET"))

    def _login_of_archive(self, url: str) -> dict[str, str]:
        """The login for a mirror that the site's configuration names with one, for what lies below it."""
        path = urlsplit(url).path
        if not self._guard.allowed.credentials or ".." in unquote(path):
            return {}
        below = [place for place in self._access.archives if path.startswith(urlsplit(place).path)]
        login = next(filter(None, (self._access.authorization(place, url) for place in below)), "")
        return {"Authorization": login} if login else {}

    def _tunnel(self, target: str, client: Client) -> None:
        if (named := _CONNECT.fullmatch(target)) is None:
            raise Malformed("CONNECT names no host and port")
        host, port = named["host"].strip("[]").lower(), int(named["port"])
        self._guard.check_name(host, port)
        proxy = self._access.proxy(f"https://{target}")
        try:
            made = self._upstream.dial(host, port, proxy, of_build=True)
        except OSError as error:
            raise Unreachable(f"{host}:{port} cannot be connected to: {error.strerror or 'no answer'}") from None
        client.keep = False
        with made:
            client.connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            tunnel(client.connection, made, client.early())

    def _pass(self, request: HttpRequest, answer: Answer, client: Client) -> None:
        """Answer with what a server says, as it comes."""
        headers = {name.title(): answer.headers[name] for name in _ANSWERED if name in answer.headers}
        bodiless = request.method == "HEAD" or answer.status in (204, 304)
        packed = answer.headers.get("content-encoding")
        if packed:
            headers["Content-Encoding"] = packed
        chunked = False
        if not bodiless:
            headers.pop("Content-Length", None)
            if answer.length is not None:
                headers["Content-Length"] = str(answer.length)
            elif client.chunks:
                headers["Transfer-Encoding"], chunked = "chunked", True
            else:
                client.keep = False
        client.head(answer.status, "As The Server Says", headers)
        blocks = answer.blocks()
        if bodiless:
            for _ in blocks:
                pass
        else:
            self._send(blocks, client, chunked)

    def _send(self, blocks: Iterator[bytes], client: Client, chunked: bool) -> None:
        try:
            client.body(blocks, chunked=chunked)
        except (Failed, HostRefused, Unreachable) as error:
            # The head is out: only the end of the connection can still say that this is not the whole file.
            self.note(str(error))
            client.keep = False


def _chosen(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name.title(): headers[name][:1000] for name in names if name in headers}


def _of(places: tuple[str, ...], number: str) -> str | None:
    return places[int(number)] if re.fullmatch(r"\d{1,3}", number) and int(number) < len(places) else None


def _passed(status: int) -> int:
    """The status that the build sees for one that an index gave: refusals as they are, failures as one of ours."""
    return status if status in (401, 403, 410, 429) else 424 if status < 500 else 503
