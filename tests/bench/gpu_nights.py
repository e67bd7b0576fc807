"""``python -m tests.bench.gpu_nights [NIGHTS]``: how long GPUs are idle in nights of runs. The runner is the real one.

In virtual time: a busy machine makes GPUs look idle that are not, so that figures are upper bounds.
"""

from __future__ import annotations

import heapq
import io
import itertools
import json
import math
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reprokit.cli.display.screen import Screen
from reprokit.engine.gpus import discovery
from reprokit.engine.protocol import Build, Trial
from reprokit.environment.host import Gpu, HostFacts
from reprokit.evidence.model import Ending
from reprokit.run import gpus, timing
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from tests.unit.fakes import FakeEngine

NIGHTS = 365
JOBS = 4
GPUS = tuple(Gpu(index=n, uuid=f"GPU-{n}", name="Tesla V100", memory=16 << 30, compute="7.0") for n in range(2))
NEW = 0.3
QUIET = 0.04
"""Real seconds without an event after which virtual time goes on."""


class Clock:
    """Virtual time: who sleeps wakes when all others sleep, too."""

    def __init__(self) -> None:
        self.now = 0.0
        self.open = True
        self._sleepers: list[tuple[float, int]] = []
        self._numbers = itertools.count()
        self._events = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def sleep(self, seconds: float) -> None:
        with self._changed:
            self._events += 1
            wake = self.now + seconds
            heapq.heappush(self._sleepers, (wake, next(self._numbers)))
            self._changed.wait_for(lambda: self.now >= wake)
            self._events += 1

    def _run(self) -> None:
        seen = -1
        with self._changed:
            while self.open:
                self._changed.wait(QUIET)
                if self._events == seen and self._sleepers:
                    self.now = heapq.heappop(self._sleepers)[0]
                    self._changed.notify_all()
                seen = self._events


class Night:
    """One run, and when GPUs computed and images were made, in virtual seconds."""

    def __init__(self, rng: random.Random, built: list[str], usual: dict[tuple[str, str], float]) -> None:
        self.clock = Clock()
        self.rng = rng
        self.usual = usual
        self.engine = FakeEngine(self._program, self._build)
        self.engine.built = built
        self.used: list[tuple[float, float]] = []
        self.builds: list[float] = []

    def _program(self, trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        usual = self.usual[trial.env["IMAGE"].partition(".")[0], trial.env["N"]]
        seconds, began = usual * self.rng.uniform(0.8, 1.25), self.clock.now
        self.clock.sleep(seconds)
        if trial.gpus:
            self.used.append((began, self.clock.now))
        return Ending(exit_code=0, seconds=seconds)

    def _build(self, build: Build) -> None:
        self.clock.sleep(self.rng.uniform(120, 900))
        self.builds.append(self.clock.now)

    def run(self, folder: Path, store: Path, releases: dict[int, int]) -> None:
        """Run the night's cells; ``releases``: of each image, which one is asked for."""
        cases = folder / "cases"
        cases.mkdir(parents=True)
        for name, images, resources in (("gpu", range(10), {"gpus": "1"}), ("cpu", range(10, 14), {})):
            case: dict[str, Any] = {
                "schema": "reprokit/v1",
                "id": name,
                "title": "A night",
                "matrix": {
                    "image": [f"{n}.{releases[n]}" for n in images],
                    "n": ["0", "1", "2", "3"][: 4 - (not resources)],
                },
                "environment": {"setup": "echo {{ image }}"},
                "env": {"N": "{{ n }}", "IMAGE": "{{ image }}"},
                "command": "true",
                "resources": resources,
            }
            (cases / f"{name}.yaml").write_text(json.dumps(case))
        session = Session(store, display=Screen(io.StringIO()), engine=lambda: self.engine)
        session.start(Request(cases=(str(cases),), base_images="registry", jobs=JOBS))
        self.clock.open = False

    @property
    def idle(self) -> tuple[float, float, float]:
        """GPU seconds until the last image is there; of these idle; and of the whole night's, idle."""
        last, end = max(self.builds, default=0.0), max(until for _, until in self.used)

        def idle(until: float) -> float:
            return len(GPUS) * until - sum(max(0.0, min(stop, until) - start) for start, stop in self.used)

        return len(GPUS) * last, idle(last), idle(end) / (len(GPUS) * end)


def report(nights: int = NIGHTS) -> Iterator[str]:
    """A line after every 30 nights, and one for all: in the order of the cells, and with the longest first."""
    for order in ("in the order of the cells", "the longest first"):
        yield from (f"{order}: {line}" for line in _report(nights, longest_first=order.startswith("the")))


def _report(nights: int, *, longest_first: bool) -> Iterator[str]:
    rng = random.Random(18)
    usual = {(str(image), str(n)): rng.uniform(60, 1200) for image in range(14) for n in range(4)}
    hours = 0.0
    releases = dict.fromkeys(range(14), 0)
    built: list[str] = []
    waiting = idle = 0.0
    whole: list[float] = []
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as scratch:
        patch.setattr(discovery, "facts", lambda: HostFacts(gpus=GPUS, driver="535.104.05", asked="NVML"))
        patch.setattr(gpus, "POLL", QUIET / 8)
        if not longest_first:
            patch.setattr(timing, "FEW", math.inf)
        config = Path(scratch) / "config.toml"
        config.write_text(f'gpu_leases = "{scratch}/leases"\n')
        patch.setenv("REPROKIT_CONFIG", str(config))
        for number in range(1, nights + 1):
            for image in releases:
                releases[image] += rng.random() < NEW
            night = Night(rng, built, usual)
            night.run(Path(scratch) / str(number), Path(scratch) / "store", releases)
            built = night.engine.built
            seconds, lost, share = night.idle
            hours += max(until for _, until in night.used) / 3600
            waiting, idle, whole = waiting + seconds, idle + lost, [*whole, share]
            if number % 30 == 0 or number == nights:
                yield (
                    f"{number} nights: GPUs idle for {100 * idle / max(waiting, 1):.1f} % of the time in which images "
                    f"were waited for, for {100 * sum(whole) / len(whole):.1f} % of whole nights; the last ended after "
                    f"{hours / number:.2f} h"
                )


if __name__ == "__main__":
    for line in report(int(sys.argv[1]) if len(sys.argv) > 1 else NIGHTS):
        print(line, flush=True)
