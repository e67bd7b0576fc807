"""What only container engines do, once more on a Podman service of its own; skipped where there is no Podman."""

from __future__ import annotations

import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.core import ownership
from reprokit.core.errors import BuildFailed, EngineLost
from reprokit.engine import registry
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.podman.engine import PodmanEngine
from reprokit.engine.protocol import Progress
from reprokit.engine.site import Site
from reprokit.engine.wire import Endpoint, Wire
from tests.conftest import build_of, import_tiny, never, trial
from tests.engine_proxy import engine_proxy
from tests.integration.test_engine_build import (  # noqa: F401
    read,
    tag,
    test_a_base_that_is_not_available,
    test_a_build_from_nothing_runs_every_step,
    test_a_proxy_of_the_site_reaches_no_step,
    test_a_secret_does_not_change_the_cache_key,
    test_cancel_stops_the_engine_too,
    test_parallel_builds_have_their_own_secrets,
    test_pull_of_an_unreachable_registry,
    test_secrets_are_read_and_do_not_stay,
    test_wrong_dockerfiles_are_build_failures,
)
from tests.integration.test_engine_lost import NAP, run, wake
from tests.integration.test_engine_run import (  # noqa: F401
    test_a_trial_is_confined,
    test_anonymous_volumes_go_too,
    test_bridge_and_root_when_asked,
    test_cpus_and_memory_are_set,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["podman_service", pytest.param("podman5_service", marks=pytest.mark.nightly)])
def engine(request: pytest.FixtureRequest) -> Iterator[DockerEngine]:
    """The engine of that service, also for the docker client that gives the second opinions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "DOCKER_HOST", request.getfixturevalue(request.param))
        yield PodmanEngine(dict(os.environ))


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


@pytest.mark.parametrize("trust", list(Trust))
def test_steps_reach_the_gateway_and_not_this_hosts_network(
    engine: DockerEngine,
    tiny: str,
    tag: str,  # noqa: F811
    trust: Trust,
) -> None:
    mount = "--mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666"
    script = "tail -n +3 /proc/net/dev; cat /run/reprokit/gateway/gateway.sock; touch /run/reprokit/gateway/pwned"
    dockerfile = f"FROM {tiny}\nRUN {mount} : {tag}; ls -l /run/reprokit/gateway; {script}; true\n"
    steps: list[Progress] = []
    engine.build(replace(build_of(tag, dockerfile), trust=trust), Site(), steps.append, never())
    logs = "".join(step.log for step in steps)
    assert "srw-rw-rw-" in logs
    assert "pwned: Read-only file system" in logs
    devices = {line.partition(":")[0].strip() for line in logs.splitlines() if re.match(r" *[a-z0-9]+:\s+\d+ ", line)}
    assert devices == ({"lo"} if trust is Trust.STRANGER else {"lo", "eth0"})


@pytest.mark.nightly
def test_no_end_is_lost_where_podman_shortens_its_file_of_events(podman5_service: str, tmp_path: Path) -> None:
    """Its stream leaves out those of a moment then: see .ci/podman5."""
    engine = registry.make("podman", {"CONTAINER_HOST": f"{podman5_service}-file"})
    image = import_tiny(engine, tmp_path)

    def end(number: int) -> int:
        return engine.run(trial(image, f"exit {number}"), lambda _: None, never()).exit_code

    try:
        with ThreadPoolExecutor(3) as workers:
            assert list(workers.map(end, range(90))) == list(range(90))
    finally:
        engine.remove_image(image)


def test_another_script_is_another_layer(engine: DockerEngine, tiny: str, tag: str) -> None:  # noqa: F811
    dockerfile = (
        f"FROM {tiny}\nRUN --mount=type=bind,source=reprokit/one.sh,target=/one.sh sh /one.sh > /said; : {tag}\n"
    )
    said = []
    for word in (b"one", b"two"):
        engine.build(build_of(tag, dockerfile, {"reprokit/one.sh": b"echo " + word}), Site(), lambda _: None, never())
        said.append(read(engine, tag, "cat /said"))
    assert said == ["one\n", "two\n"]


def test_a_failing_step_of_buildah_is_named_with_its_last_lines(engine: DockerEngine, tiny: str, tag: str) -> None:  # noqa: F811
    dockerfile = f"FROM {tiny}\nRUN seq 100; echo '{tag}: no such host'; exit 7\nRUN echo never\n"
    with pytest.raises(BuildFailed) as failed:
        engine.build(build_of(tag, dockerfile), Site(), lambda _: None, never())
    assert failed.value.step.startswith("RUN seq 100")
    assert f"{tag}: no such host" in failed.value.tail[-3:]
    assert "exit status 7" in str(failed.value)
    assert engine.image(tag) is None


@pytest.mark.parametrize(
    ("ask", "words"),
    [("kill", "from outside"), ("remove", "removed the container"), ("/attach", "cut"), ("/events", "event stream")],
)
def test_what_happens_to_the_container_or_the_service_is_not_a_finding(
    engine: DockerEngine, tiny: str, ask: str, words: str
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="rk-proxy-") as folder,
        engine_proxy(Path(engine.wire.endpoint.url.removeprefix("unix://")), Path(folder)) as proxy,
    ):
        behind = PodmanEngine(wire=Wire(where=Endpoint(url=proxy.url)))
        word = uuid.uuid4().hex

        def harm() -> None:
            client = behind.wire.client()
            (container,) = client.containers(filters={"label": f"{ownership.RUN}={word}"})
            if ask == "kill":
                client.kill(container["Id"])
            elif ask == "remove":
                client.remove_container(container["Id"], force=True)
            else:
                proxy.cut(ask)
                time.sleep(2)
                ask == "/events" or wake()  # without the events, the trial is over by now

        with pytest.raises(EngineLost, match=words):
            run(behind, tiny, f"echo up; {NAP}; exit 1", harm, labels=ownership.ownership(word))
        assert run(behind, tiny, "echo again; exit 3", lambda: None).exit_code == 3
