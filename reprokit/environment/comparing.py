"""Asked against measured: does the built image hold what the cell's axes and its pins ask for? Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reprokit.case.cellspec import CellSpec
from reprokit.case.facts import canonical
from reprokit.core.json_record import JsonRecord
from reprokit.environment import compatibility, frameworks, versions
from reprokit.environment.axes import BY_NAME, cuda
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.measured import Measured

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, kw_only=True)
class Compared(JsonRecord):
    """What a cell asks for on one axis beside what was measured; None where it was not. ``differs``: how, '' = not."""

    axis: str
    asked: str
    measured: str | None = None
    differs: str = ""


def compared(cell: Mapping[str, str], measured: Measured | None, catalog: Catalog = OURS) -> list[Compared]:
    """Every axis of a cell against a measured environment.

    A free axis is compared where it names a Python package and the cell a version of it. What was not looked at is not
    compared: a recorded environment may be older than an axis, and without an image there is none (None).
    """
    installed = {canonical(name): version for name, version in measured.packages["pip"].items()} if measured else {}
    found, of_axes = [], measured.versions if measured else {}
    for name, asked in cell.items():
        have, differs = None, ""
        if name in BY_NAME and name in of_axes and BY_NAME[name].asked(cell):
            have, differs = of_axes[name], BY_NAME[name].differs(asked, of_axes, catalog)
        elif name not in BY_NAME and re.match("[0-9]", asked) and (have := installed.get(canonical(name))):
            same = versions.matches(asked, have)
            differs = "" if same else f"the cell asks for {name} {asked}, the image measures {have}"
        found.append(Compared(axis=name, asked=asked, measured=have, differs=differs))
    return found


def compare(cell: Mapping[str, str], measured: Measured, catalog: Catalog = OURS) -> list[str]:
    """The differences in words, one per known axis: a free axis promises nothing of the image."""
    return [one.differs for one in compared(cell, measured, catalog) if one.axis in BY_NAME and one.differs]


ELSEWHERE = re.compile(r"(?:^|\s)(?:-t|--target|--prefix|--root|--dry-run)\b")
"""Options of pip by which a requirement is not put where the interpreter looks."""


def broken_pins(spec: CellSpec, measured: Measured) -> list[str]:
    """The requirements ``name==version`` of ``environment.pip`` that measure otherwise, in words.

    Of several steps the last that names a package counts. A pin does not count where its marker does not hold, nor for
    a package that is installed from a source tree.
    """
    installed = {canonical(name): version for name, version in measured.packages.get("pip", {}).items()}
    trees = {canonical(name) for name in measured.source_trees}
    found = []
    for name, pin in _pins(spec, measured).items() if installed else ():
        have = installed.get(name)
        if name in trees or (have is None and spec.environment.image):  # an image's own pip may serve another Python
            continue
        if have is not None and pin.specifier.contains(have, prereleases=True):
            continue
        seen = f"{pin.name} {have}" if have else f"no {pin.name}"
        found.append(
            f"environment.pip asks for {pin.name}{pin.specifier}, the command finds {seen}: "
            "install it last, or ask for the version that is meant"
        )
    return found


def _pins(spec: CellSpec, measured: Measured) -> dict[str, Requirement]:
    """Normalized name -> the pin of a package that the last step which names it has."""
    python = str(measured.python)
    machine = {"python_version": ".".join(versions.parts(python)[:2]), "python_full_version": python, "extra": ""}
    found: dict[str, Requirement] = {}
    for step in spec.environment.pip_steps:
        wheels = {canonical(text.rpartition("/")[2].partition("-")[0]) for text in step.requirements if ".whl" in text}
        named = [one for one in map(frameworks.requirement_of, step.requirements) if one]
        named = [one for one in named if one.marker is None or one.marker.evaluate(machine)]
        for name in wheels.union(canonical(one.name) for one in named):
            found.pop(name, None)
        if not ELSEWHERE.search(" ".join((*spec.environment.pip_options, *step.options, *step.requirements))):
            exact = [one for one in named if any(each.operator in ("==", "===") for each in one.specifier)]
            found |= {canonical(one.name): one for one in exact if not one.url}
    return found


def lacking_libraries(spec: CellSpec, measured: Measured) -> list[str]:
    """The libraries of CUDA that an image lacks, in words. One that the case names is what it is."""
    asked = spec.cell.get("cuda", versions.NONE)
    if asked == versions.NONE or spec.environment.cuda_libraries == "none" or spec.environment.image:
        return []
    if not (lacks := cuda.list_lacking(measured.cuda, measured.cuda_libraries)):
        return []
    words = "a case that needs no library of CUDA: environment.cuda_libraries: none"
    return [f"the cell asks for cuda {asked}, the image lacks {', '.join(lacks)} ({words})"]


def compare_builds(spec: CellSpec, measured: Measured, catalog: Catalog = OURS) -> list[str]:
    """The frameworks that are built for another CUDA version than the cell asks for, or for none; in words.

    A case that allows such a conflict, or expects its failure in this cell, has it so on purpose.
    """
    cuda = spec.cell.get("cuda", versions.NONE)
    if cuda == versions.NONE or compatibility.tolerated(spec):
        return []
    texts = []
    wanted = spec.environment
    for one in frameworks.asked_of(wanted.pip_steps, wanted.pip_options, conditional=True, catalog=catalog):
        framework = frameworks.GPU_PACKAGES.get(one.package)
        if framework is None or one.cuda == versions.NONE or (framework == "jax" and not one.cuda):
            continue
        words, build = _measured_build(one.package, measured)
        if build == versions.NONE:
            texts.append(f"{words} is a CPU build; the cell asks for cuda {cuda}")
        elif build and not frameworks.is_same_cuda(cuda, build):
            texts.append(f"{words} is built for CUDA {build}; the cell asks for cuda {cuda}")
    return [f"{text} ({compatibility.ALL_THE_SAME})" for text in texts]


def _measured_build(package: str, measured: Measured) -> tuple[str, str]:
    """(name and version, CUDA of the build, ``none`` or '' when unknown) of a package in an image."""
    pip = measured.packages.get("pip", {})
    if frameworks.GPU_PACKAGES[package] == "jax":
        plugins = (re.fullmatch(r"jax-cuda(\d+)-plugin", name) for name in pip)
        major = next((found.group(1) for found in plugins if found), "")
        local = re.search(r"\+cuda(\d+)", pip.get("jaxlib", ""))
        build = major or (local.group(1) if local else versions.NONE)
        return f"{package} {pip.get(package, '')}".strip(), build if package in pip else ""
    reported: Mapping[str, Any] = measured.frameworks.get(frameworks.GPU_PACKAGES[package], {})
    version = reported.get("__version__") or reported.get("full_version") or pip.get(package, "")
    return f"{package} {version}".strip(), frameworks.build_cuda(reported) or ""
