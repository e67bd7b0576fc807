"""A reader that is slow or gone, and a busy host, on the real engines: no verdict depends on how fast we read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from reprokit.core import ownership
from tests.integration.test_run import REPROKIT, User

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: prints-{number}
title: Prints much, and ends before its time
matrix: {{os: [debian-12]}}
command: |
  {command}
resources: {{timeout: {timeout}, network: {network}}}
expect: {{failure: {{timed_out: true}}}}
"""


@pytest.fixture(params=["docker", pytest.param("venv", marks=pytest.mark.nightly)])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def write(user: User, engine: str, command: str, timeout: str) -> str:
    """A case's file."""
    number = f"{os.getpid()}-{time.time_ns()}"
    network = "bridge" if engine == "venv" else "none"
    user.write("case.yaml", CASE.format(number=number, command=command, timeout=timeout, network=network))
    return f"prints-{number}"


@contextlib.contextmanager
def unread(user: User, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose output is read by no one."""
    process = subprocess.Popen(
        [*REPROKIT, *words], cwd=user.folder, env=user.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def busy() -> Iterator[None]:
    """Every core has something to do, of the least importance."""
    code = "import os; os.nice(19)\nwhile True: pass"
    burners = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


def test_a_pipe_that_no_one_reads_does_not_stop_a_trial(user: User, engine: str) -> None:
    write(user, engine, "(yes 'so much to say' || true) | head -c 6000000; exit 3", "5s")
    user.types("run", "--build-only", "case.yaml", "--engine", engine)
    with unread(user, "run", "-v", "case.yaml", "--engine", engine) as process:
        time.sleep(12)  # the trial would have waited for us beyond its time limit
        shown = process.communicate()[0].decode()
        assert process.returncode == 0, shown[-2000:]
    [cell] = user.cells()
    assert cell["verdict"] == "different-failure", cell["reason"]
    assert cell["trials"][0]["exit_code"] == 3
    assert "lines not shown: the terminal or pipe was slower than the program" in shown


@pytest.mark.nightly
@pytest.mark.usefixtures("busy")
def test_half_a_gigabyte_on_a_busy_host_is_not_a_time_out(user: User, engine: str) -> None:
    write(user, engine, "(yes 'so much to say' || true) | head -c 500000000; echo the end; exit 3", "30s")
    user.types("run", "case.yaml", "--engine", engine)
    [cell] = user.cells()
    assert cell["verdict"] == "different-failure", cell["reason"]
    log = user.folder / "store" / cell["trials"][0]["log"]
    assert log.read_text().endswith("the end\n")


def test_two_interrupts_end_a_run_whose_output_no_one_reads(user: User, engine: str) -> None:
    case_id = write(user, engine, "exec yes 'so much to say'", "10m")
    user.types("run", "--build-only", "case.yaml", "--engine", engine)
    with unread(user, "run", "-v", "case.yaml", "--engine", engine, "--trials", "2") as process:
        logs: list[Path] = []
        while not logs or logs[0].stat().st_size < 5_000_000:
            assert process.poll() is None
            logs = list((user.folder / "store" / "runs").rglob("*.log"))
            time.sleep(0.1)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(1)
        assert process.wait(60) == 130
    left = docker.from_env().containers.list(all=True, filters={"label": f"{ownership.CASE}={case_id}"})
    assert left == []
