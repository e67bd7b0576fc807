"""How far the outputs of a cell are from their reference: lines for a terminal, data for a page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reprokit.core.text import one_line, pluralize
from reprokit.evidence.differences import INFINITE, NAN, ComparisonRecord, TensorDifference

BARS = 24
"""Bars of a histogram; of more decades, neighbours share one."""
WIDTH = 40
NAMED = {NAN: "NaN", INFINITE: "infinite"}


def lines(record: ComparisonRecord | None, title: str) -> Iterator[str]:
    """What each tensor is against its reference, and how many numbers are how far apart; nothing for no comparison."""
    if record is None:
        return
    yield title
    yield f"against {record.reference}" if record.reference else "this cell is the reference"
    for one in record.tensors:
        shape = f" {one.dtype} {list(one.shape)}" if one.dtype else ""
        yield f"{one_line(one.name)}{shape}: {one}"
        bars = histogram(one.decades)
        most = max((count for _, count in bars), default=0)
        for name, count in bars:
            yield f"    {name:>16} {'#' * max(1, round(WIDTH * count / most))} {count}"
    if record.of > len(record.tensors):
        yield f"... {pluralize(record.of - len(record.tensors), 'tensor')} more"


def histogram(decades: Mapping[str, int]) -> list[tuple[str, int]]:
    """How many numbers are how far apart, the least first: by decades such as ``1e-7 to 1e-6``."""
    powers = sorted(int(power) for power in decades if power not in NAMED)
    span = range(powers[0], powers[-1] + 1) if powers else range(0)
    each = -(-len(span) // BARS) or 1
    bars = []
    for low in range(span.start, span.stop, each) if span else ():
        count = sum(decades.get(str(power), 0) for power in range(low, low + each))
        bars.append((f"1e{low} to 1e{low + each}", count))
    return bars + [(words, decades[name]) for name, words in NAMED.items() if name in decades]


def to_page(record: ComparisonRecord) -> dict[str, Any]:
    """``{reference, more, tensors}``; a tensor is ``{name, words, bars}``, and a bar ``[words, count]``."""

    def shown(one: TensorDifference) -> dict[str, Any]:
        return {"name": one_line(one.name), "words": str(one), "bars": [list(bar) for bar in histogram(one.decades)]}

    return {
        "reference": record.reference,
        "more": record.of - len(record.tensors),
        "tensors": [shown(one) for one in record.tensors],
    }
