"""The axis ``cudnn``: cuDNN from NVIDIA's wheels or images, or from conda-forge, below /usr/local/cuda."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from reprokit.case.axes import FIRST_RELEASE, version_syntax
from reprokit.core.errors import Unsupported
from reprokit.environment import versions, wording
from reprokit.environment.axis import (
    CANNOT,
    Axis,
    AxisRequest,
    HostRequest,
    Layer,
    Measurement,
    Wheels,
    Wording,
    in_series,
    version_differs,
)
from reprokit.environment.catalog import Catalog, nvidia_image
from reprokit.environment.model import CondaTree, Cuda, Cudnn, Environment

SCRIPT = """\
for header in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include /usr/include/*-linux-gnu; do
    for name in cudnn_version.h cudnn_version_v9.h cudnn_version_v8.h cudnn.h; do
        if grep -q '^#define CUDNN_MAJOR' "$header/$name" 2>/dev/null; then
            section cudnn; grep -E '^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL)' "$header/$name"; break 2
        fi
    done
done
section cudnn-files
ls -L "${CUDA_HOME:-/usr/local/cuda}"/lib64/libcudnn.so.* /usr/lib/*-linux-gnu/libcudnn.so.* 2>/dev/null"""


def resolve(request: AxisRequest) -> Cudnn | None:
    """cuDNN for the CUDA of the cell: NVIDIA's wheels, NVIDIA's image of that CUDA, conda-forge. Raises Unsupported."""
    asked, cuda, catalog = request.asked, request.cuda, request.catalog
    try:
        return cudnn_of(asked, cuda, catalog)
    except Unsupported as error:
        if asked is None or cuda is None:
            raise
        has = catalog.image_cudnns(request.release.name).get(cuda.version, "") if cuda.source == "image" else ""
        image = nvidia_image(request.release.name, cuda.version, has)
        if has and versions.matches(asked, has) and image not in request.supply.missing:
            return Cudnn(version=has, source="image")
        known, silence = catalog.conda_cudnns(cuda.version), request.supply.silence("conda", "conda_channel")
        version = versions.newest(asked, known)
        if version is not None and not silence:
            return _of_conda(version, cuda)
        short = ".".join(versions.parts(cuda.version)[:2])
        conda = f"for CUDA {short} conda-forge has {versions.span(known) or 'none'}"
        if version is not None:
            conda = f"conda-forge would serve {version}{silence}"
        raise Unsupported(f"{error}; {conda}") from error


def _of_conda(version: str, cuda: Cuda) -> Cudnn:
    """conda-forge's package, built for that CUDA."""
    short = ".".join(versions.parts(cuda.version)[:2])
    tree = CondaTree(
        folder="/opt/cudnn", packages=(f"cudnn =={version}",), beside=(f"cudatoolkit {short}.*",), only="cudnn"
    )
    return Cudnn(version=version, source="conda", conda=tree)


def cudnn_of(asked: str | None, cuda: Cuda | None, catalog: Catalog) -> Cudnn | None:
    """cuDNN from NVIDIA's wheels, beside that CUDA. Raises Unsupported."""
    if asked is None or asked == versions.NONE:
        return None
    if cuda is None:
        raise Unsupported(f"cudnn {asked} needs CUDA, and this cell has none: give the cuda axis a version")
    major = versions.parts(cuda.version)[0]
    available = catalog.rows("cudnn", major)
    version = versions.newest(asked, available)
    if version is None:
        has = versions.span(available) if available else "none"
        images = catalog.images_with_cudnn(asked, ".".join(versions.parts(cuda.version)[:2]))
        raise Unsupported(
            f"cudnn {asked} is not available for CUDA {major}; NVIDIA's wheels nvidia-cudnn-cu{major}: {has}"
            + (f"; environment.image can be {', '.join(images)}, which have it" if images else "")
        )
    return Cudnn(version=version, requirements=(f"nvidia-cudnn-cu{major}=={version}",))


def on_host(request: HostRequest) -> Cudnn | None:
    """cuDNN for the CUDA of the cell; the host's own cannot be taken away. Raises Unsupported."""
    if request.asked == versions.NONE and request.host.cudnn:
        raise Unsupported(f"cudnn none: this host has cuDNN {request.host.cudnn}, {CANNOT}")
    return cudnn_of(request.asked, request.cuda, request.catalog)


def layers(environment: Environment) -> Iterator[Layer]:
    """The wheels or conda's package, below /usr/local/cuda; nothing where the base image has it."""
    if environment.cudnn and environment.cudnn.source != "image":
        yield Layer(place="large", template="cudnn.j2")


def locked(environment: Environment) -> tuple[str, ...]:
    """NVIDIA's wheel."""
    return environment.cudnn.requirements if environment.cudnn else ()


def read(sections: Mapping[str, str]) -> str | None:
    """The version in the header, else in the full name of the library."""
    header = sections.get("cudnn", "")
    parts = (re.search(rf"CUDNN_{part}\s+(\d+)", header) for part in ("MAJOR", "MINOR", "PATCHLEVEL"))
    numbers = [part[1] for part in parts if part]
    if len(numbers) == 3:
        return ".".join(numbers)
    names = re.findall(r"libcudnn\.so\.(\d+(?:\.\d+)*)$", sections.get("cudnn-files", ""), re.MULTILINE)
    return max(names, key=lambda name: name.count("."), default=None)


def same(asked: str, have: str) -> bool:
    """Whether the header's three numbers are what a value asks for, which may have the four of the packages."""
    return have.count(".") == 2 and versions.matches(have, asked)


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """The versions of NVIDIA's wheels and of conda-forge for the CUDA of the cell, and that of NVIDIA's image."""
    cuda = cell.get("cuda", "")
    own = catalog.image_cudnns(cell.get("os", "")) if cuda else {}
    image = [has for release, has in own.items() if versions.matches(cuda, release)]
    return [*catalog.rows("cudnn", versions.parts(cuda)[0]), *image, *(catalog.conda_cudnns(cuda) if cuda else ())]


AXIS = Axis(
    place=50,
    title="cuDNN",
    syntax=version_syntax("cudnn", since=FIRST_RELEASE, help="cuDNN versions, or none."),
    guide="""\
NVIDIA's wheels `nvidia-cudnn-cuN` for the CUDA of the cell, unpacked below `/usr/local/cuda`; it needs the axis `cuda`,
whose libraries it loads. Older versions come with NVIDIA's image of that CUDA, where base images come from a registry,
or from conda-forge's package `cudnn` (7.6.5 to 8.9.7, for CUDA 9.2 to 11). Measured by its header, else by the name of
the library.
""",
    after=("cuda",),
    resolve=resolve,
    on_host=on_host,
    host_programs=None,
    wheels=Wheels(names=re.compile(r"nvidia-cudnn(?:-cu\d+)?"), exact=True),
    layers=layers,
    locked=locked,
    measure=Measurement(script=SCRIPT, read=read),
    differs=version_differs("cudnn", "cuDNN", same),
    wording=Wording(keys={"cudnn"}, read=wording.cudnn, incidental=False, mentioned=re.compile("cudnn", re.IGNORECASE)),
    precision=2,
    matters=20,
    releases=releases,
    series=in_series(releases, 1),
)
