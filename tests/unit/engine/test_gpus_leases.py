"""Leases of GPUs: all or none, between processes and threads, gone with their holder, and safe in a shared folder."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError
from reprokit.engine.gpus import leases
from reprokit.engine.gpus.leases import LeaseHolder, Leases, default_folder
from reprokit.environment.host import Gpu

REPOSITORY = Path(__file__).parents[3]


def gpu(index: int, gib: int = 16) -> Gpu:
    return Gpu(index=index, uuid=f"GPU-{index}", name="V100", memory=gib << 30, compute="7.0")


FOUR = tuple(gpu(index) for index in range(4))


class Desk:
    """Leases in a folder, with what was asked before a GPU is used again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, bool]] = []
        self.used: dict[str, str] = {}
        self.leases = Leases(folder, run="run-1", in_use=self.in_use)

    def in_use(self, gpu: Gpu, died: LeaseHolder | None) -> str:
        self.asked.append((gpu.uuid, died is not None))
        return self.used.get(gpu.uuid, "")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "leases")


HOLD = """
import subprocess, sys, time
from pathlib import Path
from tests.unit.engine.test_gpus_leases import Desk, FOUR
claim = Desk(Path(sys.argv[1])).leases.claim(FOUR, int(sys.argv[2]))
assert claim.attempt()
if "child" in sys.argv:
    subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL)
print(",".join(gpu.uuid for gpu in claim.gpus), flush=True)
time.sleep(300)
"""


class Another:
    """A process that holds GPUs."""

    def __init__(self, folder: Path, count: int, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder), str(count), *words],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.gpus = self.process.stdout.readline().strip().split(",")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def another(desk: Desk) -> Iterator[type[Another]]:
    made: list[Another] = []

    class Kept(Another):
        def __init__(self, count: int, *words: str) -> None:
            super().__init__(desk.folder, count, *words)
            made.append(self)

    yield Kept  # type: ignore[misc]
    for process in made:
        process.end()


def test_a_lease_is_exclusive_and_given_back(desk: Desk) -> None:
    first, second, third = (desk.leases.claim(FOUR, 2) for _ in range(3))
    assert first.attempt()
    assert second.attempt()
    assert {gpu.uuid for gpu in (*first.gpus, *second.gpus)} == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}
    assert not third.attempt()
    assert f"GPU 0 (GPU-0) is held by pid {os.getpid()} of user " in third.waits_for()
    assert "(run run-1)" in third.waits_for()
    first.close()
    assert third.attempt()
    assert [gpu.uuid for gpu in third.gpus] == ["GPU-0", "GPU-1"]
    assert desk.leases.holder(FOUR[0]) is not None
    third.close()
    assert desk.leases.holder(FOUR[0]) is None


def test_the_smallest_that_suffice_are_leased(desk: Desk) -> None:
    gpus = (gpu(0, 80), gpu(1, 16), gpu(2, 40), gpu(3, 0))
    claim = desk.leases.claim(gpus, 2)
    assert claim.attempt()
    assert [found.index for found in claim.gpus] == [1, 2]
    last = desk.leases.claim(gpus, 2)
    assert last.attempt()
    assert [found.index for found in last.gpus] == [0, 3]


def test_one_that_waits_keeps_what_it_has_and_the_others_nothing(desk: Desk) -> None:
    holder = desk.leases.claim(FOUR, 2)
    assert holder.attempt()
    large, other, small = desk.leases.claim(FOUR, 3), desk.leases.claim(FOUR, 3), desk.leases.claim(FOUR, 1)
    assert not large.attempt()
    assert [gpu.uuid for gpu in large.gpus] == ["GPU-2", "GPU-3"]
    assert not other.attempt()
    assert other.gpus == ()
    assert not small.attempt()
    holder.close()
    assert large.attempt()
    assert small.attempt(), "what the first did not need is free"
    large.close()
    assert other.attempt()


@pytest.mark.system
def test_a_holder_that_is_killed_leaves_its_gpus_free_and_that_is_asked_about(
    desk: Desk, another: type[Another]
) -> None:
    holder = another(3, "child")  # type: ignore[call-arg, arg-type]
    assert holder.gpus == ["GPU-0", "GPU-1", "GPU-2"]
    claim = desk.leases.claim(FOUR, 2)
    assert not claim.attempt()
    assert f"held by pid {holder.process.pid} of user" in claim.waits_for()
    holder.kill()  # its child lives on, and holds nothing
    assert claim.attempt()
    assert desk.asked == [("GPU-0", True), ("GPU-3", False)]


@pytest.mark.system
def test_a_gpu_on_which_a_dead_holders_program_runs_is_not_leased(
    desk: Desk, another: type[Another], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ANSWER_HOLDS", 600.0)
    another(1).kill()  # type: ignore[call-arg, arg-type]
    desk.used = {"GPU-0": "container abc still uses it"}
    claim = desk.leases.claim(FOUR[:2], 2)
    assert not claim.attempt()
    assert "GPU 0 (GPU-0): container abc still uses it" in claim.waits_for()
    desk.used = {}
    assert not claim.attempt(), "the answer holds for a moment"
    assert desk.asked.count(("GPU-0", True)) == 1
    claim.close()
    assert desk.leases.claim(FOUR, 1).attempt()
    assert desk.asked.count(("GPU-0", True)) == 2, "who died is remembered until the GPU is leased again"


def test_the_files_can_be_locked_by_every_user_whatever_the_umask(desk: Desk) -> None:
    before = os.umask(0o077)
    try:
        assert desk.leases.claim(FOUR, 1).attempt()
    finally:
        os.umask(before)
    assert stat.S_IMODE(desk.folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE((desk.folder / "GPU-0").stat().st_mode) == 0o666
    assert not [path for path in desk.folder.iterdir() if path.name.startswith(".")]


def as_nobody(folder: Path) -> str:
    """What a claim on all four by the user nobody, in a process of its own, says."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writer, "w") as say:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                claim = Desk(folder).leases.claim(FOUR, 4)
                say.write(f"{claim.attempt()} {claim.waits_for()}")
                claim.close()
            except BaseException as error:
                say.write(repr(error))
            say.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_another_user_waits_and_then_takes_over() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        desk = Desk(Path(name) / "leases")
        claim = desk.leases.claim(FOUR, 4)
        assert claim.attempt()
        assert as_nobody(desk.folder).startswith(f"False GPU 0 (GPU-0) is held by pid {os.getpid()} of user root")
        claim.close()
        assert as_nobody(desk.folder) == "True "
        assert claim.attempt(), "and the files without an owner's name are ours again"


def test_a_folder_that_was_there_keeps_its_mode(desk: Desk) -> None:
    desk.folder.mkdir()
    desk.folder.chmod(0o750)
    assert desk.leases.claim(FOUR, 1).attempt()
    assert stat.S_IMODE(desk.folder.stat().st_mode) == 0o750, "it may be a user's home"


def test_a_folder_that_another_process_makes_at_the_same_moment_is_used(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    assert desk.leases.claim(FOUR, 2).attempt()
    assert desk.leases.claim(FOUR, 2).attempt()
    assert [path.name for path in desk.folder.parent.iterdir()] == [desk.folder.name]


def test_a_full_disk_is_said_and_nothing_stays_taken(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def write(file: int, data: bytes, offset: int) -> int:
        written.append(file)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data, offset)

    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", write)
    claim = desk.leases.claim(FOUR, 2)
    with pytest.raises(EngineError, match="No space left on device"):
        claim.attempt()
    claim.close()
    assert desk.leases.claim(FOUR, 4).attempt()
    assert desk.asked[-4:] == [(gpu.uuid, False) for gpu in FOUR], "no process is taken for killed"


def test_a_file_system_without_locks_is_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(leases.fcntl, "flock", flock)
    with pytest.raises(EngineError, match="No locks available"):
        desk.leases.claim(FOUR, 1).attempt()


@pytest.mark.parametrize("trap", ["link", "dangling", "fifo", "folder"])
def test_a_trap_in_the_folder_is_refused(desk: Desk, tmp_path: Path, trap: str) -> None:
    desk.folder.mkdir()
    victim = tmp_path / "victim"
    place = desk.folder / "GPU-0"
    if trap == "link":
        victim.write_text("precious")
    if trap == "fifo":
        os.mkfifo(place)
    elif trap == "folder":
        place.mkdir()
    else:
        place.symlink_to(victim)
    with pytest.raises(EngineError, match="gpu_leases"):
        desk.leases.claim(FOUR, 1).attempt()
    assert not victim.exists() or victim.read_text() == "precious"


def test_a_folder_that_is_a_link_or_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "link", tmp_path / "file" / "x"):
        with pytest.raises(EngineError, match="all users of this host can write"):
            Desk(folder).leases.claim(FOUR, 1).attempt()


def test_a_file_that_was_tidied_away_protects_nothing_and_is_not_believed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = leases._open

    def tidied(folder: Path, name: str) -> int:
        file = real(folder, name)
        monkeypatch.setattr(leases, "_open", real)
        (folder / name).unlink()
        return file

    assert desk.leases.claim(FOUR, 1).attempt()
    first = desk.leases.lock("GPU-1")
    assert first is not None
    os.close(first)
    monkeypatch.setattr(leases, "_open", tidied)
    file = desk.leases.lock("GPU-1")
    assert file is not None
    assert os.path.samestat(os.fstat(file), (desk.folder / "GPU-1").lstat())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1, "user": 2}', "\0" * 100])
def test_what_another_user_wrote_into_a_file_is_no_more_than_words(desk: Desk, text: str) -> None:
    assert desk.leases.claim(FOUR, 1).attempt()
    (desk.folder / "GPU-0").write_text(text)
    assert desk.leases.holder(FOUR[0]) is None


def test_words_of_others_cannot_steer_a_terminal(desk: Desk) -> None:
    claim = desk.leases.claim(FOUR, 1)
    assert claim.attempt()
    holder = '{"pid": 1, "user": "x\\u001b[2J", "host": "h", "since": 0, "run": "r\\n"}'
    (desk.folder / "GPU-0").write_text(holder)
    assert str(desk.leases.holder(FOUR[0])) == "pid 1 of user x[2J since 1970-01-01 00:00:00 UTC (run r)"


def test_the_usual_folder_is_the_same_for_all_users(tmp_path: Path) -> None:
    locks = tmp_path / "lock"
    assert default_folder(locks, tmp_path) == tmp_path / "reprokit-gpus"
    locks.mkdir(mode=0o755)
    assert default_folder(locks, tmp_path) == tmp_path / "reprokit-gpus"
    locks.chmod(0o1777)
    assert default_folder(locks, tmp_path) == locks / "reprokit-gpus"
