"""``reprokit doctor``: what each check says of hosts that differ, that it never breaks or hangs, and how it looks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from reprokit.cli import doctor
from reprokit.cli.doctor import engines, gpus, itself, kept
from reprokit.cli.doctor.ground import Finding, Ground, Status
from reprokit.cli.doctor_command import lines
from reprokit.core import ownership
from reprokit.core.errors import EngineError
from reprokit.core.terminal import shown as on_terminal
from reprokit.core.text import size
from reprokit.engine.site import Settings
from reprokit.engine.venv import host as venv_host
from reprokit.engine.wire import EngineVersion
from reprokit.environment.catalog import Catalog
from reprokit.environment.model import Interpreter
from tests.documents import as_published
from tests.fake_nvml import H200, V100, FakeNvml
from tests.unit.doctoring import engine, ground, program, rows
from tests.unit.fakes import FakeEngine

REPOSITORY = Path(__file__).parents[3]
# -- the whole of it ---------------------------------------------------------------------------------------------------


def test_a_check_that_breaks_or_hangs_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, over = threading.Event(), threading.Event()

    def breaks(_: Ground) -> Iterator[Finding]:
        yield Finding(check="breaks", status=Status.OK, text="so far")
        raise KeyError("gone")

    def hangs(_: Ground) -> Iterator[Finding]:
        yield Finding(check="hangs", status=Status.OK, text="first")
        hanging.set()
        over.wait(60)

    def refuses(_: Ground) -> Iterator[Finding]:
        hanging.wait(60)
        raise EngineError("the engine went away")
        yield

    checks = {"breaks": breaks, "refuses": refuses, "hangs": hangs}
    clock = iter([0.0, 0.0, 0.0, 60.0])  # at the start, and before each of them is waited for
    monkeypatch.setattr(doctor, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    found = doctor.examine(ground(tmp_path), checks, seconds=60.0)
    over.set()
    assert [(one.check, one.status.value, one.text) for one in found] == [
        ("breaks", "ok", "so far"),
        ("breaks", "warn", "this check failed: KeyError: 'gone'"),
        ("refuses", "warn", "this check failed: the engine went away"),
        ("hangs", "ok", "first"),
        ("hangs", "warn", "this check failed: no answer within 60 s"),
    ]
    assert doctor.exit_status(found) == 0
    assert doctor.exit_status([*found, Finding(check="x", status=Status.FAIL, text="no")]) == 3


def nothing(tmp_path: Path, **more: str) -> dict[str, str]:
    """The environment of a host with nothing: no engine, no programs, no network."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "home").mkdir(exist_ok=True)
    environ = {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin"), "PYTHONPATH": str(REPOSITORY)}
    environ |= {"DOCKER_HOST": f"unix://{tmp_path}/docker.sock", "REPROKIT_PROXY": "http://127.0.0.1:9"}
    environ |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")  # in case the settings are not read
    environ["REPROKIT_GPU_LEASES"] = str(tmp_path / "leases")
    return {**environ, "PIP_CONFIG_FILE": os.devnull, "REPROKIT_REGISTRY": "127.0.0.1:9", **more}


def doctor_process(tmp_path: Path, environ: Mapping[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reprokit", "doctor", *options]
    return subprocess.run(command, env=dict(environ), cwd=tmp_path, capture_output=True, text=True, check=False)


@pytest.mark.system
def test_a_host_with_nothing_gets_a_finding_for_each_problem(tmp_path: Path) -> None:
    done = doctor_process(tmp_path, nothing(tmp_path, REPROKIT_REGISTY="x"), "--json")
    assert (done.returncode, done.stderr) == (3, "")
    document = as_published("doctor", json.loads(done.stdout))
    assert document["format"] == "reprokit-doctor/v1"
    assert {tuple(sorted(finding)) for finding in document["findings"]} == {("check", "fix", "status", "text")}
    found = {(one["check"], one["status"]): one for one in document["findings"]}
    assert "no container engine listens at unix://" in found["engine", "fail"]["text"]
    assert "unset DOCKER_HOST" in found["engine", "fail"]["fix"]
    assert "does not answer, and nothing here can make base images" in found["base images", "fail"]["text"]
    assert "mmdebstrap" in found["base images", "fail"]["fix"]
    assert "REPROKIT_REGISTY is not known; did you mean 'REPROKIT_REGISTRY'?" in document["findings"][2]["text"]
    assert "the proxy of this site at 127.0.0.1:9 cannot be connected to" in found["network", "warn"]["text"]
    assert "--engine venv" in next(one["text"] for one in document["findings"] if one["check"] == "venv")
    assert ("buildkit", "ok") not in found


@pytest.mark.system
def test_a_configuration_that_cannot_be_read_does_not_stop_the_doctor(tmp_path: Path) -> None:
    (tmp_path / "reprokit.toml").write_text("jobs = 0\n")
    done = doctor_process(tmp_path, nothing(tmp_path))
    assert done.returncode == 3
    assert "reprokit.toml:1: jobs: expected a whole" in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1].startswith("3 things prevent runs")


@pytest.mark.system
def test_a_fake_gpu_is_seen_with_the_cuda_versions_that_it_can_run(tmp_path: Path) -> None:
    newest = gpus.list_cuda(Catalog())[-1]
    fake = FakeNvml(tmp_path)
    fake.gpus(f"GPU-a|{V100}|ok", f"GPU-b|{H200}|mig", f"GPU-c|{H200}|lost", driver="535.104.05", cuda=12020)
    done = doctor_process(tmp_path, {**nothing(tmp_path), **fake.environment}, "--json")
    found = [(one["check"], one["status"], one["text"]) for one in json.loads(done.stdout)["findings"]]
    assert ("gpu", "ok", "NVIDIA driver 535.104.05, for CUDA up to 12.2") in found
    assert ("gpu", "warn", "NVML says: GPU 2: GPU is lost") in found
    assert any(
        text.startswith("GPU 1: NVIDIA H200") and "is in MIG mode, and has no instance" in text for _, _, text in found
    )
    assert [(status, text) for check, status, text in found if check == "cuda"] == [
        ("ok", "CUDA 9.1 to 12.9 can run on this host"),
        (
            "info",
            (
                "CUDA 12.3 to 12.9: newer than the driver, which is for CUDA up to 12.2. Programs run, but not with "
                "features new in that version, nor with PTX made by it"
            ),
        ),
        ("info", "not CUDA 7.5: Tesla V100-SXM2-16GB (sm_70) needs CUDA >= 9.0"),
        (
            "info",
            (
                f"not CUDA 13.0 to {newest}: needs an NVIDIA driver >= 580; this host has 535.104.05. Forward "
                "compatibility, which data-centre GPUs have from driver 535 on, needs NVIDIA's package cuda-compat in "
                "the image, which the images nvidia/cuda have; Tesla V100-SXM2-16GB (sm_70) is no longer known to "
                "CUDA >= 13.0"
            ),
        ),
    ]


def test_lines_fit_the_terminal_and_commands_are_not_wrapped() -> None:
    long = "sudo apt-get install " + "a-very-long-name " * 8
    found = [
        Finding(check="one", status=Status.OK, text="all is well " * 12),
        Finding(check="one", status=Status.WARN, text="short", fix=long.strip()),
        Finding(check="two", status=Status.INFO, text="short", fix="set this or that in the configuration " * 4),
    ]
    shown = [click.unstyle(on_terminal(line)) for line in lines(found, 80)]
    assert [line for line in shown if len(line) > 80 and "$" not in line] == []
    assert any(line.endswith(long.strip()) for line in shown)
    assert shown[0] == "one"
    assert "nothing prevents runs; 1 warning" in shown[-1]
    assert "no problems found" in lines(found[:1], 80)[-1]


# -- the engine --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "podman", "status", "words"),
    [
        ("20.10.24+dfsg1", False, "ok", ""),
        ("29.0.1", False, "ok", ""),
        ("19.03.15", False, "fail", "older than 20.10"),
        ("30.0.0", False, "info", "newer than 29"),
        ("4.3.1", True, "ok", ""),
        ("3.4.4", True, "fail", "older than 4.0"),
    ],
)
def test_versions_of_engines(tmp_path: Path, version: str, podman: bool, status: str, words: str) -> None:
    found = rows(engines.check(ground(tmp_path, **engine(version, podman=podman))))
    assert any(one == status and words in text for one, text, _ in found)
    if status == "ok":
        assert {one for one, _, _ in found} == {"ok"}


@pytest.mark.parametrize(
    ("programs", "values", "fix"),
    [
        ((), {}, "install podman"),
        (("dockerd",), {}, "docker"),
        (("podman",), {}, "podman"),
        (("podman",), {"settings": Settings(engine="podman")}, "podman"),
    ],
)
def test_how_an_engine_is_started(tmp_path: Path, programs: tuple[str, ...], values: dict[str, Any], fix: str) -> None:
    program(tmp_path, *programs)
    ((status, text, command),) = rows(
        engines.check(ground(tmp_path, unreachable="no engine listens: start it", **values))
    )
    assert (status, text) == ("fail", "no engine listens")
    assert fix in command


def test_an_ssh_that_does_not_connect_is_shown_with_the_command_to_try(tmp_path: Path) -> None:
    said = 'ssh to far ended with status 255 and said "ssh: connect to host far: Connection refused"'
    environ = {"PATH": str(tmp_path), "DOCKER_HOST": "ssh://me@far:22/run/docker.sock; rm -r x"}
    ((status, text, fix),) = rows(engines.check(ground(tmp_path, unreachable=said, environ=environ)))
    assert (status, text) == ("fail", said)
    assert fix.startswith("ssh -o BatchMode=yes -- ssh://me@far:22 docker version")


def test_an_engine_on_another_machine_is_named_as_one(tmp_path: Path) -> None:
    far = engine(url="ssh://far")
    assert any("another machine" in text for _, text, _ in rows(engines.check(ground(tmp_path, **far))))
    assert not ground(tmp_path, **far).is_local
    assert not any("another machine" in text for _, text, _ in rows(engines.check(ground(tmp_path, **engine()))))


def test_the_configured_engine_venv_needs_no_container_engine(tmp_path: Path) -> None:
    here = ground(tmp_path, unreachable="no engine listens: start it", settings=Settings(engine="venv"))
    assert [status for status, _, _ in rows(engines.check(here))] == ["info"]


def python(version: str) -> Interpreter:
    return Interpreter(version=version, path=f"/usr/bin/python{version}", prefix="/usr", build=version)


@pytest.mark.parametrize(
    ("versions", "uv", "chosen", "wanted"),
    [
        (
            ["3.12.1", "3.9.18", "3.12.4"],
            "0.9.1",
            False,
            [("ok", "Python 3.9, 3.12, from this host, with uv 0.9.1"), ("info", "an untrusted one needs a container")],
        ),
        (["3.11.2"], "", False, [("info", "uv, which provides others, was not found"), ("info", "")]),
        ([], "0.9.1", False, [("info", "found no Python")]),
        ([], "", True, [("fail", "found no Python")]),
        (["3.11.2"], "1.0", True, [("ok", ""), ("warn", "cpus, network, pids are unsupported")]),
    ],
)
def test_what_the_engine_venv_can_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    versions: list[str],
    uv: str,
    chosen: bool,
    wanted: list[tuple[str, str]],
) -> None:
    monkeypatch.setattr(venv_host, "pythons", lambda: map(python, versions))
    monkeypatch.setattr(venv_host, "uv_version", lambda: uv)
    found = rows(itself.check_venv(ground(tmp_path, settings=Settings(engine="venv" if chosen else "auto"))))
    assert [status for status, _, _ in found] == [status for status, _ in wanted]
    assert all(words in text for (_, text, _), (_, words) in zip(found, wanted, strict=True))


def test_an_api_that_is_newer_than_what_was_tested_is_said(tmp_path: Path) -> None:
    newer = engine("29.9.1") | {"version": EngineVersion(version="29.9.1", api="1.99")}
    assert any(one == "info" and "1.99" in text for one, text, _ in rows(engines.check(ground(tmp_path, **newer))))


def test_limits_that_the_engine_cannot_enforce(tmp_path: Path) -> None:
    assert rows(engines.limits(ground(tmp_path, **engine(info={"MemoryLimit": True}))))[0][0] == "ok"
    weak = {"MemoryLimit": True, "SwapLimit": False, "PidsLimit": False, "SecurityOptions": ["name=rootless"]}
    ((status, text, fix),) = rows(engines.limits(ground(tmp_path, **engine(info=weak))))
    assert (status, "swap and process limits" in text, "Delegate=" in fix) == ("warn", True, True)


# -- disk, base images, leftovers --------------------------------------------------------------------------------------


def test_a_full_disk_prevents_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ground(tmp_path, **engine(info={"DockerRootDir": str(tmp_path)}))
    for free, status in ((1e9, "fail"), (10e9, "warn"), (100e9, "ok")):
        monkeypatch.setattr(kept.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free, total=200e9))
        assert {one for one, _, _ in rows(kept.check_disk(here))} == {status}
    monkeypatch.setattr(kept.os, "access", lambda *_: False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    fixes = [
        fix for status, text, fix in rows(kept.check_disk(here)) if status == "fail" and "cannot be written" in text
    ]
    assert "export REPROKIT_STORE=<a folder of yours>" in fixes
    far = ground(tmp_path, **engine(info={"DockerRootDir": "/data", "Name": "another"}))
    assert "which this process cannot access" in rows(kept.check_disk(far))[0][1]


@pytest.mark.parametrize(
    ("wanted", "answers", "programs", "statuses"),
    [
        ("auto", True, ("mmdebstrap",), ["ok", "ok"]),
        ("auto", True, (), ["ok", "info"]),
        ("auto", False, ("mmdebstrap",), ["info", "ok"]),
        ("auto", False, (), ["fail"]),
        ("registry", False, ("mmdebstrap",), ["fail"]),
        ("bootstrap", True, (), ["fail"]),
        ("bootstrap", False, ("mmdebstrap",), ["ok"]),
    ],
)
def test_where_base_images_come_from(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    answers: bool,
    programs: tuple[str, ...],
    statuses: list[str],
) -> None:
    monkeypatch.setattr(itself, "answering", lambda *_: answers)
    program(tmp_path, *programs)
    found = rows(itself.check_bases(ground(tmp_path, settings=Settings(base_images=wanted))))
    assert [status for status, _, _ in found] == statuses
    assert all(fix for status, _, fix in found if status == "fail")


def test_folders_of_processes_that_have_exited_are_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept.ownership, "orphan_folders", list)
    assert [status for status, _, _ in rows(kept.check_leftovers(ground(tmp_path)))] == ["ok"]
    left = tmp_path / "reprokit-left"
    left.mkdir()
    (left / "big").write_bytes(b"x" * 100_000)
    (tmp_path / "cache/reprokit/sources/trees/abc").mkdir(parents=True)
    (tmp_path / "cache/reprokit/sources/trees/abc/one").write_bytes(b"x" * 50_000)
    monkeypatch.setattr(kept.ownership, "orphan_folders", lambda: [left])
    (status, text, fix), cached, *_ = rows(kept.check_leftovers(ground(tmp_path)))
    assert (status, fix) == ("warn", f"rm -rf {left}")
    assert text.startswith("1 temporary folder of processes that have exited, 1")
    assert cached[1].startswith("source tree: 1, 5")
    assert cached[2] == "reprokit gc"


def test_containers_of_owners_that_have_exited_or_cannot_be_seen_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = ownership.ownership()
    unseen = {**mine, ownership.HOST: "runner-7/0000/pid:[9]", ownership.LOCK: "", ownership.MACHINE: ""}
    labels = {"a": mine, "b": {**mine, ownership.PID: "4194305"}, "c": unseen, "d": unseen}

    class Client:
        def images(self, **_: object) -> list[dict[str, Any]]:
            return []

        def containers(self, **_: object) -> list[dict[str, Any]]:
            return [{"Id": name * 64, "Labels": own} for name, own in labels.items()]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept.ownership, "orphan_folders", list)
    monkeypatch.setattr(kept, "holders", lambda *_: [])
    values = engine()
    values["engine"].wire.client = Client
    assert rows(kept.check_leftovers(ground(tmp_path, **values))) == [
        (
            "warn",
            "1 container of runs that were killed (the next run removes them)",
            f"docker rm -fv {'b' * 12}",
        ),
        (
            "info",
            (
                f"2 containers of process {os.getpid()} on the machine runner-7, which cannot be seen from here "
                "and may be alive (remove them only if it has exited)"
            ),
            f"docker rm -fv {'c' * 12} {'d' * 12}",
        ),
    ]


def test_what_gc_keeps_is_listed_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FakeEngine()
    made.built, made.image_bytes = ["reprokit/img:1", "reprokit/img:2"], 1_000_000_000
    made.program = "docker"  # type: ignore[attr-defined]
    made.wire = SimpleNamespace(client=lambda: SimpleNamespace(containers=lambda **_: []))  # type: ignore[attr-defined]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept.ownership, "orphan_folders", list)
    found = rows(kept.check_leftovers(ground(tmp_path, engine=made)))
    assert found[1:] == [("info", "image: 2, 2.0 GB", "reprokit gc")]


def test_a_stale_lock_is_named(tmp_path: Path) -> None:
    assert [status for status, _, _ in rows(kept.check_locks(ground(tmp_path)))] == ["ok"]
    (tmp_path / "gone.lock.yaml").write_text("what: ever\n")
    ((status, text, fix),) = rows(kept.check_locks(ground(tmp_path)))
    assert (status, text.startswith("gone.lock.yaml is stale: "), fix) == ("warn", True, "rm gone.lock.yaml")


def test_sizes_have_decimal_units() -> None:
    assert [size(value) for value in (12, 1_500, 35e6, 1.25e9, 76e9, 2e12)] == [
        "12 B", "1.5 kB", "35 MB", "1.2 GB", "76 GB", "2.0 TB"
    ]  # fmt: skip


def test_the_programs_that_every_engine_needs(tmp_path: Path) -> None:
    assert next(fix for status, _, fix in rows(itself.check_reprokit(ground(tmp_path))) if status == "warn").endswith(
        "git"
    )
    program(tmp_path, "git")
    assert {status for status, _, _ in rows(itself.check_reprokit(ground(tmp_path)))} == {"ok"}
