"""A small internet for tests of the gateway: names and addresses that exist here alone, all served on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpcore

from reprokit.engine.site.gateway import RELAY_PORT, Allowed, SiteAccess
from reprokit.engine.site.gateway.server import Address, serving

ROOT = f"http://127.0.0.1:{RELAY_PORT}"
PUBLIC = "93.184.215.14"
"""The address of every name that is not said to have another. Nothing is ever sent there."""

Reply = Callable[[socket.socket, bytes], None]


def plain(body: bytes, kind: str = "text/html", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def redirect(target: str) -> bytes:
    """An answer that leads elsewhere."""
    return plain(b"", status="302 Found", Location=target)


class Server:
    """A server on loopback: path -> what it sends, as bytes or by a function. ``seen``: heads of requests."""

    def __init__(self, replies: Mapping[str, bytes | Reply]) -> None:
        self.replies = dict(replies)
        self.seen: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Hang up on everyone. Who serves a connection closes it: its number may be another file's by then."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def paths(self) -> list[str]:
        """Method and target of each request."""
        return [" ".join(head.split(" ")[:2]) for head in self.seen]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        early = b""
        with connection, suppress(OSError):
            while True:
                while b"\r\n\r\n" not in early:
                    if not (block := connection.recv(65536)):
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    early += block
                head, _, early = early.partition(b"\r\n\r\n")
                self.seen.append(head.decode("latin-1"))
                method, target, *_ = head.decode("latin-1").split(" ")
                reply = self.replies.get(target, plain(b"no such page", status="404 Not Found"))
                if callable(reply):
                    reply(connection, head)
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(reply.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == "HEAD" else reply)


@dataclass
class World(httpcore.NetworkBackend):
    """Names with addresses, and servers at addresses. ``dialled``: every connection that the gateway made."""

    names: dict[str, list[str]] = field(default_factory=dict)
    servers: dict[tuple[str, int], Server] = field(default_factory=dict)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a name; a name that none was given has the public one."""
        self.asked.append(host)
        if host in self.names and not self.names[host]:
            raise OSError(-2, "Name or service not known")
        return self.names.get(host, [PUBLIC])

    def connect_tcp(self, host: str, port: int, timeout: float | None = None) -> httpcore.NetworkStream:  # type: ignore[override]
        """A connection to the server that stands for an address; to nothing else."""
        self.dialled.append((host, port))
        server = self.servers.get((host, port))
        if server is None:
            raise httpcore.ConnectError from ConnectionRefusedError(111, "Connection refused")
        return httpcore.SyncBackend().connect_tcp("127.0.0.1", server.port, 5)

    def serve(self, replies: Mapping[str, bytes | Reply], port: int = 80, address: str = PUBLIC) -> Server:
        """A server at an address."""
        self.servers[address, port] = server = Server(replies)
        return server

    def close(self) -> None:
        """End all servers."""
        for server in self.servers.values():
            server.close()


@dataclass(frozen=True)
class Got:
    """An answer as the build sees it. ``whole``: whether the connection ended as the head says."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    whole: bool


class Build:
    """What a build can do: send bytes to the gateway's socket."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def connect(self) -> socket.socket:
        """A connection."""
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.settimeout(60)
        one.connect(str(self.address.socket))
        return one

    def raw(self, data: bytes) -> bytes:
        """All that comes back for some bytes."""
        with self.connect() as one:
            one.sendall(data)
            with suppress(OSError):
                one.shutdown(socket.SHUT_WR)
            found = b""
            with suppress(OSError):
                while block := one.recv(65536):
                    found += block
        return found

    def get(self, target: str, method: str = "GET", **headers: str) -> Got:
        """One request, on a connection of its own."""
        lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return parsed(self.raw("\r\n".join([*lines, "", ""]).encode("latin-1")))


def parsed(data: bytes) -> Got:
    """An answer taken apart."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    if not first:
        return Got(0, "", {}, b"", False)
    _, status, reason = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    whole = len(body) == int(headers.get("content-length", len(body)))
    if headers.get("transfer-encoding") == "chunked":
        whole, found = False, b""
        while body:
            size, _, rest = body.partition(b"\r\n")
            if not (length := int(size, 16)):
                whole = True
                break
            found, body = found + rest[:length], rest[length + 2 :]
        body = found
    return Got(int(status), reason, headers, body, whole)


@contextmanager
def gateway(
    world: World,
    folder: Path,
    access: SiteAccess,
    allowed: Allowed | None = None,
    *,
    cache: Path | None = None,
) -> Iterator[Build]:
    """A running gateway in that world; of a build of a trusted case where ``allowed`` is not given."""
    who = allowed or Allowed(credentials=True, any_host=True)
    more = {"resolve": world.resolve, "backend": world, "own": lambda address: False}
    with serving(access, who, cache or folder / "cache", folder / "gateway", **more) as address:  # type: ignore[arg-type]
        yield Build(address)
