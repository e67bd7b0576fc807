"""Builds the images that a search is likely to ask for next, while its containers run. Never breaks the search."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType

from reprokit.core.interrupts import WAIT_FOR, GaveUp
from reprokit.run.runner import Runner
from reprokit.run.task import Task


class Ahead:
    """One build at a time, each by a runner of its own that can be cancelled. Build errors are not reported here.

    The search builds the image again if it needs it, and then reports why that fails. If it needs an image while this
    builds it, it waits (:func:`reprokit.run.images.make_ready` locks it).
    """

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make = make
        self._builder = ThreadPoolExecutor(1, "ahead")
        self._under_way: dict[Hashable, tuple[Future[None], Runner]] = {}

    def want(self, tasks: Mapping[Hashable, Task], keep: frozenset[Hashable]) -> None:
        """Build the images of ``tasks``; stop the builds whose key is in neither ``tasks`` nor ``keep``."""
        for key in [key for key in self._under_way if key not in tasks and key not in keep]:
            self._drop(key)
        for key, task in tasks.items():
            if key not in self._under_way:
                runner = self._make()
                self._under_way[key] = (self._builder.submit(_build, runner, task), runner)

    def _drop(self, key: Hashable) -> None:
        future, runner = self._under_way.pop(key)
        future.cancel()
        runner.cancel()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        under_way = [future for future, _ in self._under_way.values()]
        for key in list(self._under_way):
            self._drop(key)
        wait(under_way, timeout=0 if isinstance(error, GaveUp) else WAIT_FOR)
        self._builder.shutdown(wait=False)


def _build(runner: Runner, task: Task) -> None:
    with contextlib.suppress(Exception):
        runner.build([task])
