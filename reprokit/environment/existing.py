"""Which values of a known axis no release has, as far as the compatibility data can tell. Pure."""

from __future__ import annotations

from functools import lru_cache

from reprokit.core.near_match import near
from reprokit.environment import versions
from reprokit.environment.axes import BY_NAME
from reprokit.environment.axis import Axis, every
from reprokit.environment.catalog import Catalog

NEXT = 5
"""How many steps above the newest series that is known one may be that came since."""
NEXT_WITHIN = 20
"""The same for the second number within a series that is named by one: cuDNN has a new one each month."""


@lru_cache(maxsize=4096)
def nonexistent(name: str, value: str, catalog: Catalog, *, newer: bool = False) -> str:
    """Why no release has a value of the axis ``name``, with those that are known; '' where one may have it.

    What is refused is between two series that follow each other, or above the newest. What is older than all that is
    known is not, nor a patch release that may have come since. ``newer``: accept the next few series, which a host or
    an image may have although the data do not know them yet.
    """
    axis = BY_NAME.get(name)
    if axis is None or value == versions.NONE or axis.syntax.why_free(value):
        return ""
    if not axis.syntax.versions and (wrong := axis.syntax.check(value)):
        return f"{wrong.words} ({wrong.hint})"
    there = every(axis.releases, catalog, axis.precision) if axis.syntax.versions else tuple(axis.series(catalog))
    family, _, version = value.rpartition("-")
    series = {versions.order(one): one for one in axis.series(catalog) if one.rpartition("-")[0] == family}
    asked = versions.order(version)
    if not asked or not series or asked < min(series):
        return ""
    newest = max(series)
    if any(asked[: len(one)] == one[: len(asked)] for one in series):
        within = max((one[1] for one in map(versions.order, there) if one[0] == asked[0] and one[1:]), default=0)
        beyond = within and len(newest) == 1 and asked[1:] > (within + NEXT_WITHIN,)
        return _there_is_none(axis, value, there) if beyond else ""
    if family:  # only some of a distribution's releases are in the data
        asked, newest = asked[:1], newest[:1]
        if asked <= newest:
            return ""
    if asked < newest or next(one - other for one, other in zip(asked, newest, strict=False) if one != other) > NEXT:
        return _there_is_none(axis, value, there)
    return "" if newer else f"{axis.title} {value} is newer than this reprokit knows; {_known(value, there)}"


def _there_is_none(axis: Axis, value: str, there: tuple[str, ...]) -> str:
    meant = near(value, there, prefix="; ", cutoff=_CUTOFF[axis.syntax.versions])
    return f"there is no {axis.title} {value}{meant}; {_known(value, there)}"


def _known(value: str, there: tuple[str, ...]) -> str:
    own = [one for one in there if one.rpartition("-")[0] == value.rpartition("-")[0]]
    return f"reprokit knows {', '.join(own or there)}"


_CUTOFF = {True: 0.8, False: 0.6}
"""How alike a near match must be: versions are short, and alike by chance."""
