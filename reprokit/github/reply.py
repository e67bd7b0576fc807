"""The one comment that answers a case in an issue, in each of its states, and the label that runs its case.

All text of others is code. Races: each event has its own workflow run, and they may overtake each other. A reply is
about one text; when the issue has another text by then, this reply is dropped, and the run for that text answers.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprokit.case.matrix import count
from reprokit.case.review import Level, asks, some_of_each
from reprokit.core import json_text
from reprokit.core.errors import Problem, UsageError
from reprokit.core.github_api import ApiError, Repository
from reprokit.core.json_record import JsonRecord
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.github.event import Event
from reprokit.github.issue import LABEL, Review, digest_of, label_of
from reprokit.report.labels import summary
from reprokit.report.markdown.sections import reasons, tables
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


def read_reply(folder: Path) -> Reply:
    """The reply in reply.json of an earlier job. Raises UsageError when there is none."""
    try:
        return parse_reply(json_text.loads((folder / "reply.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError):
        raise UsageError(f"{folder / 'reply.json'}: not a reply of `reprokit integrate github check-issue`") from None


MAX_RESULT = 32 * 1024**2
"""Largest result file that is read, in bytes."""


def read_result(folder: Path, digest: str) -> object:
    """The JSON of the runner's result.json; None where there is none for the case with this ``digest``.

    The runner ran an untrusted case, so the file is untrusted: it is parsed, and its texts are shown, nothing more.
    """
    file = folder / "result.json"
    try:
        if not file.is_file() or file.stat().st_size > MAX_RESULT:
            return None
        data = json_text.loads(file.read_bytes())
        digests = [case["digest"] for case in data["cases"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return data if digests == [f"sha256:{digest}"] else None


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


BOT = "github-actions[bot]"
"""The author of comments made with a workflow's own token. A marker in another author's comment is ignored."""
MAY_RUN = frozenset({"write", "admin"})
"""Permissions that allow running a case (GitHub counts maintain as write, triage as read)."""
COLOUR = "5319e7"


def admit(event: Event, review: Review, repository: Repository) -> str:
    """Why the label that was added does not run the case; '' when it does.

    ``review``: of the issue's text in the event, as it was when the label was added. GitHub is asked for the rights of
    the user who added it: a label may also come from the issue's form, or from a bot. Raises ApiError.
    """
    label, login = event.text("label", "name"), event.text("sender", "login")
    if event.action != "labeled" or not LABEL.fullmatch(label):
        return "no label that runs a case was added"
    if label != review.label:
        return "the label is for another text than the issue has now; review the case again after each change"
    if event.text("sender", "type") != "User" or not login:
        return "the label was not added by a person"
    try:
        permission = repository.get("collaborators", login, "permission").get("permission")
    except ApiError as error:
        if error.status != 404:
            raise
        permission = "none"
    if permission not in MAY_RUN:
        return "only people with write access to this repository can run cases"
    return ""


def answer(repository: Repository, number: int, reply: Reply, url: str = "") -> str:
    """Post or update our comment on an issue, and update its labels; returns what was done, in words.

    ``number``: the issue. ``url``: of the workflow run that answers. Raises ApiError.
    """
    try:
        issue = repository.get("issues", number)
    except ApiError as error:
        if error.status in (404, 410):
            return "the issue no longer exists"
        raise
    ours = _ours(repository, number)
    before = MARKER.match(ours["body"]) if ours else None
    if reply.state != "closed" and digest_of(issue.get("body") or "") != reply.digest:
        return "the issue's text has changed since: the run for the new text answers"
    if ours and before and (before["state"], reply.state) == ("running", "failed") and f"]({url})" not in ours["body"]:
        return "a newer run of this text is in progress"  # and has cancelled ours
    labels = [label["name"] for label in issue.get("labels", ()) if LABEL.fullmatch(label.get("name", ""))]
    _update_labels(repository, number, reply, labels, before["digest"] if before else "")
    if before and before["digest"] == reply.digest and before["state"] in FINAL and reply.state not in FINAL:
        return "the result for this text is kept"
    if reply.state == "closed" or (reply.state == "none" and not ours):
        return "no comment is needed"
    if ours is None:
        posted = repository.post("issues", number, "comments", body={"body": reply.comment})
        ours = _ours(repository, number)
        if ours is None or ours["id"] == posted["id"]:
            return "commented"
        repository.delete("issues", "comments", posted["id"])  # another run was faster
    if ours["body"] != reply.comment:
        repository.patch("issues", "comments", ours["id"], body={"body": reply.comment})
    return "the comment was updated"


def _ours(repository: Repository, number: int) -> dict[str, Any] | None:
    """The first comment of our own bot that begins with the marker."""
    for comment in repository.all("issues", number, "comments"):
        user = comment.get("user") or {}
        if user.get("login") == BOT and user.get("type") == "Bot" and MARKER.match(comment.get("body") or ""):
            return dict(comment)
    return None


def _update_labels(repository: Repository, number: int, reply: Reply, labels: list[str], before: str) -> None:
    """Create the label of the text, and remove those for other texts, those refused, and those already used."""
    wanted = reply.label if reply.state in ("valid", "refused", "running", "verdict", "failed") else ""
    on_issue = wanted if reply.state in ("valid", "running") else ""
    for label in labels:
        if label != on_issue:
            repository.delete("issues", number, "labels", label)
    if wanted:
        with _exists():
            description = "Runs a case from an issue: the maintainer who adds it has read exactly this text"
            repository.post("labels", body={"name": wanted, "color": COLOUR, "description": description})
    for label in dict.fromkeys([*labels, *([label_of(before)] if before else ())]):
        # Another issue may hold the same text.
        if label != wanted and not any(True for _ in repository.all("issues", labels=label, state="all")):
            repository.delete("labels", label)


@contextlib.contextmanager
def _exists() -> Any:
    """Ignores that a label exists already."""
    try:
        yield
    except ApiError as error:
        if error.status != 422:
            raise
