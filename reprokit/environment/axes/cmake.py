"""The axis ``cmake``: CMake from PyPI's wheels, in the virtual environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from reprokit.case.axes import version_syntax
from reprokit.core.errors import Unsupported
from reprokit.environment import versions
from reprokit.environment.axis import (
    CANNOT,
    Axis,
    AxisRequest,
    HostRequest,
    Measurement,
    Wording,
    in_series,
    part_layers,
    version_differs,
)
from reprokit.environment.catalog import Catalog
from reprokit.environment.model import Part

_WHEELS = """
3.18.0 3.18.2 3.18.4 3.20.2 3.20.3 3.20.4 3.20.5 3.21.0 3.21.2 3.21.3 3.21.4 3.22.0 3.22.1 3.22.2 3.22.3 3.22.4
3.22.5 3.22.6 3.23.3 3.24.0 3.24.1 3.24.1.1 3.24.2 3.24.3 3.25.0 3.25.2 3.26.0 3.26.1 3.26.3 3.26.4 3.27.0
3.27.1 3.27.2 3.27.4.1 3.27.5 3.27.6 3.27.7 3.27.9 3.28.1 3.28.3 3.28.4 3.29.0.1 3.29.2 3.29.3 3.29.5 3.29.5.1
3.29.6 3.30.0 3.30.1 3.30.2 3.30.3 3.30.4 3.30.5 3.30.9 3.31.0.1 3.31.1 3.31.2 3.31.4 3.31.6 3.31.10 4.0.0 4.0.2
4.0.3 4.1.0 4.1.2 4.1.3 4.2.0 4.2.1 4.2.3 4.3.0 4.3.1 4.3.2 4.3.4 4.4.0 4.4.2 4.4.3 4.4.4
"""
WHEELS = tuple(_WHEELS.split())
"""The releases on PyPI with wheels for Linux and any Python, oldest first."""

SCRIPT = "if command -v cmake >/dev/null 2>&1; then section cmake; cmake --version 2>/dev/null | head -n 1; fi"

_VERSION = r"(\d+(?:\.\d+)*)"


def resolve(request: AxisRequest) -> Part | None:
    """The newest wheel that the value names. Raises Unsupported."""
    return _part(request.asked)


def on_host(request: HostRequest) -> Part | None:
    """The same wheel: the virtual environment's own pip installs it. A CMake of the host cannot be taken away."""
    has = request.host.measured.get("cmake")
    if request.asked == versions.NONE and has:
        raise Unsupported(f"cmake none: this host has CMake {has}, {CANNOT}")
    return _part(request.asked)


def _part(asked: str | None) -> Part | None:
    if asked is None or asked == versions.NONE:
        return None
    version = versions.newest(asked, WHEELS)
    if version is None:
        raise Unsupported(f"cmake {asked} is not available: PyPI has wheels of {versions.span(WHEELS)}")
    requirement = f"cmake=={version}"
    return Part(
        axis="cmake", version=version, source="wheels", served_by=f"wheels {requirement}", wheels=(requirement,)
    )


def read(sections: Mapping[str, str]) -> str | None:
    """``cmake version 3.31.10``, as the program says."""
    found = re.match(rf"cmake3? version {_VERSION}", sections.get("cmake", ""))
    return found[1] if found else None


def same(asked: str, have: str) -> bool:
    """Whether a version of CMake's (three numbers) is that of the wheel asked for, which may have four."""
    return have.count(".") == 2 and versions.matches(have, asked)


def said(text: str) -> str:
    """``cmake version 3.31.10``, ``CMake 3.27``, ``3.27.9``."""
    found = re.match(rf"(?:cmake[ -]?)?(?:version:? )?v?{_VERSION}", text, re.IGNORECASE)
    return found[1] if found else ""


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """The releases on PyPI."""
    return WHEELS


AXIS = Axis(
    place=60,
    title="CMake",
    syntax=version_syntax("cmake", "CMake versions: 3.27 accepts any 3.27.x; none for no CMake of PyPI's."),
    guide="""\
The program `cmake` of PyPI's wheels, in the virtual environment at `/opt/venv`, which is first on `PATH`; it needs a
Python with pip. It is installed after pinned packages of hundreds of megabytes and before the other requirements of
`environment.pip`. Without this axis nothing is installed. Measured by `cmake --version`.
""",
    after=("python",),
    resolve=resolve,
    on_host=on_host,
    host_programs=None,
    layers=part_layers("cmake"),
    locked=None,
    measure=Measurement(script=SCRIPT, read=read),
    differs=version_differs("cmake", "CMake", same),
    wording=Wording(keys={"cmake"}, read=said, incidental=True),
    precision=2,
    matters=60,
    releases=releases,
    series=in_series(releases, 1),
)
