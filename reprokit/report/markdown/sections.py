"""The sections of what is said about a case in Markdown. Pure, but for logs that are read from the store."""

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
from reprokit.report.labels import cell_name
from reprokit.report.markdown.text import block, code, prose
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
