"""What the steps of a build reach: the relay to the gateway, and the hosts that a case names."""

from __future__ import annotations

import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.core.ownership import private_folder
from reprokit.engine.building import named_hosts
from reprokit.engine.protocol import Build
from reprokit.engine.site.gateway import RELAY_PORT
from reprokit.environment import dockerfile
from tests.servers import free_port

FILES = Path(dockerfile.__file__).parents[2] / "dockerfiles"


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ("six 'idna @ https://files.example/idna-3.7.tar.gz'", {"files.example"}),
        ("'x @ git+https://git.example:8443/a/b@v1'", {"git.example:8443"}),
        ("--extra-index-url https://user:word@index.example/simple x", {"index.example"}),
        ("--find-links http://[::1]:81/ x", {"[::1]:81"}),
        ("-f https://A.Example/x https://a.example/y", {"a.example"}),
        ("http://a.example:99999/x http://[1]/x https://b.example/x", {"b.example"}),
        ("six", set()),
        ("file:///etc/passwd ftp://a.example/x", set()),
    ],
    ids=["requirement", "git", "index", "address", "case", "no-host", "none", "other-schemes"],
)
def test_hosts_that_requirements_name(words: str, hosts: set[str]) -> None:
    assert named_hosts(Build(tag="t", dockerfile=f"FROM x\nRUN pip install {words}\n", context={})) == hosts


def test_hosts_that_a_lock_names_and_those_of_scripts(tmp_path: Path) -> None:
    context: dict[str, bytes | Path] = {
        "reprokit/pip_small.lock": b"x @ https://locked.example/x.whl --hash=sha256:00\n",
        "reprokit/setup.sh": b"curl https://evil.example/\n",
        "reprokit/uv-python.sh": b"",
        "files/reprokit/y.lock": b"https://evil.example/\n",
        "sources/reprokit": tmp_path,
    }
    found = named_hosts(Build(tag="t", dockerfile="FROM x\n", context=context))
    assert "locked.example" in found
    assert "github.com" in found
    assert "evil.example" not in found


def test_steps_start_the_relay_at_the_gateways_port() -> None:
    ports = re.findall(r'"\$gateway" (\d+)', (FILES / "site.sh").read_text())
    assert ports == [str(RELAY_PORT)] * 2


class _Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        data = self.rfile.read()  # to the end that the relay has to pass on
        self.wfile.write(data[::-1])


@pytest.fixture
def echo() -> Iterator[Path]:
    """The unix socket of a server that answers with what it got, backwards."""

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    with private_folder("echo", socket=True) as folder:
        server = Server(str(folder / "x.sock"), _Echo)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder / "x.sock"
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("language", ["pl", "py"])
def test_a_relay_carries_many_connections_both_ways(echo: Path, language: str) -> None:
    program = sys.executable if language == "py" else shutil.which("perl")
    if program is None:
        pytest.skip("this host has no Perl")
    port = free_port()
    started = subprocess.Popen(
        ["setsid", "--wait", program, FILES / f"relay.{language}", echo, str(port)], stdout=subprocess.DEVNULL
    )
    assert started.wait(timeout=60) == 0, "it returns as soon as it listens"
    try:
        ends = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(8)]
        for number, end in enumerate(ends):
            end.sendall(bytes([number]) * 300_000 + b"last")
            end.shutdown(socket.SHUT_WR)
        for number, end in enumerate(ends):
            with end, end.makefile("rb") as stream:
                assert stream.read() == b"tsal" + bytes([number]) * 300_000
    finally:
        _end(port)


def _end(port: int) -> None:
    """End the relay of that port, found by its command line: it has left its parent."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(port).encode() in words and any(b"relay." in word for word in words):
            subprocess.run(["kill", place.parent.name], check=False, capture_output=True)
    time.sleep(0.05)
