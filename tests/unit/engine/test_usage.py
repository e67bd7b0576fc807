"""What a trial uses, read from files as the kernel has them in either version of control groups."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path

import pytest

from reprokit.engine.usage import MOST, Meter, folders_of, meter_container
from reprokit.evidence.usage import Usage

ID = "f00d" * 16


def first_version(root: Path) -> dict[str, Path]:
    for name, text in {
        "memory/memory.max_usage_in_bytes": "109412352\n",
        "memory/memory.stat": "cache 4096\nrss 8192\ntotal_cache 4096\ntotal_rss 98304\ntotal_rss_huge 0\n",
        "cpuacct/cpuacct.usage": "1500000000\n",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return {"memory": root / "memory", "cpuacct": root / "cpuacct"}


def second_version(root: Path) -> dict[str, Path]:
    for name, text in {
        "memory.peak": "2048\n",
        "memory.stat": "anon 1024\nfile 77\n",
        "cpu.stat": "usage_usec 250000\nuser_usec 200000\nsystem_usec 50000\n",
    }.items():
        (root / name).write_text(text)
    return {"": root}


def test_both_versions_of_control_groups(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for folders, expected in (
        (first_version(tmp_path / "one"), Usage(cpu_seconds=1.5, peak_memory=109412352)),
        (second_version(tmp_path / "two"), Usage(cpu_seconds=0.25, peak_memory=2048)),
    ):
        meter = Meter(folders)
        meter.look(last=True)
        assert meter.usage == expected


def test_a_kernel_without_a_peak_has_the_largest_that_was_seen(tmp_path: Path) -> None:
    folders = second_version(tmp_path)
    (tmp_path / "memory.peak").unlink()
    meter = Meter(folders)
    for memory in (100, 300, 200):
        (tmp_path / "memory.current").write_text(f"{memory}\n")
        meter.look(last=True)
    assert meter.usage == Usage(cpu_seconds=0.25, peak_memory=300)


def test_what_was_seen_stays_when_the_group_is_gone(tmp_path: Path) -> None:
    meter = Meter(second_version(tmp_path))
    meter.look(last=True)
    for file in tmp_path.iterdir():
        file.unlink()
    meter.look(last=True)
    assert meter.usage == Usage(cpu_seconds=0.25, peak_memory=2048)


def test_nothing_is_known_of_what_cannot_be_read(tmp_path: Path) -> None:
    for folders in ({}, {"": tmp_path / "absent"}):
        meter = Meter(folders)
        meter.taking(lambda data: None)(b"reprokit: iteration 1\n")
        meter.look(last=True)
        assert meter.usage is None


def test_the_memory_is_read_at_each_mark_and_the_output_passed_on(tmp_path: Path) -> None:
    meter = Meter(first_version(tmp_path))
    out: list[bytes] = []
    take = meter.taking(out.append)
    lines = b"ation 1\nreprokit: iteration 2\r\nx reprokit: iteration 3\n"
    pieces = [b"reprokit: iter", lines, b"reprokit: iteration 4"]
    for piece in [*pieces, b"2\n"]:
        take(piece)
    assert b"".join(out) == b"".join(pieces) + b"2\n"
    assert meter.usage is not None
    assert meter.usage.iterations == ((2, 98304), (42, 98304))  # of marks that came at once, the last


def test_marks_without_end_are_thinned(tmp_path: Path) -> None:
    meter = Meter(first_version(tmp_path))
    take = meter.taking(lambda data: None)
    for number in range(5 * MOST):
        take(b"reprokit: iteration %d\n" % number)
    assert meter.usage is not None
    numbers = [number for number, _ in meter.usage.iterations]
    assert MOST // 2 <= len(numbers) < MOST
    assert numbers[-1] > 5 * MOST - 20
    take(b"reprokit: iteration 0\n")  # a number that goes back
    assert meter.usage.iterations[-1][0] == numbers[-1]


def test_the_groups_of_a_container() -> None:
    root = Path("/g")
    first = f"9:cpu,cpuacct:/docker/{ID}\n8:memory:/docker/{ID}\n7:pids:/\n0::/docker/{ID}\n"
    assert folders_of(first, ID, root) == {
        "cpu": root / f"cpu/docker/{ID}",
        "cpuacct": root / f"cpuacct/docker/{ID}",
        "memory": root / f"memory/docker/{ID}",
        "": root / f"docker/{ID}",  # beside the first version, the second has no controllers
    }
    assert folders_of(f"0::/system.slice/docker-{ID}.scope\n", ID, root) == {
        "": root / f"system.slice/docker-{ID}.scope"
    }
    assert folders_of("0::/user.slice/session\n", ID, root) == {}  # another process of that number


def test_the_end_of_its_process_is_the_last_look(tmp_path: Path) -> None:
    folders = second_version(tmp_path)
    child = subprocess.Popen(["sleep", "600"])
    meter = Meter(folders, process=os.pidfd_open(child.pid))
    meter.look()
    assert select.select([meter.process], [], [], 0)[0] == []
    (tmp_path / "memory.peak").write_text("4096\n")
    child.kill()
    assert select.select([meter.process], [], [], 60)[0] == [meter.process]
    meter.ended()
    assert meter.usage == Usage(cpu_seconds=0.25, peak_memory=4096)
    assert meter.process == -1
    child.wait()


def test_a_process_that_is_still_watched_is_let_go(tmp_path: Path) -> None:
    meter = Meter(second_version(tmp_path), process=os.pidfd_open(os.getpid()))
    number = meter.process
    meter.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_python_without_process_descriptors_looks_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprokit.engine.usage.folders_of", lambda text, container: second_version(tmp_path))
    monkeypatch.delattr(os, "pidfd_open")
    meter = meter_container(os.getpid(), ID, kills=False)
    meter.look(last=True)
    assert meter.process == -1
    assert meter.usage is not None
