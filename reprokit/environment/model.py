"""A cell, resolved: what its image starts from and what is put into it. Plain values, equal when the image is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

BASE_PREFIX = "reprokit/base:"
"""Name of the images that are made from a distribution's packages, before the release's name."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """The image a Dockerfile starts from.

    ``name`` is the release (``debian-12``) or the image named by the case; ``source`` says which served it:
    ``registry``, ``bootstrap`` (made from the distribution's packages) or ``image`` (``environment.image``).
    ``reference`` is what stands after FROM.
    """

    name: str
    source: Literal["registry", "bootstrap", "image"]
    reference: str


@dataclass(frozen=True, kw_only=True)
class Gcc:
    """A compiler from the distribution: ``major`` names the packages gcc-N and g++-N, ``version`` what they bring."""

    major: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Cuda:
    """CUDA at /usr/local/cuda. ``version`` is the toolkit's (``12.0.1``).

    ``source``: ``wheels`` (``requirements`` are NVIDIA's wheels, exactly pinned), ``distribution`` (the package
    nvidia-cuda-toolkit) or ``image`` (an nvidia/cuda base image, which has it already).
    """

    version: str
    source: Literal["wheels", "distribution", "image"]
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cudnn:
    """cuDNN from NVIDIA's wheels, together with the cuBLAS that they declare as their dependency."""

    version: str
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Everything that goes into an image before sources, files and datasets.

    ``os`` is the release, '' when the case names its own image. ``python`` is the version of the distribution's
    interpreter, in a virtual environment at /opt/venv; '' when the image brings its own or has none.
    ``components`` of the distribution's archive are enabled in it.
    """

    base: Base
    os: str
    family: str = ""
    components: tuple[str, ...] = ()
    python: str = ""
    gcc: Gcc | None = None
    cuda: Cuda | None = None
    cudnn: Cudnn | None = None
    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    pip_options: tuple[str, ...] = ()
    setup: str = ""
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def venv(self) -> bool:
        """Whether the image has a virtual environment of ours at /opt/venv."""
        return bool(self.python)

    @property
    def installs(self) -> bool:
        """Whether anything is put into the image with the virtual environment's pip."""
        wheels = self.cudnn is not None or (self.cuda is not None and self.cuda.source == "wheels")
        return self.venv and (wheels or bool(self.pip))

    @property
    def served_by(self) -> Mapping[str, str]:
        """Which source serves what, for the record."""
        served = {"base": f"{self.base.source} {self.base.reference}"}
        if self.python:
            served["python"] = f"{self.os} python3 {self.python}"
        if self.gcc:
            served["gcc"] = f"{self.os} gcc-{self.gcc.major} {self.gcc.version}"
        if self.cuda:
            how = {
                "wheels": " ".join(self.cuda.requirements),
                "distribution": f"{self.os} nvidia-cuda-toolkit",
                "image": self.base.reference,
            }
            served["cuda"] = f"{self.cuda.source} {how[self.cuda.source]}"
        if self.cudnn:
            served["cudnn"] = "wheels " + " ".join(self.cudnn.requirements)
        return served

    def to_json(self) -> dict[str, Any]:
        """What was chosen, for ``render``, ``doctor`` and the record."""
        return {
            "base": {"name": self.base.name, "source": self.base.source, "reference": self.base.reference},
            "os": self.os or None,
            "python": self.python or None,
            "gcc": self.gcc.version if self.gcc else None,
            "cuda": self.cuda.version if self.cuda else None,
            "cudnn": self.cudnn.version if self.cudnn else None,
            "served_by": dict(self.served_by),
            "notes": list(self.notes),
        }
