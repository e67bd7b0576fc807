"""What cannot go together in an image, known before it is built: GCC and nvcc, a framework and CUDA or Python, an
axis and a requirement of pip. Only what the tables in data/ or of a site know counts: what is unknown stops nothing.
Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from reprokit.case.cellspec import CellSpec
from reprokit.case.facts import canonical
from reprokit.core.errors import Unsupported
from reprokit.environment import frameworks, versions
from reprokit.environment.axes import AXES
from reprokit.environment.axes.cuda import lacks_host_compiler
from reprokit.environment.catalog import Catalog, Compilers
from reprokit.environment.model import Environment

FLAG = "allow-unsupported-compiler"
"""nvcc's flag that switches its check of the host compiler off; ``-`` and ``--`` before it are both right."""

ALL_THE_SAME = "to run it all the same: environment.conflicts: allow"

WHEELS_WITH_NVCC = 13
"""First major version of CUDA whose wheels hold the whole compiler; those of 11 and 12 bring ptxas alone."""


def check(spec: CellSpec, environment: Environment, catalog: Catalog) -> Environment:
    """The environment, with what is known not to go together in its notes where the case wants it so.

    Raises Unsupported, with the nearest that is available, where it does not.
    """
    found = conflicts(spec, environment, catalog)
    if not found:
        return environment
    why = tolerated(spec)
    if not why:
        counts = f" (rows of {catalog.own} count here)" if catalog.own else ""
        raise Unsupported(f"{'; '.join(found)}. {ALL_THE_SAME[0].upper()}{ALL_THE_SAME[1:]}{counts}")
    return dataclasses.replace(environment, notes=(*environment.notes, *tolerating(found, why)))


def tolerating(found: Iterable[str], why: str) -> tuple[str, ...]:
    """Conflicts as notes of a cell that is run all the same."""
    return tuple(f"conflict tolerated, {why}: {text}" for text in found)


def tolerated(spec: CellSpec) -> str:
    """Why a conflict is not a reason to refuse the cell, or ''."""
    if spec.environment.conflicts == "allow":
        return "the case allows it"
    if spec.reproduces:
        return "the case expects its failure here"
    return ""


def conflicts(spec: CellSpec, environment: Environment, catalog: Catalog) -> list[str]:
    """What does not go together in the environment of a cell, each in words with the nearest that would."""
    return [
        *_host_compiler(spec, environment, catalog),
        *_requirements(spec, catalog),
        *frameworks.conflicts(spec, environment, catalog),
    ]


def lacks(spec: CellSpec, environment: Environment) -> Iterator[str]:
    """What a cell calls but nothing seems to bring: not refused, since a package that it asks for may bring it."""
    if lacks_host_compiler(spec, environment):
        yield (
            "the case calls nvcc, which needs a host compiler, and nothing brings one: add the axis gcc, "
            "or environment.apt: [g++]"
        )


def _host_compiler(spec: CellSpec, environment: Environment, catalog: Catalog) -> Iterator[str]:
    """nvcc refuses a GCC that is newer than it knows, unless that check is switched off."""
    cuda, gcc = environment.cuda, environment.gcc
    if cuda is None or gcc is None or not has_nvcc(environment) or _flag_stands_in(spec):
        return
    range_ = catalog.host_gcc(cuda.version)
    if range_ is None or range_.takes(gcc.version):
        return
    nvcc = ".".join(versions.parts(cuda.version)[:2])
    text = f"gcc {spec.cell.get('gcc', gcc.version)} is not supported by nvcc {nvcc}: "
    if versions.order(gcc.version) < versions.order(range_.least):
        text += f"at least GCC {range_.least}"
    else:
        text += f"at most GCC {range_.most}"
        if catalog.has_any_gcc_flag(cuda.version):
            text += f"; --{FLAG} in the case tries it all the same"
    yield f"{text}; nearest: {', or '.join(_nearest(environment.os, range_, gcc.version, catalog))}"


def _requirements(spec: CellSpec, catalog: Catalog) -> Iterator[str]:
    """Requirements that bring another version of an axis than the cell asks for. One with a marker may not hold."""
    found = [one for one in map(frameworks.requirement_of, spec.environment.requirements) if one and not one.marker]
    for axis in AXES:
        asked = axis.asked(spec.cell) or versions.NONE
        for one in found if axis.wheels and asked != versions.NONE else ():
            if axis.wheels and axis.wheels.names.fullmatch(canonical(one.name)):
                pinned, exact = frameworks.pinned_version(one), axis.wheels.exact
                wanted = asked if exact else ".".join(versions.parts(asked)[:2])
                known = [has for has in axis.releases(spec.cell, catalog) if versions.matches(asked, has)]
                if pinned:
                    contradicts = bool(axis.differs(wanted, {axis.name: pinned, f"{axis.name}_build": None}, catalog))
                else:
                    contradicts = exact and bool(known) and not any(map(one.specifier.contains, known))
                if contradicts:
                    yield f"{one} in environment.pip contradicts {axis.name} {asked}: remove one of the two"


def has_nvcc(environment: Environment) -> bool:
    """Whether the image will hold an nvcc that compiles programs, rather than ptxas alone."""
    cuda = environment.cuda
    if cuda is None or cuda.source == "conda":
        return False
    return cuda.source != "wheels" or versions.order(cuda.version)[0] >= WHEELS_WITH_NVCC


def _flag_stands_in(spec: CellSpec) -> bool:
    texts = (*spec.command, *spec.env.values(), spec.environment.setup, *(file.text for file in spec.files.values()))
    return any(FLAG in text for text in texts)


def _nearest(os: str, range_: Compilers, gcc: str, catalog: Catalog) -> Iterator[str]:
    releases = catalog.releases()
    own = {os: releases[os]} if os in releases else {}
    for among in (own, releases):
        fitting = {name: [major for major in release.gcc if range_.takes(major)] for name, release in among.items()}
        words = [f"gcc {max(majors, key=versions.order)} on {name}" for name, majors in fitting.items() if majors]
        if words:
            yield ", ".join(words)
            break
    major = versions.parts(gcc)[0]
    if cuda := catalog.cuda_for_gcc(major, newest=versions.order(gcc) < versions.order(range_.least)):
        yield f"cuda {cuda} with gcc {major}"
