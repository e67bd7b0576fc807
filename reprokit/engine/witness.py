"""How a trial's container ended, as one unbroken stream of the engine's events saw it: without that, no end counts.

A connection can be cut, and the daemon that answers next may be another one, in whose words the trial ended with the
SIGTERM of its predecessor. A stream that was open before the container was made, and still is at its end, comes from
one daemon that lived all the time.
"""

from __future__ import annotations

import datetime
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.core import ownership
from reprokit.core.errors import BuildFailed, EngineError, EngineLost, Unsupported
from reprokit.engine.wire import ANSWER_WITHIN, Wire, raise_for_status, raw_socket
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.engine.protocol import Trial


_NEWS = 1.0  # seconds within which the closed connection of a daemon that is gone is noticed
_LATE = 0.5  # seconds that the fastest of an engine's events may take to come
_SIGNALS = {"9": "SIGKILL", "15": "SIGTERM"}


class ContainerEvents:
    """What the engine reported of one container so far.

    ``sent``: the signals that we asked it to send, as numbers. ``reported``: when it reported the end, by its clock.
    """

    def __init__(self, witness: Witness) -> None:
        self.sent: set[str] = set()
        self.reported = 0
        self.witness = witness
        self._news = witness.news
        self._starts: set[int] = set()
        self._code: int | None = None
        self._oom = False
        self._signals: list[str] = []
        self._paused = False

    def take(self, action: str, attributes: dict[str, str], moment: int) -> None:
        """Take one event, of a moment in nanoseconds.

        Podman says events again, with their moments, when it shortens the file in which it keeps them (at 1 MB).
        """
        if action == "start":
            self._starts.add(moment)
        elif action == "die":
            self._code, self.reported = int(attributes["exitCode"]), moment
        elif action == "oom":
            self._oom = True
        elif action == "pause":
            self._paused = True
        elif action == "kill" and (self._code is None or moment < self.reported):
            self._signals.append(attributes.get("signal", ""))

    def ended(self, within: float) -> bool:
        """Whether the engine reported the end, or can no longer do so, within so many seconds."""
        with self._news:
            return self._news.wait_for(lambda: self._code is not None or self.witness.lost, within)

    def code(self) -> int:
        """The exit status with which the engine reported the end. Raises EngineLost where that is not the program's."""
        with self._news:
            why, code = self._fault(), self._code
        if why or code is None:
            raise EngineLost(why)
        return code

    def out_of_memory(self, within: float) -> bool:
        """Whether the kernel killed a process in it for memory; the engine may report that a moment after the end."""
        with self._news:
            return self._news.wait_for(lambda: self._oom or self.witness.lost, within) and self._oom

    def _fault(self) -> str:
        if self._foreign():
            names = ", ".join(dict.fromkeys(_SIGNALS.get(one) or f"signal {one or '?'}" for one in self._signals))
            return (
                f"the trial was stopped from outside: the engine sent its container {names}, for which reprokit had "
                "not asked (a 'docker stop', 'kill' or 'rm' by another process, or an engine that shuts down)"
            )
        if self._code is None and self.witness.lost:
            return "the engine stopped, or its event stream broke off, before it reported the end of the trial"
        if self._code is None:
            return "the engine did not report the end of the trial's container"
        if len(self._starts) > 1 or not (self._starts or self.witness.may_leave_out):
            return f"the engine reported {len(self._starts)} starts of the trial's container, and not one"
        return "the trial's container was paused by another process" if self._paused else ""

    def _foreign(self) -> bool:
        # Podman does not say which signal.
        return any(one not in self.sent if one else not self.sent for one in self._signals)


class Witness:
    """One stream of the engine's events about the containers of this process. ``lost``: whether it has ended.

    ``news``: notified of every event and of the end. Raises EngineLost where the engine does not answer.
    """

    def __init__(self, wire: Wire) -> None:
        self.news = threading.Condition()
        self.lost = False
        self.may_leave_out = wire.is_podman()  # even the start that we asked for: see recall
        self._wire = wire
        self._containers: dict[str, ContainerEvents] = {}
        self._lead: float | None = None
        # Not by the kind of event: Podman 4.3 has names of its own for them.
        filters = {"type": ["container"], "label": [f"{ownership.PID}={os.getpid()}"]}
        client = wire.client()
        with wire.errors():
            self._response = client.get(
                wire.url("/events"), params={"filters": json.dumps(filters)}, stream=True, timeout=ANSWER_WITHIN
            )
            raise_for_status(self._response)
            raw_socket(self._response).settimeout(None)
        threading.Thread(target=self._read, name="engine-events", daemon=True).start()

    @contextmanager
    def watching(self, name: str) -> Iterator[ContainerEvents]:
        """A block in which the events of the container of that name are kept."""
        events = ContainerEvents(self)
        with self.news:
            self._containers[name] = events
        try:
            yield events
        finally:
            with self.news:
                del self._containers[name]

    @contextmanager
    def vouching(self) -> Iterator[None]:
        """A block in which what the engine refuses, or says to have failed, counts only if it still is the same engine.

        Raises EngineLost where it is not: a daemon that goes down has many words for that.
        """
        try:
            yield
        except EngineLost:
            raise
        except (EngineError, BuildFailed, Unsupported) as error:
            # The one that listens answers; if it is another one, the connection to the one before is closed by then.
            self._wire.ping()
            with self.news:
                self.news.wait_for(lambda: self.lost, _NEWS)
            if self.lost:
                raise EngineLost(f"the engine was restarted meanwhile; before, it said: {error}") from error
            raise

    def recall(self, name: str) -> None:
        """Take what Podman has kept of a container's events.

        Where it has no journal, its stream leaves out those of the 0.25 s before it shortens its file, of which it
        keeps the newer half (from 4.5 on; libpod/events/logfile.go).
        """
        # Further back than an hour, a journal may hold months.
        params = {"filters": json.dumps({"container": [name]}), "stream": "false", "since": int(time.time()) - 3600}
        with self._wire.errors():
            answer = self._wire.client().get(self._wire.url("/events"), params=params, timeout=ANSWER_WITHIN)
            raise_for_status(answer)
        with suppress(ValueError, KeyError, TypeError):  # no event: Podman 4.3 says so where it read half a line
            for line in answer.text.splitlines():
                self._take(json.loads(line))

    def on_its_clock(self, moment: float) -> float:
        """A moment of this host's clock on the engine's; where that is another clock, known by its events, rather late.

        Events take time to come, those of Podman up to 0.25 s.
        """
        if self._wire.is_local():
            return moment
        with self.news:
            return moment - (self._lead or 0.0) + _LATE

    def _read(self) -> None:
        try:
            for line in self._response.iter_lines(chunk_size=None):
                if line:
                    self._take(json.loads(line))
        except Exception:  # whatever ends the stream, and whatever is not an event, ends the witness
            pass
        finally:
            self._response.close()
            with self.news:
                self.lost = True
                self.news.notify_all()

    def _take(self, event: dict[str, Any]) -> None:
        attributes = event["Actor"]["Attributes"]
        with self.news:
            lead = time.time() - event["timeNano"] / 1e9
            self._lead = lead if self._lead is None else min(lead, self._lead)
            if (container := self._containers.get(attributes.get("name", ""))) is not None:
                container.take(event["Action"], attributes, event["timeNano"])
                self.news.notify_all()


class Witnesses:
    """The witness of one engine, a new one where the last was lost.

    ``unremoved``: names of containers that could not be removed when the engine went away, and when that was (seconds
    of the monotonic clock).
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lock = threading.Lock()
        self._witness: Witness | None = None
        self.unremoved: dict[str, float] = {}

    def current(self) -> Witness:
        """A stream that is open. Raises EngineLost where the engine does not answer."""
        with self._lock:
            if self._witness is None or self._witness.lost:
                self._witness = Witness(self._wire)
            return self._witness


DRAIN = 10.0
"""Seconds for which a killed container may take to end its output, and one without output to end."""

_KILLED = 137
_SIGNALLED = 128
_RECALLS = 0.5  # seconds without the end of a trial, after which Podman is asked for what it has kept
_GONE = 1.0  # seconds that Podman may take from the end of a container that it removes to its removal
_OOM_NEWS = 0.5  # seconds for which the engine's oom event may come after the end of the container
_DROPS_AFTER = 2.0  # seconds after which dockerd drops what is left of an ended container's output (daemon/monitor.go)
_CUT = 0.1  # seconds: Podman passes the end of the output on before it notes that of the program, by up to 10 ms
_LITTLE = 64 * 2**20  # bytes: less is free on a disk that is full, as other programs write meanwhile


def ending_of(
    wire: Wire,
    name: str,
    trial: Trial,
    events: ContainerEvents,
    *,
    signalled: bool,
    silent_since: float,
) -> Ending:
    """How the engine saw the container end. Raises EngineLost where that says nothing about its program.

    ``signalled``: we asked to stop it at its time limit. ``silent_since``: when its output ended, on our clock.
    """
    client = wire.client()
    until = time.monotonic() + DRAIN
    while not events.ended(_RECALLS) and time.monotonic() < until:
        if wire.is_podman():
            events.witness.recall(name)
    if not events.ended(0):
        with wire.errors():
            if client.inspect_container(name)["State"]["Running"]:
                raise EngineLost("the connection to the trial's output was cut: its container still runs")
        events.ended(ANSWER_WITHIN)
    code = events.code()
    with wire.errors():
        state = client.inspect_container(name)["State"]
    if code > _SIGNALLED and not events.sent and wire.is_podman():
        events.witness.recall(name)
        events.code()
        # Of a removal by another process Podman reports no signal. A moment later the container is gone.
        time.sleep(_GONE)
        with wire.errors():
            client.inspect_container(name)
    # "stopped": in Podman, ended and not yet tidied up.
    if state.get("Status") not in {"exited", "dead", "stopped"} or state["ExitCode"] != code:
        raise EngineLost(
            f"the engine reported that the trial ended with exit status {code}, and then that its container is "
            f"{state.get('Status')} with exit status {state['ExitCode']}"
        )
    finished = nanoseconds_of(state["FinishedAt"])
    if (more := finished / 1e9 - events.witness.on_its_clock(silent_since)) > _CUT:
        raise EngineLost(f"the connection to the trial's output was cut {more:.2f} s before the trial ended")
    seconds = (finished - nanoseconds_of(state["StartedAt"])) / 1e9
    if signalled and seconds < trial.limits.timeout * 0.99 - 0.1:  # clocks differ, and Podman's moments are coarse
        raise EngineLost(
            f"the trial ran for {seconds:.1f} s by the engine's clock when its time limit of {trial.limits.timeout:g} "
            "s was over here: the engine or this host stood still meanwhile"
        )
    late = (events.reported - finished) / 1e9
    if late > _DROPS_AFTER and not wire.is_podman():  # reported once all was passed on, or the rest dropped
        raise EngineLost(
            f"the engine was busy for {late:.1f} s after the trial ended: a part of its output may be missing, which "
            f"Docker drops after {_DROPS_AFTER:g} s"
        )
    if code and (storage := wire.storage()) and (full := full_disk(storage)):
        raise EngineLost(f"the trial ended with exit status {code}, and the engine's disk is full: {full}")
    oom = bool(state.get("OOMKilled")) or events.out_of_memory(_OOM_NEWS if code == _KILLED else 0.0)
    return Ending(exit_code=code, oom=oom, timed_out=signalled, seconds=max(seconds, 0.0))


def full_disk(root: Path) -> str:
    """What is left for what containers write below ``root``, in words, where that is next to nothing; else ''."""
    try:
        found = os.statvfs(root)
    except OSError:  # a folder of the engine that this user cannot see
        return ""
    free = found.f_bavail * found.f_frsize
    if free < min(_LITTLE, found.f_blocks * found.f_frsize // 100):
        return f"{free / 2**20:.1f} MiB are free at {root}"
    # Where files need no place of their own, as in btrfs, both counts are 0.
    return f"no more files can be made at {root}" if found.f_files and not found.f_favail else ""


def nanoseconds_of(moment: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 moment in UTC as the engine writes it, with up to nine decimals."""
    whole, _, fraction = moment.removesuffix("Z").partition(".")
    seconds = int(datetime.datetime.fromisoformat(whole + "+00:00").timestamp())
    return seconds * 10**9 + int((fraction or "0").ljust(9, "0")[:9])
