"""The axis ``gcc``: the C and C++ compiler that ``gcc``, ``g++``, ``cc`` and ``c++`` call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from reprokit.case.axes import FIRST_RELEASE, version_syntax
from reprokit.core.errors import Unsupported
from reprokit.environment import providers_gcc, versions, wording
from reprokit.environment.axes.operating_system import release_of
from reprokit.environment.axis import (
    CANNOT,
    Axis,
    AxisRequest,
    HostPrograms,
    HostRequest,
    Layer,
    Measurement,
    Wording,
    in_series,
    version_differs,
)
from reprokit.environment.catalog import Catalog
from reprokit.environment.model import Compiler, Environment, Gcc

SCRIPT = """\
if command -v gcc >/dev/null 2>&1; then
    section gcc; gcc --version 2>&1 | head -n 1; gcc -dumpfullversion -dumpversion 2>/dev/null
fi"""


def resolve(request: AxisRequest) -> Gcc | None:
    """The GCC of a cell, from the first provider that has it. Raises Unsupported."""
    return providers_gcc.gcc(request.asked, request.release, request.supply)


def on_host(request: HostRequest) -> Compiler | None:
    """A GCC of the host. Raises Unsupported."""
    asked, host = request.asked, request.host
    if asked is None:
        return None
    if asked == versions.NONE:
        if host.gcc:
            raise Unsupported(f"gcc none: this host has GCC {host.gcc}, {CANNOT}")
        return None
    version = versions.newest(asked, host.gccs.values())
    if version is None:
        raise Unsupported(
            f"gcc {asked}: this host has {', '.join(sorted(set(host.gccs.values()))) or 'none'}, {CANNOT}"
        )
    return Compiler(version=version, path=next(path for path, full in host.gccs.items() if full == version))


def layers(environment: Environment) -> Iterator[Layer]:
    """The distribution's packages, or a tree at /opt/gcc that the stage of conda or another image has."""
    gcc = environment.gcc
    if gcc is None:
        return
    if gcc.source == "image":
        yield Layer(place="stage", template="gcc_image.j2")
    yield Layer(place="small", template="gcc.j2" if gcc.source == "distribution" else "gcc_tree.j2")


def read(sections: Mapping[str, str]) -> str | None:
    """The last line that the compiler says, where it is a version."""
    lines = sections.get("gcc", "").splitlines()
    found = re.fullmatch(r"\d+(?:\.\d+)*", lines[-1]) if lines else None
    return found[0] if found else None


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """The GCCs of the release, of Docker's images and of conda-forge."""
    release = release_of(cell, catalog)
    return [*(release.gcc.values() if release else ()), *catalog.gcc_images(), *catalog.gcc_conda()]


AXIS = Axis(
    place=30,
    title="GCC",
    syntax=version_syntax("gcc", since=FIRST_RELEASE, help="GCC versions: 12 accepts any 12.x, 12.2 only 12.2.x."),
    guide="""\
`gcc`, `g++`, `cc` and `c++`: of the distribution's packages, of Docker's image `gcc`, or of conda-forge, in the order
of `gcc_providers`. Without this axis nothing is installed. Measured by `gcc -dumpfullversion`.
""",
    after=("os", "python"),
    resolve=resolve,
    on_host=on_host,
    host_programs=HostPrograms(names=("gcc", "g++"), version=("-dumpfullversion",)),
    wheels=None,
    layers=layers,
    locked=None,
    measure=Measurement(script=SCRIPT, read=read),
    differs=version_differs("gcc", "GCC"),
    wording=Wording(
        keys={"gcc", "g++", "compiler", "编译器"},
        read=wording.gcc,
        incidental=False,
        mentioned=re.compile(r"\b(?:gcc|g\+\+|cc|c\+\+|make|cmake|ninja|nvcc|setup\.py|cpp_extension)(?![\w.])"),
    ),
    precision=1,
    matters=30,
    releases=releases,
    series=in_series(releases, 1),
)
