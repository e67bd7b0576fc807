"""The driver that a test asks: fake, or of this host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from reprokit.engine.gpus import discovery
from tests.fake_nvml import FakeNvml

REPOSITORY = Path(__file__).parents[2]
H100 = "NVIDIA H100 80GB HBM3|81559|9.0"
STATE = "mode=0 ecc=1 errors=0 sm=345 mem=2619 reasons=1"
"""What an idle H100 tells, by the driver's documentation."""

ASK = "import json, dataclasses; from reprokit.engine.gpus import discovery;"
ASK += "print(json.dumps(dataclasses.asdict(discovery.facts())))"

HOLD = Path(__file__).with_name("hold.py")


class Driver:
    """A driver with at least one GPU that may be used. ``environ``: under which processes find it."""

    def __init__(self, fake: FakeNvml | None) -> None:
        self.fake = fake
        hidden = () if fake is None else ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
        own = {name: value for name, value in os.environ.items() if name not in hidden}
        self.environ = {**own, **(fake.environment if fake else {}), "PYTHONPATH": str(REPOSITORY)}

    def facts(self) -> dict[str, Any]:
        """What discovery finds, in a process of its own."""
        if self.fake is None:
            return json.loads(json.dumps(asdict(discovery.facts())))
        command = [sys.executable, "-c", ASK]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @contextmanager
    def program(self) -> Iterator[int]:
        """A process that has a context on the first GPU; its pid."""
        process = subprocess.Popen(
            [sys.executable, HOLD, "pretend" if self.fake else "cuda"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "holds\n"
            self.describe(process.pid)
            yield process.pid
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            self.describe()

    def describe(self, *pids: int) -> None:
        """Tell the fake driver which processes compute."""
        if self.fake is not None:
            self.fake.gpus(f"GPU-0|{H100}|ok|{','.join(map(str, pids))}|{STATE}", driver="580.159.04", cuda=13000)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.gpu)])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    """Both drivers."""
    if request.param == "real":
        facts = discovery.facts()
        if not facts.gpus:
            pytest.skip(f"needs an NVIDIA GPU: {facts.note}")
        return Driver(None)
    driver = Driver(FakeNvml(tmp_path))
    driver.describe()
    return driver


def within(seconds: float, seen: Callable[[], bool]) -> bool:
    """Whether it comes to be seen in time."""
    import time

    end = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True
