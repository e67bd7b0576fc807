"""What measured numbers demand of a case beyond the types of their keys. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reprokit.case.measures import MEASURES
from reprokit.case.structure import FormatProblem

_ORACLES = ("failure", "compare", *MEASURES)


def check_measures(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """More than one answer to what is looked for."""
    expect = data.get("expect")
    given = [key for key in _ORACLES if isinstance(expect, dict) and key in expect]
    if len(given) > 1 and {*given} & {*MEASURES}:
        yield FormatProblem(
            loc=("expect", given[1]),
            message=f"expect.{given[1]}: a case states either {given[0]} or {given[1]}",
            hint="keep one: a trial that fails is a different failure than a measured number",
            on_key=True,
        )
