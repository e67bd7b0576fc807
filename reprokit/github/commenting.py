"""Answering an issue: one comment that is kept up to date, and the label that runs its case.

Races: each event has a workflow run of its own, and they may overtake each other. A reply is about one text; when the
issue holds another by now, that text's own run answers, and this reply is dropped.
"""

from __future__ import annotations

import contextlib
from typing import Any

from reprokit.core.github_api import ApiError, Repository
from reprokit.github.event import Event
from reprokit.github.issue import LABEL, Review, digest_of, label_of
from reprokit.github.reply import FINAL, MARKER, Reply

BOT = "github-actions[bot]"
"""Who comments with a workflow's own token. A marker in anybody else's comment is a forgery, and is passed by."""
MAY_RUN = frozenset({"write", "admin"})
"""Permissions of who may have a case run (GitHub counts maintain as write, triage as read)."""
COLOUR = "5319e7"


def admit(event: Event, review: Review, repository: Repository) -> str:
    """Why the label that was added runs nothing; '' when it does.

    The text is that of the event, as it was when the label was added. Who added it is asked of GitHub: a label may also
    come with the issue's form, or from a bot.
    """
    label, login = event.text("label", "name"), event.text("sender", "login")
    if event.action != "labeled" or not LABEL.fullmatch(label):
        return "no label that runs a case was added"
    if label != review.label:
        return "the label stands for another text than the issue's; a case is read again after each change"
    if event.text("sender", "type") != "User" or not login:
        return "the label was not added by a person"
    try:
        permission = repository.get("collaborators", login, "permission").get("permission")
    except ApiError as error:
        if error.status != 404:
            raise
        permission = "none"
    if permission not in MAY_RUN:
        return "only people who may write to this repository have cases run"
    return ""


def answer(repository: Repository, number: int, reply: Reply, url: str = "") -> str:
    """Post or update our comment on an issue, and see to its labels; returns what was done, in words.

    ``url``: of the workflow's run that answers.
    """
    try:
        issue = repository.get("issues", number)
    except ApiError as error:
        if error.status in (404, 410):
            return "the issue is gone"
        raise
    ours = _ours(repository, number)
    before = MARKER.match(ours["body"]) if ours else None
    if reply.state != "closed" and digest_of(issue.get("body") or "") != reply.digest:
        return "the issue's text is another by now: its own run answers"
    if ours and before and (before["state"], reply.state) == ("running", "failed") and f"]({url})" not in ours["body"]:
        return "a newer run of this text goes on"  # and has ended ours
    labels = [label["name"] for label in issue.get("labels", ()) if LABEL.fullmatch(label.get("name", ""))]
    _see_to_labels(repository, number, reply, labels, before["digest"] if before else "")
    if before and before["digest"] == reply.digest and before["state"] in FINAL and reply.state not in FINAL:
        return "what was found of this text stays"
    if reply.state == "closed" or (reply.state == "none" and not ours):
        return "nothing to say"
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


def _see_to_labels(repository: Repository, number: int, reply: Reply, labels: list[str], before: str) -> None:
    """Offer the label of the text, and take away those that stand for another, were refused, or have been followed."""
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
    """A label that is there already is what was wanted."""
    try:
        yield
    except ApiError as error:
        if error.status != 422:
            raise
