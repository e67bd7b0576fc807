"""The two cells of an isolation, one that fails (bad) and one that passes (good): from options or the case. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, Partial, expand, label, matches, no_axis, parse_group
from reprokit.core.errors import UsageError
from reprokit.environment.axes import AXIS_NAMES, KNOWN
from reprokit.evidence.model import Verdict
from reprokit.run.task import expected_verdict

MANY = 300
"""Most candidates for either cell among which the closest two are chosen."""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The two cells. ``notes``: which values were chosen for the user, in words."""

    bad: Cell
    good: Cell
    notes: tuple[str, ...] = ()


def parse(option: str, text: str) -> Cell:
    """The value of ``option``, such as ``cuda=12.0,gcc=12``, as a partial cell. Raises UsageError."""
    try:
        found = parse_group(text)
    except UsageError as error:
        raise UsageError(f"{option} {text}: {error}") from error
    if twice := next((name for name, values in found.items() if len(values) > 1), ""):
        raise UsageError(f"{option} {text}: {twice} is given twice; name one cell")
    return {name: value for name, (value,) in found.items()}


def possible(file: CaseFile, cell: Partial) -> bool:
    """Whether the case allows such a cell: its ``exclude`` does not match it."""
    return not any(matches(cell, partial) for partial in file.case.matrix.exclude)


def choose(file: CaseFile, bad: Partial, good: Partial) -> Ends:
    """Complete two partial cells so that they differ in as few other axes as possible.

    Axes that are not given are taken from cells of the case, first from those with the expected verdict. Raises
    UsageError for an axis that the case does not have, where ``exclude`` leaves no such cell, and for equal cells.
    """
    if bad == good:
        raise UsageError(f"--bad and --good are the same: {label(bad)}; name what differs between them")
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
        against = promised["--bad"][expected_verdict(file, one)] + promised["--good"][expected_verdict(file, other)]
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
    """The closest two cells, one of ``bad`` and one of ``good``; None where no pair matches.

    ``partial``: what the options ``--bad`` and ``--good`` ask for, by option.
    """
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
    # Unchanged cells of the case come first.
    cells = sorted(({**cell, **partial} for cell in own), key=lambda cell: cell not in own) if partial else own
    unique = {tuple(sorted(cell.items())): cell for cell in reversed(cells)}
    return [cell for cell in reversed(unique.values()) if possible(file, cell)]


def _check(file: CaseFile, option: str, partial: Partial) -> None:
    own = (*file.case.matrix.columns(), *sorted(file.names))
    for name in partial:
        if name not in (*own, *AXIS_NAMES):
            raise UsageError(f"{option} {name}=...: {no_axis(name, own, KNOWN)}")


def _chosen(file: CaseFile, option: str, given: Partial, cell: Cell) -> list[str]:
    single = {name for name, values in file.case.matrix.columns().items() if len(values) == 1}  # there was no choice
    added = {name: value for name, value in cell.items() if name not in given and name not in single}
    return [f"{option}: other axes taken from the case: {label(added)}"] if added and given else []


def both_missing(file: CaseFile, given: Iterable[str]) -> UsageError:
    """The error where a cell is not given and neither the last run nor the case supplies it."""
    missing = " and ".join(option for option in ("--bad", "--good") if option not in given)
    environments = len(file.case.report.environments) if file.case.report else 0
    reported = "; or use --reported, since the case has the environments of its report" if environments > 1 else ""
    return UsageError(
        f"{missing}: name a cell in which the failure shows and one in which it does not, such as "
        "--bad cuda=12.0,gcc=12 --good cuda=11.8,gcc=11; or run the case first, and both are taken from its last run"
        f"{reported}"
    )
