"""The axis ``python``: the interpreter of the virtual environment at /opt/venv."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reprokit.case.axes import FIRST_RELEASE, version_syntax
from reprokit.core.errors import Unsupported
from reprokit.environment import host_packages, providers_python, versions, wording
from reprokit.environment.axes.operating_system import release_of
from reprokit.environment.axis import (
    Axis,
    AxisRequest,
    HostRequest,
    Layer,
    Measurement,
    Wording,
    in_series,
    version_differs,
)
from reprokit.environment.catalog import Catalog
from reprokit.environment.model import Environment, Interpreter, Python

SCRIPT = """\
for name in python python3; do
    if command -v "$name" >/dev/null 2>&1; then section python; "$name" -c "$1" 2>&1; break; fi
done"""
"""``$1`` is the text of probe_inside.py, which prints the packages and frameworks, too."""


def resolve(request: AxisRequest) -> Python | None:
    """The Python of a cell, from the first provider that has it. Raises Unsupported."""
    return providers_python.python(request.asked, request.release, request.supply, request.cuda)


def on_host(request: HostRequest) -> Interpreter:
    """A Python of the host, or one that uv can install. Raises Unsupported."""
    asked, host = request.asked, request.host
    if asked == versions.NONE:
        raise Unsupported("python none: a virtual environment is made of Python")
    try:
        packages = host_packages.served(host, request.spec)
    except Unsupported:  # said once, for the whole cell
        packages = ()
    for one in host.pythons:
        if (asked is None or versions.matches(asked, one.version)) and host_packages.fit(packages, one.version):
            return one
    if packages:
        pythons = " and ".join(f"{one.name} {one.version} of {one.place} for Python {one.python}" for one in packages)
        raise Unsupported(f"python {asked or '3'} is not on this host as its packages need it: {pythons}")
    if asked is not None and (version := versions.newest(asked, host.uv_pythons)):
        return Interpreter(version=version)
    has = ", ".join(dict.fromkeys(one.version for one in host.pythons)) or "none"
    uv = f"; uv could install {versions.span(host.uv_pythons)}" if host.uv_pythons else ""
    raise Unsupported(f"python {asked or '3'} is not on this host, which has {has}{uv}")


def layers(environment: Environment) -> Iterator[Layer]:
    """The stage of uv, or of virtualenv. The layer of the system has the interpreters of the others."""
    if environment.python and environment.python.installer:
        yield Layer(place="stage", template="uv.j2" if environment.python.source == "uv" else "virtualenv.j2")


def read(sections: Mapping[str, str]) -> str | None:
    """The version that the interpreter itself says."""
    version = describe_python(sections).get("version")
    return str(version) if version else None


def describe_python(sections: Mapping[str, str]) -> Mapping[str, Any]:
    """Everything that the interpreter says of itself, its packages and frameworks; empty where there is none."""
    text = sections.get("python", "")
    # Warnings of the interpreter come first; the object is the last line.
    last = text.splitlines()[-1] if text else ""
    try:
        value = json.loads(last)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """The Pythons of the release, of Docker's images, of uv and of conda-forge."""
    release = release_of(cell, catalog)
    packaged = release.pythons if release else ()
    images = catalog.python_images(release.name if release else "")
    return [*packaged, *images, *catalog.uv_pythons(), *catalog.conda_pythons()]


AXIS = Axis(
    place=20,
    title="Python",
    syntax=version_syntax(
        "python", since=FIRST_RELEASE, help="Python versions, such as 3.11. Quote them: other tools read 3.10 as 3.1."
    ),
    guide="""\
The interpreter of a virtual environment at `/opt/venv`, which is first on `PATH`. It is of the distribution's packages,
Docker's image `python`, uv, or conda-forge (3.5 to 3.7), in the order of `python_providers`. Without this axis it is
the distribution's own; `none` makes no virtual environment. For `2.7`, which the packages of debian-11 and of
ubuntu-16.04 to 22.04 have, the program virtualenv makes the environment. Measured by running it.
""",
    after=("os", "cuda"),
    resolve=resolve,
    on_host=on_host,
    host_programs=None,
    wheels=None,
    layers=layers,
    locked=None,
    measure=Measurement(script=SCRIPT, read=read),
    differs=version_differs("python", "Python"),
    wording=Wording(keys={"python", "py"}, read=wording.python, incidental=False, mentioned=re.compile("")),
    precision=2,
    matters=40,
    releases=releases,
    series=in_series(releases, 2),
)
