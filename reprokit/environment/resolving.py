"""From a cell to an environment: which release, packages and wheels serve what the axes ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reprokit.case.cellspec import CellSpec
from reprokit.environment import catalog, compatibility, versions
from reprokit.environment.model import BASE_PREFIX, Base, Cuda, Cudnn, Environment, Gcc, Python
from reprokit.environment.supply import Supply
from reprokit.errors import Unsupported
from reprokit.spelling import nearest

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
    cuda = _cuda(cell.get("cuda"), release, asked.apt, base_source)
    cudnn = _cudnn(cell.get("cudnn"), cuda)
    python = _python(cell.get("python"), release, cuda, base_source)
    if python is None:
        _without_python(release, asked.pip, cuda, cudnn)
    found = Environment(
        base=_base(release, python, cuda, base_source),
        os=release.name,
        family=release.family,
        components=release.components,
        python=python,
        gcc=_gcc(cell.get("gcc"), release),
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
        image = _python_image(python.version, release)
        return Base(name=release.name, source="registry", reference=image, brings=f"python {python.version}")
    if cuda and cuda.source == "image":
        tag = f"{cuda.version}-devel-{release.name.replace('-', '')}"
        return Base(name=release.name, source="registry", reference=f"nvidia/cuda:{tag}")
    return Base(name=release.name, source="registry", reference=release.image)


def _python(asked: str | None, release: catalog.Release, cuda: Cuda | None, base_source: str) -> Python | None:
    """From the first that has it: the release's packages, then an image of Docker's where a registry serves bases."""
    if asked == versions.NONE:
        return None
    if (packaged := _packaged_python(asked, release)) is not None:
        return packaged
    assert asked is not None
    images = catalog.python_images(release.name) if base_source == "registry" else ()
    if (version := versions.newest(asked, images)) is not None:
        return Python(version=version, source="image", command="/usr/local/bin/python3")
    raise Unsupported(_python_elsewhere(asked, release, cuda, base_source))


def _packaged_python(asked: str | None, release: catalog.Release) -> Python | None:
    default, *others = release.pythons
    if asked is None or versions.matches(asked, default):
        return Python(version=default, packages=("python3", "python3-venv"), headers=("python3-dev",))
    if (version := versions.newest(asked, others)) is None:
        return None
    name = "python" + ".".join(versions.parts(version)[:2])
    # Ubuntu keeps distutils for all of them in one package, which not every pythonX.Y-venv asks for.
    packages = (name, f"{name}-venv", "python3-distutils")
    return Python(version=version, command=name, packages=packages, headers=(f"{name}-dev",))


def _python_elsewhere(asked: str, release: catalog.Release, cuda: Cuda | None, base_source: str) -> str:
    """Why a release has no such Python, and what would have one."""
    releases = catalog.releases()
    fitting = {name: versions.newest(asked, other.pythons) for name, other in releases.items()}
    packaged = [f"{version} on {name}" for name, version in fitting.items() if version]
    if not packaged:
        packaged = [f"{', '.join(other.pythons)} on {name}" for name, other in releases.items()]
    found = {name: versions.newest(asked, catalog.python_images(name)) for name in releases}
    images = {name: _python_image(version, releases[name]) for name, version in found.items() if version}
    reason = f"python {asked} is not packaged for {release.name}, which has {', '.join(release.pythons)}"
    reason += f"; packaged are {', '.join(packaged)}"
    if release.name in images:
        reason += f"; the image {images[release.name]} would serve it, but base images come from no registry here"
        reason += " (base source bootstrap)"
    elif images and base_source == "registry":
        reason += f"; images that serve it are {', '.join(f'{image} on {name}' for name, image in images.items())}"
        if cuda and cuda.source == "image":
            reason += f" (the base is NVIDIA's image here, {release.name} with its own Python)"
    return reason + "; environment.image takes any other image"


def _python_image(version: str, release: catalog.Release) -> str:
    return f"python:{version}-slim-{release.codename}"


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


def _gcc(asked: str | None, release: catalog.Release) -> Gcc | None:
    if asked is None or asked == versions.NONE:
        return None
    version = versions.newest(asked, release.gcc.values())
    if version is None:
        has = ", ".join(f"{major} ({full})" for major, full in release.gcc.items())
        raise Unsupported(f"gcc {asked} is not packaged for {release.name}; it has {has}")
    return Gcc(major=next(major for major, full in release.gcc.items() if full == version), version=version)


def _cuda(asked: str | None, release: catalog.Release, apt: Iterable[str], base_source: str) -> Cuda | None:
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
    wheels = catalog.cuda_wheels()
    if (version := versions.newest(asked, wheels)) is not None:
        return Cuda(version=version, source="wheels", requirements=_cuda_requirements(version, wheels[version]))
    if versions.matches(asked, release.toolkit):
        return Cuda(version=release.toolkit, source="distribution")
    raise Unsupported(
        f"cuda {asked} cannot be had on {release.name}; NVIDIA's wheels serve {_span(wheels)}, "
        f"the package {TOOLKIT} serves {release.toolkit}"
        + (f", NVIDIA's images serve {_span(images)}" if images else "")
    )


def _cuda_requirements(version: str, wheels: Mapping[str, str]) -> tuple[str, ...]:
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


def _cudnn(asked: str | None, cuda: Cuda | None) -> Cudnn | None:
    if asked is None or asked == versions.NONE:
        return None
    if cuda is None:
        raise Unsupported(f"cudnn {asked} needs CUDA, and this cell has none: give the cuda axis a version")
    major = versions.parts(cuda.version)[0]
    available = catalog.cudnn_wheels(major)
    version = versions.newest(asked, available)
    if version is None:
        has = _span(available) if available else "none"
        raise Unsupported(
            f"cudnn {asked} cannot be had for CUDA {major}; NVIDIA's wheels nvidia-cudnn-cu{major}: {has}"
        )
    requirements = [f"nvidia-cudnn-cu{major}=={version}"]
    # An nvidia/cuda image and the distribution's toolkit bring cuBLAS themselves.
    if cuda.source == "wheels":
        requirements.append(f"nvidia-cublas{_suffix(cuda.version)}=={catalog.cuda_wheels()[cuda.version]['cublas']}")
    return Cudnn(version=version, requirements=tuple(requirements))


def _span(available: Iterable[str]) -> str:
    """The versions that can be had, by major.minor: what an axis would name."""
    return ", ".join(dict.fromkeys(".".join(versions.parts(version)[:2]) for version in available))
