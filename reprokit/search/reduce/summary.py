"""The result of a reduction, in words and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reprokit.case.matrix import label
from reprokit.core.text import one_line, pluralize
from reprokit.core.version import __version__
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Verdict
from reprokit.evidence.sequential import failure_rate_bound
from reprokit.search.reduce.algorithm import KeptPart, Reduced
from reprokit.search.reduce.parts import KINDS

COUNTED = ("env", "resources", "files", "datasets", "sources", "pip", "apt", "dnf", "image", "axes")
"""Kinds whose parts have names, rather than being pieces of a text."""

_WITHOUT = {
    Verdict.BUILD_FAILED: "the image cannot be built",
    Verdict.DIFFERENT_FAILURE: "the program fails in another way",
}


def signature(given: Mapping[str, Any], strict: Mapping[str, Any]) -> str:
    """A line that says how the signature ``given`` in the case was made stricter, to ``strict``."""
    added = {key: value for key, value in strict.items() if given.get(key) != value}
    if not set(strict) - {"exit_code"}:
        return "only the exit status identifies this failure: any failure with that status counts as the same one"
    if not added:
        return "the signature is already strict: the reduced case must fail in the same way"
    keys = "; ".join(f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in added.items())
    return f"the signature was made stricter from the failure seen, so that no other failure matches: {keys}"


def versions(before: Measured | None, after: Measured | None) -> dict[str, tuple[str, str]]:
    """Python packages whose version differs between two measured environments: name -> (before, after)."""
    one, other = ((image.packages.get("pip", {}) if image else {}) for image in (before, after))
    return {name: (one[name], other[name]) for name in sorted(one) if name in other and one[name] != other[name]}


@dataclass(kw_only=True)
class ReductionText:
    """The result of a reduction with the facts to report. ``why``: (kind, name) of a part -> the record without it.

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
        details = [f"  {self._part(part, reasons=reasons)}" for part in kept if self._without(part)]
        return [line, *details] if details or gone else []

    def _part(self, part: KeptPart, *, reasons: bool) -> str:
        """A line about a kept part: that it matters, or why it was kept although that is not known."""
        if self.matters(part):
            return f"matters: {part.name}" + (f" ({self._without(part)})" if reasons else "")
        return f"kept: {part.name} ({self._without(part) if reasons else self._without(part).partition(': ')[0]})"

    def matters(self, part: KeptPart) -> bool:
        """Whether trials confirmed that the failure does not show, or not always, without the part.

        A failed build or another failure without the part says nothing about this failure. Neither do a few passing
        trials where the failure is flaky: they may have missed it.
        """
        why = self.why.get((part.kind, part.name))
        if not why or why["verdict"] == Verdict.FLAKY:
            return bool(why) and self.rate == 1
        return why["verdict"] == Verdict.NOT_REPRODUCED and failure_rate_bound(why["trials"]) <= self.rate

    def _without(self, part: KeptPart) -> str:
        why = self.why.get((part.kind, part.name))
        if why:
            verdict = _WITHOUT.get(why["verdict"], why["verdict"])
            return f"without it {verdict}: {one_line(why['reason'], 120)}"
        # There may be no valid case without it, such as an axis that a template uses.
        return "not tried any more" if self.stopped else ""

    def _notes(self) -> list[str]:
        notes = []
        if self.stopped:
            notes.append("The limit of cells or time was reached: reducing this case again may remove more.")
        if self.fix_left_out:
            notes.append("The fix was left out: it changes a part that was removed.")
        return notes

    def _moved(self) -> list[str]:
        moved = ", ".join(f"{name} {before} -> {after}" for name, (before, after) in self.versions.items())
        return [f"versions that changed, since nothing pins them any more: {moved}"] if moved else []

    def to_json(self) -> dict[str, Any]:
        """The result as JSON, for the answer of the search."""
        return {
            "cell": dict(self.cell),
            "kept": [
                {
                    "kind": part.kind,
                    "name": part.name,
                    "matters": True if self.matters(part) else None,  # None: not known
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
