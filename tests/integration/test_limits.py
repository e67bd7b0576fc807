"""The limits of builds and trials, on the real engine: harmless programs that take more than they get."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.core.errors import BuildFailed, Unsupported
from reprokit.engine import usage
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import Build, ImageInfo, Progress
from reprokit.engine.site import Site
from reprokit.environment.granting import Caps
from reprokit.run import building as build_limits
from reprokit.run.admitting import grant_by_engine
from reprokit.run.building import BuildWatch
from tests.conftest import build_of, docker, never, remove_image, trial
from tests.servers import wait_until

pytestmark = pytest.mark.integration
MIB = 1024**2
LATE = 60.0

Building = Callable[[str, float], ImageInfo]


@pytest.fixture
def building(engine: DockerEngine, tiny: str) -> Iterator[Building]:
    """Builds one step on the tiny image, within so many seconds."""
    tag = f"reprokit-test/limits:{uuid.uuid4().hex[:8]}"

    def build(script: str, seconds: float) -> ImageInfo:
        request: Build = build_of(tag, f"FROM {tiny}\nRUN echo {uuid.uuid4().hex}; {script}\n")
        watch = BuildWatch(threading.Event(), seconds, engine.info())
        with watch.watching():
            return engine.build(request, Site(), watch.follow(_quiet), watch.stop)

    yield build
    assert not docker("images", "-q", tag).strip()
    remove_image(tag)


def _quiet(progress: Progress) -> None:
    """No one looks at the progress."""


def processes_with(mark: str) -> list[str]:
    """The command lines on this host that hold ``mark``; the engine stops them once it sees that we left."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def test_a_build_that_sleeps_is_stopped_at_its_time(building: Building) -> None:
    mark = f"{uuid.uuid4().int % 10**6 + 10**6}"
    with pytest.raises(BuildFailed, match=r"stopped in the step .*sleep.* after 20\.0 s.*max_build_time") as failed:
        # Twenty, since a busy machine needs some of them for the steps before.
        building(f"echo begun; sleep {mark}", 20.0)
    assert "sleep" in failed.value.step
    wait_until(lambda: not processes_with(f"sleep {mark}"))


def test_a_build_that_eats_memory_is_stopped(building: Building, monkeypatch: pytest.MonkeyPatch) -> None:
    # A line for this test alone: half of what is free now, so that the host never gets near its own.
    known = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free, total = (int(known[name].split()[0]) for name in ("MemAvailable", "MemTotal"))
    monkeypatch.setattr(build_limits, "LEAST_MEMORY", (free - 400_000) / total)
    with pytest.raises(BuildFailed, match="of this host's memory were left"):
        building("x=$(head -c 900000000 /dev/zero | tr '\\0' a); sleep 600", LATE)


def test_a_build_that_forks_is_stopped(building: Building, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    most = min(int(Path("/proc/sys/kernel", name).read_text()) for name in ("pid_max", "threads-max"))
    monkeypatch.setattr(build_limits, "MOST_TASKS", (tasks + 200) / most)
    mark = f"{uuid.uuid4().int % 10**6 + 10**6}"
    with pytest.raises(BuildFailed, match="processes and threads, of at most"):
        building(f"for i in $(seq 600); do sleep {mark} & done; wait", LATE)
    wait_until(lambda: not processes_with(f"sleep {mark}"))


def test_a_build_that_fills_the_disk_is_stopped(
    building: Building, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = engine.info().storage
    assert storage is not None
    disk = os.statvfs(storage)
    monkeypatch.setattr(build_limits, "LEAST_DISK", disk.f_bavail * disk.f_frsize - 200 * MIB)
    with pytest.raises(BuildFailed, match="left on the disk of"):
        building("dd if=/dev/zero of=/full bs=1000000 count=500; sleep 600", LATE)


def test_a_build_in_its_limits_is_built(engine: DockerEngine, tiny: str) -> None:
    tag = f"reprokit-test/limits:{uuid.uuid4().hex[:8]}"
    watch = BuildWatch(threading.Event(), LATE, engine.info())
    with watch.watching():
        engine.build(build_of(tag, f"FROM {tiny}\nRUN true\n"), Site(), watch.follow(_quiet), watch.stop)
    remove_image(tag)


@pytest.mark.parametrize("where", ["/tmp", "/workspace", "/home/repro"])
def test_a_trial_that_fills_the_disk_is_stopped(engine: DockerEngine, tiny: str, where: str) -> None:
    script = f"dd if=/dev/zero of={where}/full bs=1000000 count=300; sleep 600"
    greedy = trial(tiny, script, disk=100 * MIB)
    with pytest.raises(Unsupported, match=r"wrote 0\.\d+ GiB to its disk; it gets at most 0\.0977 GiB here"):
        engine.run(greedy, lambda data: None, never())
    assert not docker("ps", "-aq", "--filter", f"ancestor={tiny}").strip()


def test_a_trial_that_fills_a_volume_of_its_image_is_stopped(engine: DockerEngine, tiny: str) -> None:
    tag = f"reprokit-test/limits:{uuid.uuid4().hex[:8]}"
    engine.build(build_of(tag, f"FROM {tiny}\nVOLUME /data\n"), Site(), _quiet, never())
    try:
        greedy = trial(
            tag, "dd if=/dev/zero of=/data/full bs=1000000 count=300; sleep 600", disk=100 * MIB, user="root"
        )
        with pytest.raises(Unsupported, match="to its disk"):
            engine.run(greedy, lambda data: None, never())
    finally:
        remove_image(tag)


def test_a_trial_within_its_disk_is_not_disturbed(
    engine: DockerEngine, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "FIRST", 0.1)
    modest = trial(tiny, "dd if=/dev/zero of=/tmp/some bs=1000000 count=50; sleep 2", disk=100 * MIB)
    assert engine.run(modest, lambda data: None, never()).exit_code == 0


def test_a_trial_that_names_no_memory_has_a_limit(engine: DockerEngine, tiny: str) -> None:
    info = engine.info()
    assert info.memory > 0
    unnamed = trial(tiny, "true")
    limits = grant_by_engine(unnamed.limits, info, Caps())
    assert limits.memory is not None
    assert 0 < limits.memory < info.memory
    eats = trial(tiny, "x=$(head -c 300000000 /dev/zero | tr '\\0' a); echo done", memory=None)
    small = grant_by_engine(eats.limits, info, Caps(memory_share=100 * MIB / info.memory))
    ending = engine.run(trial(tiny, eats.command[-1], memory=small.memory), lambda data: None, never())
    assert ending.oom
