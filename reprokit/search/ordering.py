"""The order of an axis' values, where they have one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    key = numbers.order if versions or not all(map(_is_number, (first, last, *some))) else _number
    low, high = sorted((key(first), key(last)))
    found = sorted((value for value in some if low < key(value) < high), key=key)
    return found if key(first) == low else found[::-1]


def _head(value: str) -> str:
    found = re.match(r"\D*", value)
    return found[0] if found else ""


def _number(value: str) -> tuple[float, ...]:
    return (float(value),)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
