"""Steps that several builds share while they run at once, of which one alone gets the output.

BuildKit merges steps that read the same, and until 0.13 (Docker Engine 26) it says nothing of such a step to any build
but the one that runs it: moby/buildkit issue 1456, and commit e1da8b7f8, which fixed it. When the step fails, the
others learn no more than the command and its exit status.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from reprokit.core import cache
from reprokit.core.errors import BuildFailed
from reprokit.core.locks import locked
from reprokit.engine.protocol import Build, ImageInfo
from reprokit.environment.steps import instructions, short_step

MOST_REPEATS = 5
"""Builds that another process begins may take the output of a repeated step, too."""
MOST_KEPT = 100
"""Failed steps whose output is kept, the newest: only builds that run meanwhile ask for it."""
SETTLE = 0.5
"""Seconds that the build which has the output gets to record it."""


class RanElsewhere(BuildFailed):
    """The step that failed was run for another build, which has its output."""

    def __init__(self, failed: BuildFailed) -> None:
        why = (
            "the step failed in another build that ran at the same time, and this engine gave its output to that alone"
        )
        reason = f"{why}: run the cell again by itself (step: {short_step(failed.step)})"
        super().__init__(str(failed), step=failed.step, tail=failed.tail, reason=reason)


class FailedSteps:
    """What the failing steps of this process's builds printed. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[float, BuildFailed]] = {}

    def build(self, build: Build, attempt: Callable[[], ImageInfo], cancel: threading.Event) -> ImageInfo:
        """What ``attempt`` returns or raises; never RanElsewhere, as long as it gets the output in a few attempts.

        A step whose output went to another build of this process fails with that; else it runs again, in one build at
        a time: steps that fail are not cached.
        """
        started = time.monotonic()
        try:
            return self._recorded(build, attempt)
        except RanElsewhere as error:
            key = _identity(build, error.step)
            cancel.wait(SETTLE)
            with locked(cache.folder("locks") / f"step-{key}.lock", cancel, "same step"):
                for _ in range(MOST_REPEATS):
                    at, known = self._failed.get(key, (0.0, error))
                    if at >= started:
                        raise BuildFailed(str(known), step=known.step, tail=known.tail, reason=known.reason) from error
                    try:
                        return self._recorded(build, attempt)
                    except RanElsewhere as again:
                        error = again
            raise error

    def _recorded(self, build: Build, attempt: Callable[[], ImageInfo]) -> ImageInfo:
        try:
            return attempt()
        except BuildFailed as error:
            if error.step and not isinstance(error, RanElsewhere):
                self._keep(_identity(build, error.step), error)
            raise

    def _keep(self, key: str, error: BuildFailed) -> None:
        # Not the error itself, whose traceback keeps all that the build had in memory.
        copy = BuildFailed(str(error), step=error.step, tail=error.tail, reason=error.reason)
        with self._lock:
            self._failed.pop(key, None)
            self._failed[key] = time.monotonic(), copy
            while len(self._failed) > MOST_KEPT:
                del self._failed[next(iter(self._failed))]


def _identity(build: Build, step: str) -> str:
    """A hash over the Dockerfile as far as that step, the files that this part of it may read, and whose case it is."""
    text = ""
    for instruction in instructions(build.dockerfile):
        text += instruction
        if instruction.replace("\\\n", "").strip() == step.strip():
            break
    return hashlib.sha256(json.dumps([str(build.trust), text, *_files(build, text)]).encode()).hexdigest()[:32]


def _files(build: Build, text: str) -> Iterator[tuple[str, str]]:
    for name, content in sorted(build.context.items()):
        if name.partition("/")[0] in text:
            yield name, str(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()
