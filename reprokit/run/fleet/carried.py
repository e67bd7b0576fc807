"""What travels to nodes as its own source, since a node may lack reprokit: imports nothing but the standard library."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import sys
from pathlib import Path
from typing import Any

MOST_EVENTS = 10_000
"""Events that wait for the driver; a node that has more waits."""


def source_digest(version: str) -> str:
    """A hash of modules, tables and templates of the reprokit whose core/version.py this is: two checkouts differ."""
    digest, root = hashlib.sha256(), Path(version).parents[1]
    # An installed package has the templates inside, a checkout beside it.
    templates = next((place for place in (root / "dockerfiles", root.parent / "dockerfiles") if place.is_dir()), root)
    found = {place.relative_to(root).as_posix(): place for place in root.rglob("*")}
    found |= {f"dockerfiles/{place.name}": place for place in templates.iterdir() if templates != root}
    for name in sorted(found):
        if "__pycache__" in name or name.startswith(
            "cases/"
        ):  # an installed package's example: a checkout has it outside
            continue
        if found[name].suffix != ".pyc" and found[name].is_file():
            digest.update(f"{name}\0".encode())
            digest.update(hashlib.sha256(found[name].read_bytes()).digest())
    return digest.hexdigest()[:12]


def greet(version: str, source: str, engine: str) -> Any:
    """The report of this node, or in words why it cannot serve a run of reprokit ``version`` with that source."""
    here = f"Python {platform.python_version()} in {sys.executable}"
    try:
        from reprokit.core import version as own
    except ImportError:
        return f"{here} has no reprokit: install version {version} there, as here"
    if own.__version__ != version:
        return f"{here} has reprokit {own.__version__}, and here is {version}: install the same version on both"
    try:
        if (found := source_digest(own.__file__)) != source:
            place = Path(own.__file__).parents[1]
            what = f"reprokit {version} of another source ({found} in {place}), and here is {source}"
            return f"{here} has {what}: check the same commit out on both, or install the same release"
        from reprokit.run.fleet.node import report

        return report(engine)
    except Exception as error:
        return f"reprokit {version} does not work in {here}: {type(error).__name__}: {error}"


class Mailbox:
    """An actor between the nodes and the driver: events go one way, and that the run is stopped goes the other."""

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._stopped = False
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()

    async def exchange(self, events: list[Any]) -> bool:
        """Leave events for the driver; whether the run was stopped."""
        while len(self._events) > MOST_EVENTS and not self._stopped:
            self._taken.clear()
            await self._taken.wait()
        if events:
            self._events += events
            self._arrived.set()
        return self._stopped

    async def take(self, seconds: float) -> list[Any]:
        """The events that came, at once or within some seconds."""
        if not self._events:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), seconds)
            except asyncio.TimeoutError:
                return []
        events, self._events = self._events, []
        self._taken.set()
        return events

    async def stop(self) -> None:
        """Have every node stop what it runs for this driver."""
        self._stopped = True
        self._taken.set()
