"""The tests of builds and trials once more, on a Podman service of their own; skipped where there is no Podman."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.core.errors import BuildFailed, EngineError
from reprokit.engine.docker import DockerEngine
from reprokit.engine.podman import PodmanEngine
from reprokit.engine.protocol import Progress
from reprokit.engine.registry import make
from reprokit.engine.site import Site
from tests.conftest import build_of, import_tiny, never
from tests.integration.test_engine_build import (  # noqa: F401
    read,
    tag,
    test_a_base_that_cannot_be_had,
    test_a_secret_does_not_change_the_cache_key,
    test_cancel_stops_the_engine_too,
    test_parallel_builds_have_their_own_secrets,
    test_proxies_reach_steps_but_neither_history_nor_cache,
    test_pull_of_an_unreachable_registry,
    test_secrets_are_read_and_do_not_stay,
    test_wrong_dockerfiles_are_build_failures,
)
from tests.integration.test_engine_run import (  # noqa: F401
    _child,
    ours,
    test_a_missing_image_is_an_engine_error,
    test_a_trial_is_confined,
    test_anonymous_volumes_go_too,
    test_bridge_and_root_when_asked,
    test_cancel_ends_at_once,
    test_cpus_and_memory_are_set,
    test_ctrl_c_leaves_nothing,
    test_fork_bomb_is_contained,
    test_imported_image_carries_its_labels,
    test_memory_kill_is_seen_even_in_a_child,
    test_mounts_are_read_only,
    test_output_comes_at_once_and_lines_stay_whole,
    test_sigkill_by_itself_is_no_memory_kill,
    test_time_limit_counts_while_output_floods,
    test_time_limit_stops_what_ignores_sigterm,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The address of a Podman service with a storage of its own; stopped and removed afterwards."""
    podman = shutil.which("podman")
    if podman is None:
        pytest.skip("needs podman")
    # Not below pytest's folder: the paths of containers' sockets must stay below 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="rk-podman-"))
    address = f"unix://{folder}/podman.sock"
    # runc also serves hosts whose cgroups are neither v1 nor v2, as crun does not.
    runtime = ["--runtime", "runc"] if shutil.which("runc") else []
    command = [podman, "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--cgroup-manager", "cgroupfs"]
    log = (folder / "log").open("wb")
    started = subprocess.Popen(
        [*command, *runtime, "system", "service", "--time=0", address], stdout=log, stderr=subprocess.STDOUT
    )
    try:
        yield address
    finally:
        subprocess.run([*command, "rm", "--all", "--force"], capture_output=True, check=False, timeout=60)
        started.terminate()
        started.wait(timeout=30)
        log.close()
        subprocess.run(["umount", "--lazy", f"{folder}/root/overlay"], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def engine(service: str) -> Iterator[DockerEngine]:
    """The engine of that service, also for the docker client that gives the second opinions."""
    deadline = time.monotonic() + 30
    while True:
        try:
            found = make("podman", {"CONTAINER_HOST": service})
            break
        except EngineError as error:
            if time.monotonic() > deadline:
                pytest.skip(f"the podman service does not answer: {error}")
            time.sleep(0.2)
    assert isinstance(found, PodmanEngine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "DOCKER_HOST", service)
        yield found


@pytest.fixture(scope="module")
def tiny(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The small image of the other tests, in this engine."""
    return import_tiny(engine, tmp_path_factory.mktemp("tiny"))


def test_the_steps_and_mounts_of_our_dockerfiles(engine: DockerEngine, tiny: str, tag: str) -> None:  # noqa: F811
    dockerfile = (
        f"FROM {tiny}\nENTRYPOINT []\n"
        'COPY --chown=1000:1000 --chmod=0755 ["files/", "/workspace/"]\n'
        f"RUN --mount=type=cache,id=reprokit-test,target=/var/cache/x,sharing=locked \\\n"
        "    --mount=type=bind,source=reprokit/one.sh,target=/run/reprokit/one.sh \\\n"
        f"    sh /run/reprokit/one.sh && echo counted to {tag}\n"
        "USER repro\n"
    )
    steps: list[Progress] = []
    context: dict[str, bytes | Path] = {
        "reprokit/one.sh": b"echo kept > /var/cache/x/file; cat /var/cache/x/file\n",
        "files/run.sh": b"#!/bin/sh\nid -u\n",
    }
    built = engine.build(build_of(tag, dockerfile, context), Site(), steps.append, never())
    assert engine.image(tag) == built
    assert built.labels["org.reprokit.image"] == "1"
    assert read(engine, tag, "./run.sh; cat /var/cache/x/file 2>/dev/null") == "1000\n"
    assert f"kept\ncounted to {tag}\n" in "".join(step.log for step in steps)
    assert [step.name.split()[0] for step in steps if not step.log][:5] == ["FROM", "ENTRYPOINT", "COPY", "RUN", "USER"]


def test_a_failing_step_of_buildah_is_named_with_its_last_lines(engine: DockerEngine, tiny: str, tag: str) -> None:  # noqa: F811
    dockerfile = f"FROM {tiny}\nRUN seq 100; echo '{tag}: no such host'; exit 7\nRUN echo never\n"
    with pytest.raises(BuildFailed) as failed:
        engine.build(build_of(tag, dockerfile), Site(), lambda _: None, never())
    assert failed.value.step.startswith("RUN seq 100")
    assert f"{tag}: no such host" in failed.value.tail[-3:]
    assert "exit status 7" in str(failed.value)
    assert engine.image(tag) is None


def test_sweep_after_kill_9(engine: DockerEngine, tiny: str) -> None:
    run = uuid.uuid4().hex
    child = _child(tiny, run)
    assert not any(run in line for line in engine.sweep())
    child.kill()
    child.wait(timeout=10)
    assert len(ours(run)) == 1
    assert any(run in line for line in engine.sweep())
    assert ours(run) == []
