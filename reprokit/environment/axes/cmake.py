"""The axis ``cmake``: CMake from PyPI's wheels, in the virtual environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from reprokit.case.axes import FIRST_RELEASE, version_syntax
from reprokit.core.errors import Unsupported
from reprokit.environment import versions
from reprokit.environment.axis import (
    CANNOT,
    Axis,
    AxisRequest,
    HostRequest,
    Measurement,
    Wheels,
    Wording,
    in_series,
    part_layers,
    version_differs,
)
from reprokit.environment.catalog import Catalog
from reprokit.environment.model import Part

SCRIPT = "if command -v cmake >/dev/null 2>&1; then section cmake; cmake --version 2>/dev/null | head -n 1; fi"

_VERSION = r"(\d+(?:\.\d+)*)"


def resolve(request: AxisRequest) -> Part | None:
    """The newest wheel that the value names. Raises Unsupported."""
    return _part(request.asked, request.catalog)


def on_host(request: HostRequest) -> Part | None:
    """The same wheel: the virtual environment's own pip installs it. A CMake of the host cannot be taken away."""
    has = request.host.measured.get("cmake")
    if request.asked == versions.NONE and has:
        raise Unsupported(f"cmake none: this host has CMake {has}, {CANNOT}")
    return _part(request.asked, request.catalog)


def _part(asked: str | None, catalog: Catalog) -> Part | None:
    if asked is None or asked == versions.NONE:
        return None
    wheels = catalog.rows("cmake", "wheels")
    version = versions.newest(asked, wheels)
    if version is None:
        raise Unsupported(f"cmake {asked} is not available: PyPI has wheels of {versions.span(wheels)}")
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


def read_wording(text: str) -> str:
    """``cmake version 3.31.10``, ``CMake 3.27``, ``3.27.9``."""
    found = re.match(rf"(?:cmake[ -]?)?(?:version:? )?v?{_VERSION}", text, re.IGNORECASE)
    return found[1] if found else ""


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """The releases on PyPI."""
    return catalog.rows("cmake", "wheels")


AXIS = Axis(
    place=60,
    title="CMake",
    syntax=version_syntax(
        "cmake", since=FIRST_RELEASE, help="CMake versions: 3.27 accepts any 3.27.x; none for no CMake of PyPI's."
    ),
    guide="""\
The program `cmake` of PyPI's wheels, in the virtual environment at `/opt/venv`, which is first on `PATH`; it needs a
Python with pip. It is installed after pinned packages of hundreds of megabytes and before the other requirements of
`environment.pip`. Without this axis nothing is installed. Measured by `cmake --version`.
""",
    after=("python",),
    resolve=resolve,
    on_host=on_host,
    host_programs=None,
    wheels=Wheels(names=re.compile("cmake"), exact=True),
    layers=part_layers("cmake"),
    locked=None,
    measure=Measurement(script=SCRIPT, read=read),
    differs=version_differs("cmake", "CMake", same),
    wording=Wording(
        keys={"cmake"}, read=read_wording, incidental=True, mentioned=re.compile(r"\bcmake\b|CMakeLists", re.IGNORECASE)
    ),
    precision=2,
    matters=60,
    releases=releases,
    series=in_series(releases, 1),
)
