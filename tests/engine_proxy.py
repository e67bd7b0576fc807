"""A proxy between us and an engine's unix socket, which cuts, holds or refuses what passes, by the path asked for."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_H2C = b"PRI * HTTP/2.0"
_UPGRADE = b"POST /grpc HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
_ANSWERS = {404: (b"Not Found", b"page not found"), 500: (b"Internal Server Error", b"broken inside")}
_REQUEST = re.compile(rb"(?:GET|POST|DELETE|PUT|HEAD) (?:/v[\d.]+)?(\S+) HTTP/1")


@dataclass(eq=False)
class _Passing:
    """One connection. ``path``: what was asked for last on it."""

    ours: socket.socket
    theirs: socket.socket
    path: str = ""


class EngineProxy:
    """Passes connections at ``url`` to the unix socket ``target``; see :func:`engine_proxy`."""

    def __init__(self, listening: socket.socket, target: Path, url: str) -> None:
        self.url = url
        self._listening = listening
        self._target = str(target)
        self._open: list[_Passing] = []
        self._lock = threading.Lock()
        self._going = threading.Event()
        self._going.set()
        self._refused = ""
        self._answer = b""
        self.asked: list[str] = []
        """The path of each request so far."""
        self._renamed = b"", b""
        threading.Thread(target=self._accept, name="engine-proxy", daemon=True).start()

    def refuse(self, pattern: str, status: int = 404) -> None:
        """Answer to paths with this pattern as an engine that does not have them, or is broken (500); "": no longer.

        Unless ``/grpc`` is refused, gRPC is then served at the address itself, as Docker 29.2 does, by what older
        engines have at that path.
        """
        reason, message = _ANSWERS[status]
        body = b'{"message":"%b"}' % message
        head = b"HTTP/1.1 %d %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        self._answer = head % (status, reason, len(body)) + body
        self._refused = pattern

    def rename(self, old: bytes, new: bytes) -> None:
        """Write ``new`` for ``old``, which is as long, in what the engine answers."""
        self._renamed = old, new

    def _speaks_h2c(self) -> bool:
        return bool(self._refused) and not re.search(self._refused, "/grpc")

    def paths(self) -> list[str]:
        """What was asked for last on each connection that is open."""
        with self._lock:
            return [one.path for one in self._open]

    def cut(self, pattern: str = "") -> int:
        """Cut the connections whose last request's path has the pattern in it; how many there were."""
        with self._lock:
            cut = [one for one in self._open if re.search(pattern, one.path)]
        for one in cut:
            self._end(one)
        return len(cut)

    def hold(self) -> None:
        """Pass nothing on until :meth:`let`."""
        self._going.clear()

    def let(self) -> None:
        """Pass everything on again."""
        self._going.set()

    def close(self) -> None:
        """Cut everything, and listen no more."""
        self._going.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listening.accept()
                theirs = socket.socket(socket.AF_UNIX)
                try:
                    theirs.connect(self._target)
                except OSError:
                    ours.close()
                    continue
                passing = _Passing(ours, theirs)
                with self._lock:
                    self._open.append(passing)
                threading.Thread(target=self._pass, args=(passing,), daemon=True).start()

    def _pass(self, passing: _Passing) -> None:
        pairs = {passing.ours: passing.theirs, passing.theirs: passing.ours}
        try:
            while pairs:
                for source in select.select(list(pairs), [], [])[0]:
                    data = source.recv(65536)
                    if source is passing.ours and (asked := _REQUEST.match(data)):
                        passing.path = asked[1].decode()
                        self.asked.append(passing.path)
                        if self._refused and re.search(self._refused, passing.path):
                            source.sendall(self._answer)
                            return
                    elif source is passing.ours and data.startswith(_H2C) and self._speaks_h2c():
                        passing.path = "gRPC"
                        passing.theirs.sendall(_UPGRADE)
                        head = b""
                        while not head.endswith(b"\r\n\r\n"):
                            head += passing.theirs.recv(1)
                    self._going.wait()
                    if source is passing.theirs and self._renamed[0]:
                        data = data.replace(*self._renamed)
                    if data:
                        pairs[source].sendall(data)
                    else:  # half of a connection may end before the other
                        pairs.pop(source).shutdown(socket.SHUT_WR)
        except (OSError, ValueError):
            pass
        finally:
            self._end(passing)

    def _end(self, passing: _Passing) -> None:
        with self._lock:
            if passing in self._open:
                self._open.remove(passing)
        for one in (passing.ours, passing.theirs):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def engine_proxy(target: Path, folder: Path) -> Iterator[EngineProxy]:
    """A proxy in front of the unix socket ``target``, which listens in ``folder``."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "proxy"))
    listening.listen(128)
    proxy = EngineProxy(listening, target, f"unix://{folder}/proxy")
    try:
        yield proxy
    finally:
        proxy.close()
