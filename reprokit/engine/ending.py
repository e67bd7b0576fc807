"""How the engine saw a trial's container end, or why what it saw says nothing of the program. See :mod:`witness`."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.core.errors import EngineLost
from reprokit.engine.wire import ANSWER_WITHIN, Wire
from reprokit.engine.witness import ContainerEvents
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.engine.protocol import Trial

DRAIN = 10.0
"""Seconds for which a killed container may take to end its output, and one without output to end."""

_KILLED = 137
_SIGNALLED = 128
_GONE = 1.0  # seconds that Podman may take from the end of a container that it removes to its removal
_OOM_NEWS = 0.5  # seconds for which the engine's oom event may come after the end of the container
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
    if not events.ended(DRAIN):
        with wire.errors():
            if client.inspect_container(name)["State"]["Running"]:
                raise EngineLost("the connection to the trial's output was cut: its container still runs")
        events.ended(ANSWER_WITHIN)
    code = events.code()
    with wire.errors():
        state = client.inspect_container(name)["State"]
    if code > _SIGNALLED and not events.sent and wire.is_podman():
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
