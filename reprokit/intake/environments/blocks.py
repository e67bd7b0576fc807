"""Blocks of ``key: value`` lines: what the programs of frameworks print, and what people type. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reprokit.intake.environments.lines import Line
from reprokit.intake.environments.model import Found, Rank
from reprokit.intake.environments.pairs import Pair, covered, items, pair
from reprokit.intake.environments.reading import NOTHING, read

_KINDS: Sequence[tuple[str, frozenset[str]]] = (
    ("openmmlab", frozenset({"sys.platform", "python", "pytorch"})),
    ("collect_env", frozenset({"pytorch version", "is debug build"})),
    ("collect_env", frozenset({"pytorch version", "cuda used to build pytorch"})),
    ("paddle", frozenset({"platform", "python", "paddle compiled with cuda"})),
    ("paddle", frozenset({"platform", "python", "paddlepaddle"})),
    ("transformers", frozenset({"transformers version", "platform", "python version"})),
    ("pandas", frozenset({"commit", "python", "python-bits"})),
    ("sklearn", frozenset({"python", "executable", "machine"})),
    ("jax", frozenset({"jax", "jaxlib", "numpy", "python"})),
)
"""Kind -> keys, in small letters, that only that program prints together."""

_LISTED = re.compile(r"\[(?:pip3?|conda)\]\s+(\S+?)(?:==|\s+)(\S+)")
_STOP = re.compile(r"Traceback \(most recent|\$ |>>> ")
BLANKS = 2
UNKNOWN = 3
"""Lines in a row that may be blank, or say nothing of an environment, within a block."""


@dataclass
class _Run:
    """Lines that are read as one block, as they come."""

    start: Line
    pairs: list[Pair] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    last: int = 0
    blanks: int = 0
    unknown: int = 0

    def add(self, line: Line, pairs: Sequence[Pair]) -> None:
        self.lines.append(line)
        self.pairs += pairs
        self.blanks = 0
        if any(one.role for one in pairs):
            self.last, self.unknown = line.number, 0
        else:
            self.unknown += 1


def find(lines: Sequence[Line]) -> Iterator[Found]:
    """Every block of pairs in the lines, in order."""
    run: _Run | None = None
    heading: Line | None = None
    for line in [*lines, Line(-1, "", edge=True)]:
        if line.blank or line.edge:
            if run and (line.edge or run.blanks >= BLANKS):
                yield from _block(run)
                run = None
            elif run:
                run.blanks += 1
            continue
        pairs = _pairs(line, heading)
        heading = line if line.heading and not any(one.value for one in pairs) else None
        if run and _ends(run, line, pairs):
            yield from _block(run)
            run = None
        if run is None and any(one.role for one in pairs):
            run = _Run(line)
        if run:
            run.add(line, pairs)


def _pairs(line: Line, heading: Line | None) -> list[Pair]:
    """What a line says; under a heading that is a key (GitHub's issue forms) it is that key's value."""
    if heading and not line.heading and (key := pair(Line(heading.number, "", text=f"{heading.text}:"))) and key.role:
        return [Pair(heading.text, line.text, key.role, line.number)]
    if line.heading:
        return [one for one in [pair(line)] if one and one.role]
    one = pair(line)
    if one and one.role and (one.value or not one.role.startswith("package")):
        return [one]
    if covered(line.text) >= 0.5 and (found := list(items(line.text, line.number))):
        return found
    return [one] if one else []


def _ends(run: _Run, line: Line, pairs: Sequence[Pair]) -> bool:
    """Whether a line is no longer of the run: another fence, prose, or the same key once more."""
    if line.fence != run.start.fence or _STOP.match(line.text) or run.unknown >= UNKNOWN + 20 * bool(line.fence):
        return True
    seen = {one.key.lower() for one in run.pairs if one.role and one.role not in ("known", "gpu")}
    return any(one.key.lower() in seen for one in pairs if one.role not in ("", "known", "gpu") and one.value)


def _block(run: _Run) -> Iterator[Found]:
    lines = [line for line in run.lines if line.number <= run.last]
    pairs = _continued(lines, [one for one in run.pairs if one.line <= run.last])
    keys = {re.sub(r"\s+", " ", one.key.lower()) for one in pairs}
    kind = next((name for name, needed in _KINDS if needed <= keys), "")
    reading = read(pairs, Rank.MEASURED if kind else Rank.STATED)
    for line in lines:
        if listed := _LISTED.match(line.text):
            reading.package(listed[1], listed[2], line.text)
    told = len({one.axis for one in reading.claims}) + len(reading.packages) + len(reading.texts) + len(reading.gpus)
    if kind or told > 1:
        told_of = [one for one in pairs if one.role or (one.key and not NOTHING.fullmatch(one.value))]
        values: dict[str, str] = {}
        for one in told_of:
            values.setdefault(one.key, one.value)
        yield reading.found(kind or "typed", run.start.number, run.last, values)


def _continued(lines: Sequence[Line], pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs; the lines that stand indented or bare below a key with no value, or a list, belong to its value."""
    return list(pairs)
