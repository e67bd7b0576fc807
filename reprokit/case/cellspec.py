"""A case with its templates rendered for one cell: plain values, ready to be resolved, built and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SanitizerKind = Literal["", "address", "thread", "undefined", "memcheck", "racecheck", "initcheck", "synccheck"]


@dataclass(frozen=True, kw_only=True)
class FileSpec:
    """A file of the case. ``mode``: its permissions, None as the text says: what begins with ``#!`` is a program."""

    text: str
    mode: int | None = None

    @property
    def permissions(self) -> int:
        """What the file gets: ``mode``, or what its text says."""
        return self.mode if self.mode is not None else 0o755 if self.text.startswith("#!") else 0o644


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Resources of one trial. Sizes in bytes, times in seconds, ``cpus`` in cores; None = engine's default.

    ``gpu_model``: words of the name of each GPU's model.

    ``disk``: what it writes to its container; ``build_time``: of its image. These two are the site's: no case has them.

    ``backtrace``: the stacks of crashes, and of what runs at the time limit, are taken.

    ``gpu_capabilities``: of the driver, beside compute and utility. ``ipc``: ``host``: the host's shared memory.
    ``ulimits``: of each process, as ``docker run --ulimit`` has them (``memlock=-1:-1``).

    ``output``: ``joined``: the program writes stdout and stderr to one pipe, so that their order is recorded as it was;
    ``separate``: to two, as where what a program does depends on the streams.
    """

    gpus: int = 0
    gpu_memory: int | None = None
    gpu_model: str | None = None
    gpu_capabilities: tuple[str, ...] = ()
    cpus: float | None = None
    memory: int | None = None
    shm_size: int | None = None
    ipc: Literal["private", "host"] = "private"
    pids: int | None = None
    ulimits: tuple[str, ...] = ()
    timeout: float = 1800.0
    network: Literal["none", "bridge"] = "none"
    user: str = "repro"
    output: Literal["joined", "separate"] = "joined"
    backtrace: bool = False
    disk: int | None = None
    build_time: float | None = None


@dataclass(frozen=True, kw_only=True)
class PipStepSpec:
    """What one ``pip install`` takes; ``options`` of its own, which follow those of all steps."""

    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """``environment`` of the case, rendered. ``setup`` is shell text, run at build time after packages and pip.

    ``apt``, ``dnf``: packages of the distribution; those of the package manager that the cell's system has count.
    ``pip``: requirements, or steps that are installed one after the other.
    ``pip_before``: only files that an index received before this moment (RFC 3339, UTC) are installed; '' = any.
    ``conflicts``: whether versions that are known not to go together are refused, or are what the case is about.
    ``cuda_libraries``: whether a CUDA has its libraries, or is only the compiler and the runtime.
    ``sanitize``: the sanitizer with which C and C++ are compiled, or the tool that looks after kernels on a GPU.
    """

    image: str = ""
    apt: tuple[str, ...] = ()
    dnf: tuple[str, ...] = ()
    pip: tuple[str, ...] | tuple[PipStepSpec, ...] = ()
    pip_options: tuple[str, ...] = ()
    pip_before: str = ""
    setup: str = ""
    conflicts: Literal["refuse", "allow"] = "refuse"
    cuda_libraries: Literal["all", "none"] = "all"
    sanitize: SanitizerKind = ""

    @property
    def pip_steps(self) -> tuple[PipStepSpec, ...]:
        """The steps in which pip installs; none is empty, and requirements alone are one step."""
        plain = tuple(item for item in self.pip if isinstance(item, str))
        steps = (PipStepSpec(requirements=plain), *(item for item in self.pip if isinstance(item, PipStepSpec)))
        return tuple(step for step in steps if step.requirements)

    @property
    def requirements(self) -> tuple[str, ...]:
        """The requirements of all steps."""
        return tuple(requirement for step in self.pip_steps for requirement in step.requirements)


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """A git tree to put at ``path`` (relative to workdir)."""

    git: str
    ref: str
    path: str
    patch: str = ""


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A dataset at ``path`` (relative to workdir); ``layout`` pairs a glob with its least number of matches."""

    path: str
    layout: tuple[tuple[str, int], ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)
    generate: str = ""


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """Everything that one cell needs. ``command`` is the final argv (shell text became ``bash -eo pipefail -c``).

    ``reproduces``: the case says that its failure shows in this cell, so the cell is known to have run somewhere.
    """

    cell: Mapping[str, str]
    environment: EnvironmentSpec
    sources: Mapping[str, SourceSpec]
    files: Mapping[str, FileSpec]
    datasets: Mapping[str, DatasetSpec]
    env: Mapping[str, str]
    workdir: str
    command: tuple[str, ...]
    limits: Limits
    reproduces: bool = False
