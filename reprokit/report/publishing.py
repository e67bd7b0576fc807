"""What a report leaves out of every text, since pages are public: tokens, and what says who and where somebody is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from reprokit.core import redaction
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord, RunRecord

SHORT = 20_000
"""Characters up to which a text is remembered with what it became: packages, reasons and Dockerfiles repeat."""


R = TypeVar("R", CellDetails, Measured, HostRecord)
Scrub = Callable[[str], str]
"""Takes out of a text what is nobody else's business."""


class Scrubber:
    """Cleans texts, and knows the kinds of what it left out: ``github-token``, ``home``, ``host`` ..."""

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        """``runs``: the names of the hosts that made them are left out, beside what is private of this one."""
        self._known = {**redaction.hosts(name for run in runs for name in _made_on(run)), **redaction.of_this_host()}
        self._kinds: set[str] = set()
        self._short = lru_cache(maxsize=1 << 17)(self._scrub)

    def __call__(self, text: str) -> str:
        """The text without what is secret or private."""
        return self._short(text) if len(text) <= SHORT else self._scrub(text)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The kinds of what was left out so far."""
        return tuple(sorted(self._kinds))

    def _scrub(self, text: str) -> str:
        found = redaction.scrub(text, known=self._known)
        self._kinds.update(one.kind for one in found.omitted)
        return found.text


def scrubbed(run: RunRecord, scrub: Scrub) -> RunRecord:
    """A run in whose words ``scrub`` was used. Cells, ids and digests are what the case says, and stay."""

    def within(value: Any) -> Any:
        if isinstance(value, str):
            return scrub(value)
        if isinstance(value, Mapping):
            return {key: within(each) for key, each in value.items()}
        return [within(each) for each in value] if isinstance(value, (list, tuple)) else value

    def typed(record: R) -> R:
        return type(record).from_json(within(record.to_json()))

    def cell(one: CellRecord) -> CellRecord:
        return replace(
            one,
            reason=scrub(one.reason),
            details=typed(one.details),
            environment=typed(one.environment) if one.environment else None,
            trials=tuple(replace(trial, reason=scrub(trial.reason)) for trial in one.trials),
        )

    return replace(run, host=typed(run.host), cells=tuple(cell(one) for one in run.cells))


def _made_on(run: RunRecord) -> Iterator[str]:
    """The names of the hosts of a run: its own, and of one that was merged, those of its jobs."""
    yield run.owner.machine
    for job in run.request.merged or ():
        yield job.machine
