"""From a cell to an environment: which release, packages and wheels serve what the axes ask for. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import Unsupported
from reprokit.environment import compatibility, providers_python, versions
from reprokit.environment.axes import BY_NAME, RESOLVING
from reprokit.environment.axes.cuda import TOOLKIT
from reprokit.environment.axes.operating_system import DEFAULT
from reprokit.environment.axis import AxisRequest
from reprokit.environment.catalog import Release, nvidia_image
from reprokit.environment.model import (
    BASE_PREFIX,
    Base,
    Conda,
    CondaTree,
    Cuda,
    Cudnn,
    Environment,
    Part,
    Python,
)
from reprokit.environment.supply import Supply


def resolve(spec: CellSpec, supply: Supply) -> Environment:
    """The environment of a cell, made of what the host's ``supply`` has.

    An axis that the cell does not have is free: debian-12, the distribution's Python, and nothing else.
    Raises Unsupported, with the available versions, when an axis asks for what nothing serves, or
    when versions do not go together (see :mod:`reprokit.environment.compatibility`).
    """
    environment = without_check(spec, supply)
    environment = dataclasses.replace(environment, notes=tuple(compatibility.lacks(spec, environment)))
    return compatibility.check(spec, environment, supply.catalog)


def without_check(spec: CellSpec, supply: Supply) -> Environment:
    """As :func:`resolve`, whether or not the versions go together. Raises Unsupported."""
    asked = spec.environment
    if asked.image:
        if asked.apt and asked.dnf:
            raise Unsupported(
                "environment.image has one package manager: keep either environment.apt or environment.dnf"
            )
        # The axes are then only what the probe compares the image with.
        return Environment(
            base=Base(name=asked.image, source="image", reference=asked.image),
            os="",
            manager="dnf" if asked.dnf else "apt",
            packages=asked.dnf or asked.apt,
            pip=asked.pip_steps,
            pip_options=asked.pip_options,
            pip_before=asked.pip_before,
            setup=asked.setup,
        )
    found: dict[str, Any] = {}
    for axis in RESOLVING:
        request = AxisRequest(asked=axis.asked(spec.cell), spec=spec, supply=supply, found=found)
        found[axis.name] = axis.resolve(request)
    release: Release = found["os"]
    python, gcc, cuda = found["python"], found["gcc"], found["cuda"]
    packages = asked.dnf if release.manager == "dnf" else tuple(name for name in asked.apt if name != TOOLKIT)
    if python and python.headers and (named := {"python3-dev", "python3-devel"} & {*packages}):
        # Those of the cell's Python in place of the release's, whose static library alone has 75 MB on Ubuntu 18.04.
        packages = tuple(dict.fromkeys((*(one for one in packages if one not in named), *python.headers)))
    base = _base(release, python, cuda, found["cudnn"], supply.base_source)
    tool, tool_base = None, None
    if python and python.installer:
        tool_base, tool = _installing(python, release, supply)
    # What axes share first: a change of the compiler alone repeats nothing large.
    trees = [part.conda for part in (python, cuda, found["cudnn"], gcc) if part and part.conda]
    environment = Environment(
        base=base,
        os=release.name,
        family=release.family,
        manager=release.manager,
        archive=release.archive,
        lang=release.lang,
        components=release.components,
        python=python,
        tool=tool,
        tool_base=tool_base,
        conda=_conda(trees, base, release, supply) if trees else None,
        gcc=gcc,
        cuda=cuda,
        cudnn=found["cudnn"],
        parts=parts_of(found),
        packages=packages,
        pip=asked.pip_steps,
        pip_options=asked.pip_options,
        pip_before=asked.pip_before,
        setup=asked.setup,
    )
    if python is None:
        _check_without_python(environment)
    return environment


def parts_of(found: Mapping[str, Any]) -> dict[str, Part]:
    """What serves the axes that :class:`Environment` has no field of its own for, by name, in the order of the axes."""
    return {name: found[name] for name in BY_NAME if isinstance(found.get(name), Part)}


def _base(release: Release, python: Python | None, cuda: Cuda | None, cudnn: Cudnn | None, base_source: str) -> Base:
    if base_source == "bootstrap":
        return Base(name=release.name, source="bootstrap", reference=BASE_PREFIX + release.name)
    if python and python.source == "image":
        image = providers_python.image_of(python.version, release)
        return Base(name=release.name, source="registry", reference=image)
    if cuda and cuda.source == "image":
        own = cudnn.version if cudnn and cudnn.source == "image" else ""
        return Base(name=release.name, source="registry", reference=nvidia_image(release.name, cuda.version, own))
    return Base(name=release.name, source="registry", reference=release.image)


def _conda(trees: Iterable[CondaTree], base: Base, release: Release, supply: Supply) -> Conda:
    """The stage of conda's packages: on the image's own base, or on the default release where that comes from a
    registry alone, or has no Python that can run the installer."""
    catalog = supply.catalog
    tool = providers_python.tool(release, catalog)
    if not release.bootstraps or versions.order(tool.version) < versions.order(catalog.conda_installer_python()):
        base, tool = _default(supply)
    return Conda(base=base, tool=tool, installer=catalog.conda_installer(), glibc=release.glibc, trees=tuple(trees))


def _installing(python: Python, release: Release, supply: Supply) -> tuple[Base | None, Python]:
    """The interpreter of the stage of uv or virtualenv, and its image where that is not the base."""
    if python.source == "uv" and not release.bootstraps:
        return _default(supply)
    return None, providers_python.tool(release, supply.catalog)


def _default(supply: Supply) -> tuple[Base, Python]:
    """The base image of the default release, and its Python."""
    release = supply.catalog.releases()[DEFAULT]
    base = _base(release, None, None, None, supply.base_source)
    return base, providers_python.tool(release, supply.catalog)


def _check_without_python(environment: Environment) -> None:
    needs = ["environment.pip"] if environment.pip else []
    if environment.cuda and environment.cuda.source == "wheels":
        needs.append(f"cuda {environment.cuda.version} from NVIDIA's wheels")
    if environment.cudnn and environment.cudnn.source == "wheels":
        needs.append(f"cudnn {environment.cudnn.version} from NVIDIA's wheels")
    parts = environment.parts.values()
    needs += [f"{part.axis} {part.version} from {part.source}" for part in parts if part.wheels or part.tree]
    if needs:
        raise Unsupported(f"python none on {environment.os}, but {' and '.join(needs)} need an interpreter with pip")


WORDS = {"distribution": "its packages", "uv": "uv", "conda": "conda-forge", "wheels": "NVIDIA's wheels"}


def without_registry(spec: CellSpec, supply: Supply, chosen: Environment) -> str:
    """What ``--base bootstrap`` would make of the cell instead; '' where the case names its own image."""
    if chosen.base.source != "registry":
        return ""
    try:
        other = resolve(spec, replace(supply, base_source="bootstrap"))
    except Unsupported as error:
        return f"and nothing serves the cell without a registry: {error}"
    parts = [
        f"{name} {part.version} from {WORDS[part.source]}"
        for name, part, before in (
            ("Python", other.python, chosen.python),
            ("GCC", other.gcc, chosen.gcc),
            ("CUDA", other.cuda, chosen.cuda),
        )
        if part is not None and part != before
    ]
    return f"--base bootstrap makes {other.os} from the distribution's packages instead" + (
        f", with {' and '.join(parts)}" if parts else ""
    )


def downloading(chosen: Environment) -> tuple[str, ...]:
    """The providers whose downloads a build of the environment needs: uv, conda."""
    uv = chosen.python is not None and chosen.python.source == "uv"
    return ("uv",) * uv + ("conda",) * (chosen.conda is not None)


def without_downloads(spec: CellSpec, supply: Supply, chosen: Environment) -> str:
    """Why a cell is not available where the downloads of uv or conda-forge do not answer; '' where it needs none."""
    if not (silent := downloading(chosen)):
        return ""
    try:
        resolve(spec, replace(supply, silent=silent))
    except Unsupported as error:
        return str(error)
    return (
        f"the downloads of {' and '.join(silent)} are not available here, and another provider is asked only after it"
    )
