"""Where a cell's Python can come from: the release's packages, Docker's images, uv, conda-forge. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reprokit.environment import providing, versions
from reprokit.environment.catalog import Catalog, Release
from reprokit.environment.model import CondaTree, Cuda, Python
from reprokit.environment.providing import Provider, served
from reprokit.environment.supply import Supply

FOLDER = "/opt/python"
"""Where the interpreters of uv and of conda-forge go; each is found there by its version."""

_NAMED = 3
"""Most releases that have a Python, of those that a registry alone has, which a message names."""

NO_PYPY = tuple(f"pypy{series} ==0" for series in ("3.6", "3.7"))
"""conda-forge has PyPy as packages ``python``, too: what those depend on, in a version that does not exist."""


@dataclass(frozen=True, kw_only=True)
class PythonRequest(providing.VersionRequest):
    """A Python that a cell asks for; what CUDA it gets decides on the base image."""

    cuda: Cuda | None

    @property
    def base_is_nvidias(self) -> bool:
        """Whether the base image is decided by CUDA already."""
        return self.cuda is not None and self.cuda.source == "image"


def python(asked: str | None, release: Release, supply: Supply, cuda: Cuda | None) -> Python | None:
    """The Python of a cell, from the first provider that has it. An axis that is free takes the release's own.

    Raises Unsupported, with what each provider has.
    """
    if asked == versions.NONE:
        return None
    if asked is None:
        return packaged(release, release.pythons[0], supply.catalog)
    wish = PythonRequest(asked=asked, release=release, supply=supply, cuda=cuda)
    return served("python", wish, PROVIDERS, supply.python)


def packaged(release: Release, version: str, catalog: Catalog) -> Python:
    """The Python of that version among the release's packages."""
    if release.manager == "dnf":
        return _of_rpm(release, version, catalog)
    if version == release.pythons[0]:
        return Python(version=version, packages=("python3", "python3-venv"), headers=("python3-dev",))
    name = "python" + ".".join(versions.parts(version)[:2])
    if version.startswith("2."):
        return Python(
            version=version, command=name, packages=(name,), headers=(f"{name}-dev",), installer=catalog.virtualenv()
        )
    # Ubuntu keeps distutils, which Python has until 3.12, in one package that not every pythonX.Y-venv asks for.
    distutils = ("python3-distutils",) if versions.order(version) < (3, 12) else ()
    return Python(version=version, command=name, packages=(name, f"{name}-venv", *distutils), headers=(f"{name}-dev",))


def _of_rpm(release: Release, version: str, catalog: Catalog) -> Python:
    if not version.startswith("2."):
        return Python(version=version, packages=("python3",), headers=("python3-devel",))
    # Before Enterprise Linux 8, Python 2 had no number in its package's name.
    name = "python2" if versions.order(release.glibc) >= (2, 28) else "python"
    return Python(
        version=version, command="python2.7", packages=(name,), headers=(f"{name}-devel",),
        installer=catalog.virtualenv(),
    )  # fmt: skip


def tool(release: Release, catalog: Catalog) -> Python:
    """The release's newest Python: what installers are run with in stages that are thrown away."""
    return packaged(release, max(release.pythons, key=versions.order), catalog)


def image_of(version: str, release: Release) -> str:
    """Docker's official image of a Python."""
    return f"python:{version}-slim-{release.codename}"


def _distribution(wish: PythonRequest) -> Python | None:
    default, *others = wish.release.pythons
    if versions.matches(wish.asked, default):
        return packaged(wish.release, default, wish.supply.catalog)
    version = versions.newest(wish.asked, others)
    return packaged(wish.release, version, wish.supply.catalog) if version else None


def _image(wish: PythonRequest) -> Python | None:
    if wish.supply.base_source != "registry" or wish.base_is_nvidias:
        return None
    version = versions.newest(wish.asked, wish.supply.catalog.python_images(wish.release.name))
    return Python(version=version, source="image", command="/usr/local/bin/python3") if version else None


def _uv(wish: PythonRequest) -> Python | None:
    version = versions.newest(wish.asked, wish.supply.catalog.uv_pythons())
    if version is None or _silence(wish):
        return None
    command = f"{FOLDER}/{version}/bin/python3"
    return Python(version=version, source="uv", command=command, installer=wish.supply.catalog.uv_installer())


def _conda(wish: PythonRequest) -> Python | None:
    version = versions.newest(wish.asked, wish.supply.catalog.conda_pythons())
    if version is None or wish.supply.silence("conda", "conda_channel"):
        return None
    tree = CondaTree(folder=f"{FOLDER}/{version}", packages=(f"python =={version}",), beside=NO_PYPY)
    return Python(version=version, source="conda", command=f"{tree.folder}/bin/python3", conda=tree)


def _distribution_has(wish: PythonRequest) -> str:
    """What the release's packages have, and which release's have what is asked for."""
    releases = wish.supply.catalog.releases()
    has = ", ".join(wish.release.pythons)
    if versions.newest(wish.asked, wish.release.pythons):
        return f"its packages have {has}"
    # Of the many that a registry alone has, few are named.
    fitting = {name: versions.newest(wish.asked, other.pythons) for name, other in releases.items()}
    have = [name for name, version in fitting.items() if version]
    near = [name for name in have if releases[name].bootstraps] or have[:_NAMED]
    elsewhere = [f"{fitting[name]} on {name}" for name in near]
    if not elsewhere:
        current = {name: other for name, other in releases.items() if other.bootstraps}
        elsewhere = [f"{', '.join(other.pythons)} on {name}" for name, other in current.items()]
    return f"its packages have {has} (packaged are {', '.join(elsewhere)})"


def _image_has(wish: PythonRequest) -> str:
    releases = wish.supply.catalog.releases()
    found = {name: versions.newest(wish.asked, wish.supply.catalog.python_images(name)) for name in releases}
    images = {name: image_of(version, releases[name]) for name, version in found.items() if version}
    name = wish.release.name
    if not images:
        return "none of Docker's images has it"
    if wish.supply.base_source != "registry" and name in images:
        return (
            f"the image {images[name]} would serve it, but base images come from no registry here "
            "(base source bootstrap)"
        )
    if wish.base_is_nvidias:
        return f"Docker's images do not apply, since the base is NVIDIA's image of {name} here"
    if name in images:
        return f"the image {images[name]} would serve it"
    return "images that serve it are " + ", ".join(f"{image} on {other}" for other, image in images.items())


def _uv_has(wish: PythonRequest) -> str:
    known = wish.supply.catalog.uv_pythons()
    if version := versions.newest(wish.asked, known):
        return f"uv would serve {version}{_silence(wish)}"
    return f"uv has {versions.span(known)}"


def _conda_has(wish: PythonRequest) -> str:
    known = wish.supply.catalog.conda_pythons()
    if version := versions.newest(wish.asked, known):
        return f"conda-forge would serve {version}{wish.supply.silence('conda', 'conda_channel')}"
    return f"conda-forge serves {versions.span(known)}"


def _silence(wish: PythonRequest) -> str:
    return wish.supply.silence("uv", "uv_python_mirror")


PROVIDERS: Mapping[str, Provider[PythonRequest, Python]] = {
    "distribution": Provider(serves=_distribution, has=_distribution_has),
    "image": Provider(serves=_image, has=_image_has),
    "uv": Provider(serves=_uv, has=_uv_has),
    "conda": Provider(serves=_conda, has=_conda_has),
}
