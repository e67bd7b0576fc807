"""The two ends of an isolation: whole cells, from what the user said of them, or from what a case knows. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, Partial, expand, label, matches, parse_group
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.environment.axes import AXIS_NAMES
from reprokit.evidence.model import Verdict
from reprokit.run.plan import promised_of

MANY = 300
"""Most cells for either end among which the closest two are looked for."""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """``notes``: what was chosen for the user, in words."""

    bad: Cell
    good: Cell
    notes: tuple[str, ...] = ()


def parse(option: str, text: str) -> Cell:
    """``cuda=12.0,gcc=12`` as a partial cell. Raises UsageError."""
    try:
        found = parse_group(text)
    except UsageError as error:
        raise UsageError(f"{option} {text}: {error}") from error
    if twice := next((name for name, values in found.items() if len(values) > 1), ""):
        raise UsageError(f"{option} {text}: {twice} is given twice; an end is one cell")
    return {name: value for name, (value,) in found.items()}


def axes_of(file: CaseFile) -> dict[str, tuple[str, ...]]:
    """The axes that a case's own cells have, each with its values, in the order in which they come."""
    matrix = file.case.matrix
    found: dict[str, dict[str, None]] = {name: dict.fromkeys(values) for name, values in matrix.axes.items()}
    for cell in matrix.include:
        for name, value in cell.items():
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def possible(file: CaseFile, cell: Partial) -> bool:
    """Whether the case lets such a cell be tried: its ``exclude`` does not name it."""
    return not any(matches(cell, partial) for partial in file.case.matrix.exclude)


def choose(file: CaseFile, bad: Partial, good: Partial) -> Ends:
    """Whole cells that have what is said of them, and differ in as little else as they can.

    Axes that are left open are as in cells of the case, first those in which it expects the end's verdict. Raises
    UsageError for an axis that the case does not know, where its ``exclude`` leaves no such cell, and for equal ends.
    """
    if bad == good:
        raise UsageError(f"--bad and --good say the same: {label(bad)}; name what differs between them")
    whole = {}
    for option, partial in (("--bad", bad), ("--good", good)):
        _check(file, option, partial)
        whole[option] = _completions(file, partial)
        if not whole[option]:
            raise UsageError(f"{option} {label(partial)}: the matrix of {file.case.id} excludes every such cell")
    promised = {
        "--bad": {Verdict.REPRODUCED: 0, None: 1, Verdict.NOT_REPRODUCED: 2},
        "--good": {Verdict.NOT_REPRODUCED: 0, None: 1, Verdict.REPRODUCED: 2},
    }

    def rank(pair: tuple[tuple[int, Cell], tuple[int, Cell]]) -> tuple[int, int, int]:
        (at, one), (place, other) = pair
        against = promised["--bad"][promised_of(file, one)] + promised["--good"][promised_of(file, other)]
        return against, distance(one, other), at + place

    pairs = itertools.product(enumerate(whole["--bad"][:MANY]), enumerate(whole["--good"][:MANY]))
    apart = [pair for pair in pairs if pair[0][1] != pair[1][1]]
    if not apart:
        raise UsageError(f"--bad and --good are the same cell: {label(whole['--bad'][0])}")
    (_, one), (_, other) = min(apart, key=rank)
    return Ends(
        bad=one, good=other, notes=tuple(_chosen(file, "--bad", bad, one) + _chosen(file, "--good", good, other))
    )


def from_cells(bad: Sequence[Cell], good: Sequence[Cell], partial: Mapping[str, Partial]) -> tuple[Cell, Cell] | None:
    """The closest two of some cells, one that fails and one that does not, with what is said of them; None = none."""
    left = [cell for cell in bad if matches(cell, partial["--bad"])]
    right = [cell for cell in good if matches(cell, partial["--good"])]
    pairs = itertools.product(enumerate(left[:MANY]), enumerate(right[:MANY]))
    found = min(pairs, key=lambda pair: (distance(pair[0][1], pair[1][1]), pair[0][0] + pair[1][0]), default=None)
    return (found[0][1], found[1][1]) if found else None


def distance(one: Partial, other: Partial) -> int:
    """In how many axes two cells differ."""
    return sum(one.get(name) != other.get(name) for name in {*one, *other})


def _completions(file: CaseFile, partial: Partial) -> list[Cell]:
    matrix = file.case.matrix
    own = expand(matrix.axes, matrix.exclude, matrix.include) or [{}]
    # Those that are cells of the case as they stand come first.
    cells = sorted(({**cell, **partial} for cell in own), key=lambda cell: cell not in own) if partial else own
    unique = {tuple(sorted(cell.items())): cell for cell in reversed(cells)}
    return [cell for cell in reversed(unique.values()) if possible(file, cell)]


def _check(file: CaseFile, option: str, partial: Partial) -> None:
    known = (*axes_of(file), *AXIS_NAMES, *file.names)
    for name in partial:
        if name not in known:
            has = ", ".join(axes_of(file)) or "none"
            raise UsageError(
                f"{option} {name}=...: the case has no axis {name!r}{near(name, known, prefix='; ')}; it has: {has}"
            )


def _chosen(file: CaseFile, option: str, said: Partial, cell: Cell) -> list[str]:
    single = {name for name, values in axes_of(file).items() if len(values) == 1}  # where nothing was chosen
    added = {name: value for name, value in cell.items() if name not in said and name not in single}
    return [f"{option} leaves open, and is taken with: {label(added)}"] if added and said else []


def both_missing(file: CaseFile, given: Iterable[str]) -> UsageError:
    """What to do where an end is not said, and nothing known stands in for it."""
    missing = " and ".join(option for option in ("--bad", "--good") if option not in given)
    environments = len(file.case.report.environments) if file.case.report else 0
    reported = "; or --reported: the case has the environments of its report" if environments > 1 else ""
    return UsageError(
        f"{missing}: say in which cell the failure shows and in which it does not, such as --bad cuda=12.0,gcc=12 "
        f"--good cuda=11.8,gcc=11; or run the case first, and the ends are taken from its last run{reported}"
    )
