"""In which order the images of a run are prepared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from reprokit.run.images import ImageSpec
from reprokit.run.stopping import Workers


class Builds:
    """Prepares images in threads: those that have to be built wait behind all that are there, whose trials can begin.

    ``at_once``: whether an image needs no build.
    """

    def __init__(self, workers: Workers, prepare: Callable[..., None], at_once: Callable[[ImageSpec], bool]) -> None:
        self._workers = workers
        self._prepare = prepare
        self._at_once = at_once
        self.started: list[Future[None]] = []
        self._lock = threading.Lock()
        self._later: list[tuple[Any, ...]] | None = []  # to be built, while others may follow that are there

    def start(self, image: ImageSpec, *more: Any) -> None:
        """Call ``prepare`` with these arguments when it is the image's turn."""
        self.started.append(self._workers.submit(self._look, image, *more))

    def wait(self) -> None:
        """Wait until all are prepared; none is started any more."""
        with self._lock:
            later, self._later = self._later or [], None
        for arguments in later:
            self._build(*arguments)
        for one in self.started:  # to which those that run may add
            wait([one])

    def _look(self, image: ImageSpec, *more: Any) -> None:
        if self._at_once(image):
            self._prepare(image, *more)
            return
        with self._lock:
            if self._later is not None:
                self._later.append((image, *more))
                return
        self._build(image, *more)

    def _build(self, *arguments: Any) -> None:
        self.started.append(self._workers.submit(self._prepare, *arguments))
