"""A build's connections to its gateway: requests read strictly and within limits by h11, answers written.

What is on the other side is whatever a build runs. A request that is not plain is answered with an error, and the
connection ends. Nothing is passed on as it came.
"""

from __future__ import annotations

import functools
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

import h11
import httpcore

from reprokit.engine.site.gateway.access import NotServed

MAX_CONNECTIONS = 64
"""Of one build at a time; further ones wait."""
MAX_HEAD = 32 * 1024
HEAD_SECONDS = 30.0
IDLE_SECONDS = 120.0
"""How long a connection may wait for its next request, or for the build to take what it asked for."""
TUNNEL_SECONDS = 300.0
"""How long both ends of a tunnel may be silent."""
_BLOCK = 128 * 1024


class Malformed(NotServed):
    """A request after which the connection ends."""

    status = 400


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """One request; its headers have names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]


class ConnectionServer:
    """Calls ``serve`` with each connection to a bound socket, in a thread of its own, until it is stopped."""

    def __init__(self, listener: socket.socket, serve: Callable[[Client], None]) -> None:
        self._serve = serve
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._stopped = False
        self._socket = listener
        listener.listen(8 * MAX_CONNECTIONS)
        self._accepting = threading.Thread(target=self._accept, name="gateway", daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        """End every connection, and take no more."""
        self._stopped = accepting = True
        while accepting:
            accepting = self._accepting.is_alive()  # it may be waiting for a place
            for one in (self._socket, *list(self._open)):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._accepting.join(0.05)
        self._socket.close()

    def _accept(self) -> None:
        while not self._stopped:
            self._slots.acquire()
            try:
                connection, _ = self._socket.accept()
            except OSError:
                self._slots.release()
                if not self._stopped:
                    time.sleep(0.05)  # out of descriptors, say
                continue
            self._open.add(connection)
            try:
                threading.Thread(target=self._attend, args=(connection,), name="gateway-build", daemon=True).start()
            except RuntimeError:  # this host has no thread left
                self._end(connection)

    def _attend(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError):
                self._serve(Client(connection))
        finally:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        """End a connection, and give its place to the next."""
        self._open.discard(connection)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
        self._slots.release()


class Client:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._bodiless = False

    def request(self) -> HttpRequest | None:
        """The next request; None where none can follow. Raises Malformed and OSError."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        self._bodiless = False
        seconds = HEAD_SECONDS if self._http.trailing_data[0] else IDLE_SECONDS
        until = time.monotonic() + seconds
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._connection.settimeout(max(0.001, until - time.monotonic()))
                self._http.receive_data(self._connection.recv(MAX_HEAD))
                if seconds != HEAD_SECONDS:
                    seconds, until = HEAD_SECONDS, time.monotonic() + HEAD_SECONDS
        except h11.RemoteProtocolError as error:
            status = 431 if error.error_status_hint == 431 else 400
            raise Malformed(f"the request is not a plain one of HTTP/1: {error}"[:300], status) from None
        if not isinstance(event, h11.Request):
            return None
        headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise Malformed("the request has a body; builds only fetch", 405)
        self._http.next_event()  # its end
        self._bodiless = event.method == b"HEAD"
        return HttpRequest(method=event.method.decode(), target=event.target.decode(), headers=headers)

    def head(self, status: int, reason: str, headers: Mapping[str, str]) -> None:
        """Write the head of an answer."""
        encoded = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        self._send(h11.Response(status_code=status, reason=reason.encode(), headers=encoded))

    def body(self, blocks: Iterable[bytes]) -> None:
        """Write the body after a head, if one belongs there. What ends early has to end the connection."""
        for block in blocks if not self._bodiless else ():
            self._send(h11.Data(data=block))
        self._send(h11.EndOfMessage())

    def page(self, kind: str, body: bytes, status: int = 200, reason: str = "OK", **more: str) -> None:
        """Write a whole answer. It is for this build and this moment: nothing may keep it."""
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store", **more}
        self.head(status, reason, headers)
        self.body([body])

    def sentence(self, error: NotServed) -> None:
        """Answer with one sentence, in the status line as well: pip, apt and curl show that.

        Where a head is out already, only the end of the connection says that this is not the whole answer: OSError.
        """
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            raise ConnectionAbortedError(str(error))
        line = re.sub(r"[^\x20-\x7e]+", " ", f"reprokit: {error}").strip()
        more = {"Connection": "close"} if isinstance(error, Malformed) else {}
        self.page("text/plain; charset=utf-8", f"{line}\n".encode(), error.status, line[:600], **more)

    def tunnel(self, server: httpcore.NetworkStream) -> None:
        """Copy bytes both ways until either end hangs up or both are silent."""
        build, ends = self._connection, (self._connection, server.get_extra_info("socket"))
        moved = [time.monotonic()]

        def copy(read: Callable[[int], bytes], write: Callable[[bytes], object], target: socket.socket) -> None:
            with suppress(OSError, httpcore.NetworkError, httpcore.WriteTimeout):
                while time.monotonic() - moved[0] < TUNNEL_SECONDS:
                    try:
                        block = read(_BLOCK)
                    except (TimeoutError, httpcore.ReadTimeout):
                        continue  # the other direction may be at work
                    moved[0] = time.monotonic()
                    if not block:
                        target.shutdown(socket.SHUT_WR)
                        return
                    write(block)
            for end in ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        with closing(server), suppress(httpcore.NetworkError, httpcore.WriteTimeout):
            self._send(h11.Response(status_code=200, reason=b"Connection established", headers=[]))
            build.settimeout(TUNNEL_SECONDS)
            read = functools.partial(server.read, timeout=TUNNEL_SECONDS)
            write = functools.partial(server.write, timeout=TUNNEL_SECONDS)
            write(self._http.trailing_data[0])
            back = threading.Thread(target=copy, args=(read, build.sendall, build), name="gateway-tunnel", daemon=True)
            back.start()
            copy(build.recv, write, ends[1])
            back.join()

    def _send(self, event: h11.Event) -> None:
        self._connection.settimeout(IDLE_SECONDS)
        try:
            self._connection.sendall(self._http.send(event) or b"")
        except h11.LocalProtocolError as error:  # such as a body of another length than the head says
            raise ConnectionAbortedError(str(error)) from None
