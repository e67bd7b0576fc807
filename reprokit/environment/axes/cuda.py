"""The axis ``cuda``: the CUDA toolkit at /usr/local/cuda."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from reprokit.case.axes import FIRST_RELEASE, version_syntax
from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import Unsupported
from reprokit.environment import versions, wording
from reprokit.environment.axes.operating_system import release_of
from reprokit.environment.axis import (
    CANNOT,
    Axis,
    AxisRequest,
    HostRequest,
    Layer,
    Measurement,
    Wheels,
    Wording,
    version_differs,
)
from reprokit.environment.catalog import Catalog, nvidia_image
from reprokit.environment.model import CondaTree, Cuda, Environment
from reprokit.environment.tables import CUDA_COMPILER, CUDA_PARTS

TOOLKIT = "nvidia-cuda-toolkit"
"""The distribution's package of CUDA."""

_NAMED_CUDA = ("nvcc", "crt", "cccl", "runtime", "cupti", "nvrtc")
"""The parts whose wheels are nvidia-cuda-PART, and not nvidia-PART."""

LIBRARIES = (
    *("libcudart.so", "libcublas.so", "libcublasLt.so", "libcufft.so", "libcurand.so", "libcusolver.so"),
    *("libcusparse.so", "libnppc.so", "libnvjpeg.so", "libcupti.so", "libnvrtc.so"),
)
"""The libraries of a toolkit by the plain names by which frameworks open them, whoever provides CUDA (11.0 and later).

Source: the packages of NVIDIA's devel images (cuda-libraries-dev, cuda-command-line-tools) and the table of wheels.
"""

JITLINK = "libnvJitLink.so"
"""One more of them, since 12.0."""

SCRIPT = (
    """\
if command -v nvcc >/dev/null 2>&1; then section nvcc; nvcc --version 2>&1; fi
if command -v ptxas >/dev/null 2>&1; then section ptxas; ptxas --version 2>&1; fi
for home in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda; do
    if [ -r "$home/version.json" ]; then section cuda-version; cat "$home/version.json"; break; fi
done
section cudart
ls "${CUDA_HOME:-/usr/local/cuda}"/lib64/libcudart.so.* /usr/lib/*-linux-gnu/libcudart.so.* 2>/dev/null
python=$(command -v python || command -v python3)
if [ -n "$python" ] &&
    [ -n "$(ls "${CUDA_HOME:-/usr/local/cuda}"/lib64/*.so.* /usr/lib/*-linux-gnu/libcudart.so.* 2>/dev/null)" ]; then
    section cuda-libraries
    "$python" -c '
import ctypes, sys
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
        print(name)
    except OSError as error:
        print("%s: %s" % (name, error))
' """
    + " ".join((*LIBRARIES, JITLINK))
    + """
fi"""
)


_CALL = re.compile(r"(?<![\w./-])nvcc\s+(?!-V\b|--version\b)[^\s|&;]")
_BRINGS_GCC = re.compile(r"\b(gcc|g\+\+|cc|c\+\+|clang|build-essential|gxx|ccbin)\b|" + TOOLKIT)


def lacks_host_compiler(spec: CellSpec, environment: Environment) -> bool:
    """Whether a cell calls an nvcc of NVIDIA's wheels, which bring no host compiler, and nothing else brings one."""
    cuda = environment.cuda
    if cuda is None or cuda.source != "wheels" or environment.gcc is not None or not calls_nvcc(spec):
        return False
    asked = spec.environment
    return not any(
        _BRINGS_GCC.search(text) for text in (*asked.apt, *asked.dnf, *asked.pip, asked.setup, *spec.command)
    )


def calls_nvcc(spec: CellSpec) -> bool:
    """Whether a case compiles with nvcc, as far as its command and its programs tell, and does not bring one itself."""
    asked = spec.environment
    if any("nvcc" in text for text in (*asked.apt, *asked.dnf, *asked.requirements, asked.setup)):
        return False
    programs = [file.text for file in spec.files.values() if file.permissions & 0o111]
    return any(_CALL.search(text) for text in (*spec.command, *programs))


def resolve(request: AxisRequest) -> Cuda | None:
    """CUDA from the first that has it: NVIDIA's images, NVIDIA's wheels, the distribution, conda-forge.

    Raises Unsupported.
    """
    asked, release, nvcc = request.asked, request.release, calls_nvcc(request.spec)
    if release.manager == "apt" and TOOLKIT in request.spec.environment.apt:
        if not release.toolkit:
            raise Unsupported(f"environment.apt asks for {TOOLKIT}: which CUDA that is on {release.name} is not known")
        if asked is not None and not versions.matches(asked, release.toolkit):
            raise Unsupported(
                f"cuda {asked} contradicts environment.apt, which asks for {TOOLKIT}: "
                f"that package is CUDA {release.toolkit} on {release.name}"
            )
        return Cuda(version=release.toolkit, source="distribution")
    if asked is None or asked == versions.NONE:
        return None
    images = request.catalog.cuda_images(release.name) if request.supply.base_source == "registry" else ()
    images = tuple(one for one in images if nvidia_image(release.name, one) not in request.supply.missing)
    wheels = _wheels(request.catalog, nvcc=nvcc)
    of_wheels = versions.newest(asked, wheels)
    # Without its libraries CUDA is the same from either, and 20 MB of wheels instead of 4 GB of image.
    small = of_wheels is not None and request.spec.environment.cuda_libraries == "none"
    if not small and (version := versions.newest(asked, images)) is not None:
        return Cuda(version=version, source="image")
    if of_wheels is not None:
        return _of_wheels(of_wheels, wheels[of_wheels], request.spec)
    if release.toolkit and versions.matches(asked, release.toolkit):
        return Cuda(version=release.toolkit, source="distribution")
    known = request.catalog.conda_cudas()
    silence = request.supply.silence("conda", "conda_channel")
    if (version := versions.newest(asked, known)) is not None and not nvcc and not silence:
        package = "cudatoolkit"
        tree = CondaTree(folder="/opt/cuda", packages=(f"{package} =={version}",), only=package)
        return Cuda(version=version, source="conda", conda=tree)
    conda = f"conda-forge serves {versions.span(known)}"
    if version is not None:
        conda = f"conda-forge would serve {version}{', without nvcc' if nvcc else silence}"
    raise Unsupported(
        f"cuda {asked}{' with nvcc, which the case calls,' if nvcc else ''} is not available on {release.name}; "
        f"NVIDIA's wheels serve {versions.span(wheels)}"
        + (f", the package {TOOLKIT} serves {release.toolkit}" if release.toolkit else "")
        + (f", NVIDIA's images serve {versions.span(images)}" if images else "")
        + f", {conda}; {_elsewhere(asked, release.name, request.catalog)}"
    )


def _elsewhere(asked: str, here: str, catalog: Catalog) -> str:
    """The other releases that have a CUDA version, else the nearest one that any release or the wheels have."""
    places: dict[str, list[str]] = {}
    for name, release in catalog.releases().items():
        for version in dict.fromkeys(map(_short, catalog.cuda_images(name))):
            places.setdefault(version, []).append(f"{name} (NVIDIA's image, from a registry)")
        if release.toolkit:
            places.setdefault(_short(release.toolkit), []).append(f"{name} (its package {TOOLKIT})")
    wanted = [place for version, found in places.items() if versions.matches(asked, version) for place in found]
    wanted = wanted or [place for place in places.get(_short(asked), ()) if asked.count(".") < 2]
    if others := [place for place in wanted if not place.startswith(f"{here} (its")]:
        return f"{', '.join(dict.fromkeys(others))} {'has' if len(others) == 1 else 'have'} it"
    anywhere = {"NVIDIA's wheels": catalog.cuda_wheels(), "conda-forge": catalog.conda_cudas()}
    have = {_short(one): [f"any system ({who})"] for who, known in anywhere.items() for one in known} | places
    nearest = min(have, key=lambda one: (_distance(asked, one), versions.order(one)))
    return f"no system has it; nearest: {nearest} on {', '.join(have[nearest])}"


def _short(version: str) -> str:
    return ".".join(versions.parts(version)[:2])


def _distance(one: str, other: str) -> tuple[int, int]:
    """How far two versions are apart: whole releases first."""
    first, second = ((*versions.order(each), 0)[:2] for each in (one, other))
    return abs(first[0] - second[0]), abs(first[1] - second[1])


def _wheels(catalog: Catalog, *, nvcc: bool) -> Mapping[str, Mapping[str, str]]:
    """CUDA release -> part -> version of its wheel. ``nvcc``: with that program, which 11 and 12 have not."""
    return {version: parts for version, parts in catalog.cuda_wheels().items() if "crt" in parts or not nvcc}


def _of_wheels(version: str, wheels: Mapping[str, str], spec: CellSpec) -> Cuda:
    """CUDA of NVIDIA's wheels, whose names end with ``-cu12`` up to 12. ``wheels``: part -> version.

    Raises Unsupported.
    """
    if spec.environment.cuda_libraries == "none" and spec.cell.get("cudnn", versions.NONE) != versions.NONE:
        raise Unsupported("cudnn loads the libraries of CUDA, which environment.cuda_libraries: none leaves out")
    major = versions.parts(version)[0]
    end = f"-cu{major}" if int(major) < 13 else ""
    wanted = CUDA_PARTS if spec.environment.cuda_libraries == "all" else CUDA_COMPILER
    return Cuda(
        version=version,
        source="wheels",
        requirements=tuple(
            f"nvidia-{'cuda-' if part in _NAMED_CUDA else ''}{part}{end}=={wheels[part]}"
            for part in wanted
            if part in wheels
        ),
    )


def on_host(request: HostRequest) -> Cuda | None:
    """CUDA from NVIDIA's wheels, or the host's own, which cannot be taken away. Raises Unsupported."""
    asked, host, apt = request.asked, request.host, request.spec.environment.apt
    if asked == versions.NONE and host.cuda:
        raise Unsupported(f"cuda none: this host has CUDA {host.cuda}, {CANNOT}")
    if host.cuda and TOOLKIT in apt:
        if asked is not None and not versions.matches(asked, host.cuda):
            raise Unsupported(f"cuda {asked} from {TOOLKIT}: this host has CUDA {host.cuda}, {CANNOT}")
        return Cuda(version=host.cuda, source="distribution")
    if asked is None or asked == versions.NONE:
        return None
    nvcc = calls_nvcc(request.spec)
    wheels = _wheels(request.catalog, nvcc=nvcc)
    if (version := versions.newest(asked, wheels)) is not None:
        return _of_wheels(version, wheels[version], request.spec)
    if versions.matches(asked, host.cuda):
        return Cuda(version=host.cuda or asked, source="distribution")
    raise Unsupported(
        f"cuda {asked}{' with nvcc, which the case calls' if nvcc else ''}: NVIDIA's wheels have "
        f"{versions.span(wheels)}, this host has {host.cuda or 'none'}, {CANNOT}"
    )


def layers(environment: Environment) -> Iterator[Layer]:
    """The wheels, the distribution's package or conda's; with an image of NVIDIA's only where it is."""
    if environment.cuda:
        yield Layer(place="large", template="cuda.j2")


def locked(environment: Environment) -> tuple[str, ...]:
    """NVIDIA's wheels."""
    return environment.cuda.requirements if environment.cuda else ()


def compiler(sections: Mapping[str, str]) -> str:
    """What nvcc, else ptxas, says of its version."""
    return sections.get("nvcc") or sections.get("ptxas") or ""


def build(sections: Mapping[str, str]) -> str | None:
    """The compiler's own number (``12.0.140``), else that of the runtime library, where its name has all of it."""
    if found := re.search(r"\bV(\d+\.\d+\.\d+)", compiler(sections)):
        return found[1]
    runtime = _runtime(sections)
    return runtime if runtime and runtime.count(".") == 2 else None


def _runtime(sections: Mapping[str, str]) -> str | None:
    """The version in the longest name of the runtime library."""
    names = re.findall(r"libcudart\.so\.(\d+(?:\.\d+)*)$", sections.get("cudart", ""), re.MULTILINE)
    return max(names, key=lambda name: name.count("."), default=None)


def libraries(sections: Mapping[str, str]) -> dict[str, bool]:
    """The plain name of each library that was looked for -> whether it opens; nothing where there is no CUDA."""
    lines = sections.get("cuda-libraries", "").splitlines()
    return {name: not why for name, _, why in (line.partition(": ") for line in lines) if name in (*LIBRARIES, JITLINK)}


def list_lacking(version: str | None, found: Mapping[str, bool]) -> list[str]:
    """The libraries of its CUDA that an image lacks: releases before 11.0 had fewer, libnvJitLink came with 12.0."""
    release = versions.order(version or "")
    if release < (11,):
        return []
    return [name for name, opens in found.items() if not opens and (name != JITLINK or release >= (12,))]


def read(sections: Mapping[str, str]) -> str | None:
    """The release that the compiler, else the toolkit's version file, else the runtime library names."""
    if release := re.search(r"\brelease (\d+\.\d+)", compiler(sections)):
        return release[1]
    if full := _written(sections.get("cuda-version", "")):
        return ".".join(full.split(".")[:2])
    # libcudart.so.11.0 serves all of 11.x: its full name tells the release, its soname only the major version.
    longest = _runtime(sections)
    if longest and longest.count(".") >= 2:
        return ".".join(longest.split(".")[:2])
    return longest.split(".")[0] if longest else None


def _written(text: str) -> str:
    """The version in a toolkit's version.json, '' without one."""
    try:
        version = json.loads(" ".join(text.split()) or "{}")["cuda"]["version"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(version)


_by_release = version_differs("cuda", "CUDA")


def differs(asked: str, measured: versions.MeasuredVersions, catalog: Catalog) -> str:
    """In words, how the CUDA is another than asked for; a compiler's build (12.0.140) belongs to a release (12.0.1)."""
    build = measured["cuda_build"]
    if measured["cuda"] is not None and build is not None:
        of = (build, *catalog.cuda_release_of(build))
        if any(versions.matches(asked, release) for release in of):
            return ""
    return _by_release(asked, measured, catalog)


def releases(cell: Mapping[str, str], catalog: Catalog) -> Iterable[str]:
    """The CUDA releases of NVIDIA's wheels and images, of the distribution's package and of conda-forge."""
    release = release_of(cell, catalog)
    images = catalog.cuda_images(release.name if release else "")
    return [
        *catalog.cuda_wheels(),
        *images,
        *([release.toolkit] if release and release.toolkit else []),
        *catalog.conda_cudas(),
    ]


AXIS = Axis(
    place=40,
    title="CUDA",
    syntax=version_syntax("cuda", since=FIRST_RELEASE, help="CUDA versions, or none for no CUDA in the image."),
    guide="""\
The toolkit at `/usr/local/cuda`: of NVIDIA's image, NVIDIA's wheels, the distribution's package `nvidia-cuda-toolkit`,
or conda-forge's `cudatoolkit` (9.2 to 11.8, without `nvcc` and headers), the first that has the version. Without this
axis there is none. A version means the same libraries whoever provides it, each by its plain name (`libcusolver.so`):
cuBLAS, cuFFT, cuRAND, cuSOLVER, cuSPARSE, NPP, nvJPEG, CUPTI, nvRTC and, since 12, nvJitLink. A cell whose image lacks
one is `environment-mismatch`. From wheels they are some GB: a case that only compiles does without by `cuda_libraries`
in `environment`. Measured by `nvcc`, else `ptxas`, the toolkit's version file or the runtime library.
""",
    after=("os",),
    resolve=resolve,
    on_host=on_host,
    host_programs=None,
    wheels=Wheels(names=re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?|cuda-toolkit"), exact=False),
    layers=layers,
    locked=locked,
    measure=Measurement(script=SCRIPT, read=read),
    differs=differs,
    wording=Wording(
        keys={"nvcc", "cuda", "cuda toolkit", "cuda runtime"},
        read=wording.cuda,
        incidental=False,
        mentioned=re.compile(
            r"\b(?:nvcc|ptxas|gpus?|nccl|cudnn\w*|cublas\w*)\b|cuda|paddlepaddle-gpu|\+cu\d", re.IGNORECASE
        ),
    ),
    precision=2,
    matters=10,
    releases=releases,
    series=Catalog.cuda_series,
)
