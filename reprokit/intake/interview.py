"""A short dialogue that drafts a case, or completes the draft of a report: what fails, where, and how it looks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from reprokit.case import placeholders, units
from reprokit.core.redaction import Omitted, for_shell, scrub
from reprokit.core.text import one_line, whole_number
from reprokit.environment import versions
from reprokit.environment.axes import AXES
from reprokit.environment.axis import Axis
from reprokit.environment.catalog import OURS
from reprokit.environment.existing import nonexistent
from reprokit.environment.measured import Measured
from reprokit.intake import captured_files, failures
from reprokit.intake.captured_python import words_of
from reprokit.intake.draft import UNTITLED, Draft, literal, slug
from reprokit.intake.matrix import why_unavailable
from reprokit.intake.pieces import ReportPiece

NONE = "-"
"""The answer that leaves an axis out."""
_COMMAND = re.compile(r"^\s*[$#>]\s|\b(?:run|command|python3?|pip|make|bash|docker)\b|命令|运行", re.IGNORECASE)
_FAILURE = re.compile(r"Error|Exception|Traceback|fail|crash|abort|hang|segfault|错误|失败|崩溃", re.IGNORECASE)
_PACKAGES = re.compile(r"\b(?:pip|conda|versions?|requirements?)\b|[\w-]==\d|版本", re.IGNORECASE)
_SHOWN = 9
"""Most lines of a report that are shown before a question."""
_NUMBERS = re.compile("([0-9]{1,7})(?: ?- ?([0-9]{1,7}))?")
"""The answer that names lines of the report: 12 or 12-30."""
_NO_COMMAND = ("The report shows no command", "The report shows several")
_NO_FAILURE = re.compile(r"The report shows (?:no failure|\d+ failures)")
_NO_ENVIRONMENT = "The report describes no environment"
"""How the sentences of a draft begin that say that a part is missing."""


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
    """What is known about a bug; None where it is not known yet."""

    title: str | None = None
    command: str | None = None
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name -> values, () for an axis that is left out."""
    open: tuple[str, ...] = ()
    """The axes of the draft whose value is still to be written."""
    pip: tuple[str, ...] | None = None
    failure: str | None = None
    """A traceback or other output, '' for none."""
    exit_code: str | None = None
    """A number or ``nonzero``, asked for where there is no output."""


# -- asking ------------------------------------------------------------------------------------------------------------


def ask(
    asker: Asker,
    known: Answers,
    measure: Callable[[], Measured],
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
        answer = asker.lines(f"Paste the traceback or the last lines of the output{numbers}")
        named = _NUMBERS.fullmatch(answer.strip()) if report else None
        known.failure = "\n".join(report[int(named[1]) - 1 : int(named[2] or named[1])]) if named else answer
    if not known.failure.strip() and known.exit_code is None:
        known.exit_code = asker.line("Which exit status does it end with?", "nonzero", check_exit)
    if known.pip is None:
        asker.show(lines_around(report, _PACKAGES))
        question = f"Python packages, as for pip install: numpy==1.26.4 ... ({NONE}: none)"
        known.pip = tuple(word for word in shlex.split(asker.line(question, NONE, _words)) if word != NONE)
    for name in known.open:
        asker.show(lines_around(report, re.compile(re.escape(name), re.IGNORECASE)))
        known.axes[name] = values(
            asker.line(f"Which release of {name} (separate several with commas)?", "", _not_blank)
        )
    texts = "\n".join((known.command, known.failure, *known.pip))
    wanted = [axis for axis in axes if axis.name not in known.axes and axis.wording.mentioned.search(texts)]
    measured = measure().versions if wanted else {}
    for axis in wanted:
        asker.show(lines_around(report, axis.wording.mentioned))
        question = f"{axis.name} (separate several with commas, {NONE}: leave it out)"
        known.axes[axis.name] = values(asker.line(question, default(axis, measured) or NONE, partial(check_axis, axis)))
    return known


def lines_around(report: Sequence[str], about: re.Pattern[str]) -> list[str]:
    """The first lines of a report that may be about something, with their numbers, and the line before and after."""
    found = [at for at, line in enumerate(report) if about.search(line[:500])]
    around = sorted({at + step for at in found for step in (-1, 0, 1) if 0 <= at + step < len(report)})
    return [f"{at + 1:>5}  {one_line(report[at], 100)}" for at in around if report[at].strip()][:_SHOWN]


def default(axis: Axis, measured: versions.MeasuredVersions) -> str:
    """The value of an axis on this machine, in the precision of cases; '' where it has none that a case may have."""
    value = measured.get(axis.name) or ""
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
    if text == "nonzero" or 1 <= (whole_number(text) or 0) <= 255:
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


# -- the draft with the answers ----------------------------------------------------------------------------------------


def known_answers(made: Draft, axes: Sequence[Axis] = AXES) -> Answers:
    """What the draft has already; None, and no axis, for what is to be asked."""
    failure = made.data.get("expect", {}).get("failure", {})
    unseen = placeholders.OUTPUT in str(failure.get("output", ""))
    matrix = made.data.get("matrix", {})
    have = {name: tuple(map(str, found)) for name, found in matrix.items() if name not in ("include", "exclude")}
    unwritten = tuple(name for name, found in have.items() if placeholders.MARK in found)
    have = {name: found for name, found in have.items() if name not in unwritten}
    if "include" in matrix:  # the report says which combinations there are
        have |= dict.fromkeys((axis.name for axis in axes if axis.name not in have), ())
    packages = [one for one in made.data.get("environment", {}).get("pip", ()) if isinstance(one, str)]
    command = str(made.data["command"])
    return Answers(
        title=None if made.data["title"] == UNTITLED else str(made.data["title"]),
        command=None if placeholders.MARK in command else command,
        axes=have,
        open=unwritten,
        pip=tuple(packages) if packages or matrix else None,
        failure=None if unseen else " ".join(map(str, failure.values())) or " ",
        exit_code=None if unseen else "nonzero",
    )


def draft_answers(answers: Answers, folder: Path, known_words: Mapping[str, str]) -> Draft:
    """The draft for complete answers alone. See :func:`complete_draft`."""
    empty = {
        "id": "reported-bug",
        "title": UNTITLED,
        "command": placeholders.COMMAND,
        "expect": {"failure": {"output": placeholders.OUTPUT}},
    }
    return complete_draft(Draft(data=empty), answers, folder, known_words)


def complete_draft(made: Draft, answers: Answers, folder: Path, known_words: Mapping[str, str]) -> Draft:
    """The draft with ``answers`` in the place of what it lacks, and files in ``folder`` that they name.

    ``known_words``: private text of this host -> its replacement.
    """
    before = known_answers(made)
    data, notes, omitted = dict(made.data), dict(made.notes), list(made.omitted)
    missing = list(made.missing)

    def scrubbed(text: str, where: str) -> str:
        found = scrub(text, known=known_words, where=where)
        omitted.extend(Omitted(kind=one.kind, where=where) for one in found.omitted)
        return found.text

    if before.title is None and answers.title:
        data["title"] = scrubbed(answers.title, "the title")
        data["id"] = slug(data["title"]) or data["id"]
        notes.pop(("title",), None)
    if before.command is None and answers.command:
        data["command"] = literal(for_shell(scrubbed(answers.command, "the command")))
        notes.pop(("command",), None)
        files, lacking = _files_of(answers.command, folder, data.get("files", {}))
        if files:
            texts = {name: literal(for_shell(scrubbed(text, name), name)) for name, text in files.items()}
            data["files"] = {**data.get("files", {}), **texts}
        missing = [text for text in missing if not text.startswith(_NO_COMMAND)] + lacking
    if before.failure is None:
        pasted = scrubbed(answers.failure or "", "the failure")
        shown = failures.in_piece(ReportPiece(kind="fenced", text=pasted, line=1)) if pasted.strip() else None
        data["expect"] = {"failure": dict(shown.signature) if shown else {"exit_code": answers.exit_code or "nonzero"}}
        missing = [text for text in missing if not _NO_FAILURE.match(text)]
        if pasted.strip() and not shown:
            missing.append("No failure was found in the pasted output: until you write expect.failure, any one counts.")
        for key, note in (shown.notes if shown else {}).items():
            if not note.startswith("line"):  # of the pasted text, which is not kept
                notes["expect", "failure", key] = (note,)
    have = {name: found for name, found in before.axes.items() if found}
    new = {name: list(found) for name, found in answers.axes.items() if found and name not in before.axes}
    if new:
        data["matrix"] = {**data.get("matrix", {}), **new}
        missing = [text for text in missing if not text.startswith(_NO_ENVIRONMENT)]
        if reason := why_unavailable({axis: found[0] for axis, found in {**have, **new}.items()}):
            missing.append(f"an image for it: {reason}")
    if before.pip is None and answers.pip:
        data["environment"] = {**data.get("environment", {}), "pip": [literal(one) for one in answers.pip]}
    return replace(made, data=data, notes=notes, missing=tuple(missing), omitted=tuple(omitted))


def _files_of(command: str, folder: Path, have: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """(the files below ``folder`` that a command names and a case lacks, those that it cannot have, in words)."""
    words = [word for word in words_of(["sh", "-c", command])[2:] if word not in have]
    gathered = captured_files.gather(captured_files.files_named(words, folder), folder)
    absent = [word for word in words if captured_files.NAMED.fullmatch(word) and not (folder / word).exists()]
    why = "which the command names but is not in this folder: add it to files, or its tree to sources"
    return gathered.texts, [f"the file {one}" for one in (*gathered.left_out, *(f"{word}, {why}" for word in absent))]
