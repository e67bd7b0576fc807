"""A build's connection to the gateway: requests read strictly and within limits, answers written.

What is on the other side is whatever a build runs. A request that can be read in two ways is not read at all, and the
connection ends: nothing is passed on as it came.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reprokit.engine.site.gateway.deadlines import Deadlines

MAX_HEAD = 32 * 1024
MAX_HEADERS = 100
HEAD_SECONDS = 30.0
IDLE_SECONDS = 120.0
"""How long a connection may wait for its next request, or for the build to take what it asked for."""

_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,16000}) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_ONCE = ("host", "content-length", "transfer-encoding", "range", "if-range")


class Malformed(Exception):
    """A request that is not answered but with an error; ``status`` says which."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        self.status = status
        super().__init__(sentence)


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """One request. ``headers``: by names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]


class Client:
    """One connection. ``keep``: whether it may send another request. ``chunks``: whether it reads chunked bodies."""

    def __init__(self, connection: socket.socket, deadlines: Deadlines) -> None:
        self.connection = connection
        self.connection.settimeout(IDLE_SECONDS)
        self._deadlines = deadlines
        self._early = bytearray()
        self.keep = self.chunks = True

    def request(self) -> HttpRequest | None:
        """The next request; None when the build hangs up. Raises Malformed and OSError."""
        while not self._early:
            if not (block := self.connection.recv(MAX_HEAD)):
                return None
            self._early += block
        with self._deadlines.limit(self.connection, HEAD_SECONDS):
            while (end := self._early.find(b"\r\n\r\n")) < 0:
                if len(self._early) > MAX_HEAD:
                    raise Malformed(f"the request's head is longer than {MAX_HEAD} bytes", 431)
                if not (block := self.connection.recv(MAX_HEAD)):
                    return None
                self._early += block
        if end > MAX_HEAD:
            raise Malformed(f"the request's head is longer than {MAX_HEAD} bytes", 431)
        head = bytes(self._early[:end])
        del self._early[: end + 4]
        return self._parsed(head)

    def early(self) -> bytes:
        """What came after the last request's head; it belongs to a tunnel's other end."""
        found = bytes(self._early)
        self._early.clear()
        return found

    def _parsed(self, head: bytes) -> HttpRequest:
        first, *lines = head.split(b"\r\n")
        line = _LINE.fullmatch(first)
        if line is None:
            raise Malformed("the request's first line is not an HTTP/1 request")
        if len(lines) > MAX_HEADERS:
            raise Malformed(f"the request has more than {MAX_HEADERS} headers", 431)
        headers: dict[str, str] = {}
        for one in lines:
            header = _HEADER.fullmatch(one)
            if header is None:
                raise Malformed("the request has a header that cannot be read in one way only")
            name = header[1].decode().lower()
            if name in headers and name in _ONCE:
                raise Malformed(f"the request has two headers {name}")
            headers[name] = header[2].decode("latin-1").strip()
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise Malformed("the request has a body; builds only fetch", 405)
        said = headers.get("connection", "").lower()
        self.chunks = line[3] == b"1"
        self.keep = self.chunks and "close" not in said
        return HttpRequest(method=line[1].decode(), target=line[2].decode(), headers=headers)

    def head(self, status: int, reason: str, headers: Mapping[str, str]) -> None:
        """Write the head of an answer."""
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
        if not self.keep:
            lines.append("Connection: close")
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace"))

    def page(self, status: int, kind: str, body: bytes, *, only_head: bool = False, reason: str = "OK") -> None:
        """Write a whole answer. It is for this build and this moment: nothing may keep it."""
        self.head(status, reason, {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"})
        if not only_head:
            self.connection.sendall(body)

    def sentence(self, status: int, text: str, *, only_head: bool = False) -> None:
        """Answer with one sentence, in the status line as well: pip, apt and curl show that."""
        line = re.sub(r"[^\x20-\x7e]+", " ", f"reprokit: {text}").strip()
        self.page(status, "text/plain; charset=utf-8", f"{line}\n".encode(), only_head=only_head, reason=line[:600])

    def body(self, blocks: Iterable[bytes], *, chunked: bool) -> None:
        """Write a body after its head. An error on the way ends the connection: nothing tells it from a short file."""
        try:
            for block in blocks:
                self.connection.sendall(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
            if chunked:
                self.connection.sendall(b"0\r\n\r\n")
        except BaseException:
            self.keep = False
            raise
