"""On which GPUs code for an architecture runs: machine code (``sm_86``) and PTX (``compute_86``). Pure.

Source: https://docs.nvidia.com/cuda/cuda-c-programming-guide/ ("Binary Compatibility", "PTX Compatibility",
"Family-Specific Features"): machine code runs on GPUs of the same major and of its own or a later minor capability, PTX
is compiled by the driver for its own and every later one; what ends in ``a`` runs on its own alone, what ends in ``f``
on its family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TEGRA = {"3.2", "5.3", "6.2", "7.2", "8.7", "10.1", "11.0"}
"""Capabilities of Jetson, Drive and Thor, whose machine code and that of other GPUs do not run on each other."""
_NAME = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def runs_on(architecture: str, compute: str) -> bool:
    """Whether code for an architecture (``sm_86``) runs on a GPU of a compute capability (``8.9``)."""
    named = _NAME.fullmatch(architecture)
    major, _, minor = compute.partition(".")
    if named is None or not (major.isdecimal() and minor.isdecimal()):
        return False
    kind, variant = named[1], named[4]
    built, gpu = (int(named[2]), int(named[3])), (int(major), int(minor))
    if variant == "a" or built == gpu:
        return built == gpu
    if kind == "compute" and not variant:
        return built <= gpu
    same = built[0] == gpu[0] and built[1] <= gpu[1]
    return same and not _TEGRA & {compute, f"{named[2]}.{named[3]}"}


def served(code: Mapping[str, int], compute: str) -> int:
    """In how many modules a build has code for a GPU, at least: most have it for one architecture or the other."""
    return max((count for architecture, count in code.items() if runs_on(architecture, compute)), default=0)


def lacks(code: Mapping[str, int], compute: str) -> str:
    """Why a build is not made for a GPU, in words; '' where it is.

    Builds have a few modules for the newest GPUs alone, and libraries of others inside: less than a third of the
    modules, where what was measured has at least 60 or at most 2 of 100, is not support.
    """
    most, here = max(code.values()), served(code, compute)
    if 3 * here >= most:
        return ""
    names = [name for name, count in code.items() if 3 * count >= most]
    names.sort(key=lambda name: (int(re.sub(r"\D", "", name)), name))
    return f"is built for {names[0]} to {names[-1]}, and has code for it in {here} of {most} modules"
