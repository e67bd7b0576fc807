"""The one comment that answers a case in an issue, in each of its states. Pure: all text of others is code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.matrix import count
from reprokit.case.review import Level, asks, some_of_each
from reprokit.core.errors import Problem
from reprokit.core.json_record import JsonRecord
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.github.issue import Review, label_of
from reprokit.report.labels import summary
from reprokit.report.markdown.tables import reasons, tables
from reprokit.report.markdown.text import code, details, fence, prose

MAX_COMMENT = 65_000
"""Most characters of a comment; GitHub refuses more than 65,536."""
SHOWN = 30
"""Most problems, or requests of a case, that are listed."""
MARKER = re.compile(r"<!-- reprokit-case state=(?P<state>[a-z]+) digest=(?P<digest>[0-9a-f]{64}) -->\n")
"""The first line of our own comment; it counts only in a comment of our own bot."""

STATES = ("none", "invalid", "valid", "refused", "running", "verdict", "failed", "closed")
FINAL = frozenset({"running", "verdict", "failed"})
"""States that another check of the same text does not replace."""


@dataclass(frozen=True, kw_only=True)
class Reply(JsonRecord):
    """An answer to an issue. ``digest``: of the text that it answers. ``markdown``: '' for no comment."""

    state: str
    digest: str
    markdown: str = ""

    @property
    def label(self) -> str:
        """The name of the label for that text."""
        return label_of(self.digest)

    @property
    def comment(self) -> str:
        """The whole comment, with the marker line that identifies it later."""
        marker = f"<!-- reprokit-case state={self.state} digest={self.digest} -->\n"
        return marker + _cut(self.markdown, MAX_COMMENT - len(marker))


def parse_reply(data: object) -> Reply:
    """A reply that another job passed on, from its JSON. Raises ValueError for anything else."""
    state, digest, markdown = (_mapping(data).get(key) for key in ("state", "digest", "markdown"))
    if state not in STATES or not isinstance(markdown, str) or not re.fullmatch("[0-9a-f]{64}", str(digest)):
        raise ValueError("not a reply")
    return Reply(state=str(state), digest=str(digest), markdown=markdown)


def of_review(review: Review) -> Reply:
    """The answer to an issue's text: no case, its errors with positions, or what running it means."""
    words = {"none": lambda: _none(), "invalid": lambda: _invalid(review), "valid": lambda: _valid(review)}
    return Reply(state=review.state, digest=review.digest, markdown=words[review.state]())


def refused(review: Review, reason: str) -> Reply:
    """The answer to a label that does not run the case, and why."""
    return Reply(state="refused", digest=review.digest, markdown=f"**Not run:** {reason}.\n\n{_valid(review)}")


def running(review: Review, by: str, url: str) -> Reply:
    """The answer while the case runs. ``by``: who added the label; ``url``: of the workflow run."""
    words = f"**Running**, with the label of {code(by)}: [the run]({url}). The verdicts will be posted here.\n\n"
    return Reply(state="running", digest=review.digest, markdown=words + _valid(review, asked=True))


def answer_run(digest: str, text: str, result: object, url: str, scrub: Callable[[str], str] = str) -> Reply:
    """The answer with the result of a run as :func:`write_verdicts` takes it, or that there is none (None).

    ``digest``, ``text``: of the case that ran; ``url``: of the workflow run; ``text`` and ``result`` are untrusted.
    ``scrub``: removes private data of the runner from reasons, which quote logs.
    """
    foot = (
        f"{details('The case', fence(text, 'yaml'))}\n"
        f"[The run]({url}) has the logs. To run it again, a maintainer adds the label `{label_of(digest)}` again."
    )
    if result is None:
        head = (
            "**The run ended without a result**: it was stopped, or the runner failed. "
            "This says nothing about the case."
        )
        return Reply(state="failed", digest=digest, markdown=f"{head}\n\n{foot}\n")
    room = MAX_COMMENT - len(foot) - 200
    return Reply(state="verdict", digest=digest, markdown=f"{_cut(write_verdicts(result, scrub), room)}\n{foot}\n")


def _none() -> str:
    return (
        "There is no case in this issue any more. A case is a fenced block with the line "
        "`schema: reprokit/v1`; this comment is updated after every edit.\n"
    )


def _invalid(review: Review) -> str:
    lines = review.text.split("\n")
    words = [
        f"**The case has {pluralize(len(review.problems), 'problem')}**; nothing is run until the case is valid.",
        "",
    ]
    words += [_problem(problem, lines) for problem in review.problems[:SHOWN]]
    if len(review.problems) > SHOWN:
        words.append(f"- ... and {len(review.problems) - SHOWN} more")
    return "\n".join([*words, "", "Edit the issue: this comment is updated after every edit.", ""])


def _problem(problem: Problem, lines: Sequence[str]) -> str:
    hint = f" ({code(problem.hint)})" if problem.hint else ""
    item = f"- line {problem.line}, column {problem.column}: {code(problem.message)}{hint}"
    line = lines[problem.line - 1].strip() if 0 < problem.line <= len(lines) else ""
    return f"{item}<br>{code(line, 120)}" if line else item


def _valid(review: Review, *, asked: bool = False) -> str:
    file = review.file
    assert file is not None
    matrix = file.case.matrix
    cells = pluralize(count(matrix.axes, matrix.exclude, matrix.include), "cell")
    words = [f"**The case {code(file.case.id)} is valid**: {cells}{', and a fix' if file.fixed else ''}.", ""]
    if not asked:
        label = f"To run it, a maintainer reads the text below and adds the label `{review.label}`."
        words += [f"{label} The label is for exactly this text: after any change, the case needs a new one.", ""]
    words += _asks(review)
    words += ["", details(f"The text that runs, sha256 {review.digest}", fence(review.text, "yaml"))]
    return "\n".join(words)


def _asks(review: Review) -> Iterator[str]:
    assert review.file is not None
    found = asks(review.file)
    look = [ask for ask in found if ask.level is Level.LOOK]
    yield "What running it means:" if not look else "What running it means; check the lines marked **look** first:"
    yield ""
    for ask in some_of_each(found, SHOWN):
        mark = "**look** " if ask.level is Level.LOOK else ""
        yield f"- {mark}line {ask.line}: {code(ask.words)}"
    if len(found) > SHOWN:
        yield f"- ... and {len(found) - SHOWN} more"
    yield "- its build runs as root in a container, with the network and the runner's settings for pip and apt"


def _cut(text: str, most: int) -> str:
    """The text, cut after a whole line to at most ``most`` characters."""
    if len(text) <= most:
        return text
    return text[: most - 60].rpartition("\n")[0] + "\n\n(cut; the artifact of the run has the full text)\n"


MOST_CELLS = 200
"""Most cells of a case that are read."""
MOST_AXES = 20
"""Most axes of a cell that are read."""


def write_verdicts(result: object, scrub: Callable[[str], str] = str) -> str:
    """The table of verdicts, and the reasons, of each case in a result file, as Markdown.

    ``result``: untrusted JSON, of any shape. ``scrub``: removes private data from texts that quote logs.
    """
    parts = []
    for case in _items(_mapping(result).get("cases")):
        cells = _cells(case, scrub)
        words = prose(summary(cells)) if cells else "no cell was run"
        table = tables(cells)
        # A table with one row per cell has the reasons already.
        why = "" if table.partition("\n")[0].endswith("| why |") else reasons(cells)
        parts.append(f"### {code(_text(case.get('id')) or '?')}: {words}\n\n{table}\n{why}")
    return "\n".join(parts) or "No case was run.\n"


def _cells(case: Mapping[str, Any], scrub: Callable[[str], str]) -> list[CellRecord]:
    return [
        CellRecord(
            number=number,
            case_id=_text(case.get("id")),
            case_path="",
            case_digest="",
            cell={str(key): str(value) for key, value in list(_mapping(cell.get("cell")).items())[:MOST_AXES]},
            variant="fix" if cell.get("variant") == "fix" else "case",
            verdict=_verdict(cell.get("verdict")) or Verdict.CANCELLED,
            expected=_verdict(cell.get("expected")),
            reason=scrub(_text(cell.get("reason"))),
        )
        for number, cell in enumerate(_items(case.get("cells"))[:MOST_CELLS], 1)
    ]


def _verdict(value: object) -> Verdict | None:
    return Verdict(value) if isinstance(value, str) and value in {verdict.value for verdict in Verdict} else None


def _items(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
