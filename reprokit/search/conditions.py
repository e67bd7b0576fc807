"""Conditions over axes: ``cuda = 12.0``, ``gcc >= 12``; conjunctions of them; the order of an axis' values. Pure."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from packaging.version import InvalidVersion, Version

from reprokit.case import units
from reprokit.environment import versions as numbers
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.versions import NONE


def values_in_order(axis: str, values: Iterable[str], *, versions: bool | None = None) -> list[str]:
    """The values in order: versions, numbers, sizes, durations. [] where the order is not certain.

    ``versions``: whether a free axis is known to hold a package's versions. Where that is not known, texts that are
    versions as well as numbers (0.9 and 0.10) have an order only if the two agree.
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


def values_between(axis: str, values: Iterable[str], first: str, last: str, *, versions: bool) -> list[str]:
    """The values strictly between two, in order from ``first`` to ``last``; [] where the two have no order.

    ``versions``: see :func:`values_in_order`. The text before the number has to be the same: ubuntu-20.04 does not lie
    between two releases of Debian.
    """
    head = _head(first)
    tails = {value[len(head) :]: value for value in (*values, first, last) if _head(value) == head and value != head}
    if versions and axis not in AXIS_NAMES:
        tails = _releases(tails)
    line = [tails[tail] for tail in values_in_order(axis, tails, versions=versions)]
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
    found = re.match(r"(?=[+-]?\.?[0-9])|[^0-9]*", value)
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


Value = str | None
"""A value of an axis; None: the cell has no such axis."""

MOST_SETS = 256
"""Most sets of values of one axis that are tried; an axis of few values has fewer."""
MOST_RANGES = 64
"""Most values of an axis whose ranges are tried."""
MOST_VALUES = 200
"""Most values of an axis that conditions are made of; an axis with more would only number the cells."""


Op = Literal["=", "<", ">=", "!=", "between", "in", "not in"]


@dataclass(frozen=True, kw_only=True)
class AxisCondition:
    """A condition on one axis. ``between`` includes both ends; ``in`` and ``not in`` name two values or more."""

    axis: str
    op: Op
    named: tuple[Value, ...]  # the values in its text
    accepted: frozenset[Value] = field(compare=False)  # the values of ``seen`` that fulfil it
    seen: frozenset[Value] = field(compare=False, repr=False)  # all values of the axis among the decided cells

    @property
    def size(self) -> int:
        """How many values it names."""
        return len(self.named)

    @property
    def rank(self) -> int:
        """How hard it is to understand, 0 is simplest: one value before a threshold before a set."""
        return {"=": 0, "<": 1, ">=": 1, "in": 2, "between": 2, "!=": 3, "not in": 4}[self.op]

    def holds(self, value: Value) -> bool | None:
        """Whether a value fulfils it; None for a value that was not among those seen."""
        return value in self.accepted if value in self.seen else None

    def __str__(self) -> str:
        if self.op == "between":
            return f"{text(self.named[0])} <= {self.axis} <= {text(self.named[1])}"
        if self.named == (None,):
            return f"{self.axis} {'absent' if self.op == '=' else 'present'}"
        named = ", ".join(map(text, self.named))
        return f"{self.axis} {self.op} {{{named}}}" if "in" in self.op else f"{self.axis} {self.op} {named}"


Conjunction = tuple[AxisCondition, ...]
"""All of these; at most one per axis."""

Conditions = tuple[Conjunction, ...]
"""Any of these."""


@lru_cache(maxsize=4096)
def text(value: Value) -> str:
    """A value as text, in quotes where it could be read as more than one word; ``absent`` for None."""
    if value is None:
        return "absent"
    plain = value.isprintable() and not re.search(r"^$|[\s,{}\"]", value)
    return value if plain else json.dumps(value, ensure_ascii=False)


def gap(condition: AxisCondition) -> tuple[str, str, str] | None:
    """(axis, last value below, first value above) of a threshold condition; None for any other."""
    if condition.op not in (">=", "<"):
        return None
    ordered = sort_values(condition.axis, condition.seen)
    at = ordered.index(str(condition.named[0]))
    return condition.axis, ordered[at - 1], ordered[at]


def words(conditions: Conditions) -> str:
    """``cuda = 11.8 and gcc >= 12, or cuda = 12.0``."""
    return ", or ".join(" and ".join(map(str, conjunction)) for conjunction in conditions)


def holds(conditions: Conditions, cell: Mapping[str, str]) -> bool | None:
    """Whether a cell fulfils any of the conditions; None where that depends on a value that was not seen."""
    found = [_all(one.holds(cell.get(one.axis)) for one in conjunction) for conjunction in conditions]
    return True if True in found else None if None in found else False


def _all(answers: Iterable[bool | None]) -> bool | None:
    known = list(answers)
    return False if False in known else None if None in known else True


def sort_values(axis: str, values: Iterable[Value]) -> list[str]:
    """The values of an axis that can be ordered, in order. ``none``, a missing axis and operating systems cannot."""
    texts = [value for value in values if value is not None and value != NONE]
    return [] if axis == "os" or len(texts) < 2 else values_in_order(axis, texts)


def sort_all(axis: str, values: Iterable[Value]) -> list[Value]:
    """Values in the order in which they are printed: their own order where they have one, else alphabetical."""
    values = set(values)
    places = {value: at for at, value in enumerate(sort_values(axis, sorted(values - {None}, key=str)))}
    return sorted(values, key=lambda value: (value is None, places.get(value or "", -1), str(value)))


def of_axis(axis: str, values: Sequence[Value], without: Collection[Value] = ()) -> tuple[list[AxisCondition], float]:
    """The conditions on an axis that had these values, each set of values once, in its simplest form.

    ``without``: values that none of them may accept. An axis of many values does not get every set; the second value is
    how many values the shortest missing set has.
    """
    seen, values = frozenset(values), sort_all(axis, values)
    found: dict[int, tuple[Op, tuple[Value, ...]]] = {}
    for op, named, mask in _forms(values, sort_values(axis, values)):
        if mask not in found:
            found[mask] = op, named
    for mask in (0, _mask(values, seen)):
        found.pop(mask, None)
    most = max((len(named) for op, named in found.values() if op == "in"), default=1)
    missing = 2 if len(seen) > MOST_RANGES else most + 1
    barred = _mask(values, without)
    conditions = [
        AxisCondition(
            axis=axis,
            op=op,
            named=named,
            accepted=frozenset(value for at, value in enumerate(values) if mask >> at & 1),
            seen=seen,
        )
        for mask, (op, named) in found.items()
        if not mask & barred
    ]
    return conditions, missing if len(found) < 2 ** len(seen) - 2 else math.inf


def _mask(values: Sequence[Value], some: Collection[Value]) -> int:
    """A set of values as an integer with a bit for each: thousands of them are compared at little cost."""
    return sum(1 << at for at, value in enumerate(values) if value in some)


def _forms(values: Sequence[Value], ordered: Sequence[Value]) -> Iterator[tuple[Op, tuple[Value, ...], int]]:
    """Ways to name sets of values, the shorter and simpler first."""
    bits = {value: 1 << at for at, value in enumerate(values)}
    every = _mask(values, bits)
    below = [0, *itertools.accumulate(bits[value] for value in ordered)]
    for value in values:
        yield "=", (value,), bits[value]
    for at in range(1, len(ordered)):
        yield ">=", (ordered[at],), below[-1] - below[at]
        yield "<", (ordered[at],), below[at]
    for value in values:
        yield "!=", (value,), every - bits[value]
    for first, last in itertools.combinations(range(len(ordered[:MOST_RANGES])), 2):
        if last > first + 1:  # a range of two values is simpler as a set
            yield "between", (ordered[first], ordered[last]), below[last + 1] - below[first]
    made = 0
    for count in range(2, len(values)):
        made += math.comb(len(values), count)
        if made > MOST_SETS:
            return
        for some in itertools.combinations(values, count):
            mask = sum(bits[value] for value in some)
            yield "in", some, mask
            if count < len(values) - count:
                yield "not in", some, every - mask
