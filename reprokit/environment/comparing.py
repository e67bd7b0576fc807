"""Asked against measured: does the built image hold what the cell's axes ask for? Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reprokit.case.cellspec import CellSpec
from reprokit.environment import catalog, compatibility, frameworks, versions
from reprokit.environment.measured import Measured

WORDS = {"python": "Python", "gcc": "GCC", "cuda": "CUDA", "cudnn": "cuDNN"}


def compare(asked: Mapping[str, str], measured: Measured) -> list[str]:
    """The differences in words, one per axis (os, python, gcc, cuda, cudnn); other axes are free and are skipped."""
    differences = []
    if "os" in asked and not _same_os(asked["os"], measured.os):
        differences.append(f"the cell asks for os {asked['os']}, the image is {measured.os or 'unknown'}")
    for axis, word in WORDS.items():
        want = asked.get(axis)
        have: str | None = measured[axis]
        if want is None or versions.matches(want, have):
            continue
        if axis == "cuda" and have is not None and _same_release(want, measured.cuda_build):
            continue
        # cuDNN's header has three numbers, its packages have four.
        if axis == "cudnn" and have is not None and have.count(".") == 2 and versions.matches(have, want):
            continue
        found = f"measures {word} {have}" if have else f"has no {word}"
        differences.append(f"the cell asks for {axis} {want}, the image {found}")
    return differences


def compare_builds(spec: CellSpec, measured: Measured) -> list[str]:
    """The frameworks that are built for another CUDA version than the cell asks for, or for none; in words.

    A case that allows such a conflict, or expects its failure in this cell, has it so on purpose.
    """
    if compatibility.tolerated(spec):
        return []
    return [f"{text} ({compatibility.ALL_THE_SAME})" for text in frameworks.differences(spec, measured)]


def _same_os(want: str, have: str | None) -> bool:
    if have is None:
        return False
    (family, _, version), (other, _, other_version) = want.partition("-"), have.partition("-")
    return family == other and (not version or versions.matches(version, other_version))


def _same_release(want: str, build: str | None) -> bool:
    """Whether a compiler build (12.0.140) belongs to the toolkit release asked for (12.0.1)."""
    if build is None:
        return False
    return versions.matches(want, build) or any(
        versions.matches(want, release) for release in catalog.cuda_release_of(build)
    )
