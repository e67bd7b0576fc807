"""Tables that compare environments: one column or one row for each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank
from reprokit.intake.environments.pairs import KeyValue, role
from reprokit.intake.environments.reading import NOTHING, read


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every environment of every table of three columns and more in the lines; two columns are keys and values."""
    for is_table, group in groupby(lines, key=lambda line: len(line.cells) > 2 and not line.fence):
        if is_table:
            yield from _table([line for line in group if not _rule(line)])


def _rule(line: ReportLine) -> bool:
    return all(re.fullmatch(r"[:-]*", cell) for cell in line.cells)


def _table(rows: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    head, *body = rows or [ReportLine(0, "")]
    if sum(_is_known(cell) for cell in head.cells) > 1:
        environments = [
            [(key, cell, row.number) for key, cell in zip(head.cells, row.cells, strict=False)] for row in body
        ]
    elif sum(_is_known(row.cells[0]) for row in rows) > 1:
        width = max(len(row.cells) for row in rows)
        environments = [
            [(row.cells[0], row.cells[place], row.number) for row in rows if place < len(row.cells)]
            for place in range(1, min(width, 20))
        ]
    else:
        return
    for environment in environments:
        pairs = [KeyValue(key, value, role(key), number) for key, value, number in environment if key]
        into = read(pairs, Rank.STATED)
        if into.claims or into.packages:
            values = {one.key: one.value for one in pairs if one.value and not NOTHING.fullmatch(one.value)}
            yield into.found("table", rows[0].number, rows[-1].number, values)


def _is_known(cell: str) -> bool:
    return role(cell) not in ("", "known", "several")
