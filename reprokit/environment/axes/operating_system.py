"""The axis ``os``: the distribution and its release, from a base image or from the distribution's packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reprokit.case.axes import AxisSyntax, Wrong, is_version
from reprokit.case.descriptions import listing
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
    families = {name.partition("-")[0] for name in known}
    if value in known or (family in families and dash and is_version(version)):
        return None
    hint = near(value, known)
    if not hint and re.fullmatch(r"[a-z]+[a-z0-9_]*-[a-z0-9.]+", value):
        return None
    words = f"{value!r} is not an operating system that is known"
    return Wrong(words=words, hint=hint or f"known: {listing(known)}")


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
    if fitting:
        return max(fitting, key=lambda release: versions.order(release.name))
    meant = nearest(asked, releases)
    hint = f"; did you mean {meant}?" if meant else ""
    raise Unsupported(
        f"os {asked} is not among the available releases: {', '.join(releases)}{hint} "
        "(environment.image takes any other image)"
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


def differs(asked: str, measured: Mapping[str, Any], catalog: Catalog) -> str:
    """In words, how the image is another release than the cell asks for."""
    if same(asked, measured["os"]):
        return ""
    return f"the cell asks for os {asked}, the image is {measured['os'] or 'unknown'}"


def read(sections: Mapping[str, str]) -> str | None:
    """``debian-12`` from /etc/os-release."""
    values = dict(re.findall(r'^(\w+)="?(.*?)"?$', sections.get("os", ""), re.MULTILINE))
    return "-".join(filter(None, (values.get("ID"), values.get("VERSION_ID")))) or None


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
        help="Operating systems, such as debian-12 or ubuntu-22.04.",
        schema={"type": "string"},
        check=check,
        versions=False,
    ),
    guide="""\
The base image: the official image of the release from a registry, or one that is made from the distribution's own
packages (`--base bootstrap`). Without this axis it is `debian-12`. `environment.image` takes any other image.
Measured by `/etc/os-release`.
""",
    after=(),
    resolve=resolve,
    on_host=on_host,
    host_programs=None,
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
