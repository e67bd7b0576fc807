"""What a command wrote in several cells: what they all wrote, and a table of what differs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reprokit.case.matrix import label
from reprokit.core.json_record import JsonDocument, JsonRecord

WIDEST = 48
"""Columns of a value; what is longer is cut."""


@dataclass(frozen=True, kw_only=True)
class Written(JsonRecord):
    """What a command wrote in a cell."""

    case: str
    cell: Mapping[str, str]
    exit_code: int | None
    """null where it never started there"""
    timed_out: bool
    output: str


@dataclass(frozen=True, kw_only=True)
class Executed(JsonDocument):
    """What `exec` ran."""

    FORMAT = "reprokit-exec/v1"

    command: tuple[str, ...]
    cells: tuple[Written, ...]


def name_of(one: Written, all_of: Sequence[Written]) -> str:
    """A cell by what tells it from the others."""
    same = set.intersection(*(set(each.cell.items()) for each in all_of)) if len(all_of) > 1 else set()
    words = [one.case] if len({each.case for each in all_of}) > 1 else []
    own = {name: value for name, value in one.cell.items() if (name, value) not in same}
    return " ".join([*words, *([label(own)] if own else [])]) or label(one.cell)


def table(written: Sequence[Written], width: int) -> str:
    """The exit status of each cell, and what differs between their outputs, in at most ``width`` columns where that
    is possible. The first word of a line is its name where no output has two lines of the same name, as in a list of
    packages; elsewhere each output is shown once, with the cells that wrote it.
    """
    ran = [one for one in written if one.exit_code is not None]
    lines = [f"{name_of(one, written)}: exit status {one.exit_code}" for one in ran]
    lines += [f"{name_of(one, written)}: did not run" for one in written if one.exit_code is None]
    named = [_named(one.output) for one in ran]
    if len({one.output for one in ran}) == 1:
        lines += ["", "All wrote the same:" if len(ran) > 1 else "Output:", ran[0].output.rstrip("\n")]
    elif ran and all(each is not None for each in named):
        lines += ["", *_differences([name_of(one, written) for one in ran], [each or {} for each in named], width)]
    else:
        for text in dict.fromkeys(one.output for one in ran):
            who = ", ".join(name_of(one, written) for one in ran if one.output == text)
            lines += ["", f"--- {who}", text.rstrip("\n")]
    return "".join(f"{line}\n" for line in lines)


def _named(text: str) -> dict[str, str] | None:
    """Lines by their first word; None where two have the same."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, rest = line.strip().partition(" ")
        if not name:
            continue
        if name in found:
            return None
        found[name] = " ".join(rest.split())
    return found


def _differences(cells: Sequence[str], named: Sequence[Mapping[str, str]], width: int) -> list[str]:
    names = sorted({name for each in named for name in each}, key=str.lower)
    differing = [name for name in names if len({each.get(name) for each in named}) > 1]
    rows = [["", *cells]] + [[name, *(_value(each.get(name)) for each in named)] for name in differing]
    same = len(names) - len(differing)
    widths = [max(len(row[at]) for row in rows) for at in range(len(cells) + 1)]
    said = [f"Lines that differ: {len(differing)}; the same in all cells: {same}."]
    if sum(widths) + 2 * len(cells) <= width:
        return [
            *said,
            *("  ".join(word.ljust(room) for word, room in zip(row, widths, strict=True)).rstrip() for row in rows),
        ]
    # Too many cells for the width: a block for each line, with the cells below one another.
    wide = max(map(len, cells))
    for name, *values in rows[1:]:
        said += [name, *(f"  {cell.ljust(wide)}  {value}" for cell, value in zip(cells, values, strict=True))]
    return said


def _value(text: str | None) -> str:
    if text is None:
        return "-"
    return (text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…") or "(there)"
