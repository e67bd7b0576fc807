"""A draft of a report at the terminal: what was read, what is missing, and the draft with the answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reprokit.case import placeholders
from reprokit.case.structure import keys_at
from reprokit.case.tree import Loc
from reprokit.core.redaction import Omitted, for_shell, scrub
from reprokit.core.text import one_line
from reprokit.environment.axes import AXES
from reprokit.environment.axis import Axis
from reprokit.intake import interview, naming
from reprokit.intake.draft import Draft, literal

_LINES = re.compile(r"\blines? \d+(?: (?:to|and) \d+)?(?:, \d+)*")
_NO_COMMAND = ("The report shows no command", "The report shows several")
_NO_FAILURE = re.compile(r"The report shows (?:no failure|\d+ failures)")
_NO_ENVIRONMENT = "The report describes no environment"
"""How the sentences of a draft begin that say that a part is missing."""
_ORDER = keys_at(())
_LONGEST = 70
"""Characters of a value that is shown."""


@dataclass(frozen=True, kw_only=True)
class DraftFact:
    """One thing that a draft has from its report. ``origin``: the lines that it is from, or how it was chosen."""

    name: str
    value: str
    origin: str


def facts(made: Draft) -> Iterator[DraftFact]:
    """What was read from the report, in the order of the case."""
    for loc, value in _leaves(made.data):
        text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        shown = one_line(text, _LONGEST)
        if not (placeholders.MARK in text or loc[0] in ("id", "description")):
            yield DraftFact(name=str(loc[-1]), value=shown, origin=_origin(made.notes, loc))


def _leaves(data: Mapping[str, Any]) -> Iterator[tuple[Loc, Any]]:
    """Each value that is shown, at its place."""
    for key, value in sorted(data.items(), key=lambda item: _ORDER.index(item[0])):
        if key in ("matrix", "environment", "resources", "env"):
            yield from (((key, name), found) for name, found in value.items())
        elif key == "expect":
            yield from ((("expect", "failure", name), found) for name, found in value.get("failure", {}).items())
        elif key == "report":
            count = len(value.get("environments", ()))
            yield from [((key, "environments"), count)] if count > 1 else []
        else:
            yield (key,), list(value) if isinstance(value, Mapping) else value


def _origin(notes: Mapping[Loc, tuple[str, ...]], loc: Loc) -> str:
    """The lines of the report in the comments on a place, on what is in it, or on what it is in; else the comment."""
    inside = (text for place, texts in notes.items() if place[: len(loc)] == loc for text in texts)
    around = (text for end in range(len(loc) - 1, 0, -1) for text in notes.get(loc[:end], ()))
    texts = [*inside, *around]
    lines = [found for text in texts for found in _LINES.findall(text)]
    own = notes.get(loc, ("",))[0]
    return ", ".join(dict.fromkeys(lines[:4])) if lines and not (own and not _LINES.search(own)) else own


def known(made: Draft, axes: Sequence[Axis] = AXES) -> interview.Answers:
    """What the draft has already; None, and no axis, for what is to be asked."""
    failure = made.data.get("expect", {}).get("failure", {})
    unseen = placeholders.OUTPUT in str(failure.get("output", ""))
    matrix = made.data.get("matrix", {})
    have = {name: tuple(map(str, values)) for name, values in matrix.items() if name not in ("include", "exclude")}
    if "include" in matrix:  # the report says which combinations there are
        have |= dict.fromkeys((axis.name for axis in axes if axis.name not in have), ())
    packages = [text for one in made.data.get("environment", {}).get("pip", ()) for text in _requirements(one)]
    stated = placeholders.MARK not in str(made.data["command"])
    return interview.Answers(
        title=None if made.data["title"] == naming.UNTITLED else str(made.data["title"]),
        command=str(made.data["command"]) if stated else None,
        axes=have,
        pip=tuple(packages) if packages or matrix else None,
        failure=None if unseen else " ".join(map(str, failure.values())) or " ",
        exit_code=None if unseen else "nonzero",
    )


def draft(answers: interview.Answers, folder: Path, known_words: Mapping[str, str]) -> Draft:
    """The draft for complete answers alone. See :func:`completed`."""
    open_ = {
        "id": "reported-bug",
        "title": naming.UNTITLED,
        "command": placeholders.COMMAND,
        "expect": {"failure": {"output": placeholders.OUTPUT}},
    }
    return completed(Draft(data=open_), answers, folder, known_words)


def _requirements(one: Any) -> list[str]:
    """The requirements of an item of ``environment.pip``: one, or those of a step."""
    if isinstance(one, Mapping):
        one = one.get("requirements", ())
    return [one] if isinstance(one, str) else list(one)


def completed(made: Draft, answers: interview.Answers, folder: Path, known_words: Mapping[str, str]) -> Draft:
    """The draft with ``answers`` in the place of what :func:`known` lacks, and files in ``folder`` that they name.

    ``known_words``: private text of this host -> its replacement.
    """
    before = known(made)
    data, notes, omitted = dict(made.data), dict(made.notes), list(made.omitted)
    missing = list(made.missing)

    def scrubbed(text: str, where: str) -> str:
        found = scrub(text, known=known_words, where=where)
        omitted.extend(Omitted(kind=one.kind, where=where) for one in found.omitted)
        return found.text

    if before.title is None and answers.title:
        data["title"] = scrubbed(answers.title, "the title")
        data["id"] = naming.slug(data["title"]) or data["id"]
        notes.pop(("title",), None)
    if before.command is None and answers.command:
        data["command"] = literal(for_shell(scrubbed(answers.command, "the command")))
        notes.pop(("command",), None)
        found = interview.files_named(answers.command, folder, data.get("files", {}))
        texts = {name: literal(for_shell(scrubbed(text, name), name)) for name, text in found.texts.items()}
        if texts:
            data["files"] = {**data.get("files", {}), **texts}
        missing = [text for text in missing if not text.startswith(_NO_COMMAND)] + list(found.missing)
    if before.failure is None:
        shown = interview.failure_in(scrubbed(answers.failure or "", "the failure"))
        data["expect"] = {"failure": dict(shown.signature) if shown else {"exit_code": answers.exit_code or "nonzero"}}
        missing = [text for text in missing if not _NO_FAILURE.match(text)]
        if answers.failure and answers.failure.strip() and not shown:
            missing.append("No failure was found in the pasted output: until you write expect.failure, any one counts.")
        for key, note in (shown.notes if shown else {}).items():
            if not note.startswith("line"):  # of the pasted text, which is not kept
                notes["expect", "failure", key] = (note,)
    have = {name: values for name, values in before.axes.items() if values}
    new = {name: list(found) for name, found in answers.axes.items() if found and name not in before.axes}
    if new:
        data["matrix"] = {**data.get("matrix", {}), **new}
        missing = [text for text in missing if not text.startswith(_NO_ENVIRONMENT)]
        missing += interview.unavailable_in({**have, **new})
    if before.pip is None and answers.pip:
        data["environment"] = {**data.get("environment", {}), "pip": [literal(one) for one in answers.pip]}
    return replace(made, data=data, notes=notes, missing=tuple(missing), omitted=tuple(omitted))
