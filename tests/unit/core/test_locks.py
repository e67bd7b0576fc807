"""Locks between processes."""

from __future__ import annotations

import errno
import fcntl
import threading
from pathlib import Path

import pytest

from reprokit.core.errors import Cancelled
from reprokit.core.ownership import locked, locked_if_free, lockless


def test_of_two_the_second_waits_or_goes_without(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.lock"
    order: list[str] = []

    def second() -> None:
        with locked(path):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(path):
        with locked_if_free(path) as held:
            assert not held
        thread.start()
        stop = threading.Event()
        stop.set()
        with pytest.raises(Cancelled, match="another process made the image"), locked(path, stop, "image"):
            order.append("never")
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    with locked_if_free(path) as held:
        assert held


def test_a_link_is_refused_and_the_file_it_leads_to_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "x.lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"symbolic link"), locked(tmp_path / "x.lock"):
        pass
    assert not (tmp_path / "other").exists()
    assert lockless(tmp_path / "x.lock") == ""


def test_a_lock_that_was_removed_meanwhile_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.lock"
    plain, removed = fcntl.flock, []

    def flock(file: int, operation: int) -> None:
        plain(file, operation)
        if not removed:
            removed.append(path.unlink())

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(path), locked_if_free(path) as other:
        assert not other


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_an_error_and_never_taken_for_a_lock(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: int, operation: int) -> None:
        raise OSError(number, "no")

    assert lockless(tmp_path / "x.lock") == ""
    monkeypatch.setattr(fcntl, "flock", flock)
    for take in (locked, locked_if_free):
        with pytest.raises(OSError, match=r"XDG_CACHE_HOME.*x\.lock"), take(tmp_path / "x.lock"):
            pass
    assert lockless(tmp_path / "x.lock")
