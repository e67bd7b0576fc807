"""A parsed tree -> the case and its fixed variant, or every problem that the file has, in one go. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from reprokit.case.axes import KnownAxes
from reprokit.case.check_matrix import check_matrix
from reprokit.case.checks import (
    axes_of,
    cells_of,
    check_amounts,
    check_compare,
    check_digests,
    check_failure,
    check_fix_keys,
    check_measures,
    check_paths,
    check_templates,
    names_used,
    templates,
)
from reprokit.case.matrix import matches
from reprokit.case.model import FIX_CHANGES, Case
from reprokit.case.render import TemplateProblem, render
from reprokit.case.structure import FormatProblem, build
from reprokit.case.templates import RenderError, fresh_budget, inspect, is_template, render_text
from reprokit.case.tree import CaseTree, Loc, SourcePosition, dotted
from reprokit.core.errors import Problem

MAX_SAMPLE = 200
"""Most cells of a case that are rendered while it is validated."""
MAX_RENDERED = 5_000
"""Most renderings of a template in a cell that one kind of check makes: of many templates, in fewer cells."""
MOST_FINDINGS = 300
"""Problems that one kind of check reports."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What came of a tree. ``case`` is None when there are ``problems``; ``fixed_places`` are those of ``fixed``."""

    case: Case | None = None
    fixed: Case | None = None
    fixed_places: Mapping[Loc, SourcePosition] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def check(tree: CaseTree, known: KnownAxes) -> Checked:
    """Validate a parsed tree; never raises for what the file says. ``known``: the axes that mean something."""
    data = tree.data
    if not isinstance(data, dict):
        return Checked(problems=tuple(tree.problems))
    if amounts := list(check_amounts(data)):
        return Checked(problems=tuple(tree.problems + [_problem(tree, finding) for finding in amounts]))
    fresh_budget()
    case, findings = build(data, known)
    own = (
        check_matrix(data, known),
        check_failure(data),
        check_compare(data),
        check_measures(data),
        check_fix_keys(data),
    )
    for checks in (*own, *_common(tree, data, known)):
        findings += islice(checks, MOST_FINDINGS)
    problems = tree.problems + [_problem(tree, finding) for finding in findings]
    fixed, fixed_tree = None, tree
    if isinstance(data.get("fix"), dict):
        fixed_tree = _merged(tree, data)
        fixed, found = build(fixed_tree.data, known)
        for checks in _common(fixed_tree, fixed_tree.data, known):
            found += islice(checks, MOST_FINDINGS)
        problems += _fresh(fixed_tree, found, findings, set(problems))
    if not problems and case is not None:
        problems = _render_some(case, tree)
        if fixed is not None:
            problems += [problem for problem in _render_some(fixed, fixed_tree) if problem not in problems]
    return Checked(
        case=None if problems else case,
        fixed=None if problems else fixed,
        fixed_places=fixed_tree.places,
        names=names_used(data),
        problems=tuple(dict.fromkeys(problems)),
    )


def _common(tree: CaseTree, data: dict[str, Any], known: KnownAxes) -> tuple[Iterator[FormatProblem], ...]:
    """The checks that concern the fixed variant as well."""
    return (
        check_templates(tree, data, known),
        check_paths(data),
        check_digests(data),
        _check_partial_cells(data),
    )


def _problem(tree: CaseTree, finding: FormatProblem) -> Problem:
    line, column = finding.at or tree.position(finding.loc, key=finding.on_key)
    return tree.problem(line, column, finding.message, finding.hint)


def _fresh(
    tree: CaseTree, found: Iterable[FormatProblem], known: Iterable[FormatProblem], reported: set[Problem]
) -> list[Problem]:
    """Problems that the fix brings, without those that the case has by itself."""
    before = {(finding.loc, finding.message) for finding in known}
    fresh = []
    for finding in found:
        written = _leaf(tree.data, finding.loc)
        problem = _problem(tree, finding)
        if problem not in reported and (written or (finding.loc, finding.message) not in before):
            fresh.append(problem)
    return fresh


def _leaf(data: Any, loc: Loc) -> bool:
    for part in loc:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return not isinstance(data, dict)


def _merged(tree: CaseTree, data: dict[str, Any]) -> CaseTree:
    """The tree of the fixed variant: ``fix`` merged over the case, with positions in ``fix`` for what comes from it."""
    change = {key: value for key, value in data["fix"].items() if key in FIX_CHANGES}
    places = dict(tree.places)
    for loc, place in tree.places.items():
        if loc[:1] == ("fix",) and len(loc) > 1:
            places[loc[1:]] = place
    base = {key: value for key, value in data.items() if key != "fix"}
    return replace(tree, data=merge(base, change), places=places, problems=[])


def merge(base: Any, change: Any) -> Any:
    """``change`` over ``base``: mappings merge, lists and scalars replace."""
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{key: merge(base[key], value) if key in base else value for key, value in change.items()}}
    return change


def _check_partial_cells(data: dict[str, Any]) -> Iterator[FormatProblem]:
    """Templates that need an axis which some cells lack: cells of ``include`` need not have every axis."""
    axes = axes_of(data)
    included = list(cells_of(data, "include"))
    extra = {name for _, cell in included for name in cell} - set(axes)
    if not included:
        return
    named = ((loc, text, inspect(text).names) for loc, text in templates(data))
    texts = [(loc, text, names) for loc, text, names in named if names]
    first = {name: values[0] for name, values in axes.items() if values}
    for at, text, names in texts:
        missing = _needed(text, first) if axes and names & extra else ""
        if missing in extra:
            yield FormatProblem(
                loc=at,
                message=f"{dotted(at)}: {missing!r} is only defined in cells of include",
                hint=f"make it an axis, or write {{{{ {missing} | default('...') }}}}",
            )
    for loc, cell in included[: MAX_RENDERED // max(1, len(texts))]:
        reported: set[str] = set()
        for at, text, names in texts:
            missing = _needed(text, cell) if names & (set(axes) | extra) - set(cell) else ""
            if missing and missing not in reported and missing in {*axes, *extra}:
                reported.add(missing)
                yield FormatProblem(
                    loc=loc,
                    message=f"{dotted(loc)}: {dotted(at)} needs the axis {missing!r}, which this cell leaves out",
                    hint=f"give the cell a value for {missing}, or write {{{{ {missing} | default('...') }}}}",
                )


def _needed(text: str, cell: Mapping[str, str]) -> str:
    """The first name that ``text`` needs and ``cell`` has not, or ''."""
    try:
        render_text(text, {"out": "", **cell})
    except RenderError as error:
        missing = re.fullmatch(r"'(\w+)' is undefined", str(error))
        return missing[1] if missing else ""
    return ""


def _render_some(case: Case, tree: CaseTree) -> list[Problem]:
    """Problems that only show once values are put in, from cells that between them have every value of every axis."""
    problems: dict[Loc, Problem] = {}
    count = sum(is_template(text) for _, text in templates(tree.data))
    for cell in _sample(case)[: max(1, MAX_RENDERED // max(1, count))]:
        try:
            render(case, cell)
        except TemplateProblem as problem:
            line, column = tree.position(problem.loc)
            problems.setdefault(problem.loc, tree.problem(line, column, str(problem), problem.hint))
    return list(problems.values())


def _sample(case: Case) -> list[Mapping[str, str]]:
    axes = case.matrix.axes
    cells: list[Mapping[str, str]] = []
    if axes or not case.matrix.include:
        first = {name: values[0] for name, values in axes.items()}
        others = ({**first, name: value} for name, values in axes.items() for value in values[1:])
        cells = [
            cell
            for cell in (first, *islice(others, MAX_SAMPLE))
            if not any(matches(cell, partial) for partial in case.matrix.exclude)
        ]
    return [*case.matrix.include, *cells][:MAX_SAMPLE]
