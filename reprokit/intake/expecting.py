"""How the failure of a report looks in a case, and the axes of what it is compared with. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reprokit.case import placeholders
from reprokit.core.text import one_line, pluralize
from reprokit.evidence import frames as places
from reprokit.intake import contrasts
from reprokit.intake import failure as failures
from reprokit.intake.facts_file import ContrastFact
from reprokit.intake.pieces import ParsedReport
from reprokit.intake.shown import Shown
from reprokit.intake.signatures import identifying_frames

_CONTRASTS = 3
"""Most axes that are made of what a reader states."""
_LISTED = 20
"""Most other failures that a draft names."""


@dataclass(kw_only=True)
class Expectation:
    """``expect`` of a draft, with the axes that it needs; written into ``data``, ``notes`` and ``missing``.

    ``shown``: the failure, None for none; ``contrasts``: what a reader says is changed where it works; ``failing``: the
    index of the cell that fails; ``about``: the packages that the report is about; ``works``: what differs from the
    failing cell in one that works.
    """

    report: ParsedReport
    shown: Shown | None
    contrasts: Sequence[ContrastFact]
    failing: int
    about: Collection[str]
    data: dict[str, Any]
    notes: dict[tuple[str | int, ...], tuple[str, ...]]
    missing: list[str]
    works: dict[str, str]
    passing: list[Mapping[str, str]] = field(default_factory=list)
    """Axes that were added for what a reader states, with the value that works."""

    def write(self) -> None:
        """Write ``expect``, and the axis of the device where a reader states that it works on the CPU."""
        self._of_devices()
        shown = self.shown
        if shown is None:
            self.missing.append("The report shows no failure: write how it looks under expect.failure.")
            self.data["expect"] = {"failure": {"output": placeholders.OUTPUT}}
            return
        self.data["expect"] = {"failure": self._signature(shown)}
        if self._measured(shown, str(shown.signature.get("output"))):
            return
        if shown.missing:
            self.missing.append(f"expect.failure: {shown.missing}.")
        for key, note in shown.notes.items():
            self.notes.setdefault(("expect", "failure", key), (note,))
        if shown.others:
            self.missing.append(
                f"The report shows {pluralize(shown.others, 'other failure')}: a case is about one bug, and this draft "
                f"is about the failure in line {shown.line}; --failure N drafts another: {self._others(shown)}."
            )

    def _signature(self, shown: Shown) -> dict[str, Any]:
        """The failure as the case can show it: without frames of other libraries, or in files that it does not have."""
        found = dict(shown.signature)
        if found.pop("frames", None):
            frames, which = identifying_frames(shown.frames, self.about)
            files = {posixpath.basename(name) for name in self.data.get("files", ())}
            own = {places.name(one) for one in shown.frames if places.kind(one) == "own"} if files else set()
            if "sources" not in self.data:
                frames = [one for one in frames if one not in own or one.partition(":")[0].rpartition("/")[2] in files]
            found |= {"frames": frames} if frames else {}
            self.notes[("expect", "failure", "frames")] = (which,)
        if found.get("exit_code") == "0" and _CHECKS.search(str(self.data["command"])):
            del found["exit_code"]  # such a program ends with 1 where it has something to say
        return found

    def _measured(self, shown: Shown, told: str) -> bool:
        """Whether the failure is a measurement rather than what is printed, which is then in the draft."""
        if shown.words == "leak" and placeholders.LEAK in told:
            (note,) = shown.notes.values()
            self.data["expect"] = {"leaks": {"per_iteration": "1MiB"}}
            self.notes[("expect", "leaks")] = (f"{note}; the report names no limit: 1MiB is a guess",)
            self.missing.append(
                "expect.leaks: let the command print `reprokit: iteration N` at the end of each iteration, 20 times or "
                "more."
            )
            return True
        if shown.words == "slow" and placeholders.MARK in told and self.works:
            (note,) = shown.notes.values()
            self.data["expect"] = {"slower_than": {"ratio": f"{shown.ratio:g}", "of": self.works}}
            self.notes[("expect", "slower_than")] = (f"{note}; the ratio is a careful one: write the one that you see",)
            return True
        return False

    def _others(self, shown: Shown) -> str:
        """What else the report shows, in words and with its lines."""
        rest = [one for one in failures.every(self.report.pieces) if one.line != shown.line][:_LISTED]
        return "; ".join(f"line {one.line}: {one_line(one.title or one.words, 80)}" for one in rest)

    def _of_devices(self) -> None:
        """An axis of the device, where a reader states that it works on the CPU."""
        stated = [one for one in self.contrasts if contrasts.of_devices(one)]
        if stated and not self.works and self._axis("device", "gpu", "cpu"):
            self.works = {"device": "cpu"}
            self.notes[("matrix", "device")] = (f"line {stated[0].line}; the cell of the CPU gets no GPU",)

    def vary(self) -> None:
        """Make an axis of each thing that a reader says is changed where it works; texts are escaped already."""
        stated = [one for one in self.contrasts if not contrasts.of_devices(one)]
        for one in stated[:_CONTRASTS]:
            found = contrasts.placed(one, self.data)
            if found and self._axis(found.axis, found.fails, found.works):
                self.data |= found.data
                self.notes[("matrix", found.axis)] = (f"line {one.line}: it works with {found.works}",)
            else:
                fails, works = one_line(one.fails, 100), one_line(one.works, 100)
                changed = f"with {works} in the place of {fails}" if fails else f"with {works}"
                changed = changed if works else f"without {fails}"
                self.missing.append(f"Line {one.line}: it works {changed}: make an axis of it to have both cells.")

    def _axis(self, name: str, bad: str, good: str) -> bool:
        """Add an axis with two values to the matrix, of cells that are listed the good one to that which fails."""
        matrix = self.data.get("matrix", {})
        cells = matrix.get("include", [])
        if name in matrix or (cells and (len(matrix) > 1 or self.failing >= len(cells))):
            return False
        listed = [
            *({**cell, name: bad} for cell in cells),
            *({**cell, name: good} for cell in cells[self.failing :][:1]),
        ]
        self.passing.append({name: good})
        self.data["matrix"] = {"include": listed} if cells else {**matrix, name: [bad, good]}
        return True


_CHECKS = re.compile(r"(?m)^\s*(?:python[\d.]* -m )?(?:pytest|tox|nox|pylint|mypy|flake8|ruff|pyright|black)\b")
"""Tests and linters."""
