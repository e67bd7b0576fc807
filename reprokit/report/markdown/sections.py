"""The table of verdicts and the other sections of what is said about a case in Markdown. Pure, but for logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from reprokit.core.errors import UsageError
from reprokit.core.text import pluralize
from reprokit.environment.steps import short_step
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import detail, differences, explanation
from reprokit.report.explanation import FileOf
from reprokit.report.history.changes import Texts, collect_facts
from reprokit.report.labels import cell_name, short_reason
from reprokit.report.markdown.text import block, code, prose, table
from reprokit.search.explain import Statement


def describe_run(run: RunRecord) -> str:
    """When a run was, and with what, in a sentence."""
    engine = f", {prose(run.host.engine)}" if run.host.engine else ""
    return f"Run {run.started_at[:10]} by reprokit {prose(run.version)}{engine}."


def explain_cells(cells: Sequence[CellRecord], file_of: FileOf) -> tuple[str, str]:
    """What separates the cells of one case, as a sentence, and the cells behind it; '' where nothing can be claimed."""
    if sum(cell.variant == "case" for cell in cells) < 2:
        return "", ""  # one by itself is nothing to compare
    found = replace(explanation.explain_records(cells, file_of), path="CASE")
    if found.explanation.claim is Statement.NONE and not found.difference:
        return "", ""
    statement = prose(next(iter(explanation.short(found))), 2000)
    begun = f"It {statement}" if statement.startswith("reproduces") else statement[:1].upper() + statement[1:]
    return begun, block(explanation.full(found), most=400) if found.explanation.conditions or found.difference else ""


def add_title(title: str, forms: tuple[str, ...]) -> tuple[str, ...]:
    """The forms of a section, each under a title but for the empty one."""
    return tuple(f"### {title}\n\n{form}" if form else "" for form in forms)


_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?(?:-----END [^\n]*|\Z)", re.DOTALL)
_INDEXES = re.compile(r"(Looking in (?:indexes|links):).*")
LOG_LINES = (80, 40, 16)
"""Lines of a log in its forms."""
DIFFERENCES = (60, 20)
"""Lines of differences between environments in their forms."""
_TELLING = (Verdict.REPRODUCED, Verdict.FLAKY, Verdict.DIFFERENT_FAILURE, Verdict.BUILD_FAILED)


def choose_cell(cells: Sequence[CellRecord]) -> CellRecord | None:
    """The cell whose log says most: one that reproduces, else that fails otherwise, else that cannot be built."""
    for verdict in _TELLING:
        found = [cell for cell in cells if cell.verdict is verdict]
        if found:
            return min(found, key=lambda cell: (cell.variant != "case", cell.number))
    return None


def find_nearest(bad: CellRecord, cells: Sequence[CellRecord]) -> CellRecord | None:
    """The cell without the failure that differs least from ``bad``; its own cell with the fix where no other passes."""
    good = [cell for cell in cells if cell.verdict is Verdict.NOT_REPRODUCED]
    if not good:
        return None

    def distance(cell: CellRecord) -> tuple[bool, bool, int, int]:
        apart = sum(cell.cell.get(name) != bad.cell.get(name) for name in {*cell.cell, *bad.cell})
        return cell.variant != bad.variant, cell.environment is None, apart, cell.number

    return min(good, key=distance)


def compare_cells(run: RunRecord, bad: CellRecord, good: CellRecord, texts: Texts, most: int) -> str:
    """How the environments of two cells differ; '' where they do not, as far as is known."""
    sides = [collect_facts(texts, run, cell) for cell in (good, bad)]
    found = differences.compare(*sides)
    if not found:
        return ""
    asked = "" if all(side.measured for side in sides) else ", of what was asked, since not both were measured"
    head = f"From {_named(good)} (`-`), which passes, to {_named(bad)} (`+`), which does not{asked}:\n\n"
    return head + block(_first(differences.table(found), most))


def log(cell: CellRecord, folder: Path, scrub: Callable[[str], str], lengths: Sequence[int]) -> tuple[str, ...]:
    """How a cell failed, with its log around what the judge looked at, for each number of lines in ``lengths``."""
    failure = cell.details.failure
    title = f"{code(failure.title)}\n\n" if failure else ""
    if built := cell.details.build:
        return tuple(f"{code(short_step(built.step))}\n\n{block(_public(built.tail[-most:]))}" for most in lengths)
    trial = next((one for one in cell.trials if one.outcome.value == str(cell.verdict)), None) or next(
        iter(cell.trials), None
    )
    if trial is None:
        return (title,)
    try:
        text = detail.recorded_log(trial, folder).decode("utf-8", "replace")
    except UsageError:
        return (f"{title}The log is not there any more.\n",)
    # Line by line, since what the judge looked at is known by the numbers of lines; a private key has several.
    marked = detail.mark(_KEY.sub(_blanked, text).encode(), trial, colour=False)
    return tuple(title + block(map(scrub, _public(_around(marked, most)))) for most in lengths)


def _public(lines: Iterable[str]) -> Iterator[str]:
    """Lines without the addresses of a site's own indexes, which pip prints."""
    return (_INDEXES.sub(r"\1 ...", one) for one in lines)


def _blanked(key: re.Match[str]) -> str:
    return "\n".join(["<private-key>"] * (key[0].count("\n") + 1))


def describe_environment(cell: CellRecord, run: RunRecord) -> str:
    """The environment of a cell as measured, in the words of bug reports, and what ran it."""
    lines = cell.environment.report().splitlines() if cell.environment else []
    engine, kernel = run.host.engine or "no engine", run.host.kernel or "?"
    return block([*lines, f"Engine: {engine}", f"Kernel: {kernel}"])


def _named(cell: CellRecord) -> str:
    return code(f"#{cell.number} {cell_name(cell)}")


def _first(lines: Iterable[str], most: int) -> Iterator[str]:
    shown = list(lines)
    yield from shown[:most]
    if len(shown) > most:
        yield f"... {pluralize(len(shown) - most, 'more line')}"


def _around(lines: Sequence[str], most: int) -> list[str]:
    """As many lines as may be, the marked ones among them: their beginning and their end rather than the middle."""
    if len(lines) <= most:
        return list(lines)
    marked = [at for at, text in enumerate(lines) if text.startswith(">")]
    last = marked[-1] if marked else len(lines) - 1
    end = min(len(lines), last + 1 + most // 8)
    start = max(0, end - most)
    head = marked[0] if marked and marked[0] < start else None
    above = [lines[head], f"      ... {start - head} line(s) ..."] if head is not None else []
    return [*above, *lines[start:end], *([f"      ... {len(lines) - end} line(s) ..."] if end < len(lines) else [])]


MOST_CELLS = 40
"""Cells that are shown each; of more, groups."""
MOST_AXES = 6
"""Axes that a list has columns for."""
SHOWN = 4
"""Cells that are named of a group."""
_WORTH = (Verdict.REPRODUCED, Verdict.FLAKY, Verdict.DIFFERENT_FAILURE, Verdict.NOT_REPRODUCED)


def varying(cells: Sequence[CellRecord]) -> list[str]:
    """The axes that tell the cells apart, in the order of the case."""
    names = dict.fromkeys(name for cell in cells for name in cell.cell)
    return [name for name in names if len({cell.cell.get(name) for cell in cells}) > 1]


def tables(cells: Sequence[CellRecord], *, short: bool = False) -> str:
    """One table for the case, and one for its fix where that ran. ``short``: groups, however few cells there are."""
    titles = {"case": "", "fix": "With the fix:\n\n"}
    chosen = {variant: [cell for cell in cells if cell.variant == variant] for variant in titles}
    return "\n".join(titles[variant] + _table(some, short) for variant, some in chosen.items() if some)


def has_reasons(cells: Sequence[CellRecord]) -> bool:
    """Whether the table of the cells says why, cell by cell."""
    kinds = ([cell for cell in cells if cell.variant == variant] for variant in ("case", "fix"))
    return all(len(some) <= MOST_CELLS and not _is_matrix(some, varying(some)) for some in kinds if some)


def reasons(cells: Sequence[CellRecord], most: int = 12) -> str:
    """Why, each reason once with the cells that it is of."""
    axes = varying(cells)
    found: dict[tuple[bool, str, str], list[CellRecord]] = {}
    for cell in sorted(cells, key=_order):
        found.setdefault((cell.variant == "fix", word(cell), short_reason(cell)), []).append(cell)
    lines = [
        f"- {verdict}{' with the fix' if fixed else ''} ({_name_group(some, axes)}): {code(reason)}\n"
        for (fixed, verdict, reason), some in list(found.items())[:most]
        if reason
    ]
    if len(found) > most:
        lines.append(f"- and {pluralize(len(found) - most, 'other reason')}\n")
    return "".join(lines)


def word(cell: CellRecord) -> str:
    """The verdict, strong where the failure shows, with what was expected where it departs."""
    verdict = cell.verdict.value if cell.verdict else "cancelled"
    shown = f"**{verdict}**" if cell.verdict in (Verdict.REPRODUCED, Verdict.FLAKY) else verdict
    shown += " (reused)" if cell.reused_from else ""
    return f"{shown} (expected {cell.expected.value})" if cell.as_expected is False and cell.expected else shown


def row(cell: CellRecord, axes: list[str]) -> list[str]:
    """Which cell it is, its verdict and why, for a table."""
    fixed = " with the fix" if cell.variant == "fix" else ""
    return [_name_group([cell], axes) + fixed, word(cell), code(short_reason(cell), 140, table=True)]


def _table(cells: Sequence[CellRecord], short: bool) -> str:
    if short or len(cells) > MOST_CELLS:
        return _groups(cells)
    axes = varying(cells)
    return _matrix(cells, axes) if _is_matrix(cells, axes) else _list(cells, axes)


def _is_matrix(cells: Sequence[CellRecord], axes: list[str]) -> bool:
    return len(axes) == 2 and len({tuple(cell.cell.get(axis) for axis in axes) for cell in cells}) == len(cells)


def _matrix(cells: Sequence[CellRecord], axes: list[str]) -> str:
    values = {axis: list(dict.fromkeys(cell.cell.get(axis, "") for cell in cells)) for axis in axes}
    # The longer axis goes down: pages are higher than wide.
    across, down = sorted(axes, key=lambda axis: (len(values[axis]), -axes.index(axis)))
    found = {(cell.cell.get(down, ""), cell.cell.get(across, "")): word(cell) for cell in cells}
    head = [f"{_code(down)} ↓ {_code(across)} →", *(_code(value) for value in values[across])]
    rows = ([_code(value), *(found.get((value, other), "") for other in values[across])] for value in values[down])
    return table(head, rows)


def _list(cells: Sequence[CellRecord], axes: list[str]) -> str:
    shown = axes[:MOST_AXES]
    head = ["#", *(_code(axis) for axis in shown), *["other axes"] * (len(axes) > MOST_AXES), "verdict", "why"]

    def row(cell: CellRecord) -> list[str]:
        rest = " ".join(f"{axis}={cell.cell.get(axis, '')}" for axis in axes[MOST_AXES:])
        return [
            str(cell.number),
            *(_code(cell.cell.get(axis, "")) for axis in shown),
            *([_code(rest)] if rest else []),
            word(cell),
            code(short_reason(cell), 140, table=True),
        ]

    return table(head, map(row, cells))


def _groups(cells: Sequence[CellRecord]) -> str:
    axes = varying(cells)
    groups: dict[str, list[CellRecord]] = {}
    for cell in sorted(cells, key=_order):
        groups.setdefault(word(cell), []).append(cell)
    rows = ([verdict, str(len(some)), _in_all(some, axes), _name_group(some, axes)] for verdict, some in groups.items())
    return table(["verdict", "cells", "all of them have", "such as"], rows)


def _in_all(cells: Sequence[CellRecord], axes: list[str]) -> str:
    """The values that are the same in all of them, though not in all cells."""
    same = (axis for axis in axes if len({cell.cell.get(axis) for cell in cells}) == 1)
    return ", ".join(_code(f"{axis}={cells[0].cell.get(axis, '')}") for axis in list(same)[:MOST_AXES])


def _name_group(cells: Sequence[CellRecord], axes: list[str]) -> str:
    names = [_code(" ".join(f"{axis}={cell.cell.get(axis, '')}" for axis in axes)) for cell in cells[:SHOWN]]
    more = [f"{len(cells) - SHOWN} more"] if len(cells) > SHOWN else []
    return ", ".join([*filter(None, names), *more]) or "the only cell"


def _order(cell: CellRecord) -> tuple[int, int]:
    """What shows the failure first, what could not be judged last."""
    at = _WORTH.index(cell.verdict) if cell.verdict in _WORTH else len(_WORTH)
    return at, cell.number


def _code(text: str) -> str:
    return code(text, 60, table=True)


def fixed_axes(cells: Sequence[CellRecord]) -> Iterator[str]:
    """The axes that are the same in all cells, as words."""
    axes = varying(cells)
    yield from (f"{prose(name)} {code(value, 60)}" for name, value in cells[0].cell.items() if name not in axes)
