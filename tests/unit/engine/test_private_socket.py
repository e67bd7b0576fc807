"""Sockets of programs that live as long as this process, with a shell script in place of ssh and podman."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError, EngineLost
from reprokit.engine.private_socket import PrivateSocket, Tunnel, tunnel
from reprokit.engine.wire import Endpoint, endpoint

LISTENS = 'echo $$ >> "$0.pids"; : > engine.sock; echo up; exec sleep 600\n'


def script(folder: Path, text: str, name: str = "program") -> str:
    made = folder / name
    made.write_text(f"#!/bin/sh\n{text}")
    made.chmod(0o755)
    return str(made)


def started(program: str) -> list[int]:
    return [int(line) for line in Path(f"{program}.pids").read_text().split()]


def ends(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def made(tmp_path: Path) -> Iterator[PrivateSocket]:
    one = PrivateSocket((script(tmp_path, LISTENS),), "the program")
    yield one
    one.close()


def test_it_is_started_once_and_ends_with_its_folder(made: PrivateSocket, tmp_path: Path) -> None:
    addresses = []
    threads = [threading.Thread(target=lambda: addresses.append(made.address())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(addresses)) == 1
    folder = Path(addresses[0].removeprefix("unix://")).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    (pid,) = started(str(tmp_path / "program"))
    assert not Path(f"/proc/{pid}/fd/3").exists(), "it holds no end of the pipe that tells our end"
    made.close()
    assert ends(pid)
    assert not folder.exists()


def test_one_that_ended_is_started_again_at_the_same_place(made: PrivateSocket, tmp_path: Path) -> None:
    first = made.address()
    (pid,) = started(str(tmp_path / "program"))
    os.kill(pid, 15)
    assert ends(pid)
    deadline = time.monotonic() + 30
    while len(started(str(tmp_path / "program"))) < 2 and time.monotonic() < deadline:
        assert made.address() == first
    assert made.address() == first
    script(tmp_path, "echo gone >&2; exit 9\n")
    os.kill(started(str(tmp_path / "program"))[-1], 15)

    def ask_until_it_is_noticed() -> None:
        while time.monotonic() < deadline:
            made.address()

    with pytest.raises(EngineLost, match=r"the program ended with status 9 .*gone"):
        ask_until_it_is_noticed()


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = script(tmp_path, "echo 'no \033[31msuch thing' >&2; exit 7\n")
    made = PrivateSocket((program,), "the program")
    for _ in range(2):
        with pytest.raises(EngineError, match=r'status 7 and said "no \[31msuch thing"') as failed:
            made.address()
        assert not isinstance(failed.value, EngineLost), "to ask again does not help"
    made.close()


def test_the_end_of_this_process_does_not_wait_for_one_that_is_being_started(tmp_path: Path) -> None:
    """An ssh whose host does not answer takes 20 s, in a thread for which the doctor does not wait."""
    made = PrivateSocket((script(tmp_path, 'echo $$ >> "$0.pids"; exec sleep 600\n'),), "the program")
    said: list[str] = []

    def ask() -> None:
        try:
            made.address()
        except EngineError as error:
            said.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    while not Path(f"{tmp_path}/program.pids").exists():
        time.sleep(0.02)
    began = time.monotonic()
    made.close()
    thread.join(20)
    assert time.monotonic() - began < 20
    assert "was stopped" in said[0]
    assert all(ends(pid) for pid in started(str(tmp_path / "program")))
    assert list(tmp_path.glob("reprokit-*")) == []


@pytest.mark.parametrize("how", ["kill -KILL $$", "exit", "kill -INT 0"])
def test_nothing_is_left_however_this_process_ends(tmp_path: Path, how: str) -> None:
    """``kill -INT 0``: Ctrl-C, which goes to all of the group."""
    program = script(tmp_path, LISTENS)
    code = (
        "import os, sys, threading\n"
        "from reprokit.engine.private_socket import PrivateSocket\n"
        f"made = PrivateSocket(({program!r},), 'it')\n"
        "thread = threading.Thread(target=made.address)\n"  # the end of the thread that starts it is not its end
        "thread.start(); thread.join()\n"
        "print('up', flush=True)\n"
        "sys.stdin.readline()\n"
        f"how = {how!r}\n"
        "sys.exit() if how == 'exit' else os.kill(0 if how[-1] == '0' else os.getpid(), 2 if 'INT' in how else 9)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    (pid,) = started(program)
    time.sleep(0.2)
    os.kill(pid, 0)
    child.communicate(b"\n", timeout=30)
    assert ends(pid)


def test_an_address_of_ssh_is_one_tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = script(tmp_path, f'printf "%s\\n" "$@" > "$0.words"\n{LISTENS}', "ssh")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    environ = {"PATH": str(tmp_path), "DOCKER_HOST": "ssh://me@[fe80::1%eth0]:2222/run/user/7/podman.sock"}
    found = endpoint(environ)
    assert (found.url, found.is_remote) == (environ["DOCKER_HOST"], True)
    assert found.via is not None
    assert found.via is endpoint(environ).via
    found.via.address()
    words = Path(f"{ssh}.words").read_text().splitlines()
    assert words[-2:] == ["--", "fe80::1%eth0"]
    assert words[words.index("-L") + 1] == "./engine.sock:/run/user/7/podman.sock"
    assert (words[words.index("-l") + 1], words[words.index("-p") + 1]) == ("me", "2222")
    assert "BatchMode=yes" in words
    found.via.close()


@pytest.mark.parametrize(
    "address",
    [
        "ssh://-oProxyCommand=touch%20pwned",
        "ssh://-F@host",
        "ssh://user:password@host",
        "ssh://host;touch pwned",
        "ssh://$(touch pwned)",
        "ssh://host:-p",
        "ssh://host/run/${HOME}",
        "ssh://host/a:b",
        "ssh://host/%h",
        "ssh://host\n-oProxyCommand=x",
        "ssh://",
    ],
)
def test_what_is_not_an_address_never_reaches_ssh(tmp_path: Path, address: str) -> None:
    script(tmp_path, "", "ssh")
    environ = {"PATH": str(tmp_path)}
    with pytest.raises(EngineError, match="is not an address") as refused:
        tunnel(address, "/run/docker.sock", environ)
    assert "password" not in str(refused.value)


def test_without_ssh_its_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="openssh-client"):
        tunnel("ssh://host", "/run/docker.sock", {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("channel 2: open failed: connect failed: open failed", "ssh://HOST/run/user"),
        ("channel 2: open failed: administratively prohibited: open failed", "AllowStreamLocalForwarding"),
        ("client_loop: send disconnect: Broken pipe", ""),
    ],
)
def test_why_the_remote_socket_does_not_answer_is_what_ssh_said(tmp_path: Path, said: str, advice: str) -> None:
    made = Tunnel(script(tmp_path, f"echo '{said}'\n{LISTENS}"), "ssh://host", "/run/docker.sock")
    made.address()
    deadline = time.monotonic() + 30
    while said not in made.words() and time.monotonic() < deadline:
        time.sleep(0.02)
    refused = made.refusal()
    assert (advice in refused, said in refused) == ((True, True) if advice else (True, False))
    made.close()


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        ("unix:///run/docker.sock", False),
        ("http+unix:///run/docker.sock", False),
        ("tcp://localhost:2375", False),
        ("tcp://127.0.0.1:2375", False),
        ("podman system service", False),
        ("tcp://build.example.com:2376", True),
        ("https://10.0.0.7:2376", True),
        ("ssh://localhost", True),
    ],
)
def test_which_engines_are_on_another_machine(url: str, remote: bool) -> None:
    assert Endpoint(url=url).is_remote is remote
