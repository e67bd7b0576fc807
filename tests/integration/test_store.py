"""What `reprokit run` has shown is in the store, whoever is killed and whatever the disk does; on the real engine."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_run import REPROKIT, User
from tests.servers import wait_until

pytestmark = pytest.mark.integration
CASE = """\
schema: reprokit/v1
id: stored
title: Many cells that take no time
matrix: {os: [debian-12], n: [%s]}
command: "true"
expect: {reproduces: none}
"""
SHOWN = re.compile(r"^\[\d+/\d+\] #(\d+) .*not-reproduced", re.MULTILINE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A case of 24 cells whose image is built."""
    user = User(tmp_path_factory.mktemp("built"))
    write(user, 24)
    user.types("run", "--build-only", "case.yaml")
    return user


def write(user: User, cells: int) -> None:
    user.write("case.yaml", CASE % ", ".join(f'"{n}"' for n in range(cells)))


def decided(user: User) -> set[int]:
    return {cell["number"] for cell in user.cells() if cell["verdict"] == "not-reproduced"}


@pytest.mark.parametrize(("whole", "some"), [(False, 1), (True, 7)], ids=["process", "group"])
def test_what_a_killed_run_has_shown_is_in_the_store(whole: bool, some: int, built: User) -> None:
    process = subprocess.Popen(
        [*REPROKIT, "run", "case.yaml", "--jobs", "4"],
        cwd=built.folder,
        env=built.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
    reader.start()
    wait_until(lambda: len([line for line in lines if SHOWN.match(line)]) >= some)
    (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
    reader.join()
    process.wait()
    shown = {int(found) for found in SHOWN.findall("".join(lines))}
    assert shown
    assert shown <= decided(built)
    assert "nothing is wrong" in built.types("store", "check")
    built.types("run", "--resume")
    assert len(decided(built)) == 24


def test_a_database_that_is_locked_for_the_whole_run_takes_it_afterwards(built: User) -> None:
    built.types("run", "case.yaml", "--only", "n=0")  # the database is there
    database = sqlite3.connect(built.folder / "store" / "reprokit.db", isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    said = built.types("run", "case.yaml", "--only", "n=1", "--only", "n=2")
    assert "is in use by another process" in said
    assert "this run is kept in" in said
    assert len(decided(built)) == 2  # from the journal: the database is still locked
    database.execute("ROLLBACK")
    database.close()
    assert len(decided(built)) == 2
    assert "nothing is wrong" in built.types("store", "check")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=False).returncode:
        pytest.skip("only root may mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    ballast = place / "ballast"
    with ballast.open("wb") as stream:
        try:
            for size in (65536, 512, 1):
                while stream.write(b"x" * size):
                    stream.flush()
        except OSError:
            pass
    return ballast


def test_a_store_on_a_full_disk_is_read_and_a_full_cache_ends_no_run(built: User, small: Path) -> None:
    user = User(built.folder)
    user.environment["REPROKIT_STORE"] = str(small / "store")
    user.types("run", "case.yaml", "--only", "n=1")
    fill(small)
    assert "not-reproduced" in user.types("show")
    assert "1 run" in user.types("store", "check")
    user.environment |= {"REPROKIT_STORE": str(user.folder / "another"), "XDG_CACHE_HOME": str(small)}
    assert "as expected" in user.types("run", "case.yaml", "--only", "n=1")


@pytest.mark.parametrize("for_good", [False, True], ids=["for-a-while", "for-good"])
def test_a_store_that_is_full(for_good: bool, built: User, small: Path) -> None:
    user = User(built.folder)
    user.environment["REPROKIT_STORE"] = str(small / "store")
    process = user.starts("run", "case.yaml", "--jobs", "2")
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if SHOWN.match(line):
            break
    ballast = fill(small)
    reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
    reader.start()
    if not for_good:
        time.sleep(2)
        ballast.unlink()
    process.wait(300)
    reader.join()
    said = "".join(lines)
    assert "internal error" not in said
    assert "Traceback" not in said
    shown = {int(found) for found in SHOWN.findall(said)}
    if for_good:
        assert process.returncode == 3
        assert said.count("the run cannot be recorded") == 1
        ballast.unlink()
    assert shown <= decided(user)
    user.types("run", "--resume") if for_good else None
    assert "nothing is wrong" in user.types("store", "check")
