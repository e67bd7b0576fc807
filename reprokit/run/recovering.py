"""An engine that went away is waited for, once for all cells, and what it lost is done again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from reprokit.core.errors import Cancelled, EngineError, EngineLost
from reprokit.core.text import pluralize
from reprokit.engine.protocol import Engine

T = TypeVar("T")

PAUSES = (0.5, 2.0, 8.0, 20.0)
"""Seconds before a trial or a build that the engine lost is done again: its ping may answer while its containerd does
not."""

ENGINE_WAIT = 60.0
"""Seconds for which an engine that went away is waited for, unless the configuration says otherwise."""

POLL = 0.5
_ASKED_LATELY = 5.0  # seconds for which an engine that was given up is not asked again
_SLEPT = 0.5  # seconds by which the two clocks of a host that is awake do not differ


def seconds_slept() -> float:
    """Seconds for which this host slept since it was started, by the two clocks of Linux that tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def check_awake(since: float, what: str) -> None:
    """Raise EngineLost where this host slept since :func:`seconds_slept` was ``since``; ``what`` ran meanwhile."""
    if (more := seconds_slept() - since) > _SLEPT:
        raise EngineLost(f"this host slept for {more:.0f} s while {what} ran")


@dataclass(kw_only=True)
class EngineRecovery:
    """Waits for an engine of a run. ``patience``: for how many seconds; ``note`` takes what the user should know."""

    engine: Engine
    cancel: threading.Event
    note: Callable[[str], None]
    patience: float
    _one: threading.Lock = field(default_factory=threading.Lock)
    _down_since: float | None = None
    _asked: float = 0.0

    def repeated(self, work: Callable[[], T]) -> T:
        """What ``work`` gives, done again as often as the engine loses it. Raises EngineError, cause first, at last."""
        for pause in PAUSES:
            try:
                if self._down_since is not None:
                    raise EngineLost("the container engine does not answer")
                return work()
            except EngineLost as error:
                self._wait(error, min(pause, self.patience))
        try:
            return work()
        except EngineLost as error:
            raise EngineError(f"{error}; so it went {pluralize(len(PAUSES) + 1, 'time')} in a row") from error

    def _wait(self, lost: EngineLost, pause: float) -> None:
        """Return once the engine answers and ``pause`` seconds are over. One caller asks it for all that wait."""
        with self._one:
            while down := self._silence():
                assert self._down_since is not None
                if time.monotonic() - self._down_since >= self.patience:
                    within = f"the engine did not answer again within {self.patience:g} s ({down})"
                    raise EngineError(f"{lost}; {within}") from lost
                if self.cancel.wait(POLL):
                    raise Cancelled("stopped while it waited for the engine")
        if self.cancel.wait(pause):
            raise Cancelled("stopped while it waited for the engine")

    def _silence(self) -> str:
        """Why the engine does not answer; '' when it does."""
        now = time.monotonic()
        given_up = self._down_since is not None and now - self._down_since >= self.patience
        if given_up and now - self._asked < _ASKED_LATELY:
            return "it was asked moments ago"
        try:
            self.engine.ping()
        except EngineError as error:
            if self._down_since is None:
                self._down_since = now
                self.note(f"the engine does not answer; it is waited for up to {self.patience:g} s: {error}")
            self._asked = time.monotonic()
            return str(error)
        if self._down_since is not None:
            self._down_since = None
            self.note("the engine answers again; what it lost is done once more")
        return ""
