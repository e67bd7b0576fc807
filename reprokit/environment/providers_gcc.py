"""Where a cell's GCC can come from: the release's packages, Docker's images, conda-forge. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reprokit.environment import versions
from reprokit.environment.catalog import Catalog, Release
from reprokit.environment.model import CondaTree, Gcc
from reprokit.environment.providing import Provider, VersionRequest, served
from reprokit.environment.supply import Supply


def gcc(asked: str | None, release: Release, supply: Supply) -> Gcc | None:
    """The GCC of a cell, from the first provider that has it. Raises Unsupported, with what each provider has."""
    if asked is None or asked == versions.NONE:
        return None
    return served("gcc", VersionRequest(asked=asked, release=release, supply=supply), PROVIDERS, supply.gcc)


def _distribution(wish: VersionRequest) -> Gcc | None:
    packages = wish.release.gcc
    version = versions.newest(wish.asked, packages.values())
    if version is None:
        return None
    major = next(major for major, full in packages.items() if full == version)
    return Gcc(major=major, version=version, package=f"gcc-{major}" if wish.release.manager == "apt" else "gcc")


def runs_on(release: Release, catalog: Catalog) -> tuple[str, ...]:
    """The GCCs of Docker's images whose programs run on a release: its glibc is not older than theirs."""
    have = versions.order(release.glibc)
    return tuple(
        version
        for version, debian in catalog.gcc_images().items()
        if versions.order(catalog.debian_glibc(debian)) <= have
    )


def _image(wish: VersionRequest) -> Gcc | None:
    if wish.supply.base_source != "registry":
        return None
    version = versions.newest(wish.asked, runs_on(wish.release, wish.supply.catalog))
    if version is None:
        return None
    return Gcc(major=_major(version), version=version, source="image", image=f"gcc:{version}")


def _conda(wish: VersionRequest) -> Gcc | None:
    version = versions.newest(wish.asked, wish.supply.catalog.gcc_conda())
    if version is None or _silence(wish):
        return None
    packages = tuple(f"{name} =={version}" for name in ("gcc_impl_linux-64", "gxx_impl_linux-64"))
    tree = CondaTree(folder="/opt/gcc", packages=packages)
    return Gcc(major=_major(version), version=version, source="conda", conda=tree)


def _major(version: str) -> str:
    return versions.parts(version)[0]


def _distribution_has(wish: VersionRequest) -> str:
    has = ", ".join(f"{major} ({full})" for major, full in wish.release.gcc.items())
    return f"its packages have {has}"


def _image_has(wish: VersionRequest) -> str:
    version = versions.newest(wish.asked, wish.supply.catalog.gcc_images())
    if version is None:
        return f"Docker's images gcc have {versions.span(wish.supply.catalog.gcc_images())}"
    if wish.supply.base_source != "registry" and version in runs_on(wish.release, wish.supply.catalog):
        return f"the image gcc:{version} would serve it, but images come from no registry here (base source bootstrap)"
    if version in runs_on(wish.release, wish.supply.catalog):
        return f"the image gcc:{version} would serve it"
    debian = wish.supply.catalog.gcc_images()[version]
    glibc = wish.supply.catalog.debian_glibc(debian)
    return (
        f"the image gcc:{version} is made of Debian {debian} (glibc {glibc}), too new for "
        f"{wish.release.name} (glibc {wish.release.glibc})"
    )


def _conda_has(wish: VersionRequest) -> str:
    if version := versions.newest(wish.asked, wish.supply.catalog.gcc_conda()):
        return f"conda-forge would serve {version}{_silence(wish)}"
    return f"conda-forge has {versions.span(wish.supply.catalog.gcc_conda())}"


def _silence(wish: VersionRequest) -> str:
    return wish.supply.silence("conda", "conda_channel")


PROVIDERS: Mapping[str, Provider[VersionRequest, Gcc]] = {
    "distribution": Provider(serves=_distribution, has=_distribution_has),
    "image": Provider(serves=_image, has=_image_has),
    "conda": Provider(serves=_conda, has=_conda_has),
}
