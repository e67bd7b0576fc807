"""The verdict table of a result file as Markdown. Pure; the file may come from a machine that ran a stranger's case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from reprokit.evidence.model import Verdict
from reprokit.github.texts import code
from reprokit.spelling import many

MOST_ROWS = 200
"""Cells that the table lists."""
VERDICTS = frozenset(verdict.value for verdict in Verdict)


def markdown(result: Mapping[str, Any], heading: str = "##") -> str:
    """A table for each case: cell, verdict, what was expected, why. Whatever the file holds, it stays text."""
    lines: list[str] = []
    for case in _items(result.get("cases")):
        cells = _items(case.get("cells"))
        lines += [f"{heading} {code(_text(case.get('id')))}: {summary(cells)}", "", *_table(cells), ""]
    return "\n".join(lines) if lines else "No case was run.\n"


def summary(cells: list[Mapping[str, Any]]) -> str:
    """``2 reproduced, 4 not-reproduced; all as expected``, of cells of a result file."""
    counts = Counter(_verdict(cell) for cell in cells)
    words = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    departures = sum(cell.get("as_expected") is False for cell in cells)
    if departures:
        return f"{words}; {departures} depart{'s' * (departures == 1)} from what the case expects"
    if any(_verdict(cell) not in _CONCLUSIVE for cell in cells):
        return f"{words}; nothing departs, something is inconclusive"
    return f"{words}; all as expected" if all(cell.get("expected") for cell in cells) else f"{words}; nothing departs"


_CONCLUSIVE = frozenset(verdict.value for verdict in Verdict if verdict.conclusive)


def _table(cells: list[Mapping[str, Any]]) -> Iterator[str]:
    yield "| # | cell | verdict | expected | why |"
    yield "|--:|---|---|---|---|"
    for number, cell in enumerate(cells[:MOST_ROWS], 1):
        fix = " [fix]" if cell.get("variant") == "fix" else ""
        values = cell.get("cell")
        name = " ".join(f"{key}={value}" for key, value in values.items()) if isinstance(values, Mapping) else ""
        verdict = _verdict(cell)
        shown = f"**{verdict}**" if cell.get("as_expected") is False else verdict
        expected = cell.get("expected")
        expected = expected if expected in VERDICTS else "–"
        yield f"| {number} | {code(name + fix)} | {shown} | {expected} | {code(_text(cell.get('reason')))} |"
    if len(cells) > MOST_ROWS:
        yield f"\n... and {many(len(cells) - MOST_ROWS, 'cell')} more, in the artifact of the run"


def _verdict(cell: Mapping[str, Any]) -> str:
    verdict = cell.get("verdict")
    return str(verdict) if verdict in VERDICTS else "unknown"


def _items(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
