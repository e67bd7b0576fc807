"""Several ``reprokit run`` processes on a fake host with four GPUs, killed at random: none is given twice or kept."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_nvml import V100, FakeNvml, four_gpus
from tests.servers import wait_until

pytestmark = pytest.mark.integration  # for its length: it needs no engine
REPOSITORY = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("REPROKIT_TEST_ROUNDS", "6"))
"""Kills in the test; a thousand find more."""

CASE = """\
schema: reprokit/v1
id: gpu-work
title: Work on one or two GPUs
matrix: {os: [debian-12], n: ["1", "2"], take: ["1", "2", "3"]}
env: {SECONDS: "0.{{ take }}", N: "{{ n }}"}
command: work
resources: {gpus: "{{ n }}"}
trials: 2
expect: {failure: {exit_code: nonzero}, reproduces: none}
"""


class Machine:
    """A host with four fake GPUs on which runs are started and killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nvml = FakeNvml(folder)
        self.nvml.gpus(*four_gpus())
        (folder / "case.yaml").write_text(CASE)
        (folder / "long.yaml").write_text(CASE.replace("0.{{ take }}", "300"))
        (folder / "all.yaml").write_text(CASE.replace("id: gpu-work", "id: all-four").replace('"1", "2"]', '"4"]', 1))
        config = folder / "config.toml"
        config.write_text(f'gpu_leases = "{folder / "leases"}"\nbase_images = "registry"\n')
        hidden = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
        self.environ = {name: value for name, value in os.environ.items() if name not in hidden}
        self.environ |= {"REPROKIT_CONFIG": str(config), "PYTHONPATH": str(REPOSITORY), **self.nvml.environment}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, number: int, case: str = "case.yaml", *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.gpu_host", self.folder / "host", "run", self.folder / case, "--jobs=4"]
        process = subprocess.Popen(
            [*command, *words],
            env={**self.environ, "REPROKIT_STORE": str(self.folder / f"store-{number}")},
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def said(self, name: str) -> list[str]:
        file = self.folder / "host" / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    for process in machine.started:
        process.kill()
        process.wait()


def test_no_gpu_is_given_twice_and_none_stays_taken(machine: Machine) -> None:
    chance = random.Random(4)
    running = {number: machine.start(number) for number in range(2)}
    for _ in range(ROUNDS):
        number = chance.randrange(2)
        try:
            said, _rest = running[number].communicate(timeout=chance.uniform(0.3, 2.5))
            assert running[number].returncode == 0, said
        except subprocess.TimeoutExpired:
            running[number].kill()
            running[number].communicate()
        running[number] = machine.start(number)
    for process in running.values():
        said, _rest = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert "6 not-reproduced; all as expected" in said
    assert machine.said("twice") == []
    assert {gpu for line in machine.said("ran") for gpu in line.split(",")} == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}
    said, _rest = machine.start(2, "all.yaml").communicate(timeout=60)
    assert "3 not-reproduced; all as expected" in said, "all four are available at once: none stayed taken"


def test_what_a_killed_run_left_on_its_gpu_is_removed_before_it_is_leased(machine: Machine) -> None:
    first = machine.start(0, "long.yaml")
    wait_until(lambda: machine.said("ran"))
    first.kill()
    first.communicate()
    said, _rest = machine.start(1, "all.yaml").communicate(timeout=60)
    assert "left behind by a run that was killed, removed: container" in said
    assert "3 not-reproduced; all as expected" in said
    assert machine.said("twice") == []


def test_a_gpu_that_falls_off_the_bus_in_mid_run(machine: Machine) -> None:
    machine.nvml.gpus(*four_gpus()[:2])
    hold = machine.folder / "host" / "hold"
    hold.parent.mkdir()
    hold.write_text("")
    run = machine.start(0, "case.yaml", "--only", "n=1,take=3", "--trials", "1")
    wait_until(lambda: machine.said("ran"))
    machine.nvml.gpus(f"GPU-0|{V100}|lost", f"GPU-1|{V100}|ok")
    hold.replace(hold.with_name("fail"))  # and what runs on it ends badly
    said, _rest = run.communicate(timeout=60)
    assert "GPU 0 (GPU-0) was lost during the trial (NVML says: GPU 0: GPU is lost); not leased again" in said
    assert "1 not-reproduced; all as expected" in said
    assert machine.said("ran") == ["GPU-0", "GPU-1"]
