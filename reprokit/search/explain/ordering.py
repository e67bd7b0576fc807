"""The order of an axis' values, where they have one. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from packaging.version import InvalidVersion, Version

from reprokit.case import units
from reprokit.environment import versions as numbers
from reprokit.environment.axes import AXIS_NAMES


def in_order(axis: str, values: Iterable[str], *, versions: bool | None = None) -> list[str]:
    """The values in order: versions, numbers, sizes, durations. [] where the order is not certain.

    ``versions``: True where a free axis is known to hold a package's versions, False where it is known not to. Where
    neither is known, texts that are versions as well as numbers (0.9 and 0.10) have an order only if the two agree.
    """
    texts = list(dict.fromkeys(values))
    if axis in AXIS_NAMES:
        return _sorted(texts, numbers.order)
    if versions is not None:
        first: Callable[[str], Any] = Version if versions else _number
        if found := _sorted(texts, first):
            return found
    by_version, by_number = _sorted(texts, Version), _sorted(texts, _number)
    if by_version and by_number and by_version != by_number:
        return []
    return by_version or by_number or _sorted(texts, units.size) or _sorted(texts, units.duration)


def inside(axis: str, values: Iterable[str], first: str, last: str, *, versions: bool) -> list[str]:
    """The values strictly between two, in order from ``first`` to ``last``; [] where the two have no order.

    ``versions``: see :func:`in_order`. The text before the number has to be the same: ubuntu-20.04 does not lie
    between two releases of Debian.
    """
    head = _head(first)
    tails = {value[len(head) :]: value for value in (*values, first, last) if _head(value) == head and value != head}
    if versions and axis not in AXIS_NAMES:
        tails = _releases(tails)
    line = [tails[tail] for tail in in_order(axis, tails, versions=versions)]
    if first not in line or last not in line:
        return []
    low, high = line.index(first), line.index(last)
    return line[low + 1 : high] if low < high else line[high + 1 : low][::-1]


def _releases(tails: dict[str, str]) -> dict[str, str]:
    """Those that are versions, each release once, in the spelling of the ends (which come last)."""
    found: dict[Version, str] = {}
    for tail in tails:
        try:
            found[Version(tail)] = tail
        except InvalidVersion:
            continue
    return {tail: tails[tail] for tail in found.values()}


def _head(value: str) -> str:
    """The text before a value's number; a sign belongs to the number."""
    found = re.match(r"(?=[+-]?\.?\d)|\D*", value)
    return found[0] if found else ""


def _number(written: str) -> float:
    value = float(written)
    if not math.isfinite(value):
        raise ValueError("a finite number")
    return value


def _sorted(texts: Sequence[str], key: Callable[[str], Any]) -> list[str]:
    """The texts in the order of ``key``; [] where ``key`` rejects one of them, or is equal for two of them."""
    try:
        keys = {each: key(each) for each in texts}
    except (ValueError, InvalidVersion):
        return []
    return sorted(texts, key=keys.__getitem__) if len(set(keys.values())) == len(texts) else []
