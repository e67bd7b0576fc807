"""What can be had: operating system releases, CUDA, cuDNN, drivers. The data lie beside, each row with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from reprokit.environment import versions


@dataclass(frozen=True, kw_only=True)
class Release:
    """An operating system release and what its own packages bring; see data/releases.yaml."""

    name: str
    family: str
    codename: str
    image: str
    components: tuple[str, ...]
    pythons: tuple[str, ...]
    gcc: Mapping[str, str]
    toolkit: str
    epoch: int


@dataclass(frozen=True, kw_only=True)
class Capability:
    """A GPU architecture: the first CUDA release that knows it, and the first that no longer does ('' = none yet)."""

    since: str
    until: str


def _load(name: str) -> Any:
    import yaml

    # BaseLoader keeps every scalar as it is written: 3.10 is a version, not a number.
    text = (Path(__file__).parent / "data" / name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


@cache
def releases() -> Mapping[str, Release]:
    """Release name -> release, oldest first within each family."""
    return {
        name: Release(
            name=name,
            family=row["family"],
            codename=row["codename"],
            image=row["image"],
            components=tuple(row["components"]),
            pythons=tuple(row["python"]),
            gcc=row["gcc"],
            toolkit=row["toolkit"],
            epoch=int(row["epoch"]),
        )
        for name, row in _load("releases.yaml").items()
    }


def known_os() -> tuple[str, ...]:
    """The values that the ``os`` axis can take."""
    return tuple(releases())


@cache
def _python() -> Any:
    return _load("python.yaml")


def python_images(os: str) -> tuple[str, ...]:
    """The Pythons that Docker's official images have on that release of Debian, oldest first."""
    return tuple(_python()["images"].get(os, ()))


@cache
def _cuda() -> Any:
    return _load("cuda.yaml")


def cuda_wheels() -> Mapping[str, Mapping[str, str]]:
    """CUDA release -> part (nvcc, runtime, cublas ...) -> version of its wheel."""
    wheels: Mapping[str, Mapping[str, str]] = _cuda()["wheels"]
    return wheels


def cuda_images(os: str) -> tuple[str, ...]:
    """CUDA releases for which NVIDIA publishes an image on that release of Ubuntu."""
    return tuple(_cuda()["images"].get(os, ()))


def cuda_release_of(nvcc: str) -> tuple[str, ...]:
    """The CUDA releases whose compiler is that build (``12.0.140`` -> ``12.0.1``)."""
    return tuple(release for release, wheels in cuda_wheels().items() if wheels["nvcc"] == nvcc)


def driver_needed(cuda: str) -> str | None:
    """Least Linux driver version for a CUDA version, or None when unknown."""
    drivers: Mapping[str, str] = _cuda()["drivers"]
    known = [key for key in drivers if versions.matches(key, cuda)]
    return drivers[max(known, key=len)] if known else None


def capability(compute: str) -> Capability | None:
    """The row of a GPU's compute capability (``9.0``), or None when unknown."""
    row = _cuda()["compute"].get(compute)
    return Capability(since=row["since"], until=row["until"]) if row else None


@cache
def _cudnn() -> Any:
    return _load("cudnn.yaml")


def cudnn_wheels(cuda_major: str) -> tuple[str, ...]:
    """Versions of the wheel nvidia-cudnn-cuN, oldest first."""
    return tuple(_cudnn().get(cuda_major, ()))
