"""What a reduction found, in words and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reprokit import __version__
from reprokit.case.matrix import label
from reprokit.core.text import one_line, pluralize
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Verdict
from reprokit.evidence.sequential import failure_rate_bound
from reprokit.search.reduce.algorithm import Kept, Reduced
from reprokit.search.reduce.parts import KINDS

COUNTED = ("env", "resources", "files", "datasets", "sources", "pip", "apt", "image", "axes")
"""Kinds whose parts are things with a name, rather than pieces of a text."""

_WITHOUT = {Verdict.BUILD_FAILED: "the image cannot be built", Verdict.DIFFERENT_FAILURE: "the program fails otherwise"}


def signature(given: Mapping[str, Any], strict: Mapping[str, Any]) -> str:
    """What a signature was made stricter by, in a line."""
    added = {key: value for key, value in strict.items() if given.get(key) != value}
    if not set(strict) - {"exit_code"}:
        return "only the exit status tells this failure: any other that ends so is taken for it"
    if not added:
        return "the signature is strict as it is: what is left must fail in the same way"
    told = "; ".join(f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in added.items())
    return f"the signature is held to what was seen, so that it is the same failure: {told}"


def versions(before: Measured | None, after: Measured | None) -> dict[str, tuple[str, str]]:
    """Python packages that both images hold in another version: name -> version then and now."""
    one, other = ((image.packages.get("pip", {}) if image else {}) for image in (before, after))
    return {name: (one[name], other[name]) for name in sorted(one) if name in other and one[name] != other[name]}


@dataclass(kw_only=True)
class Told:
    """The result with what people want to know of it; ``why``: the record that decided, by kind and name of a part.

    ``rate``: the share of the first cell's trials that showed the failure.
    """

    case_id: str
    digest: str
    cell: Mapping[str, str]
    result: Reduced
    why: Mapping[tuple[str, str], Mapping[str, Any]]
    rate: float = 1.0
    fix_left_out: bool = False
    stopped: bool = False
    cells: int = 0
    seconds: float = 0.0
    versions: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def comment(self) -> list[str]:
        """Lines for the top of the written case."""
        return [
            f"Reduced from {self.case_id} ({self.digest[:19]}) by reprokit {__version__}, in the cell",
            f"{label(self.cell)}.",
            *(line for kind in KINDS for line in self._kind(kind, reasons=False)),
            *self._moved(),
            *self._notes(),
        ]

    def lines(self) -> list[str]:
        """Lines for the terminal."""
        return [
            f"reduced in {pluralize(self.cells, 'cell')}, {self.seconds / 60:.1f} minutes",
            *(line for kind in KINDS for line in self._kind(kind, reasons=True)),
            *self._moved(),
            *self._notes(),
        ]

    def _kind(self, kind: str, *, reasons: bool) -> list[str]:
        gone = self.result.gone.get(kind, [])
        if kind not in COUNTED:
            words = "" if kind == "contents" else "did not matter: "
            return [f"{KINDS[kind]}: {words}{'; '.join(gone)}"] if gone else []
        kept = [part for part in self.result.kept if part.kind == kind]
        line = f"{KINDS[kind]}: {len(kept)} of {len(kept) + len(gone)} kept"
        line += f"; did not matter: {', '.join(gone)}" if gone else ""
        told = [f"  {self._part(part, reasons=reasons)}" for part in kept if self._without(part)]
        return [line, *told] if told or gone else []

    def _part(self, part: Kept, *, reasons: bool) -> str:
        """Whether a part matters, or why it is still there though nobody knows."""
        if self.matters(part):
            return f"matters: {part.name}" + (f" ({self._without(part)})" if reasons else "")
        return f"kept: {part.name} ({self._without(part) if reasons else self._without(part).partition(': ')[0]})"

    def matters(self, part: Kept) -> bool:
        """Whether it was seen that the failure does not show, or not always, without the part.

        What cannot be built or fails otherwise without it says nothing about the failure; nor do so few clean trials
        that a failure which did not always show may have been missed in them.
        """
        why = self.why.get((part.kind, part.name))
        if not why or why["verdict"] == Verdict.FLAKY:
            return bool(why) and self.rate == 1
        return why["verdict"] == Verdict.NOT_REPRODUCED and failure_rate_bound(why["trials"]) <= self.rate

    def _without(self, part: Kept) -> str:
        why = self.why.get((part.kind, part.name))
        if why:
            verdict = _WITHOUT.get(why["verdict"], why["verdict"])
            return f"without it {verdict}: {one_line(why['reason'], 120)}"
        # Such as an axis that what is left names: there is no case without it.
        return "not tried any more" if self.stopped else ""

    def _notes(self) -> list[str]:
        notes = []
        if self.stopped:
            notes.append("The limit of cells or time was reached: more may be left out, by reducing this case again.")
        if self.fix_left_out:
            notes.append("The fix was left out: it changes what is no longer there.")
        return notes

    def _moved(self) -> list[str]:
        moved = ", ".join(f"{name} {before} -> {after}" for name, (before, after) in self.versions.items())
        return [f"in other versions, now that nothing asks for one: {moved}"] if moved else []

    def to_json(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "cell": dict(self.cell),
            "kept": [
                {
                    "kind": part.kind,
                    "name": part.name,
                    "matters": True if self.matters(part) else None,  # None: nobody knows
                    "without": dict(self.why.get((part.kind, part.name), {})),
                }
                for part in self.result.kept
            ],
            "did_not_matter": self.result.gone,
            "stopped": self.stopped,
            "cells_run": self.cells,
            "seconds": round(self.seconds, 1),
            "versions": {name: list(pair) for name, pair in self.versions.items()},
        }
