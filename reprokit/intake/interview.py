"""A short dialogue that drafts a case: what fails, where, and how it looks. Pure, except for the Asker."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from reprokit.case import units
from reprokit.core.text import one_line
from reprokit.environment.axes import AXES
from reprokit.environment.axis import Axis
from reprokit.environment.catalog import OURS
from reprokit.environment.existing import nonexistent
from reprokit.intake import axes as reported
from reprokit.intake import failures
from reprokit.intake.capturing import files
from reprokit.intake.capturing.interpreter import words_of
from reprokit.intake.failures import Shown
from reprokit.intake.pieces import ReportPiece

NONE = "-"
"""The answer that leaves an axis out."""
_COMMAND = re.compile(r"^\s*[$#>]\s|\b(?:run|command|python3?|pip|make|bash|docker)\b|命令|运行", re.IGNORECASE)
_FAILURE = re.compile(r"Error|Exception|Traceback|fail|crash|abort|hang|segfault|错误|失败|崩溃", re.IGNORECASE)
_PACKAGES = re.compile(r"\b(?:pip|conda|versions?|requirements?)\b|[\w-]==\d|版本", re.IGNORECASE)
_SHOWN = 9
"""Most lines of a report that are shown before a question."""
_NUMBERS = re.compile(r"(\d{1,7})(?: ?- ?(\d{1,7}))?")
"""The answer that names lines of the report: 12 or 12-30."""


class Asker(Protocol):
    """Answers questions, such as a user at a terminal. Both methods may raise to end the dialogue."""

    def line(self, question: str, default: str, check: Callable[[str], str]) -> str:
        """One line; ``check`` gives the answer's final form, or raises ValueError saying what is expected."""
        ...

    def lines(self, question: str) -> str:
        """As many lines as are given; '' for none."""
        ...

    def show(self, lines: Sequence[str]) -> None:
        """Show lines of the report before a question."""
        ...


@dataclass
class Answers:
    """What is known about a bug; None where it is not known yet.

    ``axes``: name -> values, () for an axis that is left out. ``failure``: a traceback or other output, ''
    for none. ``exit_code``: a number or ``nonzero``, asked for where there is no output.
    """

    title: str | None = None
    command: str | None = None
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pip: tuple[str, ...] | None = None
    failure: str | None = None
    exit_code: str | None = None


def ask(
    asker: Asker,
    known: Answers,
    measure: Callable[[], Mapping[str, Any]],
    axes: Sequence[Axis] = AXES,
    report: Sequence[str] = (),
) -> Answers:
    """Fill in ``known`` from the answers of ``asker``, and return it; ``measure`` gives this machine for defaults.

    Of ``axes``, only those are asked for that the command, its output and its packages may depend on. Before a question
    the lines of ``report`` that may answer it are shown.
    """
    known.title = known.title or asker.line("What goes wrong, in one line?", "", _not_blank)
    if not known.command:
        asker.show(lines_around(report, _COMMAND))
        known.command = asker.line("Which command fails?", "", _not_blank)
    if known.failure is None:
        asker.show(lines_around(report, _FAILURE))
        numbers = ", or the numbers of the report's lines (12-30)" if report else ""
        known.failure = _numbered(report, asker.lines(f"Paste the traceback or the last lines of the output{numbers}"))
    if not known.failure.strip() and known.exit_code is None:
        known.exit_code = asker.line("Which exit status does it end with?", "nonzero", check_exit)
    if known.pip is None:
        asker.show(lines_around(report, _PACKAGES))
        question = f"Python packages, as for pip install: numpy==1.26.4 ... ({NONE}: none)"
        known.pip = tuple(word for word in shlex.split(asker.line(question, NONE, _words)) if word != NONE)
    texts = "\n".join((known.command, known.failure, *known.pip))
    wanted = [axis for axis in axes if axis.name not in known.axes and axis.wording.mentioned.search(texts)]
    measured = measure() if wanted else {}
    for axis in wanted:
        asker.show(lines_around(report, axis.wording.mentioned))
        question = f"{axis.name} (separate several with commas, {NONE}: leave it out)"
        answer = asker.line(question, default(axis, measured) or NONE, partial(check_axis, axis))
        known.axes[axis.name] = values(answer)
    return known


def lines_around(report: Sequence[str], about: re.Pattern[str]) -> list[str]:
    """The first lines of a report that may be about something, with their numbers, and the line before and after."""
    found = [at for at, line in enumerate(report) if about.search(line[:500])]
    around = sorted({at + step for at in found for step in (-1, 0, 1) if 0 <= at + step < len(report)})
    return [f"{at + 1:>5}  {one_line(report[at], 100)}" for at in around if report[at].strip()][:_SHOWN]


def _numbered(report: Sequence[str], answer: str) -> str:
    """The lines of the report that an answer names by their numbers; another answer as it is."""
    found = _NUMBERS.fullmatch(answer.strip())
    return "\n".join(report[int(found[1]) - 1 : int(found[2] or found[1])]) if found and report else answer


def default(axis: Axis, measured: Mapping[str, Any]) -> str:
    """The value of an axis on this machine, in the precision of cases; '' where it has none that a case may have."""
    value = str(measured.get(axis.name) or "")
    if axis.syntax.versions:
        value = ".".join(value.split(".")[: axis.precision])
        return "" if axis.syntax.check(value) else value
    return value if value in axis.series(OURS) else ""


def check_axis(axis: Axis, text: str) -> str:
    """``text`` if it has valid values of an axis, such as ``3.10, 3.11``. Raises ValueError for an invalid one."""
    for value in values(text):
        if wrong := axis.syntax.check(value):
            words = wrong.words.removeprefix("expected ") if axis.syntax.versions else f"an {axis.title}: {wrong.words}"
            raise ValueError(f"{words} ({wrong.hint})")
        if axis in AXES and (unknown := nonexistent(axis.name, value, OURS, newer=True)):
            raise ValueError(f"another value: {unknown}")
    return text


def values(text: str) -> tuple[str, ...]:
    """The values in ``a, b``; () for ``-``."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    return () if found == (NONE,) else found


def check_exit(text: str) -> str:
    """``text`` if it is a number from 1 to 255, or ``nonzero``. Raises ValueError otherwise."""
    if text == "nonzero" or (text.isascii() and text.isdigit() and 1 <= int(text) <= 255):
        return text
    raise ValueError("a number from 1 to 255, or nonzero")


def _not_blank(text: str) -> str:
    return units.not_blank(text).strip()


def _words(text: str) -> str:
    try:
        shlex.split(text)
    except ValueError as error:
        raise ValueError(f"words with closed quotes ({error})") from None
    return text


@dataclass(frozen=True, kw_only=True)
class NamedFiles:
    """The files that a command names. ``texts``: path -> text; ``missing``: those that the case lacks, in words."""

    texts: Mapping[str, str]
    missing: tuple[str, ...]


def files_named(command: str, folder: Path, have: Container[str] = ()) -> NamedFiles:
    """The files below ``folder`` that a command names, but for those that a case has already (``have``)."""
    words = [word for word in words_of(["sh", "-c", command])[2:] if word not in have]
    gathered = files.gather(files.named(words, folder), folder)
    missing = [f"the file {text}" for text in gathered.left_out]
    missing += [
        f"the file {word}, which the command names but is not in this folder: add it to files, or its tree to sources"
        for word in words
        if files.NAMED.fullmatch(word) and not (folder / word).exists()
    ]
    return NamedFiles(texts=gathered.texts, missing=tuple(missing))


def failure_in(text: str) -> Shown | None:
    """The failure that pasted output shows, None where there is none."""
    return failures.in_piece(ReportPiece(kind="fenced", text=text, line=1)) if text.strip() else None


def unavailable_in(matrix: Mapping[str, Sequence[str]]) -> list[str]:
    """Why the first cell is not available, in words; [] where it is."""
    reason = reported.unavailable({axis: values[0] for axis, values in matrix.items()})
    return [f"an image for it: {reason}"] if reason else []
