"""The verdicts of a case as a table: two axes as rows and columns, else a list; of many cells, groups. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.report.labels import short_reason
from reprokit.report.markdown.text import code, prose, table

MOST_CELLS = 40
"""Cells that are shown each; of more, groups."""
MOST_AXES = 6
"""Axes that a list has columns for."""
SHOWN = 4
"""Cells that are named of a group."""
_WORTH = (Verdict.REPRODUCED, Verdict.FLAKY, Verdict.DIFFERENT_FAILURE, Verdict.NOT_REPRODUCED)


def varying(cells: Sequence[CellRecord]) -> list[str]:
    """The axes that tell the cells apart, in the order of the case."""
    names = dict.fromkeys(name for cell in cells for name in cell.cell)
    return [name for name in names if len({cell.cell.get(name) for cell in cells}) > 1]


def tables(cells: Sequence[CellRecord], *, short: bool = False) -> str:
    """One table for the case, and one for its fix where that ran. ``short``: groups, however few cells there are."""
    titles = {"case": "", "fix": "With the fix:\n\n"}
    chosen = {variant: [cell for cell in cells if cell.variant == variant] for variant in titles}
    return "\n".join(titles[variant] + _table(some, short) for variant, some in chosen.items() if some)


def has_reasons(cells: Sequence[CellRecord]) -> bool:
    """Whether the table of the cells says why, cell by cell."""
    kinds = ([cell for cell in cells if cell.variant == variant] for variant in ("case", "fix"))
    return all(len(some) <= MOST_CELLS and not _is_matrix(some, varying(some)) for some in kinds if some)


def reasons(cells: Sequence[CellRecord], most: int = 12) -> str:
    """Why, each reason once with the cells that it is of."""
    axes = varying(cells)
    found: dict[tuple[bool, str, str], list[CellRecord]] = {}
    for cell in sorted(cells, key=_order):
        found.setdefault((cell.variant == "fix", word(cell), short_reason(cell)), []).append(cell)
    lines = [
        f"- {verdict}{' with the fix' if fixed else ''} ({_named(some, axes)}): {code(reason)}\n"
        for (fixed, verdict, reason), some in list(found.items())[:most]
        if reason
    ]
    if len(found) > most:
        lines.append(f"- and {pluralize(len(found) - most, 'other reason')}\n")
    return "".join(lines)


def word(cell: CellRecord) -> str:
    """The verdict, strong where the failure shows, with what was expected where it departs."""
    verdict = cell.verdict.value if cell.verdict else "cancelled"
    shown = f"**{verdict}**" if cell.verdict in (Verdict.REPRODUCED, Verdict.FLAKY) else verdict
    shown += " (reused)" if cell.reused_from else ""
    return f"{shown} (expected {cell.expected.value})" if cell.as_expected is False and cell.expected else shown


def row(cell: CellRecord, axes: list[str]) -> list[str]:
    """Which cell it is, its verdict and why, for a table."""
    fixed = " with the fix" if cell.variant == "fix" else ""
    return [_named([cell], axes) + fixed, word(cell), code(short_reason(cell), 140, table=True)]


def _table(cells: Sequence[CellRecord], short: bool) -> str:
    if short or len(cells) > MOST_CELLS:
        return _groups(cells)
    axes = varying(cells)
    return _matrix(cells, axes) if _is_matrix(cells, axes) else _list(cells, axes)


def _is_matrix(cells: Sequence[CellRecord], axes: list[str]) -> bool:
    return len(axes) == 2 and len({tuple(cell.cell.get(axis) for axis in axes) for cell in cells}) == len(cells)


def _matrix(cells: Sequence[CellRecord], axes: list[str]) -> str:
    values = {axis: list(dict.fromkeys(cell.cell.get(axis, "") for cell in cells)) for axis in axes}
    # The longer axis goes down: pages are higher than wide.
    across, down = sorted(axes, key=lambda axis: (len(values[axis]), -axes.index(axis)))
    found = {(cell.cell.get(down, ""), cell.cell.get(across, "")): word(cell) for cell in cells}
    head = [f"{_code(down)} ↓ {_code(across)} →", *(_code(value) for value in values[across])]
    rows = ([_code(value), *(found.get((value, other), "") for other in values[across])] for value in values[down])
    return table(head, rows)


def _list(cells: Sequence[CellRecord], axes: list[str]) -> str:
    shown = axes[:MOST_AXES]
    head = ["#", *(_code(axis) for axis in shown), *["other axes"] * (len(axes) > MOST_AXES), "verdict", "why"]

    def row(cell: CellRecord) -> list[str]:
        rest = " ".join(f"{axis}={cell.cell.get(axis, '')}" for axis in axes[MOST_AXES:])
        return [
            str(cell.number),
            *(_code(cell.cell.get(axis, "")) for axis in shown),
            *([_code(rest)] if rest else []),
            word(cell),
            code(short_reason(cell), 140, table=True),
        ]

    return table(head, map(row, cells))


def _groups(cells: Sequence[CellRecord]) -> str:
    axes = varying(cells)
    groups: dict[str, list[CellRecord]] = {}
    for cell in sorted(cells, key=_order):
        groups.setdefault(word(cell), []).append(cell)
    rows = ([verdict, str(len(some)), _in_all(some, axes), _named(some, axes)] for verdict, some in groups.items())
    return table(["verdict", "cells", "all of them have", "such as"], rows)


def _in_all(cells: Sequence[CellRecord], axes: list[str]) -> str:
    """The values that are the same in all of them, though not in all cells."""
    same = (axis for axis in axes if len({cell.cell.get(axis) for cell in cells}) == 1)
    return ", ".join(_code(f"{axis}={cells[0].cell.get(axis, '')}") for axis in list(same)[:MOST_AXES])


def _named(cells: Sequence[CellRecord], axes: list[str]) -> str:
    names = [_code(" ".join(f"{axis}={cell.cell.get(axis, '')}" for axis in axes)) for cell in cells[:SHOWN]]
    more = [f"{len(cells) - SHOWN} more"] if len(cells) > SHOWN else []
    return ", ".join([*filter(None, names), *more]) or "the only cell"


def _order(cell: CellRecord) -> tuple[int, int]:
    """What shows the failure first, what could not be judged last."""
    at = _WORTH.index(cell.verdict) if cell.verdict in _WORTH else len(_WORTH)
    return at, cell.number


def _code(text: str) -> str:
    return code(text, 60, table=True)


def fixed_axes(cells: Sequence[CellRecord]) -> Iterator[str]:
    """The axes that are the same in all cells, as words."""
    axes = varying(cells)
    yield from (f"{prose(name)} {code(value, 60)}" for name, value in cells[0].cell.items() if name not in axes)
