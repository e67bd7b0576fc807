"""A shell in a cell, typed into over a pseudo-terminal, and commands in several cells, on the real engine."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reprokit.core import ownership
from reprokit.engine.docker.engine import DockerEngine
from tests.conftest import docker
from tests.integration.test_run import REPROKIT
from tests.integration.test_run import User as Folder
from tests.terminals import User

pytestmark = pytest.mark.integration

CASE_ID = f"opened-{os.getpid()}"  # of this worker alone: others run these tests at the same time
CASE = f"""\
schema: reprokit/v1
id: {CASE_ID}
title: A sum that is one too large
matrix: {{os: [debian-12], python: ["3.11"], add: ["1", "2"]}}
files:
  add.py: |
    import sys
    total = sum([1, 1]) + int(sys.argv[1])
    assert total == 2, total
command: python add.py {{{{ add }}}}
expect:
  failure: {{exception: AssertionError}}
  reproduces: all
"""


@pytest.fixture
def folder(engine: DockerEngine, tmp_path: Path) -> Iterator[Folder]:
    folder = Folder(tmp_path)
    folder.write("case.yaml", CASE)
    yield folder
    for container in ours():
        subprocess.run(["docker", "rm", "-f", container], capture_output=True, check=False)


def ours() -> list[str]:
    return docker("ps", "-aq", "--filter", f"label={ownership.CASE}={CASE_ID}").split()


@contextmanager
def shell(folder: Folder, *words: str) -> Iterator[tuple[int, User]]:
    """A shell behind a terminal: the process, and who types."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder.folder)
        os.execvpe(REPROKIT[0], [*REPROKIT, "shell", *words], folder.environment)
    try:
        yield pid, User(master)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(master)


def status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_command_of_a_recorded_cell_is_an_arrow_away_and_nothing_is_left(folder: Folder) -> None:
    folder.types("run", "case.yaml")
    with shell(folder, "last:2") as (pid, user):
        user.sees(b"/workspace$ ")
        user.types(b"\x1b[A\r")  # arrow up, enter
        user.sees(b"python add.py 2")
        user.sees(b"AssertionError: 4")
        user.types(b"sed -i 's/ + int.*//' add.py && eval $REPROKIT_COMMAND && echo fixed-$((40 + 2))\r")
        user.sees(b"fixed-42")
        user.types(b"id -un; exit 5\r")
        user.sees(b"repro")
        user.sees(b"exit")
        assert status(pid) == 5
    assert ours() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_shell_and_its_container(folder: Folder, number: signal.Signals) -> None:
    with shell(folder, "case.yaml", "add=1") as (pid, user):
        user.sees(b"/workspace$ ")
        assert len(ours()) == 1
        os.kill(pid, number)
        user.sees(b"interrupted: stopping what runs")
        assert status(pid) == 130
    DockerEngine().sweep()  # where the engine was too busy to remove it in time
    assert ours() == []


@pytest.mark.nightly
def test_debuggers_look_into_a_process_of_the_same_user(folder: Folder) -> None:
    with shell(folder, "case.yaml", "1", "--debug") as (pid, user):
        user.sees(b"/workspace$ ")
        user.types(b"python -c 'import time; time.sleep(600)' &\r")
        user.types(b"until py-spy dump -p $! 2> /dev/null; do sleep 0.2; done; gdb -batch -p $!; ulimit -c\r")
        user.sees(b"Python v")  # py-spy; colours follow
        user.sees(b"Inferior 1 (process")
        user.sees(b"unlimited")
        user.types(b"exit\r")
        user.sees(b"exit")
        assert status(pid) == 0
    assert ours() == []


def test_a_build_that_failed_opens_before_its_failing_step(folder: Folder) -> None:
    folder.write("case.yaml", CASE.replace("command:", "environment: {setup: no-such-program}\ncommand:"))
    with shell(folder, "case.yaml", "2") as (pid, user):
        user.sees(b"no-such-program is not installed")
        user.sees(b"/workspace$ ")
        user.types(b"ls; echo <$REPROKIT_STEP>\r".replace(b"<", b"'<'").replace(b">", b"'>'"))
        user.sees(b"add.py")
        user.sees(b"setup.sh")
        user.types(b"exit\r")
        assert status(pid) == 0


def test_a_command_runs_in_all_cells_and_a_host_folder_takes_what_it_writes(folder: Folder) -> None:
    said = folder.types("exec", "case.yaml", "--", "sh", "-c", "echo version $(python -c 'print(1)'); hostname")
    assert "All wrote the same:\nversion 1\nrepro\n" in said
    (folder.folder / "out").mkdir(mode=0o777)
    (folder.folder / "out").chmod(0o777)
    folder.types("exec", "case.yaml", "1", "--writable", "out=made", "--", "sh", "-c", "echo new > made/f")
    assert (folder.folder / "out" / "f").read_text() == "new\n"
    folder.types("exec", "case.yaml", "1", "--", "sh", "-c", "exit 7", status=7)
    assert folder.types("exec", "case.yaml", "1", "-i", "--", "wc", "-c", stdin="four").startswith("4\n")
    assert ours() == []
