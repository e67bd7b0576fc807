"""A cell, resolved: what its image starts from and what is put into it. Plain values, equal when the image is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reprokit.case.cellspec import PipStepSpec
from reprokit.environment.catalog import PackageManager

BASE_PREFIX = "reprokit/base:"
"""Name of the images that are made from a distribution's packages, before the release's name."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """The image a Dockerfile starts from.

    ``name`` is the release (``debian-12``) or the image named by the case; ``source`` says which served it:
    ``registry``, ``bootstrap`` (made from the distribution's packages), ``image`` (``environment.image``) or ``host``
    (this host itself, for virtual environments).
    ``reference`` is what follows FROM.
    """

    name: str
    source: Literal["registry", "bootstrap", "image", "host"]
    reference: str


PIPS = {(2, 7): "20.3.4", (3, 6): "21.3.1", (3, 7): "24.0", (3, 14): "25.3"}
"""Least Python -> the pip in our virtual environments. 24.0 is the last that takes the metadata of old packages as they
are (24.1 and later refuse what is not PEP 440), and serves Python 3.7 to 3.13 alike. 21.3.1 is the last for 3.6, 20.3.4
for 2.7; 25.3 knows 3.14."""


@dataclass(frozen=True, kw_only=True)
class CondaTree:
    """Packages of conda-forge that a stage of the build puts into ``folder``, from where the image gets them.

    ``packages`` and ``beside``: what is installed, and what a package has to be if one of these depends on it, as conda
    writes it (``cudnn ==7.6.5.32``, ``cudatoolkit 10.1.*``). ``only``: the one that is installed, without what it
    depends on; '' = all of it.
    """

    folder: str
    packages: tuple[str, ...]
    beside: tuple[str, ...] = ()
    only: str = ""


@dataclass(frozen=True, kw_only=True)
class Python:
    """The interpreter that the virtual environment at /opt/venv is made from.

    ``version`` is what its source is known to bring. ``source``: ``distribution`` (``packages`` of the release; those
    in ``headers`` as well where C is compiled), ``image`` (the base image has it, with headers), ``uv`` (one of uv's
    own, with headers) or ``conda`` (conda-forge's, with headers). ``command`` runs it. ``installer`` is the requirement
    of the uv that fetches it, or, for an interpreter without the module venv, of the virtualenv that makes the
    environment; '' where neither is needed.
    """

    version: str
    source: Literal["distribution", "image", "uv", "conda"] = "distribution"
    command: str = "python3"
    packages: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    installer: str = ""
    conda: CondaTree | None = None

    @property
    def pip(self) -> str:
        """The pip that its virtual environment gets."""
        major, minor = self.version.split(".")[:2]
        return PIPS[max((least for least in PIPS if least <= (int(major), int(minor))), default=min(PIPS))]


@dataclass(frozen=True, kw_only=True)
class Gcc:
    """A compiler. ``version`` is what its source is known to bring.

    ``source``: ``distribution`` (``package`` is its package of GCC), ``image`` (copied to /opt/gcc from
    Docker's image ``image``) or ``conda`` (conda-forge's packages at /opt/gcc).
    """

    major: str
    version: str
    source: Literal["distribution", "image", "conda"] = "distribution"
    package: str = ""
    image: str = ""
    conda: CondaTree | None = None


@dataclass(frozen=True, kw_only=True)
class Cuda:
    """CUDA at /usr/local/cuda. ``version`` is the toolkit's (``12.0.1``).

    ``source``: ``wheels`` (``requirements`` are NVIDIA's wheels, exactly pinned), ``distribution`` (the package
    nvidia-cuda-toolkit), ``image`` (an nvidia/cuda base image, which has it already) or ``conda`` (conda-forge's
    package cudatoolkit: the libraries, without nvcc and headers).
    """

    version: str
    source: Literal["wheels", "distribution", "image", "conda"]
    requirements: tuple[str, ...] = ()
    conda: CondaTree | None = None


@dataclass(frozen=True, kw_only=True)
class Cudnn:
    """cuDNN below /usr/local/cuda.

    ``source``: ``wheels`` (``requirements`` are NVIDIA's; the cuBLAS that it loads is the CUDA's own), ``image`` (the
    nvidia/cuda base image has it already) or ``conda`` (conda-forge's package cudnn).
    """

    version: str
    source: Literal["wheels", "image", "conda"] = "wheels"
    requirements: tuple[str, ...] = ()
    conda: CondaTree | None = None


@dataclass(frozen=True, kw_only=True)
class Part:
    """What serves any other axis. ``version`` is what its ``source`` is known to bring; ``served_by`` says it in words.

    ``wheels``: requirements for the virtual environment. ``tree``: requirements that are unpacked below
    /usr/local/cuda. ``apt``: packages of the distribution. ``links``: program that is to be found on PATH -> what it is
    a link to.
    """

    axis: str
    version: str
    source: Literal["wheels", "distribution", "host"]
    served_by: str
    wheels: tuple[str, ...] = ()
    tree: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The name that its requirements have among the files of a build."""
        return f"axis_{self.axis}"


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python of this host: ``path`` of its program, ``prefix`` of its installation, ``build`` in its own words.

    Without a ``path`` it is one that uv is to install.
    """

    version: str
    path: str = ""
    prefix: str = ""
    build: str = ""

    @property
    def pip(self) -> str:
        """The pip that its virtual environments get."""
        return Python(version=self.version).pip

    @property
    def uv_knows(self) -> bool:
        """Whether uv makes virtual environments of it: Python 3.8 and later (uv's documentation, "Python versions")."""
        major, minor = self.version.split(".")[:2]
        return (int(major), int(minor)) >= (3, 8)


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A GCC of this host: ``path`` of its program, beside which lie those of the same version (``/usr/bin/gcc-12``)."""

    version: str
    path: str


@dataclass(frozen=True, kw_only=True)
class HostDistribution:
    """A distribution in a Python environment of this host. ``record``: digest of the list of its files.

    ``entries``: its modules and packages in the folder ``site``; ``info``: the folder of its metadata there.
    """

    name: str
    version: str
    site: str
    info: str
    entries: tuple[str, ...]
    record: str


@dataclass(frozen=True, kw_only=True)
class HostPackage:
    """A package of a Python environment of this host, the folder ``place``, with all that it requires there.

    ``python``: the version of that environment's Python. ``why``: why it is not available, '' where it is.
    """

    name: str
    place: str
    version: str = ""
    python: str = ""
    distributions: tuple[HostDistribution, ...] = ()
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class OnHost:
    """What of this host a virtual environment is made of."""

    python: Interpreter
    gcc: Compiler | None = None
    packages: tuple[HostPackage, ...] = ()

    @property
    def served_by(self) -> Mapping[str, str]:
        """Which program serves what, for the record."""
        served = {"python": f"{self.python.path or 'uv'} {self.python.version}"}
        if self.gcc:
            served["gcc"] = f"{self.gcc.path} {self.gcc.version}"
        return served | {one.name: f"{one.place} {one.version}" for one in self.packages}


@dataclass(frozen=True, kw_only=True)
class SourceTree:
    """An exported tree. ``commit`` is the full hash ('' for a folder that is not a git checkout), ``digest`` covers
    content and patch (``sha256:...``), ``archive`` is the folder with the files, ``path`` where it goes below workdir.
    ``note`` is what the user should know about where it came from.
    """

    name: str
    commit: str
    digest: str
    archive: Path
    path: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Conda:
    """The stage of a build that has all packages of conda-forge: ``trees``, installed in this order.

    ``base``: the image that it starts from, whose interpreter ``tool`` runs ``installer``. ``glibc``: that of the image
    for which packages are chosen, which the base may not have.
    """

    base: Base
    tool: Python
    installer: str
    glibc: str
    trees: tuple[CondaTree, ...]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Everything that goes into an image before sources, files and datasets.

    ``os`` is the release, '' when the case names its own image; ``manager`` installs its ``packages``, and ``lang`` is
    the locale of its programs. ``archive``: the host on which they are since they left their usual servers.
    ``python`` is in a virtual environment at /opt/venv; None when the case's own image brings what it wants, or there
    is to be none.
    ``components`` of the distribution's archive are enabled in it. ``tool`` is the interpreter, of the distribution,
    that runs uv or virtualenv in a stage of the build that is thrown away; None where there is none. ``tool_base``: the
    image of that stage, where it is not the base. ``conda``: the
    stage of what is of conda-forge.
    ``parts``: what serves the other axes, by name. ``pip``: its steps, none of which is empty.
    ``pip_before``: the limit of these steps and of ``setup``, as :class:`EnvironmentSpec` has it.
    ``host``: the programs of this host that serve ``python`` and ``gcc`` in a virtual environment of it.
    """

    base: Base
    os: str
    family: str = ""
    manager: PackageManager = "apt"
    archive: str = ""
    lang: str = "C.UTF-8"
    components: tuple[str, ...] = ()
    python: Python | None = None
    tool: Python | None = None
    tool_base: Base | None = None
    conda: Conda | None = None
    gcc: Gcc | None = None
    cuda: Cuda | None = None
    cudnn: Cudnn | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    pip: tuple[PipStepSpec, ...] = ()
    pip_options: tuple[str, ...] = ()
    pip_before: str = ""
    setup: str = ""
    host: OnHost | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def images(self) -> tuple[Base, ...]:
        """The images that its Dockerfile starts from: its base, and what compilers and packages are copied from."""
        found = [self.base]
        if self.gcc and self.gcc.image:
            found.append(Base(name=self.gcc.image, source="registry", reference=self.gcc.image))
        stages = (self.tool_base, self.conda.base if self.conda else None)
        found += [base for base in dict.fromkeys(stages) if base and base != self.base]
        return tuple(found)

    @property
    def venv(self) -> bool:
        """Whether the image has a virtual environment of ours at /opt/venv."""
        return self.python is not None

    @property
    def installs(self) -> bool:
        """Whether anything is put into the image with the virtual environment's pip."""
        wheels = bool(self.cudnn and self.cudnn.requirements) or (
            self.cuda is not None and self.cuda.source == "wheels"
        )
        wheels = wheels or any(part.wheels or part.tree for part in self.parts.values())
        return self.venv and (wheels or bool(self.pip))

    @property
    def served_by(self) -> Mapping[str, str]:
        """Which source serves what, for the record."""
        served = {"base": f"{self.base.source} {self.base.reference}"}
        if self.python:
            who = {
                "distribution": self.os,
                "image": self.base.reference,
                "uv": self.python.installer,
                "conda": "conda-forge python",
            }
            served["python"] = f"{who[self.python.source]} {self.python.command} {self.python.version}"
        if self.gcc:
            served["gcc"] = {
                "distribution": f"{self.os} {self.gcc.package} {self.gcc.version}",
                "image": f"image {self.gcc.image}",
                "conda": f"conda-forge gcc_impl_linux-64 {self.gcc.version}",
            }[self.gcc.source]
        if self.cuda:
            served["cuda"] = {
                "wheels": f"wheels {' '.join(self.cuda.requirements)}",
                "distribution": f"distribution {self.os} nvidia-cuda-toolkit",
                "image": f"image {self.base.reference}",
                "conda": f"conda-forge cudatoolkit {self.cuda.version}",
            }[self.cuda.source]
        if self.host:
            served |= self.host.served_by
        if self.cudnn:
            served["cudnn"] = {
                "wheels": f"wheels {' '.join(self.cudnn.requirements)}",
                "image": f"image {self.base.reference}",
                "conda": f"conda-forge cudnn {self.cudnn.version}",
            }[self.cudnn.source]
        return served | {name: part.served_by for name, part in self.parts.items()}

    def to_json(self) -> dict[str, Any]:
        """What was chosen, for ``render``, ``doctor`` and the record."""
        return {
            "base": {"name": self.base.name, "source": self.base.source, "reference": self.base.reference},
            "os": self.os or None,
            "python": self.python.version if self.python else None,
            "gcc": self.gcc.version if self.gcc else None,
            "cuda": self.cuda.version if self.cuda else None,
            "cudnn": self.cudnn.version if self.cudnn else None,
            **{name: part.version for name, part in self.parts.items()},
            "served_by": dict(self.served_by),
            "notes": list(self.notes),
        }
