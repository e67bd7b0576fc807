"""A short dialogue that drafts a case: what fails, where, and how it looks. Pure, except for the Asker."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from reprokit.case import units
from reprokit.core.near_match import near
from reprokit.core.redaction import Omitted, for_shell, scrub
from reprokit.environment.catalog import OURS
from reprokit.environment.measured import Measured
from reprokit.intake import axes as reported
from reprokit.intake import failure, naming
from reprokit.intake.capturing import files
from reprokit.intake.capturing.interpreter import words_of
from reprokit.intake.draft import Draft, literal
from reprokit.intake.pieces import cut

AXES = ("os", "python", "gcc", "cuda")
NONE = "-"
"""The answer that leaves an axis out."""
_VERSION = re.compile(r"none|\d+(?:\.\d+){0,3}")
_COMPILES = re.compile(r"\b(?:gcc|g\+\+|cc|c\+\+|make|cmake|ninja|nvcc|setup\.py|cpp_extension)(?![\w.])")
_CUDA = re.compile(r"\b(?:nvcc|cuda|gpus?)\b|paddlepaddle-gpu", re.IGNORECASE)


class Asker(Protocol):
    """Answers questions, such as a user at a terminal. Both methods may raise to end the dialogue."""

    def line(self, question: str, default: str, check: Callable[[str], str]) -> str:
        """One line; ``check`` gives the answer's final form, or raises ValueError saying what is expected."""
        ...

    def lines(self, question: str) -> str:
        """As many lines as are given; '' for none."""
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


def ask(asker: Asker, known: Answers, measure: Callable[[], Measured]) -> Answers:
    """Fill in ``known`` from the answers of ``asker``, and return it; ``measure`` gives this machine for defaults."""
    known.title = known.title or asker.line("What goes wrong, in one line?", "", _not_blank)
    known.command = known.command or asker.line("Which command fails?", "", _not_blank)
    if any(axis not in known.axes for axis in AXES):
        usual = defaults(measure(), known.command)
        for axis in AXES:
            if axis not in known.axes:
                question = f"{axis} (separate several with commas, {NONE}: leave it out)"
                known.axes[axis] = values(asker.line(question, usual[axis] or NONE, partial(check_axis, axis)))
    if known.pip is None:
        question = f"Python packages, as for pip install: numpy==1.26.4 ... ({NONE}: none)"
        known.pip = tuple(word for word in shlex.split(asker.line(question, NONE, _words)) if word != NONE)
    if known.failure is None:
        known.failure = asker.lines("Paste the traceback or the last lines of the output")
    if not known.failure.strip() and known.exit_code is None:
        known.exit_code = asker.line("Which exit status does it end with?", "nonzero", check_exit)
    return known


def defaults(measured: Measured, command: str) -> dict[str, str]:
    """Axis -> its value on this machine; '' where it has none, or where the command does not seem to use it."""
    system = measured.os if measured.os in OURS.known_os() else ""
    return {
        "os": system or "",
        "python": ".".join((measured.python or "").split(".")[:2]),
        "gcc": (measured.gcc or "").split(".")[0] if _COMPILES.search(command) else "",
        "cuda": ".".join((measured.cuda or "").split(".")[:2]) if _CUDA.search(command) else "",
    }


def check_axis(axis: str, text: str) -> str:
    """``text`` if it has valid values of an axis, such as ``3.10, 3.11``. Raises ValueError for an invalid one."""
    for value in values(text):
        if axis == "os" and value not in OURS.known_os():
            known = OURS.known_os()
            raise ValueError(f"one of {', '.join(known)}{near(value, known, prefix='; ')}")
        if axis != "os" and not _VERSION.fullmatch(value):
            raise ValueError(f"versions such as {'3.11' if axis == 'python' else '12'}, several with commas")
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


def draft(answers: Answers, folder: Path, known: Mapping[str, str]) -> Draft:
    """The draft for complete answers, with the files below ``folder`` that the command names.

    ``known``: private text of this host -> its replacement.
    """
    omitted: list[Omitted] = []

    def scrubbed(text: str, where: str) -> str:
        found = scrub(text, known=known, where=where)
        omitted.extend(found.omitted)
        return found.text

    title = scrubbed(answers.title or "", "the title")
    command = for_shell(scrubbed(answers.command or "", "the command"))
    shown = _shown(scrubbed(answers.failure or "", "the failure"))
    signature: dict[str, Any] = dict(shown.signature) if shown else {"exit_code": answers.exit_code or "nonzero"}
    words = words_of(["sh", "-c", answers.command or ""])[2:]
    gathered = files.gather(files.named(words, folder), folder)
    missing = [f"the file {text}" for text in gathered.left_out]
    missing += [
        f"the file {word}, which the command names but is not in this folder: add it to files, or its tree to sources"
        for word in words
        if files.NAMED.fullmatch(word) and not (folder / word).exists()
    ]
    if answers.failure and not shown:
        missing.append(
            "No failure was found in the pasted output: until you fill in expect.failure, any failure counts."
        )
    matrix = {axis: list(found) for axis in AXES if (found := answers.axes.get(axis, ()))}
    missing += _unavailable(matrix)
    notes: dict[tuple[str | int, ...], tuple[str, ...]] = {
        ("expect", "failure", key): (note,)
        for key, note in (shown.notes if shown else {}).items()
        if not note.startswith("line")  # of the pasted text, which is not kept
    }
    data = {
        "id": naming.slug(title) or "reported-bug",
        "title": title,
        **({"matrix": matrix} if matrix else {}),
        **({"environment": {"pip": [literal(one) for one in answers.pip]}} if answers.pip else {}),
        **(
            {"files": {name: literal(for_shell(scrubbed(text, name), name)) for name, text in gathered.texts.items()}}
            if gathered.texts
            else {}
        ),
        "command": literal(command),
        "expect": {"failure": signature},
    }
    return Draft(data=data, notes=notes, missing=tuple(missing), omitted=tuple(omitted))


def _shown(text: str) -> failure.Shown | None:
    return failure.find(cut(f"~~~~~~\n{text}\n~~~~~~\n").pieces) if text.strip() else None


def _unavailable(matrix: Mapping[str, Sequence[str]]) -> list[str]:
    """Why the first cell is not available, in words; [] where it is."""
    reason = reported.unavailable({axis: values[0] for axis, values in matrix.items()})
    return [f"an image for it: {reason}"] if reason else []
