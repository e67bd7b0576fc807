"""A host with canaries: no build and no trial of an untrusted case reads or reaches one, on any engine of ours."""

from __future__ import annotations

import http.server
import os
import re
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.engine import site as sites
from reprokit.engine.protocol import Progress
from tests.conformance.conftest import SUBJECTS, Subject
from tests.conftest import never, own_cache

pytestmark = [pytest.mark.integration, pytest.mark.parametrize("subject", SUBJECTS[:3], indirect=True, scope="module")]

GATEWAY = "--mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666"
CANARIES = {
    "pip": "cat HOME/.config/pip/pip.conf ~/.config/pip/pip.conf /etc/pip.conf $PIP_CONFIG_FILE; env | grep PIP_",
    "netrc": "cat HOME/.netrc ~/.netrc $NETRC /root/.netrc; cat /run/secrets/* /run/reprokit/*",
    "agent": 'echo "$SSH_AUTH_SOCK"; if [ -S HOME/agent ]; then echo CANARY; fi',
    "docker": "for one in /var/run/docker.sock /run/docker.sock; do if [ -S $one ]; then echo CANARY; fi; done",
    "loopback": "wget -q -O - http://127.0.0.1:PORT/ || python3 -c 'import urllib.request as r; "
    'print(r.urlopen("http://127.0.0.1:PORT/").read())\'',
    "home": "cat HOME/file ~/file /proc/1/root/HOME/file",
}
"""What prints CANARY where it is within reach, in a shell of any of the images."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """A script that tries all of the canaries; the host has them while the tests run."""

    class Canary(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"CANARY")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ExitStack() as stack:
        home = stack.enter_context(own_cache()) / "home"
        (home / ".config/pip").mkdir(parents=True)
        (home / ".config/pip/pip.conf").write_text("[global]\nindex-url = http://me:CANARY@index.invalid/simple\n")
        (home / ".netrc").write_text("machine index.invalid login me password CANARY\n")
        (home / "file").write_text("CANARY\n")
        agent = stack.enter_context(socket.socket(socket.AF_UNIX))
        agent.bind(str(home / "agent"))
        agent.listen()
        (home / "agent").chmod(0o777)
        server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Canary))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("HOME", str(home))
        patch.setenv("SSH_AUTH_SOCK", f"{home}/agent CANARY")
        patch.setenv("PIP_INDEX_URL", "http://me:CANARY@index.invalid/simple")
        patch.setenv("no_proxy", "127.0.0.1")
        patch.delenv("PIP_CONFIG_FILE", raising=False)
        tries = [f"echo; echo '@@ {name}'; ({script}) 2> /dev/null || true" for name, script in CANARIES.items()]
        yield (
            "; ".join([*tries, "echo; echo '@@ end'"])
            .replace("HOME", str(home))
            .replace("PORT", str(server.server_port))
        )


def _findings(output: str) -> dict[str, str]:
    """What each try printed."""
    parts = re.split(r"^@@ (\w+)\n", output, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert found.keys() == {*CANARIES, "end"}, output
    return found


@pytest.fixture(scope="module")
def reached(subject: Subject, host: str) -> dict[str, dict[str, str]]:
    """What each try printed on the host itself, in a build and in a trial."""
    bare = subprocess.run(["bash", "-c", host], capture_output=True, text=True, check=True).stdout
    build = replace(subject.build(f": {uuid.uuid4().hex}; {host}"), trust=Trust.STRANGER)
    if subject.entry.capabilities.recipe == "dockerfile":  # as all steps of our Dockerfiles
        build = replace(build, dockerfile=build.dockerfile.replace("RUN ", f"RUN {GATEWAY} "))
    said: list[Progress] = []
    built = subject.engine.build(build, sites.current(), said.append, never())
    try:
        _, trial = subject.run(built.tag, host)
    finally:
        subject.engine.remove_image(built.tag)
    return {"host": _findings(bare), "build": _findings("".join(one.log for one in said)), "trial": _findings(trial)}


@pytest.mark.parametrize("name", CANARIES)
def test_each_canary_is_within_reach_of_the_host_itself(reached: dict[str, dict[str, str]], name: str) -> None:
    if name == "docker" and not Path("/var/run/docker.sock").exists():
        pytest.skip("this host has no socket of Docker")
    assert "CANARY" in reached["host"][name]


@pytest.mark.parametrize("name", CANARIES)
@pytest.mark.parametrize("where", ["build", "trial"])
def test_no_canary_is_read_or_reached(reached: dict[str, dict[str, str]], where: str, name: str) -> None:
    assert "CANARY" not in reached[where][name]
    assert os.environ["HOME"] not in reached[where]["agent"]
