"""Answers an issue: one comment that is kept up to date, and the label that runs its case.

Races: each event has its own workflow run, and they may overtake each other. A reply is about one text; when the issue
has another text by then, this reply is dropped, and the run for that text answers.
"""

from __future__ import annotations

import contextlib
from typing import Any

from reprokit.core.github_api import ApiError, Repository
from reprokit.github.event import Event
from reprokit.github.issue import LABEL, Review, digest_of, label_of
from reprokit.github.reply import FINAL, MARKER, Reply

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
