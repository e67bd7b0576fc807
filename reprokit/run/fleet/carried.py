"""What travels to nodes as its own source, since a node may lack reprokit: imports nothing but the standard library."""

from __future__ import annotations

import asyncio
import platform
import sys
from typing import Any

MOST_EVENTS = 10_000
"""Events that wait for the driver; a node that has more waits."""


def greet(version: str, engine: str) -> Any:
    """The report of this node, or in words why it cannot serve a run of reprokit ``version``."""
    here = f"Python {platform.python_version()} in {sys.executable}"
    try:
        import reprokit
    except ImportError:
        return f"{here} has no reprokit: install version {version} there, as here"
    if reprokit.__version__ != version:
        return f"{here} has reprokit {reprokit.__version__}, and here is {version}: install the same version on both"
    try:
        from reprokit.run.fleet.node import report
    except ImportError as error:
        return f"reprokit cannot be imported by {here}: {error}"
    return report(engine)


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
