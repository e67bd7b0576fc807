"""The pure pieces of the engine: context archives, container descriptions, progress, endpoints."""

from __future__ import annotations

import io
import os
import signal
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import docker
import pytest

from reprokit.case import limits as limits_table
from reprokit.case.cellspec import FileSpec, Limits
from reprokit.core.errors import EngineError
from reprokit.engine import building, container_spec, images, wire, witness
from reprokit.engine.container_spec import docker_run_words
from reprokit.engine.containers import shielded
from reprokit.engine.docker import session
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.docker.session import TAIL, Trace
from reprokit.engine.protocol import Mount, Progress, Trial
from tests.conftest import as_files

MIB = 2**20


def members(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: member for member in tar.getmembers()}


def test_context_is_the_same_whatever_the_hosts_times_owners_and_order(tmp_path: Path) -> None:
    archives = []
    for number, names in enumerate((["b", "a"], ["a", "b"])):
        tree = tmp_path / str(number)
        (tree / "sub").mkdir(parents=True, mode=0o700 if number else 0o755)
        for name in names:
            (tree / "sub" / name).write_text(name * 1000)
        (tree / "sub" / "a").chmod(0o700 if number else 0o755)
        (tree / "to").symlink_to("sub/a")
        os.utime(tree / "sub" / "b", (number, number))
        files: dict[str, bytes | Path] = {"src/tree": tree, "z.txt": b"z"}
        ordered = dict(reversed(files.items())) if number else files
        archives.append(b"".join(building.pack_context("FROM scratch\n", ordered)))
    assert archives[0] == archives[1]
    found = members(archives[0])
    assert list(found) == sorted(found)
    assert {"Dockerfile", "src", "src/tree", "src/tree/sub/a", "src/tree/to", "z.txt"} <= set(found)
    assert found["src/tree/sub/a"].mode == 0o755
    assert found["src/tree/sub/b"].mode == 0o644
    assert found["src/tree/to"].linkname == "sub/a"
    year_1980 = 315532800  # the earliest that zip files can hold, such as the eggs of setup.py install
    assert {(member.uid, member.gid, member.mtime) for member in found.values()} == {(0, 0, year_1980)}


def test_context_streams_large_files_and_long_names(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(5 * MIB + 3)
    name = "deep/" * 40 + "ünïcode"
    pieces = list(building.pack_context("FROM scratch\n", {name: large}))
    assert max(map(len, pieces)) <= MIB
    assert members(b"".join(pieces))[name].size == 5 * MIB + 3


def test_context_says_which_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="absent"):
        list(building.pack_context("FROM scratch\n", {"x": tmp_path / "absent"}))


def body(**limits: object) -> dict[str, object]:
    trial = Trial(
        image="i",
        command=("true",),
        env={"A": "1"},
        workdir="/w",
        limits=Limits(**limits),
        labels={"l": "v"},  # type: ignore[arg-type]
    )
    return container_spec.create_body(trial, {"owner": "me"})


def test_containers_are_confined_by_default() -> None:
    made = body()
    host = made["HostConfig"]
    assert isinstance(host, dict)
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Init"] is True
    assert host["PidsLimit"] == limits_table.PIDS
    assert host["LogConfig"] == {"Type": "none"}
    assert "DeviceRequests" not in host
    assert made["User"] == "repro"
    assert made["Labels"] == {"owner": "me", "l": "v"}
    assert made["Entrypoint"] == []


def test_limits_mean_what_they_say() -> None:
    host = body(memory=8 * MIB, cpus=0.5, shm_size=MIB, pids=9, gpus=2)["HostConfig"]
    assert isinstance(host, dict)
    assert host["Memory"] == host["MemorySwap"] == 8 * MIB
    assert (host["NanoCpus"], host["ShmSize"], host["PidsLimit"]) == (500_000_000, MIB, 9)
    assert host["DeviceRequests"][0]["Count"] == 2
    assert "IpcMode" not in host


def test_limits_of_processes_shared_memory_of_the_host_and_capabilities_of_the_driver() -> None:
    limits = Limits(
        gpus=1, ipc="host", ulimits=("memlock=-1:-1", "nofile=1024:4096"), gpu_capabilities=("video", "compute")
    )
    trial = Trial(image="i", command=("true",), env={}, workdir="/w", limits=limits, gpus=("GPU-1",))
    made = container_spec.create_body(trial, {})
    host = made["HostConfig"]
    assert host["IpcMode"] == "host"
    assert host["Ulimits"][1:] == [
        {"Name": "memlock", "Soft": -1, "Hard": -1},
        {"Name": "nofile", "Soft": 1024, "Hard": 4096},
    ]
    assert host["DeviceRequests"][0]["Capabilities"] == [["gpu", "compute", "utility", "video"]]
    for_podman = container_spec.for_podman(made, {"nofile": 7, "nproc": 8})["HostConfig"]["Ulimits"]
    assert [one["Soft"] for one in for_podman if one["Name"] in ("nofile", "nproc")] == [1024, 8]
    spec = container_spec.libpod_spec("n", container_spec.create_body(trial, {}, cdi=["nvidia.com/gpu=0"]), limits)
    assert spec["ipcns"] == {"nsmode": "host"}
    assert {"type": "memlock", "soft": 2**64 - 1, "hard": 2**64 - 1} in spec["r_limits"]
    words = docker_run_words(trial)
    assert {"--ipc=host", "--ulimit=memlock=-1:-1", "--ulimit=nofile=1024:4096"} <= set(words)
    assert '--gpus="device=GPU-1","capabilities=compute,utility,video"' in words


def test_named_gpus_and_mounts() -> None:
    trial = Trial(
        image="i",
        command=("true",),
        env={},
        workdir="/w",
        limits=Limits(gpus=2),
        gpus=("GPU-1", "3"),
        mounts=(Mount(source=Path("/data"), target="/w/data"),),
    )
    host = container_spec.create_body(trial, {})["HostConfig"]
    assert host["DeviceRequests"] == [
        {"Driver": "", "Capabilities": [["gpu", "compute", "utility"]], "Options": {}, "DeviceIDs": ["GPU-1", "3"]}
    ]
    assert host["Mounts"] == [{"Type": "bind", "Source": "/data", "Target": "/w/data", "ReadOnly": True}]


def test_moments_keep_their_nanoseconds() -> None:
    assert witness.nanoseconds_of("1970-01-01T00:00:01.000000002Z") == 1_000_000_002
    assert witness.nanoseconds_of("1970-01-01T00:01:00Z") == 60 * 10**9
    assert witness.nanoseconds_of("1970-01-01T00:00:00.5Z") == 5 * 10**8


def vertex(digest: str, name: str, **fields: object) -> object:
    status = session.StatusResponse()
    added = status.vertexes.add(digest=digest, name=name, **fields)
    added.started.seconds = 1
    return status


def test_progress_names_steps_and_keeps_a_failing_steps_tail() -> None:
    seen: list[Progress] = []
    trace = Trace(seen.append, lambda text: text.replace("s3cret", "****"))
    trace.feed(vertex("d1", "[stage-1 2/3] RUN make s3cret").SerializeToString())  # type: ignore[attr-defined]
    for number in range(TAIL + 20):
        status = session.StatusResponse()
        status.logs.add(vertex="d1", msg=f"0%\r50%\rline {number} s3cret\n".encode())
        trace.feed(status.SerializeToString())
    status = session.StatusResponse()
    status.logs.add(vertex="d1", msg=b"unfinished")
    trace.feed(status.SerializeToString())
    trace.feed(vertex("d0", "[1/3] FROM x", error="context canceled").SerializeToString())  # type: ignore[attr-defined]
    trace.feed(vertex("d1", "[stage-1 2/3] RUN make s3cret", error="exit code: 2").SerializeToString())  # type: ignore[attr-defined]
    assert (seen[0].number, seen[0].total, seen[0].name) == (2, 3, "RUN make ****")
    step, tail, error = trace.failed()
    assert step == "RUN make ****"
    assert error == "exit code: 2"
    assert tail[-2:] == (f"line {TAIL + 19} ****", "unfinished")
    assert len(tail) == TAIL + 1
    assert not any("s3cret" in one.log for one in seen)


@pytest.mark.parametrize("place", ["[ 8/16]", "[8/16]", "[stage-1  8/16]", "[stage-1 8/16]"])
def test_steps_are_numbered_also_where_buildkit_aligns_the_numbers(place: str) -> None:
    seen: list[Progress] = []
    Trace(seen.append).feed(vertex("d1", f"{place} RUN make").SerializeToString())  # type: ignore[attr-defined]
    assert (seen[0].number, seen[0].total, seen[0].name) == (8, 16, "RUN make")


def test_messages_are_buildkits_wire_format() -> None:
    # Field 1, length-delimited, as protoc would write it.
    assert session.GetSecretResponse(data=b"ab").SerializeToString() == b"\x0a\x02ab"
    assert session.GetSecretRequest.FromString(b"\x0a\x03pip\x12\x04\x0a\x00\x12\x00").ID == "pip"
    assert session.HealthCheckResponse(status=1).SerializeToString() == b"\x08\x01"


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("debian", ("debian", "latest")),
        ("debian:12", ("debian", "12")),
        ("host:5000/debian", ("host:5000/debian", "latest")),
        ("host:5000/debian:12", ("host:5000/debian", "12")),
        ("debian@sha256:ab", ("debian", "sha256:ab")),
    ],
)
def test_references(reference: str, parts: tuple[str, str]) -> None:
    assert images.split(reference) == parts


def test_the_engine_is_found_as_the_docker_client_finds_it(tmp_path: Path) -> None:
    assert wire.endpoint({"DOCKER_HOST": "tcp://h:1"}).url == "tcp://h:1"
    with pytest.raises(EngineError, match="docker context 'nowhere'"):
        wire.endpoint({"DOCKER_CONTEXT": "nowhere"})


def test_no_engine_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no container engine listens at .*apt-get install docker.io"):
        DockerEngine({"DOCKER_HOST": f"unix://{tmp_path}/absent.sock"}).info()


@pytest.mark.parametrize(
    ("newest", "least", "spoken"), [("1.41", "1.12", "1.41"), ("1.99", "1.44", "1.52"), ("1.99", "1.90", "1.90")]
)
def test_no_newer_api_is_spoken_than_was_tested(
    newest: str, least: str, spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client(SimpleNamespace):
        def version(self, api_version: bool = True) -> dict[str, str]:
            return {"ApiVersion": newest, "MinAPIVersion": least}

    def client(url: str, version: str, **_: object) -> Client:
        return Client(api_version=newest if version == "auto" else version, _auth_configs={}, base_url="http://engine")

    monkeypatch.setattr(docker, "APIClient", client)
    assert wire.Wire(where=wire.Endpoint(url="unix:///none")).url("/info") == f"http://engine/v{spoken}/info"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"errorDetail": {"message": "denied"}, "error": "denied, too"}, "denied"),
        ({"errorDetail": {"message": "denied"}}, "denied"),
        ({"error": "denied"}, "denied"),
        ({"errorDetail": {"code": 5}}, '{"code": 5}'),
        ({"status": "Pushing"}, ""),
        (["error"], ""),
    ],
)
def test_errors_of_streams(line: object, error: str) -> None:
    assert wire.error_in(line) == error


def test_shielded_work_outlives_an_interrupt() -> None:
    done: list[str] = []

    def work() -> str:
        time.sleep(0.3)
        done.append("done")
        return "result"

    def interrupted() -> str:
        os.kill(os.getpid(), signal.SIGINT)  # by the work itself: a timer may come before it
        return work()

    with pytest.raises(KeyboardInterrupt):
        shielded(interrupted)
    assert done == ["done"]
    assert shielded(work) == "result"
    with pytest.raises(ZeroDivisionError):
        shielded(lambda: 1 // 0)


def test_the_archive_of_files_ends_where_its_readers_stop() -> None:
    data = container_spec.packed(as_files({"a/b.txt": "text\n"}))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == ["a", "a/b.txt"]
    header_and_text = 2 * tarfile.BLOCKSIZE
    assert len(data) == tarfile.BLOCKSIZE + header_and_text + 2 * tarfile.BLOCKSIZE


@pytest.mark.parametrize(
    ("output", "env", "argv"),
    [
        ("joined", {"A": "1"}, ["sh", "-c", 'exec "$@" 2>&1', "sh", "go", "a b"]),
        ("joined", {"A": "1", "b.c": "x y"}, ["sh", "-c", 'exec "$@" 2>&1', "sh", "env", "b.c=x y", "go", "a b"]),
        ("separate", {"A": "1", "b.c": "x y"}, ["go", "a b"]),
    ],
)
def test_a_command_writes_to_one_pipe_unless_its_case_is_about_the_streams(
    output: Literal["joined", "separate"], env: dict[str, str], argv: list[str]
) -> None:
    trial = Trial(image="i", command=("go", "a b"), env=env, workdir="/w", limits=Limits(output=output))
    assert container_spec.create_body(trial, {})["Cmd"] == argv


def test_files_of_a_case_are_packed_with_their_permissions() -> None:
    texts = {"plain": "x", "tool": "#!/bin/sh\n", "given": FileSpec(text="#!/bin/sh\n", mode=0o640)}
    found = members(container_spec.packed(as_files(texts)))
    assert {name: oct(entry.mode) for name, entry in found.items()} == {
        "plain": "0o644",
        "tool": "0o755",
        "given": "0o640",
    }
