"""The cells of a result file from a machine that ran an untrusted case. Its values are only ever treated as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.report.labels import summary
from reprokit.report.markdown.text import code, prose
from reprokit.report.markdown.verdicts import reasons, tables

MOST_CELLS = 200
"""Most cells of a case that are read."""
MOST_AXES = 20
"""Most axes of a cell that are read."""


def markdown(result: Mapping[str, Any], scrub: Callable[[str], str] = str) -> str:
    """The table of verdicts, and the reasons, of each case in a result file, as Markdown.

    ``result``: untrusted JSON. ``scrub``: removes private data from texts that quote logs.
    """
    parts = []
    for case in _items(result.get("cases")):
        cells = _cells(case, scrub)
        words = prose(summary(cells)) if cells else "no cell was run"
        table = tables(cells)
        # A table with one row per cell has the reasons already.
        why = "" if table.partition("\n")[0].endswith("| why |") else reasons(cells)
        parts.append(f"### {code(_text(case.get('id')) or '?')}: {words}\n\n{table}\n{why}")
    return "\n".join(parts) or "No case was run.\n"


def _cells(case: Mapping[str, Any], scrub: Callable[[str], str]) -> list[CellRecord]:
    return [
        CellRecord(
            number=number,
            case_id=_text(case.get("id")),
            case_path="",
            case_digest="",
            cell={str(key): str(value) for key, value in list(_mapping(cell.get("cell")).items())[:MOST_AXES]},
            variant="fix" if cell.get("variant") == "fix" else "case",
            verdict=_verdict(cell.get("verdict")) or Verdict.CANCELLED,
            expected=_verdict(cell.get("expected")),
            reason=scrub(_text(cell.get("reason"))),
        )
        for number, cell in enumerate(_items(case.get("cells"))[:MOST_CELLS], 1)
    ]


def _verdict(value: object) -> Verdict | None:
    return Verdict(value) if isinstance(value, str) and value in {verdict.value for verdict in Verdict} else None


def _items(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
