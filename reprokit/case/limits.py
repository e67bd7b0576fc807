"""The limits of a trial: one row for each key of ``resources``, with all that reprokit does and says for it. Pure.

To add a key: its row here, its field in :class:`reprokit.case.cellspec.Limits` and its type in ``Resources``. A column
that is left out is a type error, and ``tests/unit/case/test_table_of_limits.py`` finds a key that is not in all three.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from reprokit.case import units
from reprokit.case.cellspec import Limits
from reprokit.case.scalars import truth

HOSTNAME = "repro"
PIDS = 4096
"""Processes and threads of a trial unless the case says otherwise: room for any framework, none for a fork bomb."""

NOT_HELD = "a virtual environment has no limit but time and memory; choose a container engine by --engine"
SHARED = "a virtual environment shares this host's"

_MIB = 1024**2
_PERIOD = 100_000  # microseconds; the kernel's and both engines' default

Described = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class AskedOfEngines:
    """How container engines are asked for a limit. Its functions take the value of the cell, None where it has none."""

    docker: Callable[[Any], Described]
    """Its part of ``POST /containers/create`` of Docker's API, which Podman serves, too."""
    podman: Callable[[Any], Described]
    """Its part of ``POST /libpod/containers/create``, by which Podman takes containers with GPUs."""
    line: Callable[[Any], Sequence[str]]
    """Its words in the ``docker run`` or ``podman run`` that repeats a trial by hand."""


@dataclass(frozen=True, kw_only=True)
class HeldByEngines:
    """What tells that an engine does not hold a limit; '' = it always does."""

    docker: str
    """The key of Docker's ``GET /info`` that is false where this host's engine does not hold it."""
    podman: str
    """The controller of cgroups that Podman needs for it."""
    venv: str
    """Why a virtual environment does not."""


@dataclass(frozen=True, kw_only=True)
class LimitRow:
    """One key of ``resources``."""

    key: str
    about: str
    """What the documentation, the schema and editors say of it."""
    parse: Callable[..., Any]
    """Text (of ``ulimits``: name and text) to value; its ValueError says what is expected."""
    asked: AskedOfEngines
    """How engines are asked for it."""
    held: HeldByEngines
    """Which engines hold it."""
    cap: str
    """The field of the site's and of an untrusted case's caps that bounds it; '' = none."""
    shown: Callable[[Any], str]
    """The value in messages."""
    recorded: bool
    """Whether a record of a cell has it, in :class:`reprokit.evidence.details.LimitsRecord`."""

    def is_asked(self, limits: Limits) -> bool:
        """Whether the case asks for another value than a trial has anyway."""
        return bool(getattr(limits, self.key) != _DEFAULTS[self.key])


def shown_bytes(size: float) -> str:
    """A size in words, such as ``2 GiB``."""
    return f"{size / _MIB:.6g} MiB" if size % (_MIB * 1024) else f"{size / _MIB / 1024:g} GiB"


def merge(parts: Sequence[Described]) -> dict[str, Any]:
    """Parts of a description as one: mappings merge, lists follow one another."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, Mapping):
                whole[key] = merge([whole.get(key, {}), value])
            elif isinstance(value, list):
                whole[key] = [*whole.get(key, ()), *value]
            else:
                whole[key] = value
    return whole


def libpod_ulimit(ulimit: Described) -> Described:
    """A limit of processes as Podman's own API has it. Unsigned there: "unlimited" is the greatest number, not -1."""
    return {"type": ulimit["Name"], "soft": ulimit["Soft"] % 2**64, "hard": ulimit["Hard"] % 2**64}


def _nothing(value: Any) -> dict[str, Any]:
    """For what reprokit itself sees to, such as the time limit and which GPUs a trial gets."""
    return {}


def _no_words(value: Any) -> list[str]:
    return []


def _host(config: Described | None) -> Described:
    return {"HostConfig": config} if config else {}


def _option(name: str) -> Callable[[Any], list[str]]:
    return lambda value: [] if value is None else [f"--{name}={value}"]


def _ulimits(value: Sequence[str]) -> list[dict[str, Any]]:
    found = (re.split("[=:]", text) for text in value)
    return [{"Name": name, "Soft": int(soft), "Hard": int(hard)} for name, soft, hard in found]


def _own_names(network: str) -> list[str]:
    """``NAME:ADDRESS`` that the engine has to be given. A network brings them itself; torch's gloo, for one, asks."""
    return [f"{HOSTNAME}:127.0.0.1"] if network == "none" else []


def _docker_network(value: str) -> Described:
    names = _own_names(value)
    return _host({"NetworkMode": value, **({"ExtraHosts": names} if names else {})})


ALWAYS = HeldByEngines(docker="", podman="", venv="")
BY_REPROKIT = AskedOfEngines(docker=_nothing, podman=_nothing, line=_no_words)

# The sum of memory and swap equals the memory: a limit that swaps is not a limit.
LIMITS = (
    LimitRow(
        key="gpus",
        about="Number of GPUs.",
        parse=units.count,
        asked=BY_REPROKIT,  # those that are leased: reprokit.engine.container_spec
        held=ALWAYS,
        cap="",
        shown=str,
        recorded=False,
    ),
    LimitRow(
        key="gpu_memory",
        about="The least memory of each GPU, such as 16g.",
        parse=units.size,
        asked=BY_REPROKIT,
        held=ALWAYS,
        cap="",
        shown=shown_bytes,
        recorded=False,
    ),
    LimitRow(
        key="gpu_model",
        about="Words of the model's name, as the driver gives it: V100 accepts a Tesla V100-SXM2-16GB. As a "
        "template over an axis it makes the model an axis.",
        parse=units.gpu_model,
        asked=BY_REPROKIT,
        held=ALWAYS,
        cap="",
        shown=str,
        recorded=False,
    ),
    LimitRow(
        key="gpu_capabilities",
        about="What containers get of the driver beside compute and utility: video, graphics, display, ngx, "
        "compat32. By CDI they get all that it describes.",
        parse=units.gpu_capability,
        asked=BY_REPROKIT,  # with the GPUs
        held=ALWAYS,
        cap="",
        shown=", ".join,
        recorded=True,
    ),
    LimitRow(
        key="cpus",
        about="CPU cores, such as 4 or 0.5.",
        parse=units.cores,
        asked=AskedOfEngines(
            docker=lambda cores: _host(None if cores is None else {"NanoCpus": round(cores * 1e9)}),
            podman=lambda cores: (
                {}
                if cores is None
                else {"resource_limits": {"cpu": {"quota": round(cores * 1e9) * _PERIOD // 10**9, "period": _PERIOD}}}
            ),
            line=lambda cores: [] if cores is None else [f"--cpus={cores:g}"],
        ),
        held=HeldByEngines(docker="CpuCfsQuota", podman="cpu", venv=NOT_HELD),
        cap="cpus",
        shown=lambda cores: f"{cores:g}",
        recorded=True,
    ),
    LimitRow(
        key="memory",
        about="Memory limit, such as 16g.",
        parse=units.memory,
        asked=AskedOfEngines(
            docker=lambda size: _host(None if size is None else {"Memory": size, "MemorySwap": size}),
            podman=lambda size: {} if size is None else {"resource_limits": {"memory": {"limit": size, "swap": size}}},
            line=lambda size: [] if size is None else [f"--memory={size}", f"--memory-swap={size}"],
        ),
        held=HeldByEngines(docker="MemoryLimit", podman="memory", venv=""),
        cap="memory",
        shown=shown_bytes,
        recorded=True,
    ),
    LimitRow(
        key="shm_size",
        about="Size of /dev/shm, as in Compose, such as 1g.",
        parse=units.size,
        asked=AskedOfEngines(
            docker=lambda size: _host(None if size is None else {"ShmSize": size}),
            podman=lambda size: {} if size is None else {"shm_size": size},
            line=_option("shm-size"),
        ),
        held=HeldByEngines(docker="", podman="", venv=SHARED),
        cap="memory",
        shown=shown_bytes,
        recorded=True,
    ),
    LimitRow(
        key="ipc",
        about="host: shared memory and semaphores of the host, /dev/shm included. private (default): its own.",
        parse=units.ipc,
        asked=AskedOfEngines(
            docker=lambda mode: _host({"IpcMode": mode} if mode == "host" else None),
            podman=lambda mode: {"ipcns": {"nsmode": mode}} if mode == "host" else {},
            line=lambda mode: ["--ipc=host"] if mode == "host" else [],
        ),
        held=ALWAYS,
        cap="host_ipc",
        shown=str,
        recorded=True,
    ),
    LimitRow(
        key="pids",
        about="Limit on the number of processes and threads.",
        parse=units.pids,
        asked=AskedOfEngines(
            docker=lambda count: _host({"PidsLimit": count or PIDS}),
            podman=lambda count: {"resource_limits": {"pids": {"limit": count or PIDS}}},
            line=lambda count: [f"--pids-limit={count or PIDS}"],
        ),
        held=HeldByEngines(docker="PidsLimit", podman="pids", venv=NOT_HELD),
        cap="pids",
        shown=lambda count: f"{count:g}",
        recorded=True,
    ),
    LimitRow(
        key="ulimits",
        about="Limits of each process, as in Compose: memlock: unlimited, stack: 64m, nofile: 1024:4096 (soft "
        "and hard), and as, cpu, data, fsize, msgqueue, nproc, sigpending. The engine's own by default.",
        parse=units.ulimit,
        asked=AskedOfEngines(
            docker=lambda texts: _host({"Ulimits": _ulimits(texts)}),
            podman=lambda texts: {"r_limits": [libpod_ulimit(one) for one in _ulimits(texts)]},
            line=lambda texts: [f"--ulimit={text}" for text in texts],
        ),
        held=HeldByEngines(docker="", podman="", venv=NOT_HELD),
        cap="",
        shown=", ".join,
        recorded=True,
    ),
    LimitRow(
        key="timeout",
        about="Time limit of one trial, such as 30m, 1h30m or 90s.",
        parse=units.duration,
        asked=BY_REPROKIT,  # reprokit's own clock
        held=ALWAYS,
        cap="timeout",
        shown=lambda seconds: f"{seconds:g} s",
        recorded=True,
    ),
    LimitRow(
        key="network",
        about="Network of the run, not of the build: none or bridge.",
        parse=units.network,
        asked=AskedOfEngines(
            docker=_docker_network,
            podman=lambda mode: {"netns": {"nsmode": mode}, "hostadd": _own_names(mode)},
            line=lambda mode: [f"--network={mode}", *(f"--add-host={name}" for name in _own_names(mode))],
        ),
        held=HeldByEngines(docker="", podman="", venv=SHARED),
        cap="network",
        shown=str,
        recorded=False,
    ),
    LimitRow(
        key="backtrace",
        about="Take the stacks of all threads where a signal ends a program, and of everything at the time "
        "limit, by gdb and py-spy, which are installed over the image. Part of the log.",
        parse=truth,
        asked=BY_REPROKIT,  # a tracer is started beside the command
        held=ALWAYS,
        cap="",
        shown=str,
        recorded=False,
    ),
    LimitRow(
        key="user",
        about="User that runs the command: repro (unprivileged), or root if the bug needs it.",
        parse=units.user,
        asked=AskedOfEngines(
            docker=lambda name: {"User": name},
            podman=lambda name: {"user": name},
            line=_option("user"),
        ),
        held=ALWAYS,  # which users it has depends on who runs reprokit: reprokit.environment.on_host
        cap="",
        shown=str,
        recorded=False,
    ),
    LimitRow(
        key="output",
        about="joined (default): stdout and stderr are one pipe, so that the log has them in the order in which "
        "they were written. separate: two pipes, for a case that is about the streams; their order is a guess.",
        parse=units.output,
        asked=BY_REPROKIT,  # a shell before the command joins them
        held=ALWAYS,
        cap="",
        shown=str,
        recorded=False,
    ),
)
"""Every key of ``resources``, in the order in which the documentation has them."""

ABOUT: Mapping[str, str] = {row.key: row.about for row in LIMITS}

_DEFAULTS = {one.name: one.default for one in fields(Limits)}


def docker_body(limits: Limits) -> dict[str, Any]:
    """What Docker's API is asked for because of these limits."""
    return merge([row.asked.docker(getattr(limits, row.key)) for row in LIMITS])


def libpod_spec(limits: Limits) -> dict[str, Any]:
    """What Podman's own API is asked for because of these limits."""
    return merge([row.asked.podman(getattr(limits, row.key)) for row in LIMITS])


def option_words(limits: Limits, keys: Sequence[str] = tuple(ABOUT)) -> list[str]:
    """The options of ``docker run`` for these limits, or for those of ``keys``."""
    return [word for row in LIMITS if row.key in keys for word in row.asked.line(getattr(limits, row.key))]
