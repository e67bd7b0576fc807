"""The Python that a data set names, as values of the axes: that release where there is one, else the nearest. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import lru_cache

from reprokit.environment import versions
from reprokit.environment.axes import BY_NAME
from reprokit.environment.axes.operating_system import DEFAULT
from reprokit.environment.catalog import OURS
from reprokit.intake.axes import of_conda, unavailable


@lru_cache(maxsize=64)
def python(asked: str) -> tuple[dict[str, str], str]:
    """(the axes of a cell with the Python nearest to ``asked``, why it is another one; '' where it is that one).

    A Python of another series is only taken where its series has none, and a Python 3 never stands for a Python 2.
    conda-forge serves what nothing else has of a series.
    """
    if not asked:
        return {"os": DEFAULT}, "The data set names no Python: this is the one of the release."
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}", asked):
        return {"os": DEFAULT}, f"The data set asks for Python {asked[:40]!r}, which is not a version: it is left out."
    for values in _nearest(asked):
        for conda, value, os in itertools.product((False, True), values, _releases()):
            cell = {"os": os, "python": value}
            if not unavailable(cell) and bool(of_conda(cell)) is conda:
                why = f"The data set asks for Python {asked}, which is not available: {value} is the nearest."
                return cell, "" if value == asked else why
    return {"os": DEFAULT, "python": asked}, f"No release of Python {asked} is available: name another one."


def _releases() -> list[str]:
    current = {name: release for name, release in OURS.releases().items() if release.bootstraps}
    return list(dict.fromkeys((DEFAULT, *sorted(current, key=lambda name: -current[name].epoch))))


def _nearest(asked: str) -> Iterator[tuple[str, ...]]:
    """The values of each series, its own first."""
    series = ".".join(versions.parts(asked)[:2])
    yield asked, series
    major, minor = (*versions.order(series), 0)[:2]
    others = [one for one in BY_NAME["python"].series(OURS) if versions.order(one)[0] == major]
    for other in sorted(others, key=lambda one: (abs(versions.order(one)[1] - minor), -versions.order(one)[1])):
        yield (other,)
