"""The axis ``nccl``: NCCL from NVIDIA's wheels, below /usr/local/cuda."""

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
from reprokit.environment.model import Cuda, Environment, Part

SCRIPT = """\
for header in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include; do
    if grep -q '^#define NCCL_MAJOR' "$header/nccl.h" 2>/dev/null; then
        section nccl; grep -E '^#define NCCL_(MAJOR|MINOR|PATCH)' "$header/nccl.h"; break
    fi
done
section nccl-files
ls -L "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnccl.so.* /usr/lib/*-linux-gnu/libnccl.so.* 2>/dev/null"""

_VERSION = r"(\d+(?:\.\d+)+)"


def resolve(request: AxisRequest) -> Part | None:
    """NCCL for the CUDA of the cell. Raises Unsupported."""
    return _part(request.asked, request.cuda, request.catalog)


def on_host(request: HostRequest) -> Part | None:
    """NCCL for the CUDA of the cell; the host's own cannot be taken away. Raises Unsupported."""
    has = request.host.measured.get("nccl")
    if request.asked == versions.NONE and has:
        raise Unsupported(f"nccl none: this host has NCCL {has}, {CANNOT}")
    return _part(request.asked, request.cuda, request.catalog)


def _part(asked: str | None, cuda: Cuda | None, catalog: Catalog) -> Part | None:
    if asked is None or asked == versions.NONE:
        return None
    if cuda is None:
        raise Unsupported(f"nccl {asked} needs CUDA, and this cell has none: give the cuda axis a version")
    major = versions.parts(cuda.version)[0]
    available = catalog.rows("nccl", major)
    version = versions.newest(asked, available)
    if version is None:
        raise Unsupported(
            f"nccl {asked} is not available for CUDA {major}: the versions of NVIDIA's wheels "
            f"nvidia-nccl-cu{major} are {versions.span(available) or 'not known'}"
        )
    requirement = f"nvidia-nccl-cu{major}=={version}"
    return Part(axis="nccl", version=version, source="wheels", served_by=f"wheels {requirement}", tree=(requirement,))


def locked(environment: Environment) -> tuple[str, ...]:
    """NVIDIA's wheel."""
    part = environment.parts.get("nccl")
    return part.tree if part else ()


def read(sections: Mapping[str, str]) -> str | None:
    """The version in the header, else in the full name of the library."""
    header = sections.get("nccl", "")
    parts = (re.search(rf"NCCL_{part}\s+(\d+)", header) for part in ("MAJOR", "MINOR", "PATCH"))
    numbers = [part[1] for part in parts if part]
    if len(numbers) == 3:
        return ".".join(numbers)
    names = re.findall(rf"libnccl\.so\.{_VERSION}$", sections.get("nccl-files", ""), re.MULTILINE)
    return max(names, key=lambda name: name.count("."), default=None)


def read_wording(text: str) -> str:
    """``2.18.3``, ``NCCL version 2.18.3+cuda12.1``, ``(2, 18, 3)`` or ``21803`` as torch.cuda.nccl.version() says."""
    text = text.strip()
    if found := re.fullmatch(r"\(?(\d+), ?(\d+), ?(\d+)\)?", text):
        return ".".join(found.groups())
    if re.fullmatch(r"2\d{4}", text):
        return f"{text[0]}.{int(text[1:3])}.{int(text[3:])}"
    found = re.match(rf"(?:nccl[ -]?)?(?:version:? )?v?{_VERSION}", text, re.IGNORECASE)
    return found[1] if found else ""


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """The versions of NVIDIA's wheels for the CUDA of the cell."""
    return catalog.rows("nccl", versions.parts(cell.get("cuda", ""))[0])


AXIS = Axis(
    place=80,
    title="NCCL",
    syntax=version_syntax("nccl", since=FIRST_RELEASE, help="NCCL versions, or none."),
    guide="""\
NVIDIA's wheels `nvidia-nccl-cuN` for the CUDA of the cell, unpacked below `/usr/local/cuda`; it needs the axis `cuda`.
A framework's own NCCL, which its wheels bring or link in, is another one. Measured by its header, else by the name of
the library.
""",
    after=("cuda",),
    resolve=resolve,
    on_host=on_host,
    host_programs=None,
    wheels=Wheels(names=re.compile(r"nvidia-nccl(?:-cu\d+)?"), exact=True),
    layers=part_layers("nccl"),
    locked=locked,
    measure=Measurement(script=SCRIPT, read=read),
    differs=version_differs("nccl", "NCCL"),
    wording=Wording(keys={"nccl"}, read=read_wording, incidental=True, mentioned=re.compile("nccl", re.IGNORECASE)),
    precision=2,
    matters=80,
    releases=releases,
    series=in_series(releases, 1),
)
