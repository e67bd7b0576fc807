"""Who made a container, and whether that process is alive."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reprokit.core import ownership
from reprokit.core.ownership import OwnerState, Place, state_of_owner

MINE = {
    ownership.PID: "77",
    ownership.PID_START: "500",
    ownership.HOST: "box/boot-1/pid:[1]",
    ownership.MACHINE: "m1",
    ownership.LOCK: "12:/run/1/owner.lock",
}
OLD = {ownership.MACHINE: "", ownership.LOCK: ""}
"""What reprokit 0.1 did not label."""


def state(
    change: dict[str, str], host: str = "box/boot-1/pid:[1]", started: str | None = "500", held: bool | None = None
) -> OwnerState:
    place = Place(host, "m1", started_at=lambda pid: started, is_held=lambda name, *, same_kernel: held)
    return state_of_owner({**MINE, **change}, place)


@pytest.mark.parametrize(
    ("change", "started", "expected"),
    [
        ({}, "500", OwnerState.ALIVE),
        ({}, None, OwnerState.EXITED),
        ({}, "900", OwnerState.EXITED),  # the pid is another process by now
        ({}, "", OwnerState.ALIVE),  # there is one, and the system hides when it started
        (OLD, None, OwnerState.EXITED),
        ({ownership.HOST: "renamed/boot-1/pid:[1]"}, None, OwnerState.EXITED),
        ({ownership.PID: ""}, None, OwnerState.UNKNOWN),
        ({ownership.PID: "-1"}, None, OwnerState.UNKNOWN),
        ({ownership.PID: "1; rm"}, None, OwnerState.UNKNOWN),
        ({ownership.PID: "9" * 5000}, None, OwnerState.UNKNOWN),
    ],
)
def test_where_its_pid_means_something_the_process_tells(
    change: dict[str, str], started: str | None, expected: OwnerState
) -> None:
    assert state(change, started=started) is expected


@pytest.mark.parametrize(
    ("host", "held", "expected"),
    [
        ("box/boot-1/pid:[2]", True, OwnerState.ALIVE),
        ("box/boot-1/pid:[2]", False, OwnerState.EXITED),  # of a CI container that was killed
        ("other/boot-1/pid:[2]", False, OwnerState.EXITED),
        ("box/boot-1/pid:[2]", None, OwnerState.UNKNOWN),  # of a container whose files are not visible from here
        ("other/boot-2/pid:[1]", True, OwnerState.ALIVE),
        ("other/boot-2/pid:[2]", False, OwnerState.EXITED),
    ],
)
def test_from_elsewhere_its_lock_tells(host: str, held: bool | None, expected: OwnerState) -> None:
    assert state({}, host, None, held) is expected


def test_before_the_last_restart_of_this_machine_no_process_lives() -> None:
    after = "renamed/boot-2/pid:[1]"
    assert state({}, after, "500") is OwnerState.EXITED
    assert state({ownership.MACHINE: "m2"}, after, None) is OwnerState.UNKNOWN
    assert state(OLD, after, None) is OwnerState.UNKNOWN
    nowhere = Place("box/boot-2/pid:[1]", "", is_held=lambda name, *, same_kernel: None)
    assert state_of_owner({**MINE, ownership.MACHINE: ""}, nowhere) is OwnerState.UNKNOWN


def test_without_proc_the_host_name_and_the_pid_tell() -> None:
    mac = {ownership.HOST: "mac", ownership.PID_START: ""}
    assert state(mac, "mac", "") is OwnerState.ALIVE
    assert state(mac, "mac", None) is OwnerState.EXITED
    assert state(mac, "other-mac", None) is OwnerState.UNKNOWN


def test_what_is_not_ours_is_never_an_orphan() -> None:
    assert not ownership.is_orphan({})
    assert not ownership.is_orphan({"com.docker.compose.project": "x"})


def test_this_process_owns_what_it_labels() -> None:
    made = ownership.ownership("r1", "case-a", {"b": "2", "a": "1"})
    assert made[ownership.CELL] == '{"a": "1", "b": "2"}'
    assert made[ownership.PID] == str(os.getpid())
    assert state_of_owner(made) is OwnerState.ALIVE
    elsewhere = Place("x/boot-9/pid:[9]", made[ownership.MACHINE], started_at=lambda pid: None)
    assert state_of_owner(made, elsewhere) is OwnerState.ALIVE  # it holds its lock


def test_a_process_that_ended_is_gone() -> None:
    child = subprocess.Popen(["sleep", "60"])
    assert ownership.started(child.pid) is not None
    child.kill()
    # A zombie, not reaped yet, is gone as well.
    while ownership.started(child.pid) is not None:
        pass
    child.wait()
    assert ownership.started(child.pid) is None


def test_a_process_that_proc_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError()))
    monkeypatch.setattr(os, "kill", refuse)
    assert ownership.started(77) == ""


HOLDER = """
import sys
from pathlib import Path
from reprokit.core import ownership
print(ownership.hold_owner_lock(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    words = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child, child.stdout.readline().strip()


def test_the_kernel_releases_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    with holder(tmp_path / "new folder") as (child, name):
        assert ownership.is_owner_lock_held(name, same_kernel=True) is True
        child.kill()
        child.wait()
        assert ownership.is_owner_lock_held(name, same_kernel=True) is False


def test_a_process_that_ends_leaves_no_file(tmp_path: Path) -> None:
    run, kept = tmp_path / "run", tmp_path / "run with logs"
    with holder(run) as (_, name), holder(kept):
        assert [path.name for path in run.iterdir()] == [Path(name).name]
        (kept / "log").write_text("")
    assert not run.exists()
    assert [path.name for path in kept.iterdir()] == ["log"]
    assert ownership.is_owner_lock_held(name, same_kernel=True) is None


def test_a_free_lock_says_nothing_on_a_network_file_system_of_another_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holder(tmp_path) as (child, name):
        child.kill()
    monkeypatch.setattr(ownership, "is_local", lambda path: False)
    assert ownership.is_owner_lock_held(name, same_kernel=False) is None
    monkeypatch.setattr(ownership, "is_local", lambda path: True)
    assert ownership.is_owner_lock_held(name, same_kernel=False) is False


def test_a_copy_of_the_file_says_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as (_, name):
        inode, _, path = name.partition(":")
        copy = tmp_path / "copy.lock"
        copy.write_text("")
        assert ownership.is_owner_lock_held(f"{inode}:{copy}", same_kernel=True) is None
        link = tmp_path / "link.lock"
        link.symlink_to(path)
        assert ownership.is_owner_lock_held(f"{inode}:{link}", same_kernel=True) is None
        assert ownership.is_owner_lock_held("", same_kernel=True) is None
        assert ownership.is_owner_lock_held("1:\0", same_kernel=True) is None


def test_where_no_lock_can_be_made_the_pid_has_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert ownership.hold_owner_lock(tmp_path / "file") == ""


MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /home rw shared:5 master:2 - nfs4 server:/home rw
31 30 0:27 / /home/ann/My\\040Disk rw - xfs /dev/vdb rw
32 22 0:28 / /mnt rw - ext4 /dev/vdc rw
33 32 0:29 / /mnt rw - virtiofs share rw
"""


@pytest.mark.parametrize(
    ("path", "local"),
    [("/srv/x", True), ("/home/ann/x", False), ("/home/ann/My Disk/x", True), ("/homes/x", True), ("/mnt/x", False)],
)
def test_file_systems_of_one_machine(path: str, local: bool) -> None:
    assert ownership.is_local(path, MOUNTS) is local
