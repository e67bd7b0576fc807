"""What measured numbers demand of a case beyond the types of their keys. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reprokit.case.check_comparing import check_reference
from reprokit.case.measures import MEASURES
from reprokit.case.structure import FormatProblem

_ORACLES = ("failure", "compare", *MEASURES)


def check_measures(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """More than one answer to what is looked for, and a reference of axes that the case lacks."""
    expect = data.get("expect")
    if not isinstance(expect, dict):
        return
    given = [key for key in _ORACLES if key in expect]
    if len(given) > 1 and {*given} & {*MEASURES}:
        yield FormatProblem(
            loc=("expect", given[1]),
            message=f"expect.{given[1]}: a case states either {given[0]} or {given[1]}",
            hint="keep one: a trial that fails is a different failure than a measured number",
            on_key=True,
        )
    for key in MEASURES:
        measure = expect.get(key)
        if isinstance(measure, dict) and isinstance(measure.get("of"), dict):
            yield from check_reference(("expect", key, "of"), measure["of"], data)
