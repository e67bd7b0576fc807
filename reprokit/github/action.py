"""The composite action: its inputs as a command line, and the result of a run as its outputs. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.environment.axes import AXIS_NAMES
from reprokit.evidence.records import RunRecord

FAIL_ON = ("departure", "inconclusive", "never")
TRUTH = {"true": True, "false": False, "": False}

ONE = (*AXIS_NAMES, "trials")
"""Inputs that are one value, and options of the same name."""
LINES = {"axes": "axis", "only": "only", "skip": "skip", "tag": "tag", "dataset": "dataset"}
"""Inputs with a value on each line, and the options that each line becomes."""


def arguments(inputs: Mapping[str, str]) -> list[str]:
    """The arguments of ``reprokit`` for the action's inputs (name -> text). No input can become another option.

    Raises UsageError for a value that an input does not accept.
    """
    cases = list(_lines(inputs.get("case", "")))
    if not cases:
        raise UsageError("input `case`: name case files or folders, one per line")
    if "-" in cases:
        raise UsageError("input `case`: a workflow has no standard input to read a case from")
    words = [f"--{name}={value}" for name in ONE if (value := inputs.get(name, "").strip())]
    for name, option in LINES.items():
        words += [f"--{option}={line}" for line in _lines(inputs.get(name, ""))]
    if truth("fix", inputs.get("fix", "")):
        words.append("--fix")
    return ["run", *words, "--yes", "--", *cases]


def truth(name: str, text: str) -> bool:
    """The value of the input ``name``: ``true`` or ``false`` (or empty). Raises UsageError for anything else."""
    value = TRUTH.get(text.strip().lower())
    if value is None:
        raise UsageError(f"input `{name}`: expected true or false, not {text!r}")
    return value


def fails(fail_on: str, status: int) -> bool:
    """Whether the step fails, given the input ``fail-on`` and the exit status of the run.

    Wrong usage, a wrong case and an interruption always fail it. Raises UsageError for an unknown ``fail-on``.
    """
    if fail_on not in FAIL_ON:
        known = ", ".join(FAIL_ON)
        raise UsageError(f"input `fail-on`: expected one of {known}, not {fail_on!r}{near(fail_on, FAIL_ON)}")
    accepted = {"departure": {0, 3}, "inconclusive": {0}, "never": {0, 1, 3}}[fail_on]
    return status not in accepted


def outputs(run: RunRecord) -> dict[str, str]:
    """The action's outputs for a run. ``verdicts`` is JSON: verdict -> number of cells."""
    counts = Counter(cell.verdict.value if cell.verdict else "cancelled" for cell in run.cells)
    return {
        "run-id": run.id,
        "cells": str(len(run.cells)),
        "departures": str(sum(cell.as_expected is False for cell in run.cells)),
        "inconclusive": str(sum(cell.verdict is None or not cell.verdict.conclusive for cell in run.cells)),
        "verdicts": json.dumps(dict(sorted(counts.items()))),
    }


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())
