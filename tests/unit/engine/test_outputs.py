"""Taking outputs out of a container, from an engine that answers badly."""

from __future__ import annotations

import io
import json
import re
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError
from reprokit.engine import outputs
from reprokit.engine.outputs import Collector, unpacked
from reprokit.engine.wire import Endpoint, Wire
from tests.unit.serving import Quiet

_ABOUT = json.dumps({"Version": "1.2", "ApiVersion": "1.41", "Components": [{"Name": "Engine"}]}).encode()


class Cut(bytes):
    """An answer whose connection ends before the length that it promised."""


def archive(content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        entry = tarfile.TarInfo("plain.txt")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """What the engine at ``tmp_path/engine.sock`` answers to requests for an archive, in this order."""
    monkeypatch.setattr(outputs, "_PAUSE", 0.001)
    left: list[bytes] = []

    class Handler(Quiet):
        def do_GET(self) -> None:
            body = left.pop(0) if "/archive" in self.path else _ABOUT
            self.answer(200, body, Content_Length=str(len(body) + 5000 * isinstance(body, Cut)))

    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "engine.sock"), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield left
        server.shutdown()
        thread.join()


def collected(tmp_path: Path) -> dict[str, bytes]:
    file = tmp_path / "outputs.tar"
    wire = Wire(where=Endpoint(url=f"unix://{tmp_path}/engine.sock"))
    Collector(["plain.txt"], file).from_container(wire, "trial", "/workspace")
    return unpacked(file.read_bytes())


def test_an_empty_answer_is_asked_for_again(answers: list[bytes], tmp_path: Path) -> None:
    answers += [b"", b"", archive(b"4\n")]
    assert collected(tmp_path) == {"plain.txt": b"4\n"}


def test_an_engine_that_answers_with_nothing_only_is_named_as_the_cause(answers: list[bytes], tmp_path: Path) -> None:
    answers += [b""] * 10
    with pytest.raises(EngineError, match="answered 4 times with an empty archive"):
        collected(tmp_path)


def test_an_engine_that_goes_away_in_the_middle_ends_the_trial(answers: list[bytes], tmp_path: Path) -> None:
    answers += [Cut(archive(b"y" * 20_000)[:8_000])]
    with pytest.raises(EngineError, match="Connection broken"):
        collected(tmp_path)


@pytest.mark.parametrize("answer", [b"x" * 1024, archive(b"y" * 5000)[:3000]], ids=["not-tar", "cut-short"])
def test_what_is_not_an_archive_is_not_asked_for_again(answers: list[bytes], tmp_path: Path, answer: bytes) -> None:
    answers += [answer, archive(b"4\n")]
    with pytest.raises(EngineError, match=re.escape("cannot be read from its container")):
        collected(tmp_path)
