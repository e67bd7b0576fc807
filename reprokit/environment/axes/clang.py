"""The axis ``clang``: Clang from the distribution's packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from reprokit.case.axes import FIRST_RELEASE, version_syntax
from reprokit.core.errors import Unsupported
from reprokit.environment import versions
from reprokit.environment.axes.operating_system import release_of
from reprokit.environment.axis import (
    CANNOT,
    Axis,
    AxisRequest,
    HostPrograms,
    HostRequest,
    Measurement,
    Wording,
    in_series,
    part_layers,
    version_differs,
)
from reprokit.environment.catalog import Catalog
from reprokit.environment.model import Part

SCRIPT = "if command -v clang >/dev/null 2>&1; then section clang; clang --version 2>/dev/null | head -n 1; fi"
"""``--version``, because ``-dumpversion`` says 4.2.1 before Clang 9."""

_VERSION = r"(\d+(?:\.\d+)*)"


def resolve(request: AxisRequest) -> Part | None:
    """The newest package of the release that the value names. Raises Unsupported."""
    asked, name = request.asked, request.release.name
    if asked is None or asked == versions.NONE:
        return None
    packages = request.catalog.rows("clang", name)
    version = versions.newest(asked, packages)
    if version is None:
        fitting = {other: versions.newest(asked, rows) for other, rows in request.catalog.table("clang").items()}
        elsewhere = ", ".join(f"{found} on {other}" for other, found in fitting.items() if found)
        raise Unsupported(
            f"clang {asked} is not available on {name}: its packages have {', '.join(packages) or 'none'}; "
            f"other releases have {elsewhere or 'none either'}; environment.image takes any other image"
        )
    major = ".".join(versions.parts(version)[: 1 if versions.order(version) >= (7,) else 2])  # clang-6.0, clang-7
    return Part(
        axis="clang",
        version=version,
        source="distribution",
        served_by=f"{name} clang-{major} {version}",
        apt=(f"clang-{major}", "make", *(request.python.headers if request.python else ())),
        links={program: f"/usr/bin/{program}-{major}" for program in ("clang", "clang++")},
    )


def on_host(request: HostRequest) -> Part | None:
    """A Clang of the host. Raises Unsupported."""
    asked, host = request.asked, request.host
    if asked is None:
        return None
    if asked == versions.NONE:
        if has := host.measured.get("clang"):
            raise Unsupported(f"clang none: this host has Clang {has}, {CANNOT}")
        return None
    programs = host.programs.get("clang", {})
    version = versions.newest(asked, programs.values())
    if version is None:
        raise Unsupported(
            f"clang {asked}: this host has {', '.join(sorted(set(programs.values()))) or 'none'}, {CANNOT}"
        )
    path = next(path for path, full in programs.items() if full == version)
    beside = path.replace("/clang", "/clang++", 1)
    links = {"clang": path, "clang++": beside}
    return Part(axis="clang", version=version, source="host", served_by=f"{path} {version}", links=links)


def read(sections: Mapping[str, str]) -> str | None:
    """``Debian clang version 16.0.6 (15~deb12u1)``, as the program says."""
    found = re.search(rf"clang version {_VERSION}", sections.get("clang", ""))
    return found[1] if found else None


def read_wording(text: str) -> str:
    """``clang version 16.0.6``, ``Ubuntu clang version 14.0.0-1ubuntu1.1``, ``clang-14``, ``16.0.6``.

    Apple numbers its own releases otherwise.
    """
    if "apple" in text.lower():
        return ""
    found = re.match(rf"(?:[\w ]*clang(?:\+\+)?[ -]?)?(?:version:? )?v?{_VERSION}", text, re.IGNORECASE)
    return found[1] if found else ""


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """The packages of the cell's release."""
    release = release_of(cell, catalog)
    return catalog.rows("clang", release.name) if release else ()


AXIS = Axis(
    place=70,
    title="Clang",
    syntax=version_syntax(
        "clang", since=FIRST_RELEASE, help="Clang versions: 16 accepts any 16.x; none for no Clang in the image."
    ),
    guide="""\
`clang` and `clang++` of the distribution's packages `clang-N`, with `make` and Python's headers; a release has a few
versions. They do not become `cc` and `c++`: a case calls them by name, or sets `CC` and `CXX`. Without this axis
nothing is installed. Measured by `clang --version`.
""",
    after=("os", "python"),
    resolve=resolve,
    on_host=on_host,
    host_programs=HostPrograms(names=("clang", "clang++"), version=("--version",)),
    wheels=None,
    layers=part_layers("clang"),
    locked=None,
    measure=Measurement(script=SCRIPT, read=read),
    differs=version_differs("clang", "Clang"),
    wording=Wording(
        keys={"clang", "clang++", "llvm/clang"}, read=read_wording, incidental=True, mentioned=re.compile(r"\bclang\b")
    ),
    precision=1,
    matters=70,
    releases=releases,
    series=in_series(releases, 1),
)
