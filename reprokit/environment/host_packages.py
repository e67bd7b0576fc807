"""Packages that a cell takes from a Python environment of this host (``host_packages`` of the configuration), and
from nowhere else: by asking for exactly the version that is there. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import Unsupported
from reprokit.environment.frameworks import pinned_version, requirement_of
from reprokit.environment.model import HostPackage

if TYPE_CHECKING:
    from reprokit.environment.host import Host


def served(host: Host, spec: CellSpec) -> tuple[HostPackage, ...]:
    """The packages of the host that a cell asks for. Raises Unsupported where it asks for them otherwise."""
    if not host.packages:
        return ()
    from packaging.utils import canonicalize_name

    known = {str(canonicalize_name(one.name)): one for one in host.packages}
    requirements = map(requirement_of, spec.environment.requirements)
    asked = {str(canonicalize_name(one.name)): one for one in requirements if one}
    found: list[HostPackage] = []
    for name, requirement in asked.items():
        if name not in known:
            continue
        package = known[name]
        where = f"{package.name} comes from {package.place} on this host (host_packages)"
        if package.why:
            raise Unsupported(f"{where}: {package.why}")
        exact = pinned_version(requirement) and not requirement.url
        if not exact or not requirement.specifier.contains(package.version, prereleases=True):
            raise Unsupported(
                f"{where}, which has {package.version}: the case asks for {requirement}, and only "
                f"{package.name}=={package.version.partition('+')[0]} is served"
            )
        # What the cell asks for by itself, and in another version, is installed for it.
        own = (one for one in package.distributions if one.name not in asked or one.name == name)
        also = (one for one in package.distributions if one.name in asked and one.name not in known)
        fitting = [one for one in also if asked[one.name].specifier.contains(one.version, prereleases=True)]
        # What several packages bring comes from the first of them, whole.
        brought = {one.name for each in found for one in each.distributions}
        found.append(replace(package, distributions=tuple(one for one in (*own, *fitting) if one.name not in brought)))
    return tuple(found)


def fit(packages: Sequence[HostPackage], python: str) -> bool:
    """Whether a Python can import them: one of the same minor version."""
    return all(one.python.split(".")[:2] == python.split(".")[:2] for one in packages)
