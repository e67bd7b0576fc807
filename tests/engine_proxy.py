"""A proxy between us and an engine's unix socket, which cuts or holds what passes, by the path that was asked for."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
        threading.Thread(target=self._accept, name="engine-proxy", daemon=True).start()

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
                    self._going.wait()
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
