"""From a cell to a virtual environment of this host: what the host has serves, what it cannot have, and a limit that
an ordinary process cannot be held to, is refused. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from reprokit.case.cellspec import CellSpec, Limits
from reprokit.case.limits import LIMITS, NOT_HELD, SHARED
from reprokit.core.errors import Unsupported
from reprokit.environment import compatibility, host_packages, versions
from reprokit.environment.axes import RESOLVING
from reprokit.environment.axis import CANNOT, FollowsFromRefused, HostRequest
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.host import Host
from reprokit.environment.model import Base, Environment, Gcc, OnHost, Python
from reprokit.environment.resolving import parts_of


def resolve_on(
    host: Host, spec: CellSpec, *, catalog: Catalog = OURS, written: Collection[str] = ("cpus", "pids")
) -> Environment:
    """The environment of a cell on that host. Raises Unsupported with every reason why there is none.

    ``written``: the limits that the case itself asks for. Where it leaves the network open, it has the host's; a cap of
    the site that cannot be held is not held. Both are noted.
    """
    reasons = [*_system(host, spec), *_limits(host, spec.limits, written), *_places(spec)]
    found: dict[str, Any] = {}
    for axis in RESOLVING:
        request = HostRequest(asked=axis.asked(spec.cell), spec=spec, host=host, catalog=catalog, found=found)
        try:
            found[axis.name] = axis.on_host(request)
        except FollowsFromRefused:
            continue
        except Unsupported as error:
            reasons.append(str(error))
    try:
        packages = host_packages.served(host, spec)
    except Unsupported as error:
        reasons.append(str(error))
    if reasons:
        raise Unsupported("; ".join(reasons))
    asked, python, gcc = spec.environment, found["python"], found["gcc"]
    environment = Environment(
        base=Base(name=host.os, source="host", reference=host.reference),
        os=host.os,
        python=Python(version=python.version),
        gcc=Gcc(major=versions.parts(gcc.version)[0], version=gcc.version) if gcc else None,
        cuda=found["cuda"],
        cudnn=found["cudnn"],
        parts=parts_of(found),
        pip=asked.pip_steps,
        pip_options=asked.pip_options,
        pip_before=asked.pip_before,
        setup=asked.setup,
        host=OnHost(python=python, gcc=gcc, packages=packages),
        notes=tuple(_notes(host, spec, written)),
    )
    return compatibility.check(spec, environment, catalog)


def _system(host: Host, spec: CellSpec) -> Iterator[str]:
    if spec.environment.image:
        yield f"environment.image {spec.environment.image}: a virtual environment starts from this host, not an image"
    asked = spec.environment
    if host.rpm is not None and host.apt is None:
        # The name and version of a package of RPM cannot be separated without asking it.
        if missing := [text for text in asked.dnf if not {text, text.split("-")[0]} & set(host.rpm)]:
            yield _not_installed("dnf", missing, "dnf install")
        if asked.apt and not asked.dnf:
            yield f"environment.apt: this host has no dpkg, {CANNOT}: name its packages in environment.dnf"
        return
    packages = [_package(text) for text in asked.apt]
    if asked.dnf and not asked.apt:
        yield f"environment.dnf: this host has no rpm, {CANNOT}"
    if packages and host.apt is None:
        yield f"environment.apt: this host has no dpkg, {CANNOT}"
    elif missing := [name for name, version in packages if not _installed(name, version, host.apt or {})]:
        yield _not_installed("apt", missing, "apt-get install")


def _not_installed(key: str, missing: Sequence[str], program: str) -> str:
    verb = "are" if len(missing) > 1 else "is"
    return f"environment.{key}: {', '.join(missing)} {verb} not installed on this host ({program} as root helps)"


def _package(text: str) -> tuple[str, str]:
    """Name and version of an apt argument; '' where any version will do."""
    name, _, version = text.partition("=")
    return re.split(r"[:/]", name)[0], version


def _installed(name: str, version: str, apt: Mapping[str, str]) -> bool:
    return name in apt and (not version or apt[name] == version)


def _limits(host: Host, limits: Limits, written: Collection[str]) -> Iterator[str]:
    for row in LIMITS:
        # Cores and processes may be the site's caps; a network is cut off unless the case asks for one.
        asked = limits.network == "none" if row.key == "network" else row.is_asked(limits)
        if row.held.venv and asked and (row.key in written or row.key in ("ulimits", "shm_size")):
            yield f"resources.{row.key}{' none' if row.key == 'network' else ''}: {row.held.venv}"
    if limits.user == "root" and not host.root:
        yield "resources.user root: reprokit itself does not run as root"
    elif limits.user not in {"repro", "root"}:
        yield f"resources.user {limits.user}: the programs of a virtual environment run as you"


def _places(spec: CellSpec) -> Iterator[str]:
    """The work folder cannot be at its place, so that nothing may name that place."""
    workdir, asked = spec.workdir.rstrip("/"), spec.environment
    if not workdir:
        yield "workdir /: a virtual environment needs a folder of its own"
        return
    texts = {
        "command": spec.command,
        "env": spec.env.values(),
        "files": [file.text for file in spec.files.values()],
        "environment": (
            *(text for step in asked.pip_steps for text in (*step.requirements, *step.options)),
            *asked.pip_options,
            asked.setup,
        ),
        "datasets": [dataset.generate for dataset in spec.datasets.values()],
    }
    for key, values in texts.items():
        if any(re.search(re.escape(workdir) + r"(?![\w.-])", value) for value in values):
            yield f"{key} names {workdir}: the work folder of a virtual environment is elsewhere; name paths from there"


def _notes(host: Host, spec: CellSpec, written: Collection[str]) -> Iterator[str]:
    """What the cell leaves open, and a container has otherwise."""
    for name, value in (("cpus", spec.limits.cpus), ("pids", spec.limits.pids)):
        if value is not None and name not in written:
            yield f"max_{name} of this host, {value:g}, was not held: {NOT_HELD.partition(';')[0]}"
    if spec.limits.network == "none":
        yield f"the network was not cut off, as a container's is: {SHARED}"
    if host.root and spec.limits.user != "root":
        yield "the program ran as root, as reprokit itself"
    if spec.datasets:
        yield "data sets could be written to"
