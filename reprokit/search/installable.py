"""Whether a release can be installed with a Python on x86-64 Linux, as far as the names of its files say. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from reprokit.environment import versions
from reprokit.search.package_index import DistributionFile


def not_installable(files: Sequence[DistributionFile], python: str, glibc: str) -> str:
    """Why no file of a release can be installed with a Python; '' when one can. ``python`` '' = unknown."""
    takes = [file for file in files if not python or _takes(file.requires_python, python)]
    if not takes:
        return f"needs Python {files[0].requires_python}"
    known = tags(python, glibc) if python else None
    for file in takes:
        if not file.name.endswith(".whl"):
            return ""
        offered = parse_wheel_filename(file.name)[3]
        if known & offered if known is not None else any(_on_linux(tag) for tag in offered):
            return ""
    return f"no wheel for Python {python or 'of any version'} on x86-64 Linux, and no source distribution"


def _takes(requires: str, python: str) -> bool:
    try:
        return SpecifierSet(requires).contains(python, prereleases=True)
    except ValueError:  # pip ignores a specifier that it cannot read, too
        return True


def _on_linux(tag: Tag) -> bool:
    return tag.platform == "any" or ("linux" in tag.platform and tag.platform.endswith("x86_64"))


@lru_cache
def tags(python: str, glibc: str = "") -> frozenset[Tag]:
    """The tags of the wheels that a version of CPython accepts on x86-64 Linux with a glibc ('' = any).

    Source: PEP 425, 513, 571, 599 and 600; the ABI of CPython before 3.8 ends with m.
    """
    major, minor = [int(number) for number in re.findall(r"\d+", python)[:2]]
    newest = versions.order(glibc)[1] if glibc else 99
    old = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
    platforms = [f"manylinux_2_{number}_x86_64" for number in range(newest, 4, -1)]
    platforms += [f"{name}_x86_64" for name, least in old.items() if least <= newest] + ["linux_x86_64"]
    abi = f"cp{major}{minor}" + ("m" if (major, minor) < (3, 8) else "")
    return frozenset(
        [
            *cpython_tags((major, minor), [abi], platforms),
            *compatible_tags((major, minor), f"cp{major}{minor}", platforms),
        ]
    )
