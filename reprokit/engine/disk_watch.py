"""Watches how much a trial writes to the disk: engines limit that on few file systems only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from reprokit.case.trust import Trust, limited_by
from reprokit.core.errors import Unsupported
from reprokit.core.files import used_bytes
from reprokit.engine.wire import ANSWER_WITHIN, Wire, raise_for_status

FIRST = 1.0
"""Seconds until the first look: most trials have ended by then."""

IDLE = 10
"""How many times as long as a look takes the watch waits for the next: counting files is work for the engine."""

GIB = 1024**3


class DiskWatch:
    """Counts what the container ``name`` has written, until :meth:`close`. ``most``: bytes; None = it is not watched.
    ``trust``: in the case, for messages.

    That is its own layer and its volumes; what is in memory (``/dev/shm``) counts as memory.
    """

    def __init__(self, wire: Wire, name: str, most: int | None, trust: Trust) -> None:
        self._trust = trust
        self._most = most
        self._written = 0
        self._ended = threading.Event()
        if most is not None:
            look = lambda: _written(wire, name)  # noqa: E731
            threading.Thread(target=self._watch, args=(look,), name="disk-watch", daemon=True).start()

    def check(self) -> None:
        """Raise Unsupported where it has written more than it may."""
        if self._most is not None and self._written > self._most:
            raise Unsupported(
                f"the trial wrote {self._written / GIB:.3g} GiB to its disk; it gets at most "
                f"{self._most / GIB:.3g} GiB here ({limited_by('max_disk', self._trust)})"
            )

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _watch(self, look: Callable[[], int]) -> None:
        pause = FIRST
        while not self._ended.wait(pause):
            began = time.monotonic()
            with suppress(Exception):  # the container is gone, or the engine is busy: the next look tells
                self._written = look()
            pause = max(FIRST, IDLE * (time.monotonic() - began))


def _written(wire: Wire, name: str) -> int:
    client = wire.client()
    answer = client.get(wire.url(f"/containers/{name}/json"), params={"size": "1"}, timeout=ANSWER_WITHIN)
    raise_for_status(answer)
    found: dict[str, Any] = answer.json()
    volumes = [mount["Source"] for mount in found.get("Mounts") or [] if mount.get("Type") == "volume"]
    volumes = volumes if wire.is_local() else []  # its folders are another machine's
    return int(found.get("SizeRw") or 0) + sum(used_bytes(Path(volume)) for volume in volumes)
