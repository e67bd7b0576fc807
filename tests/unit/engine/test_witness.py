"""What the engine's events vouch for, and what they do not. A real engine is in tests/integration."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.core.errors import BuildFailed, EngineError, EngineLost
from reprokit.engine import witness
from reprokit.engine.witness import ContainerEvents, Witness, Witnesses
from reprokit.evidence.model import Ending
from tests.conftest import trial

EARLY = "2026-01-01T00:00:00Z"


class Stream:
    """An answer of the events API: what is put into ``lines`` comes, None ends it."""

    def __init__(self) -> None:
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        self.raw = SimpleNamespace(_fp=SimpleNamespace(fp=SimpleNamespace(channel=self)))

    def settimeout(self, seconds: float | None) -> None:
        pass

    def raise_for_status(self) -> None:
        pass

    def close(self) -> None:
        pass

    def iter_lines(self, chunk_size: int | None) -> Iterator[bytes]:
        while (line := self.lines.get()) is not None:
            yield line


def line(action: str, at: float | None = None, **attributes: str) -> bytes:
    moment = int((time.time() if at is None else at) * 1e9)
    event = {"Action": action, "timeNano": moment, "Actor": {"Attributes": {"name": "c", **attributes}}}
    return json.dumps(event).encode()


class Daemon:
    """A wire to an engine whose events the test tells, and which answers inspections with ``state``.

    ``kept``: the events that it says again when it is asked.
    """

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.gone = False
        self.root = "/nonexistent"
        self.state: dict[str, Any] = {}
        self.podman = False
        self.inspections, self.inspectable = 0, 100
        self.kept: list[bytes] = []

    def client(self) -> Daemon:
        return self

    def errors(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def url(self, path: str) -> str:
        return path

    def get(self, path: str, *, params: dict[str, str], **_: object) -> Any:
        if params.get("stream") == "false":
            text = b"\n".join(self.kept).decode()
            return SimpleNamespace(text=text, raise_for_status=lambda: None)
        self.streams.append(Stream())
        return self.streams[-1]

    def ping(self) -> None:
        if self.gone:
            raise EngineLost("no answer")

    def is_local(self) -> bool:
        return True

    def is_podman(self) -> bool:
        return self.podman

    def storage(self) -> Path:
        return Path(self.root)

    def inspect_container(self, name: str) -> dict[str, Any]:
        self.inspections += 1
        if self.inspections > self.inspectable:
            raise EngineLost("another process removed the container")
        return {"State": self.state}

    def tell(self, action: str, at: float | None = None, **attributes: str) -> None:
        self.streams[-1].lines.put(line(action, at, **attributes))

    def end(self) -> None:
        self.streams[-1].lines.put(None)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    daemon = Daemon()
    yield daemon
    for stream in daemon.streams:
        stream.lines.put(None)


@pytest.fixture
def one(daemon: Daemon) -> Witness:
    return Witness(daemon)  # type: ignore[arg-type]


def known(daemon: Daemon, witness: Witness, *events: tuple[str, dict[str, str]]) -> ContainerEvents:
    """What is known of a container once the stream has ended behind these events."""
    with witness.watching("c") as container:
        for action, attributes in events:
            daemon.tell(action, **attributes)
        daemon.end()
        with witness.news:
            assert witness.news.wait_for(lambda: witness.lost, 10)
    return container


START: tuple[str, dict[str, str]] = ("start", {})


def die(code: int) -> tuple[str, dict[str, str]]:
    return "die", {"exitCode": str(code)}


def test_an_end_that_was_seen_counts_even_if_the_stream_ends_next(daemon: Daemon, one: Witness) -> None:
    container = known(daemon, one, ("create", {}), START, die(143))
    assert (container.ended(0), container.code()) == (True, 143)


def test_an_event_that_podman_says_again_is_one_event(daemon: Daemon, one: Witness) -> None:
    with one.watching("c") as container:
        for action, attributes in (START, START, die(0)):
            daemon.tell(action, at=1.7e9, **attributes)
        assert container.ended(10)
    assert container.code() == 0


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([START], "broke off"),
        ([START, ("kill", {"signal": "15"}), die(143)], r"from outside.*SIGTERM"),
        ([START, ("kill", {"signal": "15"})], "from outside"),
        ([START, ("kill", {"signal": "10"}), die(1)], "signal 10"),
        ([START, ("kill", {}), die(137)], r"signal \?"),
        ([die(1)], "0 starts"),
        ([START, START, die(1)], "2 starts"),
        ([START, ("pause", {}), ("unpause", {}), die(1)], "paused"),
    ],
)
def test_what_is_not_the_end_of_the_program(
    daemon: Daemon, one: Witness, events: list[tuple[str, dict[str, str]]], words: str
) -> None:
    container = known(daemon, one, *events)
    with pytest.raises(EngineLost, match=words):
        container.code()


@pytest.mark.parametrize("attributes", [{"signal": "15"}, {}])
def test_a_signal_that_we_asked_for_is_ours(daemon: Daemon, one: Witness, attributes: dict[str, str]) -> None:
    with one.watching("c") as container:
        container.sent.add("15")
        for action, more in (START, ("kill", attributes), die(143)):
            daemon.tell(action, **more)
        assert container.ended(10)
        assert container.code() == 143


def test_an_end_that_does_not_come_is_not_waited_for_without_end(one: Witness) -> None:
    with one.watching("c") as container:
        assert not container.ended(0.01)
        with pytest.raises(EngineLost, match="did not report"):
            container.code()


def test_memory_is_identified_by_an_event(daemon: Daemon, one: Witness) -> None:
    assert known(daemon, one, START, ("oom", {}), die(137)).out_of_memory(0)
    assert not known(daemon, Witness(daemon), START, die(137)).out_of_memory(0)  # type: ignore[arg-type]


@pytest.mark.parametrize("said", [b"no event", b"{}", b'{"Action": "die", "Actor": null}'])
def test_what_is_not_an_event_ends_the_witness(daemon: Daemon, one: Witness, said: bytes) -> None:
    daemon.streams[-1].lines.put(said)
    with one.news:
        assert one.news.wait_for(lambda: one.lost, 10)


def test_events_of_other_containers_are_not_kept(daemon: Daemon, one: Witness) -> None:
    daemon.tell("die", name="other", exitCode="1")
    assert known(daemon, one, START, die(0)).code() == 0


def test_what_fails_while_the_engine_lives_is_its_own_failure(one: Witness) -> None:
    with pytest.raises(BuildFailed), one.vouching():
        raise BuildFailed("exit code: 1")


@pytest.mark.parametrize("error", [BuildFailed("exit code: 137"), EngineError("context canceled")])
def test_what_a_daemon_says_that_goes_down_does_not_count(
    daemon: Daemon, one: Witness, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witness, "_NEWS", 60.0)
    daemon.end()
    with pytest.raises(EngineLost, match="restarted meanwhile.*" + str(error)), one.vouching():
        raise error


def test_what_is_said_before_silence_does_not_count(daemon: Daemon, one: Witness) -> None:
    daemon.gone = True
    with pytest.raises(EngineLost), one.vouching():
        raise BuildFailed("exit code: 137")


def test_a_lost_witness_is_replaced(daemon: Daemon) -> None:
    witnesses = Witnesses(daemon)  # type: ignore[arg-type]
    first = witnesses.current()
    assert witnesses.current() is first
    daemon.end()
    with first.news:
        assert first.news.wait_for(lambda: first.lost, 10)
    assert not witnesses.current().lost
    assert len(daemon.streams) == 2


def state(code: int = 1, seconds: float = 3.0, **changes: object) -> dict[str, object]:
    found = {"Status": "exited", "Running": False, "ExitCode": code, "StartedAt": EARLY}
    return found | {"FinishedAt": f"2026-01-01T00:00:{seconds:012.9f}Z"} | changes


def seen(daemon: Daemon, one: Witness, code: int = 1, late: float = 0.1, **ended: Any) -> Ending:
    """The ending of a trial of 5 s whose container started at :data:`EARLY` and died with ``code``.

    ``late``: seconds after which the engine reported that.
    """
    early = witness.nanoseconds_of(EARLY) / 1e9
    finished = witness.nanoseconds_of(daemon.state["FinishedAt"]) / 1e9
    with one.watching("c") as container:
        daemon.tell("start", at=time.time())
        daemon.tell("die", at=finished + late, exitCode=str(code))
        how = {"signalled": False, "silent_since": early + 60} | ended
        return witness.ending_of(daemon, "c", trial("image", "true", timeout=5.0), container, **how)  # type: ignore[arg-type]


def test_an_ending_is_what_events_and_inspection_agree_on(daemon: Daemon, one: Witness) -> None:
    daemon.state = state()
    assert seen(daemon, one) == Ending(exit_code=1, seconds=3.0)
    daemon.state = state(137, 5.2, OOMKilled=True)
    assert seen(daemon, one, 137, signalled=True) == Ending(exit_code=137, seconds=5.2, oom=True, timed_out=True)


def test_a_container_that_podman_removes_for_another_process_is_looked_at_twice(
    daemon: Daemon, one: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witness, "_GONE", 0.0)
    daemon.podman, daemon.inspectable, daemon.state = True, 1, state(1)
    assert seen(daemon, one).exit_code == 1  # no signal: the program's own end
    daemon.inspections, daemon.state = 0, state(137)
    with pytest.raises(EngineLost, match="removed the container"):
        seen(daemon, one, 137)


def test_what_the_stream_of_podman_left_out_is_asked_for(
    daemon: Daemon, one: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witness, "_RECALLS", 0.01)
    monkeypatch.setattr(witness, "_GONE", 0.0)
    daemon.podman, daemon.state = True, state(137)
    finished = witness.nanoseconds_of(daemon.state["FinishedAt"]) / 1e9
    daemon.kept = [line("start", finished - 3), line("die", finished + 0.1, exitCode="137")]
    with one.watching("c") as container:
        how: Any = {"signalled": False, "silent_since": finished + 60}
        assert witness.ending_of(daemon, "c", trial("image", "true"), container, **how).exit_code == 137  # type: ignore[arg-type]
    daemon.kept.insert(1, line("kill", finished))
    daemon.kept.append(b'{"message": "half a line", "response": 500}')
    with pytest.raises(EngineLost, match="from outside"):
        seen(daemon, one, 137)


@pytest.mark.parametrize(
    ("found", "ended", "words"),
    [
        (state(2), {}, "exit status 1, and then"),
        (state(1, Status="running"), {}, "is running"),
        (state(1, 3.0), {"signalled": True}, r"ran for 3.0 s .* stood still"),
    ],
)
def test_an_ending_that_does_not_count(
    daemon: Daemon, one: Witness, found: dict[str, object], ended: dict[str, Any], words: str
) -> None:
    daemon.state = found
    with pytest.raises(EngineLost, match=words):
        seen(daemon, one, **ended)


def test_output_that_ended_before_the_program(daemon: Daemon, one: Witness) -> None:
    daemon.state = state()
    began = witness.nanoseconds_of(EARLY) / 1e9
    assert seen(daemon, one, silent_since=began + 2.99).exit_code == 1
    with pytest.raises(EngineLost, match=r"cut 0\.20 s before"):
        seen(daemon, one, silent_since=began + 2.8)


def test_an_end_that_docker_reports_late_does_not_count(daemon: Daemon, one: Witness) -> None:
    daemon.state = state()
    assert seen(daemon, one, late=1.9).exit_code == 1
    with pytest.raises(EngineLost, match=r"busy for 2\.1 s .* output may be missing"):
        seen(daemon, one, late=2.1)
    daemon.podman = True
    assert seen(daemon, one, late=2.1).exit_code == 1


def test_the_clock_of_an_engine_elsewhere_is_known_by_its_events(
    daemon: Daemon, one: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "is_local", lambda: False)
    monkeypatch.setattr(witness, "time", SimpleNamespace(time=lambda: 1000.0))
    with one.watching("c") as container:
        for late in (100.4, 100.0, 103.0):  # the engine's clock is 100 s behind ours
            daemon.tell("start", at=1000.0 - late)
        daemon.tell("die", at=899.8, exitCode="0")
        assert container.ended(10)
    assert 899.9 < one.on_its_clock(1000.0) < 900.6


def test_a_program_that_outlives_its_output(daemon: Daemon, one: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "DRAIN", 0.01)
    daemon.state = state(Running=True)
    with one.watching("c") as container, pytest.raises(EngineLost, match="still runs"):
        witness.ending_of(daemon, "c", trial("image", "true"), container, signalled=False, silent_since=0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("blocks", "free", "files", "left", "words"),
    [
        (2**26, 10**6, 10**6, 10**6, ""),
        (2**26, 100, 10**6, 10**6, "MiB are free"),
        (20 * 2**8, 2**8, 10**6, 10**6, ""),  # 1 MiB of 20: small, and not full
        (20 * 2**8, 4, 10**6, 10**6, "MiB are free"),
        (2**26, 10**6, 10**6, 0, "no more files"),
        (2**26, 10**6, 0, 0, ""),
    ],
)
def test_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, files: int, left: int, words: str
) -> None:
    found = SimpleNamespace(f_frsize=4096, f_blocks=blocks, f_bavail=free, f_files=files, f_favail=left)
    monkeypatch.setattr(os, "statvfs", lambda path: found)
    said = witness.full_disk(Path("/x"))
    assert (words in said) if words else not said


def test_a_failure_on_a_full_disk_is_the_engines(daemon: Daemon, one: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "full_disk", lambda root: f"0 MiB are free at {root}")
    daemon.state = state()
    with pytest.raises(EngineLost, match="disk is full: 0 MiB"):
        seen(daemon, one)
    daemon.state = state(0)
    assert seen(daemon, one, 0).exit_code == 0


def test_the_filter_asks_for_the_containers_of_this_process() -> None:
    asked: dict[str, Any] = {}

    class Asked(Daemon):
        def get(self, path: str, **parameters: Any) -> Stream:
            asked.update(parameters, path=path)
            return super().get(path, **parameters)

    daemon = Asked()
    witness.Witness(daemon)  # type: ignore[arg-type]
    daemon.end()
    assert asked["path"] == "/events"
    assert json.loads(asked["params"]["filters"])["label"] == [f"org.reprokit.pid={os.getpid()}"]
