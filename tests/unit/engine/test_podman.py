"""The pure pieces that Podman needs: buildah's text, its failures, limits, and the kernel's count of memory kills."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from reprokit.case.cellspec import Limits
from reprokit.case.trust import Trust
from reprokit.core import interrupts
from reprokit.core.errors import BuildFailed, EngineError, EngineLost, ReprokitError, Unsupported
from reprokit.engine import containers, failure, images
from reprokit.engine.container_spec import create_body, for_podman, podman_limits
from reprokit.engine.podman import engine
from reprokit.engine.podman.engine import Steps, buildah_parameters
from reprokit.engine.protocol import EngineInfo, Progress
from reprokit.engine.site import Served
from reprokit.engine.usage import MemoryKills, counter_of, in_kernel_log
from reprokit.run.admitting import check_limits, check_reached
from tests.conftest import build_of, trial

# What buildah 1.28.2 printed, in the pieces in which it came.
TEXT = (
    "STEP 1/3: FROM reprokit/base:debian-12\n",
    "STEP 2/3: RUN --mount=type=cache,id=x,target=/x echo one; exit 7\n",
    "--> Using cache 7cb7920adb8ae77b\n",
    "STEP 3/3: RUN two\n",
    "half a li",
    "ne of s3cret\nSTEP 9/9: not a step\n10 %\r20 %\n",
    "--> 70184ab6120\n",
)


def test_steps_of_buildah() -> None:
    seen: list[Progress] = []
    steps = Steps(seen.append, lambda text: text.replace("s3cret", "***"))
    for piece in TEXT:
        steps.feed(piece)
    assert [(step.number, step.total) for step in seen if not step.log and not step.cached] == [(1, 3), (2, 3), (3, 3)]
    assert [step.number for step in seen if step.cached] == [2]
    assert "".join(step.log for step in seen) == "half a line of ***\nSTEP 9/9: not a step\n10 %\r20 %\n"
    assert steps.last() == ("RUN two", ("half a line of ***", "STEP 9/9: not a step", "20 %"))


@pytest.mark.parametrize(
    ("message", "tail", "kind", "words"),
    [
        # As buildah 1.28.2 says it; newer ones leave out the first "error".
        (
            'error building at STEP "RUN x": error while running runtime: exit status 7',
            (),
            BuildFailed,
            "exit status 7",
        ),
        ('building at STEP "RUN echo no such host": while running runtime: exit status 1', (), BuildFailed, "status 1"),
        (
            'building at STEP "RUN x": while running runtime: exit status 1',
            ("error running container: from /usr/bin/crun creating container for [/bin/sh -c x]: no cgroups", ""),
            EngineError,
            "no cgroups",
        ),
        (
            'building at STEP "COPY absent /x": checking on sources under "/tmp": stat: "/absent": no such file',
            (),
            BuildFailed,
            "absent",
        ),
    ],
)
def test_failures_of_buildah(message: str, tail: tuple[str, ...], kind: type[ReprokitError], words: str) -> None:
    found = failure.of_buildah(message, step="RUN x", tail=tail)
    assert type(found) is kind
    assert words in str(found)


def test_a_podman_that_is_not_there_is_not_docker() -> None:
    error = failure.of_connection(ConnectionRefusedError("Connection refused"), "unix:///run/podman/podman.sock")
    assert "CONTAINER_HOST" in str(error)
    assert "docker" not in str(error)
    assert "catatonit" in str(failure.of_engine("container create: container-init binary not found on the host"))


def layers(setup: bytes, trust: Trust = Trust.OWN) -> str:
    """The Dockerfile for buildah of a build that mounts a script."""
    text = "FROM x AS y\nRUN --mount=type=bind,source=reprokit/setup.sh,target=/run/s sh /run/s\nFROM z\nUSER repro\n"
    build = replace(build_of("a:1", text, {"reprokit/setup.sh": setup}), trust=trust)
    made, context = engine.adapt_to_buildah(build, gateway=False, volumes=True)
    (name,) = context
    assert f"--mount=type=bind,source={name},target=/run/s sh /run/s\n" in made
    return made


def test_a_layer_is_found_by_the_content_of_what_its_step_mounts() -> None:
    assert layers(b"one") == layers(b"one") != layers(b"two")


@pytest.mark.parametrize("trust", [Trust.REVIEWED, Trust.STRANGER])
def test_layers_of_cases_of_other_trust_are_never_taken(trust: Trust) -> None:
    line = f"LABEL org.reprokit.domain={trust.value}"
    assert layers(b"one", trust).splitlines()[:2] == ["FROM x AS y", line]
    assert layers(b"one", trust).splitlines()[3:5] == ["FROM z", line]
    assert "LABEL" not in layers(b"one")


def test_the_folder_of_the_gateway_stands_for_the_mount_of_its_socket() -> None:
    text = "FROM x\nRUN --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 true\n"
    build, served = build_of("a:1", text), Served(gateway=Path("/tmp/g/shown/gateway.sock"))
    made, _ = engine.adapt_to_buildah(build, gateway=True, volumes=False)
    assert "RUN --mount=type=bind,from=reprokit-gateway,source=.,target=/run/reprokit/gateway true\n" in made
    query = buildah_parameters(build, served, {}, {}, volumes=False)
    place = {"IsURL": False, "IsImage": False, "Value": "/tmp/g/shown"}
    assert json.loads(query["additionalbuildcontexts"]) == {"reprokit-gateway": place}
    made, _ = engine.adapt_to_buildah(build, gateway=True, volumes=True)
    assert "mount" not in made
    query = buildah_parameters(build, served, {}, {}, volumes=True)
    assert query["volume"] == "/tmp/g/shown:/run/reprokit/gateway:ro"
    assert "additionalbuildcontexts" not in query


def test_secrets_go_beside_the_context() -> None:
    query = buildah_parameters(
        build_of("a:1", "FROM x\n"), Served(network="none"), {"netrc": ".secret-1"}, {"nofile": 9}, volumes=True
    )
    assert json.loads(query["ulimits"]) == ["nofile=9:9"]
    assert json.loads(query["secrets"]) == ["id=netrc,src=.secret-1"]
    assert query["networkmode"] == "NetworkDisabled"
    # Without this, the steps of a build through Docker's API are on the network of the service's host.
    assert json.loads(query["nsoptions"]) == [{"Name": "network", "Host": False}]


def test_podman_gets_limits_that_this_host_grants() -> None:
    plain = create_body(trial("x", "true"), {})
    body = for_podman(plain, podman_limits({"nofile": 20000.0, "nproc": float("inf")}.__getitem__))
    assert body["HostConfig"]["Ulimits"] == [
        {"Name": "core", "Soft": 0, "Hard": 0},
        {"Name": "nofile", "Soft": 20000, "Hard": 20000},
        {"Name": "nproc", "Soft": 32768, "Hard": 32768},
    ]
    assert len(plain["HostConfig"]["Ulimits"]) == 1


@pytest.mark.parametrize(
    ("groups", "path"),
    [
        ("4:memory:/libpod_parent/x\n0::/y\n", "memory/libpod_parent/x/memory.oom_control"),
        ("0::/user.slice/x\n", "user.slice/x/memory.events"),
        ("0::/\n", None),
        ("1:cpu,cpuacct:/a\n", None),
    ],
)
def test_where_the_kernel_counts(groups: str, path: str | None, tmp_path: Path) -> None:
    assert counter_of(groups, tmp_path) == (tmp_path / path if path else None)


@pytest.mark.parametrize(
    "text", ["oom_kill_disable 0\nunder_oom 0\noom_kill {}\n", "oom 3\noom_kill {}\noom_group 0\n"]
)
def test_memory_kills_are_seen_and_remembered(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "count"
    count.write_text(text.format(0))
    monkeypatch.setattr("reprokit.engine.usage.counter_of", lambda groups: count)
    kills = MemoryKills(os.getpid(), tmp_path.name)
    kills.look()
    assert not kills.seen
    count.write_text(text.format(2))
    kills.look()
    count.write_text("")
    kills.look()
    assert kills.seen
    kills.close()
    kills.look()


def test_a_process_here_that_is_not_the_containers_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "count"
    count.write_text("oom_kill 2\n")
    monkeypatch.setattr("reprokit.engine.usage.counter_of", lambda groups: count)
    kills = MemoryKills(os.getpid(), "0123456789ab")
    kills.look()
    assert not kills.seen


def test_what_a_service_that_went_away_leaves_is_said() -> None:
    class Gone:
        def remove_container(self, *_: object, **__: object) -> None:
            raise ConnectionRefusedError("Connection refused")

    left: dict[str, float] = {}
    with pytest.raises(EngineLost, match=r"no Podman answers.*its container repro-1 may still be there"):
        containers._tidy_away(Gone(), "repro-1", "unix:///podman.sock", 1.0, left, made=True)
    with pytest.raises(EngineError) as never_made:
        containers._tidy_away(Gone(), "repro-1", "unix:///podman.sock", 1.0, left, made=False)
    assert "may still be there" not in str(never_made.value)
    assert left.keys() == {"repro-1"}


@pytest.mark.parametrize("busy", [1, 3])
def test_a_container_whose_mount_is_busy_is_removed_a_moment_later(monkeypatch: pytest.MonkeyPatch, busy: int) -> None:
    class Busy:
        left = busy

        def remove_container(self, *_: object, **__: object) -> None:
            self.left -= 1
            if self.left >= 0:
                raise docker.errors.APIError("unlinkat userdata/shm: device or resource busy")

    monkeypatch.setattr(containers, "BUSY", (0.0, 0.0))
    if busy < 3:
        assert containers.remove(Busy(), "repro-1", "unix:///podman.sock")
    else:
        with pytest.raises(EngineError, match="busy"):
            containers.remove(Busy(), "repro-1", "unix:///podman.sock")


def test_a_container_that_an_engine_makes_after_its_answer_was_lost_is_removed_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow:
        there = False

        def remove_container(self, *_: object, **__: object) -> None:
            if not self.there:
                raise docker.errors.NotFound("no such container")
            self.there = False

    client, left, where = Slow(), dict[str, float](), "unix:///docker.sock"
    containers._tidy_away(client, "repro-1", where, 1.0, left, made=None)
    interrupts.would_leave("container repro-2", "")
    containers._tidy_away(client, "repro-2", where, 1.0, left, made=False)
    assert left.keys() == {"repro-1"}
    assert containers.remove_left(client, left, where) == []
    client.there = True
    assert containers.remove_left(client, left, where) == ["repro-1"]
    assert left == {}
    containers._tidy_away(client, "repro-3", where, 1.0, left, made=None)
    monkeypatch.setattr(containers, "MADE_WITHIN", 0.0)
    assert containers.remove_left(client, left, where) == []
    assert left == {}
    assert not interrupts.left()


def test_what_the_engine_cannot_hold_is_unsupported() -> None:
    rootless = EngineInfo(kind="docker", name="Docker Engine", version="28", unenforced=frozenset({"memory", "cpus"}))
    check_limits(Limits(pids=100), rootless)
    with pytest.raises(Unsupported, match=r"Docker Engine 28 cannot hold resources\.memory here"):
        check_limits(Limits(memory=10**9), rootless)
    check_limits(Limits(memory=10**9, cpus=1), EngineInfo(kind="docker", name="Docker Engine", version="28"))


def test_gpus_and_data_sets_of_this_host_are_not_for_an_engine_elsewhere() -> None:
    here = EngineInfo(kind="docker", name="Docker Engine", version="28")
    there = replace(here, remote="ssh://far")

    def task(datasets: dict[str, Path], gpus: int) -> Any:
        return SimpleNamespace(datasets=datasets, spec=SimpleNamespace(limits=Limits(gpus=gpus)))

    check_reached(task({"cityscapes": Path("/data")}, 1), here)
    check_reached(task({}, 0), there)
    with pytest.raises(Unsupported, match=r"data set cityscapes \(/data\).*ssh://far .*run reprokit there"):
        check_reached(task({"cityscapes": Path("/data")}, 0), there)
    with pytest.raises(Unsupported, match=r"resources\.gpus"):
        check_reached(task({}, 1), there)


@pytest.mark.parametrize(
    ("digests", "digest"),
    [
        (["docker.io/reprokit/base@sha256:1"], ""),
        (["reprokit/img@sha256:1", "debian@sha256:2"], "sha256:2"),
        (None, ""),
    ],
)
def test_only_a_registrys_digest_is_one(digests: list[str] | None, digest: str) -> None:
    assert images._described("x", {"Id": "sha256:0", "RepoDigests": digests}).digest == digest


def test_references_as_podman_keeps_them() -> None:
    names = ("debian:12", "reprokit/base:debian-12", "localhost/x:1", "registry.example/a/b:1", "host:5000/x")
    assert [images.on_docker_hub(name) for name in names] == [
        "docker.io/library/debian:12",
        "docker.io/reprokit/base:debian-12",
        "localhost/x:1",
        "registry.example/a/b:1",
        "host:5000/x",
    ]


def test_a_kill_is_found_in_the_kernels_log_where_the_count_is_gone(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "4,1,2,-;dd invoked oom-killer: gfp_mask=0xcc0\n"
        "6,1,3,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/p/libpod-aa17,task_memcg=/p/libpod-aa17,task=dd\n"
    )
    assert in_kernel_log("aa17", log)
    assert not in_kernel_log("bb28", log)
    assert not in_kernel_log("aa17", tmp_path / "closed")
