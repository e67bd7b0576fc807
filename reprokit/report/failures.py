"""The failures of a run, each once: what forty cells share is one line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.core.text import pluralize
from reprokit.evidence.details import FailureRecord
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord

MOST = 20
"""Ways of failing that a summary lists; the result file has all."""
_SIGNATURE = (Verdict.REPRODUCED, Verdict.FLAKY)


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """The cells, by number, that failed in one way. ``verdict``: ``different-failure`` or ``reproduced``."""

    verdict: Verdict
    failure: FailureRecord
    cells: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """As it stands in a result file."""
        return {"verdict": self.verdict.value, "known": None, **self.failure.to_json(), "cells": list(self.cells)}


def groups(cells: Iterable[CellRecord]) -> tuple[FailureGroup, ...]:
    """Return the ways in which cells failed: those that are not the signature's first, of each the commonest first.

    Cells without a fingerprint (recorded by a version that made none) are in no group.
    """
    found: dict[tuple[bool, str, str], list[tuple[int, FailureRecord]]] = {}
    for cell in cells:
        if failure := cell.details.failure:
            key = cell.verdict in _SIGNATURE, failure.version, failure.id
            found.setdefault(key, []).append((cell.number, failure))
    ordered = sorted(found.items(), key=lambda item: (item[0][0], -len(item[1]), item[1][0][0]))
    return tuple(
        FailureGroup(
            verdict=Verdict.REPRODUCED if by_signature else Verdict.DIFFERENT_FAILURE,
            failure=members[0][1],
            cells=tuple(number for number, _ in members),
        )
        for (by_signature, *_), members in ordered
    )


def lines(cells: Sequence[CellRecord]) -> Iterator[str]:
    """Yield what a summary says of them, for a person: nothing where each cell's own line says it already.

    The failures that are not the signature's, where several cells have one; and those that are, where the signature of
    a case fits more than one way of failing, since one of them may be another bug.
    """
    others = [group for group in groups(cells) if group.verdict is Verdict.DIFFERENT_FAILURE]
    if sum(len(group.cells) for group in others) > 1:
        yield "different failures:"
        yield from _listed(others)
    for case_id in dict.fromkeys(cell.case_id for cell in cells):
        own = groups(cell for cell in cells if cell.case_id == case_id and cell.verdict in _SIGNATURE)
        if len(own) > 1:
            yield f"{case_id}: the signature fits {len(own)} ways of failing:"
            yield from _listed(own)


def _listed(found: Sequence[FailureGroup]) -> Iterator[str]:
    for group in found[:MOST]:
        known = f"known as {group.failure.known}: " if group.failure.known else ""
        which = f"{pluralize(len(group.cells), 'cell')} ({ranges(group.cells)})"
        yield f"  {which}: {known}{group.failure.title} [{group.failure.id}]"
    if len(found) > MOST:
        yield f"  ... and {pluralize(len(found) - MOST, 'other')}; --json has them all"


def ranges(numbers: Sequence[int]) -> str:
    """``3, 4, 7-20`` for sorted numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
