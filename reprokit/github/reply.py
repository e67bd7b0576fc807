"""The one comment that answers a case in an issue: what stands in it in each state. Pure.

Every word of the case, of its logs and of people stands in a code span or a fenced block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.matrix import count
from reprokit.case.review import Level, asks
from reprokit.core.errors import Problem
from reprokit.core.text import pluralize
from reprokit.github import verdicts
from reprokit.github.issue import Review, label_of
from reprokit.report.markdown.text import code, details, fence

MAX_COMMENT = 65_000
"""Characters of a comment; GitHub refuses more than 65,536."""
SHOWN = 30
"""Problems, or things to look at, that are listed."""
MARKER = re.compile(r"<!-- reprokit-case state=(?P<state>[a-z]+) digest=(?P<digest>[0-9a-f]{64}) -->\n")
"""How our own comment begins; it counts only in a comment of our own bot."""

STATES = ("none", "invalid", "valid", "refused", "running", "verdict", "failed", "closed")
FINAL = frozenset({"running", "verdict", "failed"})
"""States that a look at the same text does not take back."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What is to be said. ``digest``: of the text that it is about. ``markdown``: '' where there is nothing to say."""

    state: str
    digest: str
    markdown: str = ""

    @property
    def label(self) -> str:
        """The label that belongs to the text."""
        return label_of(self.digest)

    @property
    def comment(self) -> str:
        """The whole comment, with the marker by which it is found again."""
        marker = f"<!-- reprokit-case state={self.state} digest={self.digest} -->\n"
        return marker + _cut(self.markdown, MAX_COMMENT - len(marker))

    def to_json(self) -> dict[str, str]:
        """As a file that goes from job to job."""
        return {"state": self.state, "digest": self.digest, "markdown": self.markdown}


def from_json(data: Mapping[str, Any]) -> Reply:
    """The reply of :meth:`Reply.to_json`. Raises ValueError for anything else."""
    state, digest, markdown = (data.get(key) for key in ("state", "digest", "markdown"))
    if state not in STATES or not isinstance(markdown, str) or not re.fullmatch("[0-9a-f]{64}", str(digest)):
        raise ValueError("no reply")
    return Reply(state=str(state), digest=str(digest), markdown=markdown)


def of_review(review: Review) -> Reply:
    """What an issue's text comes to: nothing, its errors by position, or what running it means."""
    words = {"none": lambda: _none(), "invalid": lambda: _invalid(review), "valid": lambda: _valid(review)}
    return Reply(state=review.state, digest=review.digest, markdown=words[review.state]())


def refused(review: Review, reason: str) -> Reply:
    """A label that starts nothing."""
    return Reply(state="refused", digest=review.digest, markdown=f"**Not run:** {reason}.\n\n{_valid(review)}")


def running(review: Review, by: str, url: str) -> Reply:
    """A run that begins. ``url``: of the workflow's run."""
    words = f"**Running**, with the label of {code(by)}: [the run]({url}). The verdicts will stand here.\n\n"
    return Reply(state="running", digest=review.digest, markdown=words + _valid(review, asked=True))


def verdict(
    digest: str, text: str, result: Mapping[str, Any] | None, url: str, scrub: Callable[[str], str] = str
) -> Reply:
    """What a run found; without a ``result`` it found nothing, and says so. ``result`` and ``text`` are untrusted.

    ``scrub`` takes out of reasons, which quote logs, what says who and where the runner is.
    """
    foot = (
        f"{details('The case', fence(text, 'yaml'))}\n"
        f"[The run]({url}) has the logs. To run it again, a maintainer adds the label `{label_of(digest)}` again."
    )
    if result is None:
        head = (
            "**The run ended without a result**: it was stopped, or the runner failed. That says nothing of the case."
        )
        return Reply(state="failed", digest=digest, markdown=f"{head}\n\n{foot}\n")
    room = MAX_COMMENT - len(foot) - 200
    return Reply(state="verdict", digest=digest, markdown=f"{_cut(verdicts.markdown(result, scrub), room)}\n{foot}\n")


def _none() -> str:
    return (
        "There is no case in this issue any more. A case is a fenced block that holds the line "
        "`schema: reprokit/v1`; this comment follows every edit.\n"
    )


def _invalid(review: Review) -> str:
    lines = review.text.split("\n")
    words = [
        f"**The case has {pluralize(len(review.problems), 'problem')}**; nothing is run before they are mended.",
        "",
    ]
    words += [_problem(problem, lines) for problem in review.problems[:SHOWN]]
    if len(review.problems) > SHOWN:
        words.append(f"- ... and {len(review.problems) - SHOWN} more")
    return "\n".join([*words, "", "Edit the issue: this comment follows every edit.", ""])


def _problem(problem: Problem, lines: Sequence[str]) -> str:
    hint = f" ({code(problem.hint)})" if problem.hint else ""
    told = f"- line {problem.line}, column {problem.column}: {code(problem.message)}{hint}"
    line = lines[problem.line - 1].strip() if 0 < problem.line <= len(lines) else ""
    return f"{told}<br>{code(line, 120)}" if line else told


def _valid(review: Review, *, asked: bool = False) -> str:
    file = review.file
    assert file is not None
    matrix = file.case.matrix
    cells = pluralize(count(matrix.axes, matrix.exclude, matrix.include), "cell")
    words = [f"**The case {code(file.case.id)} is valid**: {cells}{', and a fix' if file.fixed else ''}.", ""]
    if not asked:
        label = f"A maintainer who has read the text below runs it with the label `{review.label}`."
        words += [f"{label} It stands for exactly this text: after any change of the case it needs another.", ""]
    words += _asks(review)
    words += ["", details(f"The text that runs, sha256 {review.digest}", fence(review.text, "yaml"))]
    return "\n".join(words)


def _asks(review: Review) -> Iterator[str]:
    assert review.file is not None
    found = asks(review.file)
    look = [ask for ask in found if ask.level is Level.LOOK]
    yield "What running it means:" if not look else "What running it means; to be looked at first:"
    yield ""
    for ask in found[:SHOWN]:
        mark = "**look** " if ask.level is Level.LOOK else ""
        yield f"- {mark}line {ask.line}: {code(ask.words)}"
    if len(found) > SHOWN:
        yield f"- ... and {len(found) - SHOWN} more"
    yield "- its build runs as root in a container, with the network and the runner's settings for pip and apt"


def _cut(text: str, most: int) -> str:
    """A text of whole lines that fits."""
    if len(text) <= most:
        return text
    return text[: most - 60].rpartition("\n")[0] + "\n\n(cut: the artifact of the run has all)\n"
