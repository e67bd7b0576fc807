"""What a host has and permits, as plain data: GPUs, driver, programs, limits. The engine room measures it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.core.text import whole_number
from reprokit.environment.model import HostPackage, Interpreter

QUERY: tuple[str, ...] = ("index", "uuid", "name", "memory.total", "compute_cap", "driver_version")
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """How a GPU is set and what it does now; each is '', None, 0 or () where the driver does not tell.

    ``compute_mode``: default, exclusive-process, exclusive-thread or prohibited. ``ecc``: whether its memory is
    checked; ``uncorrected``: its uncorrected errors since the driver was loaded. ``clock`` and ``memory_clock``: MHz;
    ``throttled``: what holds the clock down.
    """

    compute_mode: str = ""
    ecc: bool | None = None
    uncorrected: int | None = None
    clock: int = 0
    memory_clock: int = 0
    throttled: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU. ``memory`` in bytes, 0 = not known; ``compute`` is its capability (``9.0``).

    ``mig``: it is split into instances (MIG mode) and cannot be leased as a whole. An instance has the ``index`` of its
    GPU, whose UUID is its ``parent``, and its own number there as ``slot``; a program uses one alone. ``processes``:
    pids that compute on it, as far as this user and pid namespace see them; nvidia-smi's list is not asked for.
    """

    index: int
    uuid: str
    name: str
    memory: int
    compute: str
    mig: bool = False
    parent: str = ""
    slot: int = 0
    processes: tuple[int, ...] = ()
    state: GpuState = field(default_factory=GpuState, compare=False)

    @property
    def place(self) -> str:
        """``1``, or ``1:0`` for an instance, as CDI and NVIDIA's runtime name them."""
        return f"{self.index}:{self.slot}" if self.parent else str(self.index)


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """``driver`` is None without an NVIDIA driver; ``cuda``: the newest CUDA version that it runs ('' = not known).

    ``asked`` says what answered: "NVML", "nvidia-smi" or '' (there is neither). ``note``: what is wrong, or why no GPU
    was
    seen, in words.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: str = ""
    kernel: str = ""
    architecture: str = "x86_64"
    asked: str = ""
    note: str = ""


def parse(text: str, query: Sequence[str] = QUERY) -> tuple[tuple[Gpu, ...], str | None]:
    """GPUs and driver from nvidia-smi's CSV (columns as in ``query``, some of QUERY; no header, no units)."""
    gpus: list[Gpu] = []
    driver: str | None = None
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(query) or (index := whole_number(fields[0])) is None:
            continue
        row = dict.fromkeys(QUERY, "") | dict(zip(query, fields, strict=True))
        driver, memory = row["driver_version"], row["memory.total"]
        # What a driver cannot tell is [N/A] or [Not Supported]; on unified-memory boards, their memory.
        size = (whole_number(memory) or 0) * MIB
        compute = "" if row["compute_cap"].startswith("[") else row["compute_cap"]
        gpu = Gpu(index=index, uuid=row["uuid"], name=row["name"], memory=size, compute=compute)
        gpus.append(gpu)
    return tuple(gpus), driver


@dataclass(frozen=True, kw_only=True)
class Host:
    """This host as far as virtual environments are concerned.

    ``pythons``: best first. ``gccs``: version of each compiler, by its program (``/usr/bin/gcc-12``); ``gcc``, ``cuda``
    and ``cudnn``: what a program finds by default. ``apt``, ``rpm``: installed packages, None without that.
    ``measured``: the version of every further axis that a program finds so; ``programs``: axis -> program -> version of
    those that a cell can be given. ``uv_pythons``: what uv could install. ``packages``: those that cells take from
    Python environments of this host (``host_packages`` of the configuration). ``cpus``: cores. ``root``: whether we are
    root.
    """

    os: str
    glibc: str = ""
    pythons: tuple[Interpreter, ...] = ()
    uv_pythons: tuple[str, ...] = ()
    gccs: Mapping[str, str] = field(default_factory=dict)
    gcc: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    measured: Mapping[str, str | None] = field(default_factory=dict)
    programs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    apt: Mapping[str, str] | None = None
    rpm: Mapping[str, str] | None = None
    packages: tuple[HostPackage, ...] = ()
    cpus: int = 1
    root: bool = False

    @property
    def reference(self) -> str:
        """What stands for this host where an image has its base: equal where environments may be shared."""
        return f"host:{self.os}-glibc-{self.glibc}"
