"""BuildKit's trace, read: which step runs, what it prints, which one failed. Pure but for the callback it is given."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reprokit.engine import messages
from reprokit.engine.failure import LONGEST_LINE, TAIL
from reprokit.engine.protocol import Progress

_STEP = re.compile(r"\[(?:\S+ )? *(?P<number>\d+)/(?P<total>\d+)\] (?P<name>.*)", re.S)
_IMPORT = "importing cache manifest"
_STOPPED = ("context canceled", "failed to solve: canceled", "Canceled")


@dataclass(kw_only=True)
class _Step:
    name: str
    number: int = 0
    total: int = 0
    error: str = ""
    shown: bool = False
    ended: bool = False
    rest: str = ""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL))


class Trace:
    """Follows ``moby.buildkit.trace`` messages (serialised StatusResponse) of one build."""

    def __init__(
        self, on_progress: Callable[[Progress], None], redact: Callable[[str], str] = lambda text: text
    ) -> None:
        self._on_progress = on_progress
        self._redact = redact
        self._steps: dict[str, _Step] = {}

    def feed(self, status: bytes) -> None:
        """Take one message."""
        response = messages.StatusResponse.FromString(status)
        for vertex in response.vertexes:
            step = self._steps.get(vertex.digest)
            if step is None:
                step = self._steps[vertex.digest] = _named(self._redact(vertex.name))
            step.error = step.error or self._redact(vertex.error)
            if not step.shown and (vertex.HasField("started") or vertex.cached):
                step.shown = True
                self._tell(step, cached=vertex.cached)
            if not (step.ended or vertex.cached) and vertex.HasField("started") and vertex.HasField("completed"):
                step.ended = True
                took = (vertex.completed.ToNanoseconds() - vertex.started.ToNanoseconds()) / 1e9
                self._tell(step, took=max(took, 0.0))
        for log in response.logs:
            step = self._steps.get(log.vertex)
            if step is not None:
                self._log(step, log.msg.decode("utf-8", errors="replace"))

    def failed(self) -> tuple[str, tuple[str, ...], str]:
        """The failing step's instruction, its last lines and its error; all empty when no step failed."""
        for step in self._steps.values():
            # A registry that lacks what others might have pushed fails no build.
            if step.error and not step.error.endswith(_STOPPED) and not step.name.startswith(_IMPORT):
                last = [self._redact(step.rest)] if step.rest.strip() else []
                return step.name, (*step.tail, *last), step.error
        return "", (), ""

    def ran_elsewhere(self, error: str) -> str:
        """The instruction whose command the engine's ``error`` repeats though this build never started it; '' for none.

        See :mod:`reprokit.engine.docker.merged_steps`.
        """
        named = [step.name for step in self._steps.values() if not step.shown and _repeats(error, step.name)]
        return max(named, key=len, default="")

    def _log(self, step: _Step, text: str) -> None:
        # What is kept is redacted by lines: a piece of the stream may end within a password.
        *whole, step.rest = (step.rest + text).split("\n")
        if len(step.rest) > LONGEST_LINE:
            whole, step.rest = [*whole, step.rest], ""
        step.tail.extend(self._redact(line).rstrip("\r").rpartition("\r")[2] for line in whole)
        self._tell(step, log=self._redact(text))

    def _tell(self, step: _Step, **more: Any) -> None:
        self._on_progress(Progress(number=step.number, total=step.total, name=step.name, **more))


def _repeats(error: str, name: str) -> bool:
    """Whether an error ends with the command of a RUN, as it is (until BuildKit 0.9) or as Go quotes it."""
    command = re.sub(r"^RUN\s+(?:--\S+\s+)*", "", name).strip()
    quoted = json.dumps(command, ensure_ascii=False)[1:-1]
    return name.startswith("RUN") and (f"{command}]: exit code" in error or f'{quoted}" did not complete' in error)


def _named(name: str) -> _Step:
    found = _STEP.fullmatch(name)
    if found is None:
        return _Step(name=name)
    return _Step(name=found["name"], number=int(found["number"]), total=int(found["total"]))
