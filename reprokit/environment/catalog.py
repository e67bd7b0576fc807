"""What is available: operating system releases, CUDA, cuDNN, drivers. The data lie beside, each row with its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from reprokit.core.errors import UsageError
from reprokit.core.text import whole_number
from reprokit.environment import tables, versions

T = TypeVar("T")
U = TypeVar("U")

PackageManager = Literal["apt", "dnf"]
"""What installs a distribution's packages: apt-get, or dnf (yum where dnf is missing)."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """An operating system release and what its own packages bring; see data/releases.yaml.

    ``manager`` installs its packages. ``archive``: the host on which they are since they left their usual servers, ''
    while they have not. ``lang``: the locale of its programs.
    """

    name: str
    family: str
    codename: str
    image: str
    components: tuple[str, ...]
    pythons: tuple[str, ...]
    gcc: Mapping[str, str]
    glibc: str
    toolkit: str
    epoch: int
    manager: PackageManager = "apt"
    archive: str = ""
    lang: str = "C.UTF-8"

    @property
    def bootstraps(self) -> bool:
        """Whether a base image can be made from its packages, without a registry."""
        return self.manager == "apt" and not self.archive


@dataclass(frozen=True, kw_only=True)
class Capability:
    """A GPU architecture: the first CUDA release that knows it, and the first that no longer does ('' = none yet)."""

    since: str
    until: str


@dataclass(frozen=True, kw_only=True)
class Compilers:
    """The GCC major versions that an nvcc takes; '' = no limit is known."""

    least: str
    most: str

    def takes(self, gcc: str) -> bool:
        """Whether a GCC of that version (only its first number counts) is among them."""
        major = versions.order(gcc)[:1]
        return not (self.least and major < versions.order(self.least)) and not (
            self.most and major > versions.order(self.most)
        )


@dataclass(frozen=True, kw_only=True)
class FrameworkWheel:
    """A framework's wheel on Python's index: its Pythons (``3.11``), what it is built for ('' = it does not say)."""

    pythons: tuple[str, ...]
    cuda: str = ""
    cudnn: str = ""


@dataclass(frozen=True, kw_only=True)
class FrameworkBuilds:
    """The CUDA versions that a release is built for elsewhere, and how pip is asked for them (see frameworks.yaml)."""

    requirement: str
    options: str
    cuda: tuple[str, ...]

    def request(self, release: str, cuda: str) -> tuple[str, str]:
        """(requirement, pip option or '') for a release and one of its CUDA versions."""
        named = {"release": release, "cuda": cuda.replace(".", ""), "major": versions.parts(cuda)[0]}
        return self.requirement.format(**named), self.options.format(**named)


def nvidia_image(os: str, cuda: str, cudnn: str = "") -> str:
    """NVIDIA's image of a CUDA release on a release of Ubuntu, with that cuDNN or with none: ``nvidia/cuda:TAG``."""
    major = versions.parts(cudnn)[0] if cudnn and versions.order(cuda) < (12, 4) else ""
    return f"nvidia/cuda:{cuda}{f'-cudnn{major}' if cudnn else ''}-devel-{os.replace('-', '')}"


@dataclass(frozen=True)
class Catalog:
    """The compatibility data: our tables, over which the rows of a site's ``own`` file win, where there is one.

    A row of that file that cannot be meant is a UsageError, which names file and line, where it is first looked at.
    """

    own: Path | None = None

    def table(self, name: str) -> Any:
        """One table of data/."""
        return tables.table(name, self.own)

    def rows(self, table: str, name: str) -> tuple[str, ...]:
        """The versions of one row of a table that is lists of versions, oldest first; none where it has no such row."""
        return tuple(self.table(table).get(name, ()))

    def releases(self) -> Mapping[str, Release]:
        """Release name -> release, oldest first within each family."""
        return _releases(self.own)

    def known_os(self) -> tuple[str, ...]:
        """The values that the ``os`` axis can take."""
        return tuple(self.releases())

    def python_images(self, os: str) -> tuple[str, ...]:
        """The Pythons that Docker's official images have on that release of Debian, oldest first."""
        return tuple(self.table("python")["images"].get(os, ()))

    def uv_pythons(self) -> tuple[str, ...]:
        """The Pythons that uv has for any Linux with glibc, oldest first."""
        return tuple(self.table("python")["uv"]["pythons"])

    def virtualenv(self) -> str:
        """The requirement of the virtualenv that makes environments for Python 2.7."""
        return str(self.table("python")["virtualenv"])

    def uv_installer(self) -> str:
        """The requirement of the uv that knows :meth:`uv_pythons`."""
        return str(self.table("python")["uv"]["installer"])

    def gcc_images(self) -> Mapping[str, str]:
        """GCC -> codename of the Debian that Docker's official image of that GCC is made of."""
        images: Mapping[str, str] = self.table("gcc")["images"]
        return images

    def gcc_conda(self) -> tuple[str, ...]:
        """The GCCs that conda-forge has, oldest first."""
        return tuple(self.table("gcc")["conda"]["versions"])

    def conda_pythons(self) -> tuple[str, ...]:
        """The Pythons that conda-forge has and uv has not, oldest first."""
        return tuple(self.table("python")["conda"])

    def conda_cudas(self) -> tuple[str, ...]:
        """The CUDA releases whose libraries conda-forge has, oldest first."""
        return tuple(self._cuda()["conda"])

    def conda_cudnns(self, cuda: str) -> tuple[str, ...]:
        """The cuDNNs that conda-forge has for a CUDA version, oldest first."""
        rows: Mapping[str, Iterable[str]] = self._cuda()["conda_cudnn"]
        return tuple(
            version
            for version, built_for in rows.items()
            if any(versions.matches(one, cuda) or versions.matches(cuda, one) for one in built_for)
        )

    def conda_installer(self) -> str:
        """The requirement of what installs conda's packages."""
        return str(self.table("gcc")["conda"]["installer"])

    def conda_installer_python(self) -> str:
        """The least Python that can run :meth:`conda_installer`."""
        return str(self.table("gcc")["conda"]["python"])

    def debian_glibc(self, codename: str) -> str:
        """The glibc of the Debian that an image of Docker's is made of."""
        glibcs = self.table("gcc")["debian"]
        if codename not in glibcs:  # only a site's own image can be of another
            raise UsageError(f"{self.own}: gcc.images names {codename!r}, of which gcc.debian has no glibc")
        return str(glibcs[codename])

    def _cuda(self) -> Any:
        return self.table("cuda")

    def cuda_wheels(self) -> Mapping[str, Mapping[str, str]]:
        """CUDA release -> part (nvcc, runtime, cublas ...) -> version of its wheel."""
        wheels: Mapping[str, Mapping[str, str]] = self._cuda()["wheels"]
        return wheels

    def cuda_images(self, os: str) -> tuple[str, ...]:
        """CUDA releases for which NVIDIA publishes an image on that release of Ubuntu."""
        return tuple(self._cuda()["images"].get(os, ()))

    def images_with_cudnn(self, cudnn: str, cuda: str) -> tuple[str, ...]:
        """NVIDIA's images with a cuDNN of that version for a CUDA version, oldest first: ``nvidia/cuda:TAG``."""
        found = []
        for os, rows in self._cuda()["image_cudnn"].items():
            for release, has in rows.items():
                if versions.matches(cudnn, has) and versions.matches(cuda, release):
                    found.append((release, nvidia_image(os, release, has)))
        return tuple(tag for _, tag in sorted(found, key=lambda row: versions.order(row[0])))

    def image_cudnns(self, os: str) -> Mapping[str, str]:
        """CUDA release -> the cuDNN that NVIDIA's image of it with cuDNN has on that release of Ubuntu."""
        found: Mapping[str, str] = self._cuda()["image_cudnn"].get(os, {})
        return found

    def cuda_release_of(self, nvcc: str) -> tuple[str, ...]:
        """The CUDA releases whose compiler is that build (``12.0.140`` -> ``12.0.1``)."""
        return tuple(release for release, wheels in self.cuda_wheels().items() if wheels["nvcc"] == nvcc)

    def driver_needed(self, cuda: str) -> str | None:
        """Least Linux driver version for a CUDA version, or None when unknown."""
        drivers: Mapping[str, str] = self._cuda()["drivers"]
        return drivers.get(row_for(cuda, drivers) or "")

    def toolkit_driver(self, cuda: str) -> str | None:
        """The Linux driver version that a CUDA version was released with, or None when unknown."""
        drivers: Mapping[str, str] = self._cuda()["toolkit_drivers"]
        return drivers.get(row_for(cuda, drivers) or "")

    def host_gcc(self, cuda: str) -> Compilers | None:
        """The GCC major versions that nvcc of a CUDA version takes, or None when unknown."""
        rows: Mapping[str, Mapping[str, str]] = self._cuda()["gcc"]
        key = row_for(cuda, rows)
        return Compilers(least=rows[key].get("least", ""), most=rows[key].get("most", "")) if key else None

    def cuda_series(self) -> tuple[str, ...]:
        """Every X.Y of CUDA from the oldest of them to the newest."""
        packaged = [row.toolkit for row in self.releases().values() if row.toolkit]
        releases = [*self._cuda()["gcc"], *self.cuda_wheels(), *packaged]
        return tuple(dict.fromkeys(".".join(versions.parts(one)[:2]) for one in releases if "." in one))

    def cuda_for_gcc(self, major: str, *, newest: bool) -> str | None:
        """The first, or the newest, CUDA version whose nvcc takes that major version of GCC; None: none is known."""
        fitting = [cuda for cuda in self._cuda()["gcc"] if (range_ := self.host_gcc(cuda)) and range_.takes(major)]
        return (max if newest else min)(fitting, key=versions.order, default=None)

    def has_any_gcc_flag(self, cuda: str) -> bool:
        """Whether nvcc of a CUDA version knows ``-allow-unsupported-compiler``."""
        return versions.order(cuda) >= versions.order(self._cuda()["any_gcc_flag"]["since"])

    def compat_driver(self, cuda: str) -> str | None:
        """The least driver on which a CUDA version runs by its package cuda-compat, or None when unknown."""
        drivers: Mapping[str, str] = self._cuda()["compat_drivers"]
        return drivers.get(row_for(cuda, drivers) or "")

    def capabilities(self) -> Mapping[str, Capability]:
        """Compute capability of a GPU (``9.0``) -> its row."""
        rows: Mapping[str, Mapping[str, str]] = self._cuda()["compute"]
        return {compute: Capability(since=row["since"], until=row["until"]) for compute, row in rows.items()}

    def gpu_code(self, package: str, release: str) -> Mapping[str, int]:
        """Architecture (``sm_86``, PTX: ``compute_86``) -> modules of a release's wheel; none where not measured."""
        rows: Mapping[str, Mapping[str, str]] = self.table("architectures").get(package, {})
        return {arch: int(modules) for arch, modules in _of_release(rows, release, {}).items()}

    def builds(self) -> Mapping[str, Mapping[str, FrameworkWheel]]:
        """Package -> release -> its wheel on Python's index."""
        return _builds(self.own)

    def build(self, package: str, release: str) -> FrameworkWheel | None:
        """The wheel of a release, or None when unknown; ``2.15`` is ``2.15.0``."""
        return _of_release(self.builds().get(package, {}), release, None)

    def framework_builds(self, package: str, release: str) -> tuple[FrameworkBuilds, ...]:
        """Where a release is available for other CUDA versions than that of its wheel on Python's index."""
        found = []
        for row in self.table("frameworks").values():
            key = row_for(f"{release}.0", row["builds"])  # 2.6 is 2.6.0, to pip and to a row of that release
            if row["package"] == package and key:
                cuda = tuple(row["builds"][key])
                found.append(FrameworkBuilds(requirement=row["requirement"], options=row["options"], cuda=cuda))
        return tuple(found)

    def option_for(self, package: str, version: str) -> str:
        """The pip option that finds a build for a CUDA version (``2.6.2.post120``); '' where none is known."""
        release = version.partition("+")[0].partition(".post")[0]
        for builds in self.framework_builds(package, release) if version != release else ():
            for cuda in builds.cuda:
                requirement, option = builds.request(release, cuda)
                if requirement == f"{package}=={version}":
                    return option
        return ""


OURS = Catalog()
"""Our tables alone."""


@cache
def _releases(own: Path | None) -> Mapping[str, Release]:
    found = {}
    for name, row in tables.table("releases", own).items():
        if (epoch := whole_number(row["epoch"])) is None:
            raise UsageError(f"{own}: releases.{name}.epoch: expected seconds since 1970, found {row['epoch']!r}")
        manager = row.get("manager", Release.manager)
        if manager not in get_args(PackageManager):
            raise UsageError(f"{own}: releases.{name}.manager: expected apt or dnf, found {manager!r}")
        for key in ("codename", "components") if manager == "apt" else ():
            if not row.get(key):
                raise UsageError(f"{own}: releases.{name} has no {key!r}")
        found[name] = Release(
            name=name,
            family=row["family"],
            codename=row.get("codename", ""),
            image=row["image"],
            components=tuple(row.get("components", ())),
            pythons=tuple(row["python"]),
            gcc=row["gcc"],
            glibc=row["glibc"],
            toolkit="" if row.get("toolkit", versions.NONE) == versions.NONE else row["toolkit"],
            epoch=epoch,
            manager=manager,
            archive=row.get("archive", Release.archive),
            lang=row.get("lang", Release.lang),
        )
    return found


@cache
def _builds(own: Path | None) -> Mapping[str, Mapping[str, FrameworkWheel]]:
    return {
        package: {
            release: FrameworkWheel(
                pythons=tuple(row.get("python", ())), cuda=row.get("cuda", ""), cudnn=row.get("cudnn", "")
            )
            for release, row in rows.items()
        }
        for package, rows in tables.table("builds", own).items()
    }


def _of_release(rows: Mapping[str, T], release: str, otherwise: U) -> T | U:
    spellings = (release, f"{release}.0", release.removesuffix(".0"))
    return next((rows[known] for known in spellings if known in rows), otherwise)


def row_for(version: str, table: Iterable[str]) -> str | None:
    """The key of a table that says most about a version: ``11.4.0`` before ``11.4`` before ``11``; None = no key."""
    return max((key for key in table if versions.matches(key, version)), key=lambda key: key.count("."), default=None)
