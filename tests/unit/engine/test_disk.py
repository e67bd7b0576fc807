"""What of an engine's disk is ours. The real engine is in ``tests/integration/test_gc.py``."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.engine import disk, wire
from reprokit.engine.disk import _cached, _is_ours, _kind, _other_name
from reprokit.engine.protocol import BUILD_CACHE, OTHER_CACHE, EngineInfo
from reprokit.engine.wire import EngineDetails


def record(
    number: str, parent: str = "", what: str = "mount / from exec /bin/sh -c true", **more: Any
) -> dict[str, Any]:
    return {"ID": number, "Parent": parent, "Description": what, "Size": 10, "LastUsedAt": "", **more}


STEP = "mount / from exec /bin/sh -c . /run/reprokit/site.sh  && pip install numpy"


def test_a_record_is_ours_by_its_step_or_by_what_it_lies_on() -> None:
    records = {
        one["ID"]: one
        for one in (
            record("base"),
            record("ours", "base", STEP),
            record("upper", "ours"),
            record("theirs", "base"),
            record("new", "", "[2/3] RUN --mount=type=bind,target=/run/reprokit/site.sh . /run/reprokit/site.sh"),
            {**record("above"), "Parents": ["theirs", "upper"]},
            {**record("of 29"), " Parents": ["ours"]},  # moby's api/types/build/cache.go has the space
            {**record("round"), "Parents": ["round"]},
        )
    }
    assert {number for number in records if _is_ours(number, records)} == {"ours", "upper", "new", "above", "of 29"}


def test_layers_on_each_other_are_one_thing_and_mounts_are_by_themselves() -> None:
    private = {
        one["ID"]: one
        for one in (
            record("a", "used", STEP, ours=True, LastUsedAt="2026-01-01T00:00:00.123456789Z"),
            record("b", "a", ours=True, LastUsedAt="2026-01-02T00:00:00Z", InUse=True),
            record("pip", "", "cached mount /root/.cache/pip from exec /bin/sh -c . /run/reprokit/site.sh", ours=True),
            record("x", ours=False),
        )
    }
    layers, pip, other = _cached(private)
    assert (layers.kind, layers.key, set(layers.parts), layers.bytes) == (BUILD_CACHE, "a", {"a", "b"}, 20)
    assert (layers.stays, layers.used) == ("a build uses it", wire.moment_of("2026-01-02T00:00:00+00:00"))
    assert pip.name == "mount /root/.cache/pip"
    assert other.kind == OTHER_CACHE


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"org.reprokit.image": "1", "org.reprokit.base.release": "debian-12"}, "image"),
        ({"org.reprokit.base.release": "debian-12"}, "base image"),
        ({"maintainer": "another"}, ""),
    ],
)
def test_labels_alone_say_what_an_image_is(labels: dict[str, str], kind: str) -> None:
    assert _kind(labels) == kind


def test_a_name_that_is_not_ours_is_found() -> None:
    assert _other_name({"RepoTags": ["reprokit/img:1", "docker.io/reprokit/img:2"]}) == ""
    assert _other_name({"RepoTags": ["<none>:<none>"]}) == ""
    assert _other_name({"RepoTags": ["reprokit/img:1", "reprokit-mine:1"]}).endswith("reprokit-mine:1")


def test_an_engine_that_counts_for_another_program_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = SimpleNamespace(status_code=409, text='{"message":"a disk usage operation is already running"}')
    done = SimpleNamespace(status_code=200, text="{}", raise_for_status=lambda: None)
    answers = [busy, busy, done]
    monkeypatch.setattr(disk.time, "sleep", lambda seconds: None)
    assert disk._in_turn(lambda: answers.pop(0)) is done


def test_what_the_containerd_store_keeps_compressed_counts_once_for_layers_that_images_share() -> None:
    layers = {"base": {"x": 100}, "one": {"x": 100, "y": 10, "z": 30}, "two": {"x": 100, "y": 10, "w": 60}}
    found = disk._with_content(layers, {"base": 150, "one": 210, "two": 275})
    assert found["base"] == {"x": 150}
    assert found["one"] == {"x": 150, "y": 15, "z": 45}
    assert found["two"] == {"x": 150, "y": 15, "w": 110}
    assert disk._with_content(layers, {"base": 100, "one": 140, "two": 170}) == layers, "without that store"


def test_the_disk_of_images_is_that_of_the_containerd_which_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def root(**more: Any) -> str:
        return EngineDetails.read({"DockerRootDir": "/data", **more}).find_data_root()

    in_containerd = [["driver-type", "io.containerd.snapshotter.v1"]]
    monkeypatch.setattr(wire, "_CONTAINERD_CONFIG", tmp_path / "config.toml")
    own = {"Address": "/run/docker/containerd/containerd.sock"}
    assert root(DriverStatus=[["Backing Filesystem", "extfs"]]) == "/data"
    assert root(DriverStatus=in_containerd, Containerd=own) == "/data", "it keeps that one's root below its own"
    assert root(DriverStatus=in_containerd) == "/var/lib/containerd"
    hosts = {"Address": "/run/containerd/containerd.sock"}
    for quote in "\"'":  # by hand, and as `containerd config default` of containerd 2 writes it
        (tmp_path / "config.toml").write_text(f"version = 2\nroot = {quote}/big{quote}\n")
        assert root(DriverStatus=in_containerd, Containerd=hosts) == "/big"


@pytest.mark.parametrize(("offset", "ahead"), [(0.0, 0.0), (0.9, 0.0), (-30.0, -30.0), (40 * 86400.0, 40 * 86400.0)])
def test_the_engines_clock_is_compared_with_this_hosts(
    offset: float, ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "time", SimpleNamespace(time=lambda: 1.7e9))

    class Answering(wire.Wire):
        def client(self) -> Any:
            said = datetime.fromtimestamp(1.7e9 + offset, timezone(timedelta(hours=8)))
            return SimpleNamespace(info=lambda: {"SystemTime": f"{said:%Y-%m-%dT%H:%M:%S.%f}123+08:00"})

    asked = Answering(where=wire.Endpoint(url="unix:///nowhere"))
    assert asked.ahead() == pytest.approx(ahead, abs=1.5)
    info = EngineInfo(kind="docker", name="Docker Engine", version="29.1", ahead=asked.ahead())
    words = {0.0: "", -30.0: "of Docker Engine 29.1 is ", 40 * 86400.0: "is 960 h ahead of this host's"}
    assert words[ahead] in info.clocks
    assert bool(info.clocks) is bool(ahead)
