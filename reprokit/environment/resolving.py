"""From a cell to an environment: which release, packages and wheels serve what the axes ask for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import Unsupported
from reprokit.core.near_match import nearest
from reprokit.environment import catalog, compatibility, providers_gcc, providers_python, versions
from reprokit.environment.model import BASE_PREFIX, Base, Cuda, Cudnn, Environment, Python
from reprokit.environment.supply import Supply

DEFAULT_OS = "debian-12"
TOOLKIT = "nvidia-cuda-toolkit"


def resolve(spec: CellSpec, supply: Supply) -> Environment:
    """The environment of a cell, made of what the host's ``supply`` has.

    An axis that the cell does not have is free: debian-12, the distribution's Python, no GCC, no CUDA.
    Raises Unsupported, with the versions that can be had, when an axis asks for what nothing serves, or
    when versions do not go together (see :mod:`reprokit.environment.compatibility`).
    """
    asked = spec.environment
    if asked.image:
        # The axes are then only what the probe compares the image with.
        return Environment(
            base=Base(name=asked.image, source="image", reference=asked.image),
            os="",
            apt=asked.apt,
            pip=asked.pip,
            pip_options=asked.pip_options,
            setup=asked.setup,
        )
    cell = spec.cell
    base_source = supply.base_source
    release = _release(cell.get("os", DEFAULT_OS))
    cuda = _cuda(cell.get("cuda"), release, asked.apt, base_source, nvcc=calls_nvcc(spec))
    cudnn = cudnn_of(cell.get("cudnn"), cuda)
    python = providers_python.python(cell.get("python"), release, supply, cuda)
    if python is None:
        _without_python(release, asked.pip, cuda, cudnn)
    gcc = providers_gcc.gcc(cell.get("gcc"), release, supply)
    staged = (python and python.source == "uv") or (gcc and gcc.source == "conda")
    found = Environment(
        base=_base(release, python, cuda, base_source),
        os=release.name,
        family=release.family,
        components=release.components,
        python=python,
        tool=providers_python.tool(release) if staged else None,
        gcc=gcc,
        cuda=cuda,
        cudnn=cudnn,
        apt=tuple(package for package in asked.apt if package != TOOLKIT),
        pip=asked.pip,
        pip_options=asked.pip_options,
        setup=asked.setup,
    )
    return compatibility.check(spec, found)


def _release(asked: str) -> catalog.Release:
    releases = catalog.releases()
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
        f"os {asked} is not among the releases that can be had: {', '.join(releases)}{hint} "
        "(environment.image takes any other image)"
    )


def _base(release: catalog.Release, python: Python | None, cuda: Cuda | None, base_source: str) -> Base:
    if base_source == "bootstrap":
        return Base(name=release.name, source="bootstrap", reference=BASE_PREFIX + release.name)
    if python and python.source == "image":
        image = providers_python.image_of(python.version, release)
        return Base(name=release.name, source="registry", reference=image)
    if cuda and cuda.source == "image":
        tag = f"{cuda.version}-devel-{release.name.replace('-', '')}"
        return Base(name=release.name, source="registry", reference=f"nvidia/cuda:{tag}")
    return Base(name=release.name, source="registry", reference=release.image)


def _without_python(release: catalog.Release, pip: tuple[str, ...], cuda: Cuda | None, cudnn: Cudnn | None) -> None:
    needs = []
    if pip:
        needs.append("environment.pip")
    if cuda and cuda.source == "wheels":
        needs.append(f"cuda {cuda.version} from NVIDIA's wheels")
    if cudnn:
        needs.append(f"cudnn {cudnn.version} from NVIDIA's wheels")
    if needs:
        raise Unsupported(f"python none on {release.name}, but {' and '.join(needs)} need an interpreter with pip")


def calls_nvcc(spec: CellSpec) -> bool:
    """Whether a case compiles with nvcc, as far as its command and its programs tell, and does not bring one itself."""
    asked = spec.environment
    if any("nvcc" in text for text in (*asked.apt, *asked.pip, asked.setup)):
        return False
    programs = [text for text in spec.files.values() if text.startswith("#!")]
    call = re.compile(r"(?<![\w./-])nvcc\s+(?!-V\b|--version\b)[^\s|&;]")
    return any(call.search(text) for text in (*spec.command, *programs))


def _cuda(
    asked: str | None, release: catalog.Release, apt: Iterable[str], base_source: str, *, nvcc: bool
) -> Cuda | None:
    """From the first that has it. ``nvcc``: it has to have that program."""
    if TOOLKIT in apt:
        if asked is not None and not versions.matches(asked, release.toolkit):
            raise Unsupported(
                f"cuda {asked} contradicts environment.apt, which asks for {TOOLKIT}: "
                f"that package is CUDA {release.toolkit} on {release.name}"
            )
        return Cuda(version=release.toolkit, source="distribution")
    if asked is None or asked == versions.NONE:
        return None
    images = catalog.cuda_images(release.name) if base_source == "registry" else ()
    if (version := versions.newest(asked, images)) is not None:
        return Cuda(version=version, source="image")
    wheels = cuda_wheels(nvcc=nvcc)
    if (version := versions.newest(asked, wheels)) is not None:
        return Cuda(version=version, source="wheels", requirements=cuda_requirements(version, wheels[version]))
    if versions.matches(asked, release.toolkit):
        return Cuda(version=release.toolkit, source="distribution")
    raise Unsupported(
        f"cuda {asked}{' with nvcc, which the case calls,' if nvcc else ''} cannot be had on {release.name}; "
        f"NVIDIA's wheels serve {versions.span(wheels)}, the package {TOOLKIT} serves {release.toolkit}"
        + (f", NVIDIA's images serve {versions.span(images)}" if images else "")
    )


def cuda_wheels(*, nvcc: bool) -> Mapping[str, Mapping[str, str]]:
    """CUDA release -> part -> version of its wheel. ``nvcc``: with that program, which 11 and 12 have not."""
    return {version: parts for version, parts in catalog.cuda_wheels().items() if "crt" in parts or not nvcc}


def cuda_requirements(version: str, wheels: Mapping[str, str]) -> tuple[str, ...]:
    """NVIDIA's wheels of a CUDA release. ``wheels``: part -> version."""
    suffix = _suffix(version)
    names = {
        "nvcc": f"nvidia-cuda-nvcc{suffix}",
        "nvvm": f"nvidia-nvvm{suffix}",
        "crt": f"nvidia-cuda-crt{suffix}",
        "cccl": f"nvidia-cuda-cccl{suffix}",
        "runtime": f"nvidia-cuda-runtime{suffix}",
    }
    return tuple(f"{name}=={wheels[part]}" for part, name in names.items() if part in wheels)


def _suffix(cuda: str) -> str:
    major = versions.parts(cuda)[0]
    return f"-cu{major}" if int(major) < 13 else ""


def cudnn_of(asked: str | None, cuda: Cuda | None) -> Cudnn | None:
    """cuDNN from NVIDIA's wheels, beside that CUDA. Raises Unsupported."""
    if asked is None or asked == versions.NONE:
        return None
    if cuda is None:
        raise Unsupported(f"cudnn {asked} needs CUDA, and this cell has none: give the cuda axis a version")
    major = versions.parts(cuda.version)[0]
    available = catalog.cudnn_wheels(major)
    version = versions.newest(asked, available)
    if version is None:
        has = versions.span(available) if available else "none"
        images = catalog.images_with_cudnn(asked, ".".join(versions.parts(cuda.version)[:2]))
        raise Unsupported(
            f"cudnn {asked} cannot be had for CUDA {major}; NVIDIA's wheels nvidia-cudnn-cu{major}: {has}"
            + (f"; environment.image can be {', '.join(images)}, which have it" if images else "")
        )
    requirements = [f"nvidia-cudnn-cu{major}=={version}"]
    # An nvidia/cuda image and the distribution's toolkit bring cuBLAS themselves.
    if cuda.source == "wheels":
        requirements.append(f"nvidia-cublas{_suffix(cuda.version)}=={catalog.cuda_wheels()[cuda.version]['cublas']}")
    return Cudnn(version=version, requirements=tuple(requirements))
