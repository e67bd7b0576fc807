"""The case in the text of an issue: found, validated, and identified by its hash. Pure; the text is untrusted.

An issue holds one case. Its hash is that of the block's text with LF line ends, so that GitHub's CRLF, and text around
the block, do not change it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from reprokit.case.facts import rendered
from reprokit.case.files import CaseFile
from reprokit.case.markdown import blocks
from reprokit.case.matrix import count, expand
from reprokit.case.tree import Loc
from reprokit.core.errors import CaseError, Problem
from reprokit.core.text import pluralize
from reprokit.environment.cases import load_text
from reprokit.report.markdown.text import fence

NAME = "case"
"""The path in error positions: lines count from the first line of the block."""
PREFIX = "run:"
DIGITS = 40
"""Hex digits of the hash in a label, whose name has at most 50 characters: 160 bits, enough against collisions."""
LABEL = re.compile(rf"{PREFIX}[0-9a-f]{{{DIGITS}}}")
HEADING = "### The case"
"""What the issue form writes above the case (the label of the field in bug_case.yml)."""
MAX_BODY = 262_144
"""Most characters of an issue that are read; GitHub accepts 65,536."""
MAX_TEXT = 40_000
"""Most characters of a case with its fence, so that the comment can show all that a reviewer has to read."""
MAX_BLANKS = 60
"""Most blank columns within a line: text after more of them would be outside of the box that shows it."""
MAX_CELLS = 64
"""Most cells of a case from an issue."""


@dataclass(frozen=True, kw_only=True)
class Review:
    """The result of reading an issue's text."""

    state: str  # none (there is no case, and none was intended), invalid or valid
    digest: str  # the sha256, in hex, of the case's text, or of the whole issue where there is none
    text: str = ""  # of the case
    file: CaseFile | None = None  # the case when valid
    problems: tuple[Problem, ...] = ()

    @property
    def label(self) -> str:
        """The name of the label that runs exactly this text."""
        return label_of(self.digest)


def label_of(digest: str) -> str:
    """The name of the label for the text with this digest (hex)."""
    return PREFIX + digest[:DIGITS]


def review(body: str) -> Review:
    """Find the case in an issue's body and check whether it may be offered for a run. Never raises for the text."""
    text, problems = _extract(body)
    digest = hashlib.sha256((text or plain(body)).encode("utf-8", "surrogatepass")).hexdigest()
    if problems:
        return Review(state="invalid", digest=digest, text=text, problems=tuple(problems))
    if not text:
        return Review(state="none", digest=digest)
    try:
        file = load_text(NAME, text)
    except CaseError as error:
        return Review(state="invalid", digest=digest, text=text, problems=error.problems)
    found = tuple(sorted(_more(file), key=lambda problem: (problem.line, problem.column)))
    if found:
        return Review(state="invalid", digest=digest, text=text, problems=found)
    return Review(state="valid", digest=digest, text=text, file=file)


def plain(body: str) -> str:
    """A text with LF line ends: forms send CRLF."""
    return body.replace("\r\n", "\n").replace("\r", "\n")


def digest_of(body: str) -> str:
    """The digest that :func:`review` gives, without checking the case."""
    text, _ = _extract(body)
    return hashlib.sha256((text or plain(body)).encode("utf-8", "surrogatepass")).hexdigest()


def wants_gpu(file: CaseFile) -> bool:
    """Whether any cell asks for a GPU."""
    matrix = file.case.matrix
    everywhere = expand(matrix.axes, matrix.exclude, matrix.include)
    variants = [file.case] + ([file.fixed] if file.fixed else [])
    return any(text.strip() not in ("", "0") for case in variants for text in rendered(case.resources.gpus, everywhere))


def _extract(body: str) -> tuple[str, list[Problem]]:
    """The text of the one case ('' without one), and the problems with it."""
    if len(body) > MAX_BODY:
        return "", [_problem(1, 1, f"the issue has {len(body):,} characters; at most {MAX_BODY:,} are read")]
    body = plain(body)
    found = blocks(body)
    if not found:
        if HEADING not in body.split("\n"):
            return "", []
        return "", [_problem(1, 1, "no line schema: reprokit/v1 in the case", "a case begins with that line")]
    if len(found) > 1:
        lines = ", ".join(str(block.first_line + 1) for block in found[:10])
        message = f"{len(found)} cases, from lines {lines} of the issue on; an issue holds one"
        return "", [_problem(1, 1, message, "one issue for each, or one case with a matrix")]
    text = found[0].text
    if text.startswith("```"):
        return text, [_problem(1, 1, "a fence within the fence", "leave the ``` lines out: the form adds them")]
    shown = len(fence(text, "yaml"))
    if shown > MAX_TEXT:
        message = f"the case is shown in {shown:,} characters; a comment has room for {MAX_TEXT:,}"
        return text, [_problem(1, 1, message, "put large data into a dataset")]
    return text, list(_hidden(text))


def _hidden(text: str) -> Iterator[Problem]:
    """Text that a reviewer could miss: invisible characters, changes of writing direction, text far to the right."""
    for number, line in enumerate(text.split("\n"), 1):
        for gap in re.finditer(r"\s+", line.rstrip()):
            if len(gap[0].expandtabs(8)) > MAX_BLANKS:
                message = f"text after {len(gap[0])} blanks is easily overlooked"
                yield _problem(number, gap.start() + 1, message, f"use at most {MAX_BLANKS}, or a new line")
        for column, sign in enumerate(line, 1):
            if sign > "~" and (
                unicodedata.category(sign) in ("Cf", "Cc", "Zl", "Zp", "Co", "Cs") or _BLANK.match(sign)
            ):
                message = f"the invisible character U+{ord(sign):04X} cannot be reviewed"
                escape = f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"
                yield _problem(number, column, message, f'write it as an escape in double quotes: "{escape}"')


_BLANK = re.compile("[\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0e\U000e0100-\U000e01ef]")
"""Letters and marks that are invisible (Unicode's Default_Ignorable_Code_Point, and U+2800); emoji need U+FE0F."""


def _more(file: CaseFile) -> Iterator[Problem]:
    """Problems of a valid case that comes from someone else: too many cells, sources that need the runner's rights."""
    matrix = file.case.matrix
    cells = count(matrix.axes, matrix.exclude, matrix.include)
    if cells > MAX_CELLS:
        yield file.problem(
            ("matrix",), f"{pluralize(cells, 'cell')}; at most {MAX_CELLS} are run for an issue", key=True
        )
        return
    everywhere = expand(matrix.axes, matrix.exclude, matrix.include)
    variants = [(file.case, False)] + ([(file.fixed, True)] if file.fixed else [])
    seen: set[tuple[Loc, str]] = set()
    for case, fixed in variants:
        for name, source in case.sources.items():
            loc = ("sources", name, "git")
            for url in rendered(source.git, everywhere):
                if not url.startswith("https://") and (loc, url) not in seen:
                    seen.add((loc, url))
                    message = "a case from an issue cannot use a source on the runner, or one that needs its keys"
                    yield file.problem(loc, message, "use an https:// address", fixed=fixed)


def _problem(line: int, column: int, message: str, hint: str = "") -> Problem:
    return Problem(path=NAME, line=line, column=column, message=message, hint=hint)
