"""What a draft lacks: pins that no index has, and what a run of it proves to be missing, put into it with a comment.

A step is taken only where a log proves it (``put`` of a cause of failed builds), or where an index was asked. Each is
one comment in the case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprokit.case.tree import Loc
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.intake.draft import Draft

MOST_BUILDS = 6
"""Builds of a draft that is repaired: the first, and one for each step."""
_NUMPY_1 = re.compile(
    r"numpy\.dtype size changed, .* Expected 96 from C header, got 88|was removed in the NumPy 2\.0 release|"
    r"compiled using NumPy 1\.x cannot be run in\s+NumPy 2"
)
"""What a program of before June 2024 ends with beside the numpy of today."""
_PUT = re.compile(r"(?:environment\.)?(?P<key>apt|pip|matrix\.\w+): \[(?P<values>.+)\]")


def leave_out_missing(made: Draft, versions: Callable[[str], Collection[Version] | None]) -> tuple[Draft, list[str]]:
    """The draft without requirements that no index has, and what is said of each. A pre-release becomes its release,
    but for one of development, which no index had: the reporter built it, and the release has later fixes.

    ``versions``: those of a package that the indexes have, none of one that they do not have; None where no index
    answers.
    """
    said: list[str] = []

    def check(line: str) -> str:
        try:
            asked = Requirement(line)
        except InvalidRequirement:
            return line
        pins = [one.version for one in asked.specifier if one.operator == "=="]
        there = versions(asked.name) if asked.url is None else None
        if there is None or (there and not pins):
            return line
        try:
            pin = Version(pins[0]) if pins else Version("0")
        except InvalidVersion:  # 1.2.*
            return line
        if pin in there:
            return line
        if there and pin.is_prerelease and not pin.is_devrelease and (final := Version(pin.base_version)) in there:
            said.append(f"{asked.name}=={final} instead of {line}, which no index has any more.")
            return f"{asked.name}=={final}"
        said.append(f"Left out: {line}: no index has {'this version' if there else 'this package'}.")
        return ""

    steps = [_with_lines(step, list(filter(None, map(check, _lines(step))))) for step in _steps(made)]
    if not said:
        return made, said
    left = [step for step in steps if _lines(step)]
    return _note(_with_environment(made, {"pip": left}), ("environment", "pip") if left else (), said), said


def repair(made: Draft, cells: Sequence[CellRecord], run: str, *, of_list: bool = False) -> tuple[Draft, str] | None:
    """The draft with what the ``run`` of these cells proves to be missing, and the words for it; None for nothing new.

    What is there already is not put again: then something else is wrong. ``of_list``: its pins list an environment as
    a data set has it, in which the project's own setup then replaces some; a report means its versions.
    """
    for cell in cells:
        if of_list and cell.verdict is Verdict.ENVIRONMENT_MISMATCH and (said := _replaced(made, cell)):
            steps = [_with_lines(step, [said.get(line, line) for line in _lines(step)]) for step in _steps(made)]
            words = [f"{new} instead of {line}, which setup replaces (run {run})." for line, new in said.items()]
            return _note(_with_environment(made, {"pip": steps}), ("environment", "pip"), words), " ".join(words)
        seen = " ".join(trial.exception.message for trial in cell.trials if trial.exception)
        if (build := cell.details.build) and (put := _PUT.fullmatch(build.put)):
            key, values, cause = put["key"], [one.strip(" \"'") for one in put["values"].split(",")], build.cause
        elif cell.verdict is Verdict.DIFFERENT_FAILURE and _NUMPY_1.search(seen):
            key, values, cause = "pip", ["numpy<2"], "something here is of before numpy 2"
        else:
            continue
        if (changed := _put(made, key, values)) is not None:
            place: Loc = ("matrix",) if key.startswith("matrix.") else ("environment", key)
            why = f"{', '.join(values)}: {cause}"
            noted = _note(changed, place, [f"By `reprokit new --try`, run {run}: {why}."])
            return noted, f"put into the case: {key}: {why}"
    return None


def _replaced(made: Draft, cell: CellRecord) -> dict[str, str]:
    """The pins that ``setup`` replaced, each with what was measured in their place, but for a source's own package."""
    found: dict[str, str] = {}
    seen = cell.environment or Measured()
    trees = {canonicalize_name(name) for name in seen.source_trees}
    installed = {canonicalize_name(name): version for name, version in seen.packages.get("pip", {}).items()}
    for line in (line for step in _steps(made) for line in _lines(step) if made.data["environment"].get("setup")):
        with suppress(InvalidRequirement):
            pin = Requirement(line)
            name = canonicalize_name(pin.name)
            have = "" if name in trees else installed.get(name)
            if (
                have
                and re.match("==[^*,]+$", str(pin.specifier))
                and not pin.specifier.contains(have, prereleases=True)
            ):
                pin.specifier = SpecifierSet(f"=={have}")
                found[line] = str(pin)
    return found


def _put(made: Draft, key: str, values: Sequence[str]) -> Draft | None:
    """The draft with values; None where it has them all, or where one of them is to be chosen (VERSION)."""
    if any(value.isupper() for value in values):
        return None
    environment = made.data.get("environment", {})
    if key == "pip":
        lines = {line: _name(line) for step in _steps(made) for line in _lines(step)}
        # A bound can still be put where the name alone is listed.
        known = {(name, line == name) for line, name in lines.items()}
        new = [one for one in values if not {(_name(one), False), (_name(one), one == _name(one))} & known]
        return _with_environment(made, {"pip": [new, *_steps(made)]}) if new else None
    if key == "apt":
        new = [value for value in values if value not in environment.get("apt", ())]
        return _with_environment(made, {"apt": [*environment.get("apt", ()), *new]}) if new else None
    axis = key.partition(".")[2]
    matrix = made.data.get("matrix", {})
    if axis in matrix or "include" in matrix:  # beside cells that are listed, an axis would be more cells
        return None
    return replace(made, data={**made.data, "matrix": {**matrix, axis: list(values)}})


def _steps(made: Draft) -> list[Any]:
    """The steps of pip: a list of requirements alone is one."""
    steps = made.data.get("environment", {}).get("pip", ())
    return [list(steps)] if steps and isinstance(steps[0], str) else list(steps)


def _lines(step: Any) -> list[str]:
    return list(step["requirements"] if isinstance(step, Mapping) else step)


def _with_lines(step: Any, lines: list[str]) -> Any:
    return {**step, "requirements": lines} if isinstance(step, Mapping) else lines


def _with_environment(made: Draft, more: Mapping[str, Any]) -> Draft:
    environment = {**made.data.get("environment", {}), **more}
    return replace(made, data={**made.data, "environment": {key: value for key, value in environment.items() if value}})


def _note(made: Draft, place: Loc, lines: Sequence[str]) -> Draft:
    return replace(made, notes={**made.notes, place: (*made.notes.get(place, ()), *lines)})


def _name(line: str) -> str:
    return canonicalize_name(re.split(r"[^\w.-]", line)[0])
