"""How a container is asked for GPUs: by CDI, by NVIDIA's runtime, over Docker's API and over Podman's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.cellspec import Limits
from reprokit.case.limits import PIDS
from reprokit.core.errors import Unsupported
from reprokit.core.tty import Terminal
from reprokit.engine import container_spec, containers
from reprokit.engine.container_spec import docker_run_line
from reprokit.engine.gpus import cdi
from reprokit.engine.protocol import Mount, Trial
from reprokit.engine.wire import Endpoint, EngineDetails, Wire

SPEC = """\
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
  - {name: "0", containerEdits: {}}
  - {name: GPU-b, containerEdits: {}}
  - {name: all, containerEdits: {}}
"""


def trial(**changes: Any) -> Trial:
    values: dict[str, Any] = {
        "image": "i",
        "command": ("true",),
        "env": {"A": "a=b"},
        "workdir": "/w",
        "limits": Limits(gpus=2, cpus=1.5, memory=1 << 30, shm_size=1 << 20),
        "gpus": ("GPU-a", "GPU-b"),
        "gpu_indices": ("0", "1"),
    }
    return Trial(**{**values, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nvidia.yaml").write_text(SPEC)
    (tmp_path / "other.json").write_text('{"kind": "vendor.com/net", "devices": [{"name": "7"}]}')
    (tmp_path / "broken.yaml").write_text("kind: [")
    return tmp_path


def test_what_the_files_describe(folder: Path, tmp_path: Path) -> None:
    assert cdi.described([folder, tmp_path / "none"]) == {"0", "GPU-b", "all"}


def test_a_description_is_stale_when_a_library_that_it_names_is_gone(tmp_path: Path) -> None:
    library = tmp_path / "libEGL_nvidia.so.580.65.06"
    edits = f"{{mounts: [{{hostPath: {library}}}, {{hostPath: /run/nvidia-persistenced/socket}}]}}"
    (tmp_path / "nvidia.yaml").write_text(f"{SPEC}containerEdits: {edits}\n")
    (one,) = cdi.descriptions([tmp_path])
    assert one.stale("580.65.06") == f"{tmp_path / 'nvidia.yaml'} names {library}, which does not exist"
    library.touch()
    assert one.stale("580.65.06") == one.stale("") == ""


def test_a_gpu_is_named_by_its_uuid_where_it_can_be(folder: Path) -> None:
    names = cdi.described([folder])
    assert cdi.devices(("GPU-a", "GPU-b"), ("0", "1"), names) == ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-b"]
    with pytest.raises(Unsupported, match=r"describes nvidia\.com/gpu=GPU-c: install nvidia-container-toolkit and run"):
        cdi.devices(("GPU-c",), ("2",), names)


def test_an_instance_is_named_by_its_place_where_its_uuid_is_not_described() -> None:
    assert cdi.devices(("MIG-a",), ("1:0",), frozenset({"0", "1:0"})) == ["nvidia.com/gpu=1:0"]


def test_docker_is_asked_for_cdi_where_it_knows_it_and_for_its_runtime_else(folder: Path) -> None:
    def names(about: dict[str, Any], *, local: bool = True) -> list[str]:
        return container_spec.name_cdi_devices(trial(), EngineDetails.read(about), podman=False, local=local)

    both = ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-b"]
    found = [{"Source": "cdi", "ID": f"nvidia.com/gpu={name}"} for name in ("0", "GPU-b", "all")]
    assert names({"CDISpecDirs": [str(folder)]}) == both
    assert names({"CDISpecDirs": [str(folder)]}, local=False) == []
    assert names({"DiscoveredDevices": found}, local=False) == both
    assert names({"CDISpecDirs": None}) == []
    assert names({"DiscoveredDevices": [{"ID": "vendor.com/net=7"}]}, local=False) == []
    assert container_spec.device_requests(trial(), both) == [{"Driver": "cdi", "DeviceIDs": both}]
    (request,) = container_spec.device_requests(trial(), [])
    assert (request["Driver"], request["DeviceIDs"]) == ("", ["GPU-a", "GPU-b"])
    assert container_spec.device_requests(trial(gpus=(), limits=Limits()), []) == []


def test_podman_has_cdi_or_nothing(folder: Path, tmp_path: Path) -> None:
    def names(folders: list[Path], *, local: bool = True) -> list[str]:
        return container_spec.name_cdi_devices(trial(), EngineDetails(), podman=True, local=local, folders=folders)

    assert names([folder]) == ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-b"]
    assert names([], local=False) == ["nvidia.com/gpu=GPU-a", "nvidia.com/gpu=GPU-b"]
    with pytest.raises(Unsupported, match="nvidia-ctk cdi generate"):
        names([tmp_path / "none"])


@pytest.mark.parametrize("url", ["podman system service", "tcp://127.0.0.1:8080"])
def test_what_describes_gpus_is_read_for_every_engine_of_this_host(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdi, "described", lambda folders: frozenset({"0", "1"}))
    wire = Wire(where=Endpoint(url=url))
    monkeypatch.setattr(wire, "details", EngineDetails)
    assert containers.cdi_names(wire, trial(gpu_indices=("0", "1")), podman=True) == [
        "nvidia.com/gpu=0",
        "nvidia.com/gpu=1",
    ]


@pytest.mark.parametrize(
    ("changes", "names", "runtime", "hidden"),
    [
        ({"gpus": ()}, [], "nvidia", True),
        ({"gpus": ()}, [], "runc", False),
        ({}, [], "nvidia", False),
        ({}, ["nvidia.com/gpu=0"], "nvidia", True),
        ({"gpus": (), "env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, [], "nvidia", True),
        ({"gpus": (), "env": {"NVIDIA_VISIBLE_DEVICES": "0"}}, [], "runc", True),
        ({"gpus": (), "env": {"NVIDIA_VISIBLE_DEVICES": "none"}}, [], "nvidia", False),
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, ["nvidia.com/gpu=0"], "runc", True),
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, [], "nvidia", False),
    ],
)
def test_a_default_runtime_gives_no_one_gpus_that_are_not_leased(
    changes: dict[str, Any], names: list[str], runtime: str, hidden: bool
) -> None:
    env = container_spec.hide_other_gpus(trial(**changes), names, EngineDetails(default_runtime=runtime))
    assert env == ({"NVIDIA_VISIBLE_DEVICES": "void"} if hidden else {})
    given = [
        one
        for one in container_spec.create_body(trial(**changes), {}, env=env)["Env"]
        if one.startswith("NVIDIA_VISIBLE_DEVICES=")
    ]
    assert given == ["NVIDIA_VISIBLE_DEVICES=void"] if hidden else len(given) <= 1


def test_the_line_that_repeats_a_trial_asks_in_the_same_way() -> None:
    assert """'--gpus="device=GPU-a,GPU-b"'""" in docker_run_line(trial())
    line = docker_run_line(trial(), program="podman", cdi=["nvidia.com/gpu=0"])
    assert "--device=nvidia.com/gpu=0" in line
    assert "--gpus" not in line


def test_podmans_own_api_gets_everything_that_dockers_says() -> None:
    mount = Mount(source=Path("/data"), target="/w/data")
    body = container_spec.create_body(trial(mounts=(mount,)), {"owner": "me"}, cdi=["nvidia.com/gpu=0"])
    spec = container_spec.libpod_spec(
        "name", container_spec.for_podman(body, {"nofile": 1000, "nproc": 1000}), trial().limits
    )
    assert spec["devices"] == [{"path": "nvidia.com/gpu=0"}]
    assert spec["env"] == {"A": "a=b"}
    assert spec["labels"] == {"owner": "me"}
    assert spec["resource_limits"] == {
        "pids": {"limit": PIDS},
        "cpu": {"quota": 150_000, "period": 100_000},
        "memory": {"limit": 1 << 30, "swap": 1 << 30},
    }
    assert {(limit["type"], limit["hard"]) for limit in spec["r_limits"]} == {
        ("core", 0),
        ("nofile", 1000),
        ("nproc", 1000),
    }
    assert (spec["cap_drop"], spec["no_new_privileges"], spec["netns"]) == (["ALL"], True, {"nsmode": "none"})
    assert spec["mounts"] == [{"type": "bind", "source": "/data", "destination": "/w/data", "options": ["rbind", "ro"]}]
    assert (spec["user"], spec["work_dir"], spec["shm_size"]) == ("repro", "/w", 1 << 20)
    assert (spec["terminal"], spec["stdin"], spec["cap_add"]) == (False, False, [])
    assert (spec["hostname"], spec["hostadd"]) == ("repro", ["repro:127.0.0.1"])
    said = {"Tty", "OpenStdin"}
    left = (
        set(body)
        - said
        - {"Image", "Entrypoint", "Cmd", "Env", "WorkingDir", "User", "Hostname", "Healthcheck", "Labels"}
    )
    streams = {"AttachStdin", "AttachStdout", "AttachStderr", "StdinOnce"}  # of the connection that attaches
    assert left == {*streams, "HostConfig"}, "whatever else a body says has to be said here too"
    documented = {
        "Init",
        "NetworkMode",
        "CapAdd",
        "CapDrop",
        "SecurityOpt",
        "PidsLimit",
        "LogConfig",
        "Ulimits",
        "Mounts",
        "ExtraHosts",
    }
    assert set(body["HostConfig"]) - documented == {"NanoCpus", "Memory", "MemorySwap", "ShmSize", "DeviceRequests"}


def test_podmans_own_api_gets_a_terminal_and_core_dumps_as_it_writes_them() -> None:
    terminal = Terminal(reads=0, writes=1, resized=2)
    opened = replace(trial(), terminal=terminal, capabilities=("SYS_PTRACE",), core_dumps=True)
    body = container_spec.create_body(opened, {}, cdi=["nvidia.com/gpu=0"])
    spec = container_spec.libpod_spec("name", body, opened.limits)
    assert (spec["terminal"], spec["stdin"], spec["cap_add"]) == (True, True, ["SYS_PTRACE"])
    assert spec["no_new_privileges"] is False
    assert spec["r_limits"] == [{"type": "core", "soft": 2**64 - 1, "hard": 2**64 - 1}]
    assert body["HostConfig"]["Ulimits"] == [{"Name": "core", "Soft": -1, "Hard": -1}]
