"""Runs that are killed, cut off or hung, on the real engine: they end, and the next one removes and resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reprokit.core import ownership
from reprokit.engine.docker.engine import DockerEngine
from tests.conftest import docker
from tests.engine_proxy import engine_proxy
from tests.integration.test_doctor import doctor
from tests.integration.test_run import REPROKIT, SLOW, SLOW_ID, User, wait_for
from tests.servers import wait_until

pytestmark = pytest.mark.integration

CASE_ID = f"interrupted-{os.getpid()}"  # of this worker alone: others run these tests at the same time
CASE = SLOW.replace(SLOW_ID, CASE_ID).replace("else 6", "else 3")


def ours() -> list[str]:
    return docker("ps", "-aq", "--filter", f"label={ownership.CASE}={CASE_ID}").split()


@pytest.fixture
def user(engine: DockerEngine, tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    user.write("case.yaml", CASE)
    user.types("run", "--build-only", "case.yaml")
    yield user
    for container in ours():
        subprocess.run(["docker", "rm", "-f", container], capture_output=True, check=False)


@pytest.mark.parametrize("presses", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_a_run_on_an_engine_that_hangs_ends_after_ctrl_c(presses: int, user: User, engine: DockerEngine) -> None:
    target = Path(engine.wire.endpoint.url.removeprefix("http+").removeprefix("unix://"))
    with engine_proxy(target, user.folder) as proxy:
        user.environment["DOCKER_HOST"] = proxy.url
        process = user.starts("run", "case.yaml", "--jobs", "2")
        wait_for("/4] ", process)
        proxy.hold()
        while len(ours()) < 2:  # one may end before that
            proxy.let()
            wait_until(lambda: len(ours()) >= 2)
            proxy.hold()
        began = time.monotonic()
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert time.monotonic() - began < 100, "two calls of 5 s each, and not the 120 s of an answer"
        left = [line for line in said.splitlines() if "rm -fv reprokit-" in line]
        assert len(left) >= 2, said
        proxy.cut()  # what it still holds is lost
    del user.environment["DOCKER_HOST"]
    user.types("run", "--resume")
    assert {cell["verdict"] for cell in user.cells()} == {"not-reproduced"}
    assert not ours()  # removed by this run, or by one of another test


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a pid namespace without a user namespace")
def test_a_job_that_was_killed_in_another_pid_namespace_is_swept_and_resumed(user: User) -> None:
    # Two commands of reprokit have their say before it is killed.
    user.write("case.yaml", CASE.replace("else 3", "else 12"))
    script = f"hostname ci-job-7; exec {REPROKIT[0]} {' '.join(REPROKIT[1:])} run case.yaml --jobs 2"
    process = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--mount-proc", "--uts", "--kill-child", "sh", "-c", script],
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for("/4] ", process)
    wait_until(lambda: len(ours()) >= 2)
    living = ours()
    assert "nothing to resume" in user.types("run", "--resume", status=2)
    swept = " ".join(DockerEngine().sweep())
    assert not any(container in swept for container in living)
    process.kill()
    process.communicate(timeout=30)
    said = user.types("run", "--resume")
    assert "of 4 cells are decided" in said
    assert not ours()


def test_sigquit_leaves_no_container(user: User) -> None:
    process = user.starts("run", "case.yaml", "--jobs", "2")
    wait_for("/4] ", process)
    wait_until(lambda: len(ours()) >= 2)
    process.send_signal(signal.SIGQUIT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGQUIT
    assert "continue with: reprokit run --resume" in said
    assert not ours()


def made(labels: Mapping[str, str], tiny: str) -> str:
    words = [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]
    return docker("create", *words, tiny, "true").strip()


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a pid namespace without a user namespace")
def test_containers_of_another_boot_of_this_machine_are_swept_and_others_only_named(
    engine: DockerEngine, tiny: str, tmp_path: Path
) -> None:
    own = ownership.ownership("r", CASE_ID)
    name, _, _ = own[ownership.HOST].split("/")
    before = {**own, ownership.HOST: f"{name}/11111111-0000/pid:[4026531836]", ownership.LOCK: "1:/nonexistent"}
    if not before[ownership.MACHINE]:
        pytest.skip("nothing names this machine across restarts")
    runner = {**before, ownership.MACHINE: "another", ownership.HOST: "ci-9/22222222-0000/pid:[7]"}
    # On a machine of its own name: runs of other tests on this one would sweep the containers first.
    gone = {**before, ownership.MACHINE: f"{before[ownership.MACHINE].partition('/')[0]}/{CASE_ID}"}
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--uts", "sh", "-c", f'hostname {CASE_ID}; exec "$0" "$@"']
    code = "from reprokit.engine.docker.engine import DockerEngine; print(*DockerEngine().sweep())"
    unseen = made(runner, tiny)
    try:
        dead, removed = made(gone, tiny), made(gone, tiny)
        [line] = [one for one in doctor(tmp_path, apart) if removed[:12] in one["fix"]]
        assert (line["status"], dead[:12] in line["fix"]) == ("warn", True)
        # It names what other tests left, too, which they may remove meanwhile.
        subprocess.run(["sh", "-c", line["fix"].replace(dead[:12], "")], check=False, capture_output=True)
        swept = subprocess.run([*apart, sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
        assert (dead[:12] in swept, removed[:12] in swept) == (True, False)
        assert not {dead, removed} & set(docker("ps", "-aq", "--no-trunc").split())
        [line] = [one for one in doctor(tmp_path) if unseen[:12] in one["fix"]]
        assert (line["status"], "on the machine ci-9" in line["text"]) == ("info", True)
        subprocess.run(["sh", "-c", line["fix"]], check=True, capture_output=True)
        assert docker("ps", "-aq", "--no-trunc", "--filter", f"id={unseen}") == ""
    finally:
        subprocess.run(["docker", "rm", "-f", *ours()], capture_output=True, check=False)
