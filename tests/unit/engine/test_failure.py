"""Ours or theirs: what the engine's words mean. The texts were printed by Docker Engine 20.10 to 27."""

from __future__ import annotations

import http.server
import json
import re
import threading

import pytest

from reprokit.core.errors import BuildFailed, EngineError, EngineLost, ImageDamaged, ImageGone, Unsupported
from reprokit.engine import failure
from reprokit.engine.wire import Endpoint, Wire
from tests.unit.serving import Quiet


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ('could not select device driver "" with capabilities: [[gpu compute utility]]', Unsupported, "nvidia-ctk"),
        (
            "OCI runtime create failed: ... nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4",
            Unsupported,
            "driver",
        ),
        (
            "failed to fulfil mount request: open /usr/lib64/libEGL_nvidia.so.580.159.04: no such file or directory",
            Unsupported,
            "nvidia-ctk cdi generate --output=",
        ),
        (
            "crun: error stat'ing file /lib/x86_64-linux-gnu/libcuda.so.535.161.07: No such file or directory: OCI",
            Unsupported,
            "nvidia-ctk cdi generate --output=",
        ),
        (
            "nvidia-container-cli: libnvidia-ml.so.1: cannot open shared object file: no such file or directory",
            Unsupported,
            "the GPU runtime refused",
        ),
        ("failed to fulfil mount request: open /data/libx.so.1: no such file or directory", EngineError, "refused"),
        ("runc: error setting rlimit type 8: operation not permitted: unknown", Unsupported, "resources.ulimits"),
        ("crun: setrlimit `RLIMIT_MEMLOCK`: Operation not permitted", Unsupported, "resources.ulimits"),
        ("nvidia-container-cli: device error: 7: unknown device: unknown", Unsupported, "GPU ids"),
        ("unable to find user me: no matching entries in passwd file", EngineError, "resources.user"),
        ("No such image: reprokit/img:1", ImageGone, "build it again"),
        (f"NotFound: content digest sha256:{'0a' * 32}: not found", ImageDamaged, "lost a part of the image"),
        ("open /var/lib/docker/overlay2/3pl7/committed: no such file or directory", ImageDamaged, "lost a part"),
        ("unable to find user repro: no matching entries in passwd file", ImageDamaged, "lost a part of the image"),
        ("no space left on device", EngineError, "reprokit gc"),
        ("Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available", EngineError, "outside"),
        ("Minimum memory limit allowed is 6MB", EngineError, "outside"),
        ("something new", EngineError, "something new"),
        (
            'connection error: desc = "transport: Error while dialing dial unix /x/containerd.sock": unavailable',
            EngineLost,
            "containerd, does not answer",
        ),
        ("error reading from server: EOF: unavailable", EngineLost, "containerd, does not answer"),
    ],
)
def test_refusals(text: str, kind: type[Exception], words: str) -> None:
    meant = failure.of_engine(text)
    assert type(meant) is kind
    assert words in str(meant)
    assert text in str(meant)


@pytest.mark.parametrize(
    ("message", "tail", "kind"),
    [
        ("executor failed running [/bin/sh -c exit 7]: exit code: 7", (), BuildFailed),
        (
            'process "/bin/sh -c make" did not complete successfully: exit code: 2',
            ("error: no space in name",),
            BuildFailed,
        ),
        # The network of a RUN is the RUN's business: its own output says so.
        (
            "executor failed running [/bin/sh -c pip install x]: exit code: 1",
            ("Temporary failure in name resolution",),
            BuildFailed,
        ),
        (
            "executor failed running [/bin/sh -c pip install x]: exit code: 1",
            ("OSError: [Errno 28] No space left on device",),
            EngineError,
        ),
        (
            "executor failed running [/bin/sh -c dd]: exit code: 1",
            ("dd: error writing '/dev/shm/x': No space left on device",),
            BuildFailed,  # every container has a small one: this says nothing of the host's disk
        ),
        ("failed to copy: write /var/lib/docker/...: no space left on device", (), EngineError),
        (
            'failed to do request: Head "https://registry-1.docker.io/v2/x/manifests/1": dial tcp: no such host',
            (),
            EngineError,
        ),
        ("docker.io/library/debain:12: not found", (), BuildFailed),
        ("pull access denied, repository does not exist or may require authorization", (), BuildFailed),
        ('"/absent" not found: not found', (), BuildFailed),
        ("dockerfile parse error line 2: unknown instruction: RUNN", (), BuildFailed),
        ("rpc error: code = Unavailable desc = transport is closing", (), EngineLost),
        ("executor failed running [/bin/sh -c echo one]: network bridge not found", (), EngineError),
        ("no match for platform in manifest: no matching manifest for linux/arm64/v8", (), Unsupported),
    ],
)
def test_builds(message: str, tail: tuple[str, ...], kind: type[Exception]) -> None:
    meant = failure.of_build(message, step="RUN x", tail=tail)
    assert type(meant) is kind
    assert "(step: x)" in str(meant) or "RUN x failed" in str(meant) or kind is Unsupported
    assert not str(meant).startswith("step"), "the cause comes first"
    if isinstance(meant, BuildFailed):
        assert meant.step == "RUN x"
        assert meant.tail == tail


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied"), "group 'docker'"),
        (FileNotFoundError(2, "No such file or directory"), "install one"),
        (ConnectionRefusedError(111, "Connection refused"), "start it"),
        (TimeoutError("timed out"), "in time"),
        (ConnectionResetError(104, "Connection reset by peer"), "broke off"),
    ],
)
def test_no_engine(error: Exception, words: str) -> None:
    text = str(failure.of_connection(error, "unix:///run/x.sock"))
    assert words in text
    assert "unix:///run/x.sock" in text


def test_missing_is_not_unreachable() -> None:
    assert failure.is_missing_image("manifest for debian:99 not found: manifest unknown: manifest unknown")
    assert not failure.is_missing_image("dial tcp 1.2.3.4:443: i/o timeout")
    assert "does not answer" in str(failure.of_pull("net/http: TLS handshake timeout", "debian:12"))


class Upgraded(Quiet):
    """An engine that is replaced by one of another version while it is talked to."""

    versions = ("1.24", "1.41")

    def do_GET(self) -> None:
        least, newest = (float(one) for one in self.versions)
        asked = re.match(r"/v([0-9.]+)/", self.path)
        status, body = 200, {"ApiVersion": self.versions[1], "MinAPIVersion": self.versions[0]}
        if asked and not least <= float(asked[1]) <= newest:
            how = "old. Minimum" if float(asked[1]) < least else "new. Maximum"
            status, body = 400, {"message": f"client version {asked[1]} is too {how} supported API version is another"}
        self.answer(status, json.dumps(body).encode(), Api_Version=self.versions[1], Content_Type="application/json")


@pytest.mark.parametrize("versions", [("1.44", "1.52"), ("1.12", "1.40")])
def test_an_engine_of_another_version_is_away_and_then_asked_in_its_own(
    versions: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upgraded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wire = Wire(where=Endpoint(url=f"tcp://127.0.0.1:{server.server_address[1]}"))
        wire.details()
        monkeypatch.setattr(Upgraded, "versions", versions)
        with pytest.raises(EngineLost, match="replaced"), wire.errors():
            wire.client().info()
        wire.ping()
        assert wire.client().api_version == wire.about().api == versions[1]
        with wire.errors():
            wire.client().info()
        server.shutdown()
