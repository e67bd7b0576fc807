"""One trial in one container: created with every limit, attached before it starts, always removed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from reprokit.core import interrupts, ownership
from reprokit.core.errors import Cancelled, EngineError, EngineLost, Unsupported
from reprokit.core.tty import Terminal, relay
from reprokit.engine import container_spec, usage
from reprokit.engine.protocol import ELSEWHERE
from reprokit.engine.stream import Demux, Joined, Pace
from reprokit.engine.tracing import Tracing
from reprokit.engine.usage import DiskWatch
from reprokit.engine.wire import ANSWER_WITHIN, Hijacked, Wire, errors, raise_for_status
from reprokit.engine.witness import DRAIN, ContainerEvents, Witnesses, ending_of
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.engine.protocol import Slot, Trial


GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL at the time limit: enough for a handler to print where the program stood."""

MADE_WITHIN = 60.0
"""Seconds within which an engine makes a container that it was asked for, where its answer was lost."""
BUSY = (0.2, 0.5, 1.0, 2.0)
"""Seconds to wait, in turn, for a mount of a container that another process still holds: seen on Podman 4.3.1."""
_TICK = usage.EVERY  # how often a silent trial's usage and cancel event are looked at; output and the end wake it
_READ = 256 * 1024


def run(
    wire: Wire,
    trial: Trial,
    sink: Callable[[bytes], None],
    cancel: threading.Event,
    slot: Slot,
    witnesses: Witnesses,
    *,
    podman: bool,
    runtime: str = "",
) -> Ending:
    """Run a trial; see :meth:`reprokit.engine.protocol.Engine.run`. ``podman``: whether the engine is Podman.
    ``runtime``: of the engine's, in which it runs.

    At its time limit a trial gets SIGTERM and, ``GRACE`` seconds later, SIGKILL. On ``cancel`` it gets SIGKILL at once.
    """
    if cancel.is_set():
        raise Cancelled("cancelled before the trial started")
    name = f"reprokit-{uuid.uuid4().hex[:12]}"
    witness = witnesses.current()
    with witness.vouching(), witness.watching(name) as events:
        return _run(wire, name, trial, sink, cancel, slot, events, witnesses.unremoved, podman=podman, runtime=runtime)


def _run(
    wire: Wire,
    name: str,
    trial: Trial,
    sink: Callable[[bytes], None],
    cancel: threading.Event,
    slot: Slot,
    events: ContainerEvents,
    unremoved: dict[str, float],
    *,
    podman: bool,
    runtime: str,
) -> Ending:
    if trial.mounts and wire.endpoint.is_remote:
        folders = ", ".join(str(mount.source) for mount in trial.mounts)
        raise Unsupported(f"{folders}: {ELSEWHERE.format(wire.endpoint.url)}")
    container_spec.check_runtime_gpus(runtime, trial.gpus)
    cdi = cdi_names(wire, trial, podman=podman)
    body = container_spec.create_body(
        trial,
        ownership.ownership(),
        cdi=cdi,
        env=container_spec.hide_other_gpus(trial, cdi, wire.details()),
        runtime=runtime,
    )
    if podman:
        body = container_spec.for_podman(body, container_spec.podman_limits())
    attached: Hijacked | None = None
    tracer: Tracing | None = None
    meter: usage.Meter | None = None
    client = wire.client()
    remove_left(client, unremoved, wire.endpoint.url)
    interrupts.would_leave(f"container {name}", f"remove it with: {'podman' if podman else 'docker'} rm -fv {name}")
    try:
        with container_spec.starting_in_runtime(runtime), wire.errors():
            # Shielded: an interrupt in the middle could leave a container that is made after we asked to remove it.
            shielded(lambda: _create(wire, name, body, trial, podman=podman))
            if trial.files:
                client.put_archive(name, trial.workdir, container_spec.packed(trial.files))
            attached = wire.hijack(
                f"/containers/{name}/attach",
                params={"stdin": int(trial.terminal is not None), "stdout": 1, "stderr": 1, "stream": 1},
                headers=[("Connection", "Upgrade"), ("Upgrade", "tcp"), ("Content-Length", "0")],
                expect_first=False,
            )
        with slot:
            if cancel.is_set():
                raise Cancelled("cancelled before the trial started")
            with container_spec.starting_in_runtime(runtime), wire.errors():
                client.start(name)
            tracer = Tracing(wire, name, trial.limits.user) if trial.traced else None
            started = time.monotonic()
            with wire.errors():
                found = client.inspect_container(name)
            kills = podman and trial.limits.memory is not None
            meter = usage.meter_container(found["State"]["Pid"], found["Id"], kills=kills)
            pace = Pace(trial.limits.timeout, started, meter.taking(sink))
            disk = DiskWatch(wire, name, trial.limits.disk, trial.trust)
            watch = _Watch(wire, name, attached, pace, cancel, meter, events, disk, tracer)
            try:
                if trial.terminal is None:
                    signalled = watch.follow()
                else:
                    signalled = False
                    attend(wire, name, attached, trial.terminal, cancel, watch.check)
            finally:
                disk.close()
            silent_since = time.time()
        ending = ending_of(wire, name, trial, events, signalled=signalled, silent_since=silent_since)
        pace.check(timed_out=ending.timed_out)
        if trial.outputs is not None:
            trial.outputs.from_container(wire, name, trial.workdir)
        if tracer is not None and (said := tracer.said()):
            sink(b"\n" + said)
        # What debuggers need is not the program's.
        oom = ending.oom or meter.saw_kill if watch.out_of_memory is None else watch.out_of_memory
        return dataclasses.replace(ending, oom=oom, usage=meter.usage)
    finally:
        # Nested, so that a second interrupt cannot skip the removal.
        try:
            for one in (meter, attached, tracer):
                if one is not None:
                    one.close()
        finally:
            within = interrupts.CALL_WITHIN if cancel.is_set() else ANSWER_WITHIN
            is_unknown = attached is None and isinstance(sys.exc_info()[1], EngineLost)
            made = None if is_unknown else attached is not None
            shielded(lambda: _tidy_away(client, name, wire.endpoint.url, within, unremoved, made=made))
            client.close()  # docker-py keeps an idle connection for each of its last 25 URLs


def cdi_names(wire: Wire, trial: Trial, *, podman: bool) -> list[str]:
    """The CDI names of a trial's GPUs, [] where they come another way. Raises Unsupported where there is none."""
    if not trial.gpus:
        return []
    return container_spec.name_cdi_devices(trial, wire.details(), podman=podman, local=not wire.endpoint.is_remote)


def _create(wire: Wire, name: str, body: Mapping[str, Any], trial: Trial, *, podman: bool) -> None:
    if podman and "DeviceRequests" in body["HostConfig"]:
        url = wire.podman_url("/containers/create")
        spec = container_spec.libpod_spec(name, body, trial.limits)
        raise_for_status(wire.client().post(url, json=spec, timeout=ANSWER_WITHIN))
    else:
        wire.client().create_container_from_config(body, name=name)


def remove(client: Any, name: str, where: str) -> bool:
    """Remove a container and its anonymous volumes, running or not; False when there was none.

    ``where`` is the engine's address, for the message when it does not answer.
    """
    import docker.errors

    with errors(where):
        for wait in (*BUSY, None):
            try:
                client.remove_container(name, force=True, v=True)
            except docker.errors.NotFound:
                return wait != BUSY[0]
            except docker.errors.APIError as error:
                if wait is not None and "device or resource busy" in str(error):
                    time.sleep(wait)
                    continue
                # The engine is removing it already (a concurrent sweep): what we wanted.
                if error.status_code != 409:
                    raise
            break
    return True


def lease(wire: Wire, image: str) -> Callable[[], None]:
    """As :meth:`reprokit.engine.protocol.Engine.lease`: by a container that never starts, which engines respect."""
    name = f"reprokit-lease-{uuid.uuid4().hex[:12]}"
    labels = {**ownership.ownership(), ownership.LEASE: image}
    body = {"Image": image, "Entrypoint": [], "Cmd": ["true"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
    interrupts.would_leave(f"container {name}", f"remove it with: docker or podman rm {name}")

    def release() -> None:
        with suppress(EngineError):  # it went away: the next run sweeps
            client = wire.client()
            client.timeout = interrupts.CALL_WITHIN if interrupts.count() else ANSWER_WITHIN
            shielded(lambda: remove(client, name, wire.endpoint.url))
            interrupts.leaves_no_more(f"container {name}")

    try:
        with wire.errors():
            shielded(lambda: wire.client().create_container_from_config(body, name=name))
    except BaseException:
        release()
        raise

    return release


class ListedContainer(NamedTuple):
    """A container as an engine lists it; ``image``: the id of its image."""

    id: str
    labels: Mapping[str, str]
    state: str
    image: str


def list_all(wire: Wire, *, label: str = "") -> list[ListedContainer]:
    """The engine's containers, or those with a label. Raises EngineError.

    Podman's own list, not the one that it makes for Docker's clients: that one fails as a whole where the files of one
    container are missing, as a service leaves it that is killed while it makes one.
    """
    client = wire.client()
    wanted = {"label": [label]} if label else {}
    with wire.errors():
        if not wire.is_podman():
            return [_listed(one, str(one["ImageID"])) for one in client.containers(all=True, filters=wanted)]
        query = {"all": "true", "filters": json.dumps(wanted)}
        answer = client.get(wire.podman_url("/containers/json"), params=query, timeout=ANSWER_WITHIN)
        raise_for_status(answer)
        return [_listed(one, f"sha256:{one.get('ImageID')}") for one in answer.json() or []]


def _listed(one: Mapping[str, Any], image: str) -> ListedContainer:
    return ListedContainer(id=one["Id"], labels=one.get("Labels") or {}, state=one.get("State", ""), image=image)


def remove_left(client: Any, unremoved: dict[str, float], where: str) -> list[str]:
    """Remove what could not be removed before: container -> when that was; returns what was there. Raises EngineError.

    One that is not there may still be made, by a request whose answer was lost: it is looked for again for a while.
    """
    found = []
    for name, since in tuple(unremoved.items()):
        if remove(client, name, where):
            found.append(name)
        elif time.monotonic() - since < MADE_WITHIN:
            continue
        unremoved.pop(name, None)
        interrupts.leaves_no_more(f"container {name}")
    return found


def _tidy_away(
    client: Any, name: str, where: str, within: float, unremoved: dict[str, float], *, made: bool | None
) -> None:
    """Remove a trial's container ``within`` seconds. ``made``: whether there is one, None where the engine may yet make
    it. Raises EngineError, which says what is left.
    """
    client.timeout = within
    try:
        if remove(client, name, where) or made is not None:
            interrupts.leaves_no_more(f"container {name}")
        else:
            unremoved[name] = time.monotonic()
    except EngineError as error:
        if made is False:
            raise
        # Podman's containers go on without their service.
        unremoved[name] = time.monotonic()
        left = f"its container {name} may still be there: the next trial or run that this engine serves removes it"
        raise type(error)(f"{error}; {left}") from error
    finally:
        client.timeout = ANSWER_WITHIN


class _Watch:
    """Follows an attached container to its end, the time limit or cancellation.

    ``out_of_memory``: whether memory had run out at the time limit, where debuggers then worked in it.
    """

    def __init__(
        self,
        wire: Wire,
        name: str,
        attached: Hijacked,
        pace: Pace,
        cancel: threading.Event,
        meter: usage.Meter,
        events: ContainerEvents,
        disk: DiskWatch,
        tracer: Tracing | None = None,
    ) -> None:
        self.out_of_memory: bool | None = None
        self._tracer = tracer
        self._wire = wire
        self._name = name
        self._attached = attached
        self._pace = pace
        self._next_signal: float | None = None
        self._cancel = cancel
        self._meter = meter
        self._events = events
        self._disk = disk
        self._signals = [signal.SIGTERM, signal.SIGKILL]
        self._demux = Demux()

    def follow(self) -> bool:
        """Pass output on until the end; returns whether it was asked to stop at its time limit."""
        joined = Joined(self._pace.pass_on)
        while True:
            if self._cancel.is_set():
                raise Cancelled("cancelled during the trial")
            self.check()
            now = time.monotonic()
            held_for = joined.wait(now)
            moments = [_TICK, self._left(now)] + ([] if held_for is None else [held_for])
            data = b""
            late = self._readable(0.0)
            if late or self._readable(max(min(moments), 0.0)):
                data = self._attached.socket.recv(_READ)
                self._meter.look(last=not data)
                if not data:
                    break
            else:
                self._meter.look()
            now = time.monotonic()
            self._pace.looked(len(data), now, late=late)
            # Before the output is passed on: the time that this takes is not the program's.
            if self._left(now) <= 0 and self._escalate(now):
                break
            joined.feed(self._demux.feed(data), now)
        joined.close()
        self._pace.close()
        return len(self._signals) < 2

    def check(self) -> None:
        """Raise EngineLost where no one would see its end any more, and EngineError where it has filled its disk."""
        self._disk.check()
        if self._events.witness.lost:
            self._events.code()  # raises, unless the end was reported before

    def _left(self, now: float) -> float:
        """Seconds until the next signal."""
        return self._pace.left(now) if self._next_signal is None else self._next_signal - now

    def _readable(self, patience: float) -> bool:
        sock = self._attached.socket
        if getattr(sock, "pending", int)():
            return True
        process = self._meter.process
        found = select.select([sock, process] if process >= 0 else [sock], [], [], patience)[0]
        if process in found:
            self._meter.ended()
        return sock in found

    def _escalate(self, now: float) -> bool:
        """Send the next signal of the time limit; True when even SIGKILL did not end the output in time."""
        import docker.errors

        if not self._signals:
            return True
        if self._tracer is not None and len(self._signals) == 2:
            self.out_of_memory = self._events.out_of_memory(0) or self._meter.saw_kill
            self._tracer.ask(self._cancel.is_set)
            now = time.monotonic()
        number = self._signals.pop(0)
        self._next_signal = now + (GRACE if self._signals else DRAIN)
        self._events.sent.add(str(number.value))
        with self._wire.errors(), contextlib.suppress(docker.errors.APIError):  # it ended by itself meanwhile
            self._wire.client().kill(self._name, number.name)
        return False


def attend(
    wire: Wire,
    name: str,
    attached: Hijacked,
    terminal: Terminal,
    cancel: threading.Event,
    check: Callable[[], None],
) -> None:
    """Connect the terminal with the container's until its program ends. ``check``: called meanwhile, may raise.

    Raises Cancelled, and what ``check`` raises.
    """

    def resize(size: os.terminal_size) -> None:
        with suppress(EngineError), wire.errors():  # it has ended meanwhile
            wire.client().resize(name, size.lines, size.columns)

    def tick() -> None:
        if cancel.is_set():
            raise Cancelled("cancelled while the terminal was attached")
        check()

    relay(terminal, attached.socket, resize, tick)


T = TypeVar("T")


def shielded(work: Callable[[], T]) -> T:
    """Do ``work`` to its end even if the user presses Ctrl-C meanwhile; the interrupt is raised afterwards.

    After the interrupt it may take :data:`reprokit.core.interrupts.CALL_WITHIN` seconds, less after another.

    Python raises KeyboardInterrupt in the main thread only, so elsewhere nothing needs to be done.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: list[T] = []
    trouble: list[BaseException] = []

    def act() -> None:
        if not begun.acquire(blocking=False):
            return
        try:
            outcome.append(work())
        except BaseException as error:
            trouble.append(error)
        finally:
            done.set()

    # Not Thread.join: interrupted, it takes a running thread for a finished one (CPython before 3.13).
    done = threading.Event()
    begun = threading.Lock()
    interrupt: KeyboardInterrupt | None = None
    patience: float | None = None
    while True:
        try:
            if not begun.locked():  # an interrupt may come while a thread starts: the first one that runs does the work
                threading.Thread(target=act, name="shielded", daemon=True).start()
            done.wait(patience)
            break
        except KeyboardInterrupt as pressed:
            patience = interrupts.WAIT_HURRIED if interrupt else interrupts.CALL_WITHIN
            interrupt = pressed
    if interrupt is not None:
        raise interrupt
    if trouble:
        raise trouble[0]
    return outcome[0]
