"""Leases under fire: eight processes that lease GPUs and are killed at random, on both drivers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from reprokit.engine.gpus.leases import Leases
from reprokit.environment.host import Gpu
from tests.gpu.conftest import H100, REPOSITORY, STATE, Driver, within

PROCESSES = 8
KILLS = int(os.environ.get("REPROKIT_TEST_ROUNDS", "12"))
"""A thousand find more."""


def test_of_eight_processes_that_are_killed_no_two_hold_a_gpu_and_none_keeps_one(
    driver: Driver, tmp_path: Path
) -> None:
    if driver.fake is not None:
        driver.fake.gpus(*[f"GPU-{number}|{H100}|ok||{STATE}" for number in range(3)])
    gpus = [Gpu(**{**gpu, "processes": (), "state": None}) for gpu in driver.facts()["gpus"]]
    command = [sys.executable, "-m", "tests.gpu.lease_worker", str(tmp_path), "pretend" if driver.fake else "cuda"]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, env=driver.environ, cwd=REPOSITORY, stdout=subprocess.DEVNULL)

    def ran() -> Counter[str]:
        """How often each GPU was held."""
        file = tmp_path / "ran"
        lines = file.read_text().split() if file.exists() else []
        return Counter(uuid for line in lines for uuid in line.split(","))

    chance = random.Random(20)
    running = [start() for _ in range(PROCESSES)]
    killed: set[int] = set()
    try:
        for _ in range(KILLS):
            before = ran().total()
            assert within(60, lambda before=before: ran().total() > before), "leases go on after each kill"  # type: ignore[misc]
            at = chance.randrange(PROCESSES)
            running[at].kill()
            killed.add(running[at].pid)
            running[at].wait()
            running[at] = start()
        assert within(60, lambda: set(ran()) == {gpu.uuid for gpu in gpus}), f"held so far: {ran()}"
        (tmp_path / "stop").touch()
        assert [process.wait(timeout=120) for process in running] == [0] * PROCESSES
    finally:
        for process in running:
            process.kill()
            process.wait()
    # The kernel closes the files of a killed process one after the other: its lease may end just before its witness.
    seen = (tmp_path / "twice").read_text().split("\n") if (tmp_path / "twice").exists() else []
    assert [line for line in seen if line and int(line.split()[1]) not in killed] == []
    everything = Leases(tmp_path / "leases", run="last", in_use=lambda gpu, died: "").claim(gpus, len(gpus))
    assert within(60, everything.attempt), f"still waits for {everything.waits_for()}"
    everything.close()
    print(f"leases: {dict(ran())}, kills: {KILLS}")
