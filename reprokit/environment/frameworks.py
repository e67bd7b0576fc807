"""Which CUDA and Pythons the frameworks of a case are built for: by the requirement (``torch==2.1.0+cu118``), the
index in the options (``/whl/cu118``), or what the wheel on Python's index was measured to be. What is unknown stops
nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reprokit.case.cellspec import CellSpec, PipStepSpec
from reprokit.case.facts import canonical
from reprokit.core.text import whole_number
from reprokit.environment import versions
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.model import Environment

if TYPE_CHECKING:
    from packaging.requirements import Requirement


GPU_PACKAGES = {
    "torch": "torch",
    "paddlepaddle-gpu": "paddle",
    "tensorflow": "tensorflow",
    "jax": "jax",
    "jaxlib": "jax",
}
"""Packages that may be GPU builds -> the name of what is measured of them. JAX is one only where it says so."""

_INDEX_OPTIONS = re.compile(r"(?:^|\s)(?:--index-url|--extra-index-url|--find-links|-i|-f|--no-index)\b")
_CUDA_IN_URL = re.compile(r"/(cu\d+|cpu)(?=[/\s]|$)")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A framework in ``environment.pip``.

    ``release`` is what is pinned, '' = nothing; ``cuda`` what the build is for (``11.8``, ``12``, or ``none``: a CPU
    build), '' = unknown; ``of`` says whose that is, in words. ``indexed``: it is the wheel on Python's own index.
    """

    text: str
    package: str
    release: str = ""
    cuda: str = ""
    of: str = ""
    indexed: bool = False


def conflicts(spec: CellSpec, environment: Environment, catalog: Catalog) -> list[str]:
    """What the requirements of a cell are not built for, each in words with the nearest that is."""
    found = list(asked_of(environment.pip, environment.pip_options, catalog=catalog))
    cuda = spec.cell.get("cuda", versions.NONE)
    texts = [text for one in found if (text := _other_cuda(one, cuda, catalog))] if cuda != versions.NONE else []
    if environment.python is not None:
        python = ".".join(versions.parts(environment.python.version)[:2])
        texts += [text for one in found if (text := _other_python(one, python, catalog))]
    return texts


def asked_of(steps: Iterable[PipStepSpec], pip_options: Iterable[str], **how: Any) -> Iterator[Asked]:
    """The frameworks that steps ask pip for: see :func:`asked`."""
    for step in steps:
        yield from asked(step.requirements, (*pip_options, *step.options), **how)


def asked(
    pip: Iterable[str], pip_options: Iterable[str], *, conditional: bool = False, catalog: Catalog = OURS
) -> Iterator[Asked]:
    """The frameworks among requirements. Other lines (a URL, a file, an option) do not count.

    ``conditional``: those with an environment marker as well, which may not hold.
    """
    pip = tuple(pip)
    # pip takes an option among the requirements for one, too.
    options = " ".join((*pip_options, *(text for text in pip if text.startswith("-"))))
    for text in pip:
        requirement = requirement_of(text)
        if requirement is None:
            continue
        name = canonical(requirement.name)
        if (name in GPU_PACKAGES or name in catalog.builds()) and not requirement.url:
            if requirement.marker and not conditional:
                continue
            yield _asked(text, name, pinned_version(requirement), requirement.extras, options, catalog)


def cuda_of(spec: CellSpec, catalog: Catalog) -> tuple[str, str]:
    """The CUDA version that a cell's programs need, and whose it is in words: that of its axis, or of a framework.

    Both are '' where none is known.
    """
    wanted = spec.environment
    if (cuda := spec.cell.get("cuda", "")) not in ("", versions.NONE):
        return cuda, f"CUDA {cuda}"
    for one in asked_of(wanted.pip_steps, wanted.pip_options, catalog=catalog) if not cuda else ():
        if one.package in GPU_PACKAGES and one.cuda not in ("", versions.NONE):
            return one.cuda, f"{one.of} is built for CUDA {one.cuda}, which"
    return "", ""


def gpu_code(spec: CellSpec, catalog: Catalog) -> Iterator[tuple[Asked, Mapping[str, int]]]:
    """The frameworks of a cell whose wheel on Python's index was measured, with its GPU code by architecture."""
    wanted = spec.environment
    for one in asked_of(wanted.pip_steps, wanted.pip_options, catalog=catalog):
        if one.indexed and one.release and (code := catalog.gpu_code(one.package, one.release)):
            yield one, code


@lru_cache(maxsize=4096)  # cells of a matrix share most of their requirements
def requirement_of(text: str) -> Requirement | None:
    """What a line asks pip for by name; None for any other line."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def pinned_version(requirement: Requirement) -> str:
    """The one version that a requirement takes, '' where it may take several."""
    pins = [pin for pin in requirement.specifier if pin.operator in {"==", "==="} and "*" not in pin.version]
    return pins[0].version if len(pins) == 1 else ""


def _asked(text: str, name: str, pinned: str, extras: Iterable[str], options: str, catalog: Catalog) -> Asked:
    release, _, local = pinned.partition("+")
    if cuda := _said(name, release, local, extras):
        # PaddlePaddle says it in the release itself: 2.6.2.post120.
        return Asked(text=text, package=name, release=release.partition(".post")[0], cuda=cuda, of=text)
    if local or ".post" in release:  # another build, of which nothing is known
        return Asked(text=text, package=name)
    if _INDEX_OPTIONS.search(options):
        named = set(_CUDA_IN_URL.findall(options))
        cuda = _dotted(named.pop()) if len(named) == 1 and name in GPU_PACKAGES else ""
        return Asked(text=text, package=name, release=release, cuda=cuda, of=f"{text} from the index in pip_options")
    row = catalog.build(name, release) if release else None
    of = f"{name} {release}, the wheel on Python's index,"
    return Asked(text=text, package=name, release=release, cuda=row.cuda if row else "", of=of, indexed=True)


def _said(name: str, release: str, local: str, extras: Iterable[str]) -> str:
    """The CUDA version that a requirement itself names, or ''."""
    if local:
        # torch: cu118, cpu, sometimes cu118.with.more; jaxlib: cuda12.cudnn89
        if name == "jaxlib":
            found = re.match(r"cuda(\d+)\b", local)
            return found.group(1) if found else ""
        return _dotted(local) if re.fullmatch(r"cu\d{2,3}|cpu", local) else ""
    # Before 2.0 the last digit is cuDNN's: 1.8.5.post107 is for CUDA 10.0 and cuDNN 7.
    if name == "paddlepaddle-gpu" and (found := re.fullmatch(r"(?!1\.)[\d.]+\.post(\d{3})", release)):
        return _dotted(found.group(1))
    if name == "jax":
        majors = {found.group(1) for extra in extras if (found := re.match(r"cuda(\d+)(?:[-_]|$)", extra))}
        return majors.pop() if len(majors) == 1 else ""
    return ""


def _dotted(tag: str) -> str:
    """``cu118`` and ``118`` -> ``11.8``, ``cu92`` -> ``9.2``, ``cu12`` -> ``12``, ``cpu`` -> ``none``."""
    digits = tag.removeprefix("cu")
    if whole_number(digits) is None:
        return versions.NONE
    return digits if len(digits) == 2 and digits[0] == "1" else f"{digits[:-1]}.{digits[-1]}"


def is_same_cuda(cuda: str, build: str) -> bool:
    """Whether a build serves a CUDA version, by major and minor version as far as both say them."""
    return all(a == b for a, b in zip(versions.parts(cuda)[:2], versions.parts(build)[:2], strict=False))


def _other_cuda(one: Asked, cuda: str, catalog: Catalog = OURS) -> str:
    # Whoever asks for a CPU build by name gets one, with a CUDA toolkit beside it.
    if one.package not in GPU_PACKAGES or one.cuda in ("", versions.NONE) or is_same_cuda(cuda, one.cuda):
        return ""
    text = f"{one.of} is built for CUDA {one.cuda}; the cell asks for cuda {cuda}"
    minor = ".".join(versions.parts(cuda)[:2])
    if one.release and (offer := _offer(one, minor, catalog)):
        return f"{text}. For CUDA {minor}: {offer}"
    if one.release and (others := sorted(set(_built_for(one, catalog)), key=versions.order)):
        return f"{text}. {one.package} {one.release} is built for CUDA {', '.join(others)}"
    return text


def _built_for(one: Asked, catalog: Catalog) -> Iterator[str]:
    row = catalog.build(one.package, one.release)
    if row and row.cuda not in ("", versions.NONE):
        yield ".".join(versions.parts(row.cuda)[:2])
    for framework in catalog.framework_builds(one.package, one.release):
        yield from framework.cuda


def _offer(one: Asked, cuda: str, catalog: Catalog) -> str:
    """How to ask pip for the same release built for ``cuda``, or ''."""
    row = catalog.build(one.package, one.release)
    if row and row.cuda not in ("", versions.NONE) and is_same_cuda(cuda, row.cuda):
        return f"{one.package}=={one.release} from Python's index"
    for found in catalog.framework_builds(one.package, one.release):
        if fitting := [version for version in found.cuda if is_same_cuda(cuda, version)]:
            requirement, options = found.request(one.release, fitting[-1])
            return requirement + (f" with pip_options {options}" if options else "")
    return ""


_FIRST_PYTHON = (3, 6)
"""The index was asked for wheels of this Python and later ones: docs/scripts/compatibility_tables.py."""


def _other_python(one: Asked, python: str, catalog: Catalog) -> str:
    """Why a release cannot be installed for a Python. Only what comes from Python's own index is known."""
    row = catalog.build(one.package, one.release) if one.indexed else None
    if row is None or not row.pythons or python in row.pythons or versions.order(python) < _FIRST_PYTHON:
        return ""
    text = f"{one.package} {one.release} has no wheel for Python {python} on Python's index, only for "
    text += f"{', '.join(row.pythons)}"
    rows = catalog.builds()[one.package]
    having = sorted((release for release in rows if python in rows[release].pythons), key=versions.order)
    later = [release for release in having if versions.order(release) > versions.order(one.release)]
    nearest = later[0] if later else having[-1] if having else ""
    return text + (f"; nearest: {one.package} {nearest}" if nearest else "")


def build_cuda(reported: Mapping[str, Any]) -> str | None:
    """The CUDA version in the constants of a framework (``none``: a CPU build), or None when they do not say.

    ``torch.version.cuda``, ``paddle.version.cuda_version``, TensorFlow's ``build_info``.
    """
    info = reported.get("build_info")
    if isinstance(info, Mapping):
        return str(info.get("cuda_version") or versions.NONE) if info.get("is_cuda_build") else versions.NONE
    for name in ("cuda", "cuda_version"):
        if name in reported:
            return versions.NONE if reported[name] in (None, False, "False") else str(reported[name])
    return None
