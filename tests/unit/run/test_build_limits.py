"""A build that passes a limit is stopped, and never becomes a finding."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from reprokit.core.errors import BuildFailed, Cancelled, EngineError
from reprokit.engine.failure import LONGEST_LINE
from reprokit.engine.podman.engine import Steps
from reprokit.engine.protocol import Build, EngineInfo, Progress
from reprokit.evidence.model import Verdict
from reprokit.run import building as build_limits
from reprokit.run.building import BuildWatch, host_is_short
from tests.unit.run.test_runner import Project

ENGINE = EngineInfo(kind="fake", name="Fake", version="1")
LATE = 30.0


def proc(folder: Path, available: int = 8_000_000, tasks: int = 300, swap: int = 0) -> Path:
    """A /proc of a host with 16 GB."""
    (folder / "sys/kernel").mkdir(parents=True)
    swaps = f"SwapTotal:       {swap} kB\nSwapFree:       {swap} kB\n"
    (folder / "meminfo").write_text(f"MemTotal:       16000000 kB\nMemAvailable:   {available} kB\n{swaps}")
    (folder / "loadavg").write_text(f"0.1 0.1 0.1 2/{tasks} 4711\n")
    (folder / "sys/kernel/pid_max").write_text("32768\n")
    (folder / "sys/kernel/threads-max").write_text("100000\n")
    return folder


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({}, ""),
        ({"available": 300_000}, "of this host's memory were left"),
        ({"available": 300_000, "swap": 8_000_000}, ""),
        ({"tasks": 16385}, "16385 processes and threads, of at most 32768"),
        ({"tasks": 16384}, ""),
    ],
)
def test_a_host_that_runs_short_is_noticed(tmp_path: Path, host: dict[str, int], words: str) -> None:
    found = host_is_short(tmp_path, proc(tmp_path / "proc", **host))
    assert words in found
    assert bool(found) is bool(words)


def test_a_full_disk_is_noticed_and_another_kernel_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host_is_short(tmp_path, tmp_path / "nothing") == ""
    there = proc(tmp_path / "proc")
    assert host_is_short(tmp_path / "not-there", there) == ""
    monkeypatch.setattr(build_limits, "LEAST_DISK", 1 << 62)
    assert f"left on the disk of {tmp_path}" in host_is_short(tmp_path, there)


@pytest.mark.parametrize("error", [Cancelled("stopped"), EngineError("cut"), BuildFailed("canceled")])
def test_what_a_stopped_build_raises_becomes_the_limit(error: Exception) -> None:
    watch = BuildWatch(threading.Event(), 0.0, ENGINE)
    seen: list[Progress] = []
    follow = watch.follow(seen.append)
    follow(Progress(number=1, total=1, name="RUN first"))
    follow(Progress(number=1, total=1, name="RUN first", log="gone\n"))
    follow(Progress(number=2, total=2, name="RUN sleep\nmore"))
    follow(Progress(number=2, total=2, name="RUN sleep\nmore", log="one\ntwo\n"))

    def stopped() -> None:
        with watch.watching():
            assert watch.stop.wait(LATE)
            raise error

    with pytest.raises(BuildFailed, match=r"stopped in the step sleep more after .*max_build_time") as failed:
        stopped()
    assert (failed.value.step, failed.value.tail) == ("RUN sleep\nmore", ("one", "two"))
    assert len(seen) == 4


def test_a_build_in_time_raises_what_it_raises() -> None:
    for error in (EngineError("cut"), BuildFailed("exit code 1"), ValueError("defect")):
        watch = BuildWatch(threading.Event(), 3600.0, ENGINE)
        with pytest.raises(type(error), match=str(error)), watch.watching():
            raise error
    with BuildWatch(threading.Event(), None, ENGINE).watching():
        pass


def test_an_interrupt_stops_a_build_as_an_interrupt() -> None:
    cancel = threading.Event()
    watch = BuildWatch(cancel, 3600.0, ENGINE)

    def stopped() -> None:
        with watch.watching():
            cancel.set()
            assert watch.stop.wait(LATE)
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        stopped()


def test_a_build_that_takes_too_long_is_build_failed_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROKIT_MAX_BUILD_TIME", "0.3")
    project = Project(tmp_path)
    build = project.engine.build

    def slow(request: Build, site: object, on_progress: object, cancel: threading.Event) -> object:
        assert cancel.wait(LATE)
        return build(request, site, on_progress, cancel)  # type: ignore[arg-type]

    project.engine.build = slow  # type: ignore[method-assign,assignment]
    assert project.run() == 3
    assert {cell.verdict for cell in project.cells} == {Verdict.BUILD_FAILED}
    assert all("max_build_time" in cell.reason for cell in project.cells)
    assert not project.engine.trials


def test_output_without_line_ends_is_taken_in_pieces() -> None:
    steps = Steps(lambda progress: None)
    steps.feed("STEP 1/1: RUN yes\n")
    for _ in range(64):
        steps.feed("a" * 16384)
    _, tail = steps.last()
    assert "".join(tail) == "a" * 64 * 16384
    assert max(map(len, tail)) <= LONGEST_LINE + 16384
