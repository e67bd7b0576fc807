"""The axis ``os``: the distribution and its release, from a base image or from the distribution's packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from reprokit.case.axes import FIRST_RELEASE, AxisSyntax, Wrong, is_version
from reprokit.case.cellspec import EnvironmentSpec
from reprokit.case.tree import listing
from reprokit.core.errors import Unsupported
from reprokit.core.near_match import near, nearest
from reprokit.environment import versions, wording
from reprokit.environment.axis import CANNOT, Axis, AxisRequest, HostRequest, Measurement, Wording, no_layers
from reprokit.environment.catalog import OURS, Catalog, Release

DEFAULT = "debian-12"
"""The release of cells that do not ask for one."""

SCRIPT = "section os; cat /etc/os-release 2>/dev/null"


def check(value: str) -> Wrong | None:
    """What is wrong with a value; None for one that may be an operating system.

    A release that merely is not available is not a mistake in the case: its cells become ``unsupported``.
    """
    known = OURS.known_os()
    family, dash, version = value.partition("-")
    families = [name.partition("-")[0] for name in known]
    if value in known or (family in families and dash and is_version(version)):
        return None
    hint = near(value, known, cutoff=0.7)  # "linux" is not near almalinux
    if not hint and re.fullmatch(r"[a-z]+[a-z0-9_]*-[a-z0-9.]+", value):
        return None
    words = f"{value!r} is not an operating system that is known"
    return Wrong(words=words, hint=hint or f"known: {listing(f'{family}-...' for family in dict.fromkeys(families))}")


def resolve(request: AxisRequest) -> Release:
    """The newest release that the value names. Raises Unsupported."""
    asked = request.asked or DEFAULT
    releases = request.catalog.releases()
    family, _, version = asked.partition("-")
    fitting = [
        release
        for name, release in releases.items()
        if version and release.family == family and versions.matches(version, name.partition("-")[2])
    ]
    if not fitting:
        raise Unsupported(_not_available(asked, releases))
    release = max(fitting, key=lambda release: versions.order(release.name))
    if request.supply.base_source == "bootstrap" and not release.bootstraps:
        raise Unsupported(
            f"os {asked} comes as the image {release.image} of a registry alone, and base images come from no registry "
            "here (base source bootstrap)"
        )
    if other := _other_packages(request.spec.environment, release):
        raise Unsupported(f"os {asked}: {other}")
    return release


def _not_available(asked: str, releases: Mapping[str, Release]) -> str:
    """That a release is not known, with those of its family, or all families."""
    meant = nearest(asked, releases)
    hint = f"; did you mean {meant}?" if meant else ""
    family = asked.partition("-")[0]
    own = [name for name, release in releases.items() if release.family == family]
    known = ", ".join(own) or ", ".join(dict.fromkeys(f"{release.family}-..." for release in releases.values()))
    return f"os {asked} is not among the available releases: {known}{hint} (environment.image takes any other image)"


def _other_packages(asked: EnvironmentSpec, release: Release) -> str:
    """Which list of packages a case lacks for a release, where it names those of the other package manager alone."""
    lists = {"apt": asked.apt, "dnf": asked.dnf}
    other = "dnf" if release.manager == "apt" else "apt"
    if not lists[other] or lists[release.manager]:
        return ""
    return (
        f"environment.{other} names packages that {other} installs, and {release.name} has {release.manager}: "
        f"name them in environment.{release.manager} as that distribution calls them"
    )


def on_host(request: HostRequest) -> str:
    """The host's own release. Raises Unsupported where the cell asks for another."""
    if request.asked is not None and not same(request.asked, request.host.os):
        raise Unsupported(f"os {request.asked}: this host is {request.host.os}, {CANNOT}")
    return request.host.os


def same(asked: str, have: str | None) -> bool:
    """Whether a release is what a value asks for: ``debian`` accepts any, ``debian-12`` any 12.x."""
    if have is None:
        return False
    (family, _, version), (other, _, other_version) = asked.partition("-"), have.partition("-")
    return family == other and (not version or versions.matches(version, other_version))


def differs(asked: str, measured: versions.MeasuredVersions, catalog: Catalog) -> str:
    """In words, how the image is another release than the cell asks for."""
    if same(asked, measured["os"]):
        return ""
    return f"the cell asks for os {asked}, the image is {measured['os'] or 'unknown'}"


def read(sections: Mapping[str, str]) -> str | None:
    """``debian-12`` from /etc/os-release."""
    values = dict(re.findall(r'^(\w+)="?(.*?)"?$', sections.get("os", ""), re.MULTILINE))
    family = _FAMILIES.get(values.get("ID", ""), values.get("ID"))
    return "-".join(filter(None, (family, values.get("VERSION_ID")))) or None


_FAMILIES = {"amzn": "amazonlinux", "ol": "oraclelinux"}
"""Families that /etc/os-release calls otherwise than their images are called."""


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """Every release that is known."""
    return catalog.known_os()


def release_of(cell: Mapping[str, str], catalog: Catalog) -> Release | None:
    """The release of a cell, None for one that is not known by exactly that name."""
    return catalog.releases().get(cell.get("os", DEFAULT))


AXIS = Axis(
    place=10,
    title="OS",
    syntax=AxisSyntax(
        name="os",
        since=FIRST_RELEASE,
        help="Operating systems, such as debian-12 or ubuntu-22.04.",
        schema={"type": "string"},
        check=check,
        versions=False,
    ),
    guide="""\
The base image: the official image of the release from a registry, or one that is made from the distribution's own
packages (`--base bootstrap`). Without this axis it is `debian-12`. `environment.image` takes any other image.
Measured by `/etc/os-release`.

Debian 11 to 13, the LTS releases of Ubuntu from 16.04 on, and Ubuntu 25.04 and 25.10 come both ways. From a registry
alone come `debian-10`, other releases of Ubuntu from 17.04 on, and distributions with RPM packages. These are CentOS 7
to 10, RHEL 8 to 10 (UBI), Rocky and AlmaLinux 8 to 10, Oracle Linux 7 to 9, Amazon Linux 2 and 2023, and Fedora 28 to
44. Their packages are those of `environment.dnf`, and a lock is not available. This project has not built their images.
""",
    after=(),
    resolve=resolve,
    on_host=on_host,
    host_programs=None,
    wheels=None,
    layers=no_layers,
    locked=None,
    measure=Measurement(script=SCRIPT, read=read),
    differs=differs,
    wording=Wording(
        keys={"platform", "os", "operating system", "system", "distribution", "libc", "glibc", "操作系统", "系统"},
        read=wording.os,
        incidental=False,
        mentioned=re.compile(""),
    ),
    precision=2,
    matters=50,
    releases=releases,
    series=Catalog.known_os,
)
