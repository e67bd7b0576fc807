"""The order of an axis' values, where they have one. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from packaging.version import Version

from reprokit.environment import versions as numbers


def inside(values: Iterable[str], first: str, last: str, *, versions: bool) -> list[str]:
    """The values strictly between two, from the one to the other; none where the two have no order.

    ``versions``: they are versions (3.9 before 3.10), else numbers where all of them are (0.25 before 0.5). Text before
    the number has to be the same: ubuntu-20.04 lies between no two releases of Debian.
    """
    head = _head(first)
    some = [value for value in dict.fromkeys(values) if _head(value) == head and value not in (first, last)]
    if _head(last) != head or not numbers.order(first) or not numbers.order(last):
        return []
    key = _key((first, last, *some), versions)
    low, high = sorted((key(first), key(last)))
    found = sorted((value for value in some if low < key(value) < high), key=key)
    return found if key(first) == low else found[::-1]


def _key(values: Iterable[str], versions: bool) -> Callable[[str], Any]:
    values = list(values)
    if not versions and all(map(_is_number, values)):
        return float
    # 2.0.0rc1 comes before 2.0.0, which its numbers alone do not say.
    return Version if all(map(_is_version, values)) else numbers.order


def _head(value: str) -> str:
    found = re.match(r"\D*", value)
    return found[0] if found else ""


def _is_version(value: str) -> bool:
    try:
        Version(value)
    except ValueError:
        return False
    return True


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
