"""Who may run a case, and one comment with its labels, on a stand-in for GitHub's API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reprokit.core.github_api import ApiError, Repository
from reprokit.github.event import Event
from reprokit.github.issue import label_of, review
from reprokit.github.reply import Reply, admit, answer, answer_run, of_review, running
from tests.unit.github.server import BOT, TOKEN, Forge
from tests.unit.github.test_issue import CASE, form

REVIEW = review(form(CASE))


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge().served() as forge:
        forge.open_issue("t", form(CASE))
        yield forge


def repository(forge: Forge) -> Repository:
    return Repository(forge.name, TOKEN, url=forge.url, sleep=lambda seconds: None)


def event(forge: Forge, sender: str, label: str = REVIEW.label, action: str = "labeled") -> Event:
    return Event(name="issues", action=action, data=forge.event(1, action, sender, label))


@pytest.mark.parametrize(
    ("role", "admitted"),
    [("admin", True), ("maintain", True), ("write", True), ("triage", False), ("read", False), ("none", False)],
)
def test_only_people_with_write_access_can_run_cases(forge: Forge, role: str, admitted: bool) -> None:
    forge.permissions["someone"] = role
    reason = admit(event(forge, "someone"), REVIEW, repository(forge))
    assert (reason == "") is admitted
    assert admitted or "only people with write access" in reason


def test_labels_of_bots_of_other_texts_and_other_events_run_nothing_without_a_request(forge: Forge) -> None:
    forge.permissions |= {"robot[bot]": "admin", "boss": "admin"}
    for happened, reason in (
        (event(forge, "robot[bot]"), "not added by a person"),
        (event(forge, ""), "not added by a person"),
        (event(forge, "boss", label_of("0" * 64)), "another text"),
        (event(forge, "boss", REVIEW.label + "0"), "no label that runs"),
        (event(forge, "boss", action="unlabeled"), "no label that runs"),
        (event(forge, "boss", action="opened"), "no label that runs"),
    ):
        assert reason in admit(happened, REVIEW, repository(forge))
    assert forge.requests == []


def test_without_an_answer_of_github_nothing_is_admitted(forge: Forge) -> None:
    forge.faults = [(500, {}, None)] * 9
    with pytest.raises(ApiError):
        admit(event(forge, "boss"), REVIEW, repository(forge))


def test_one_comment_is_kept_and_only_our_own_counts(forge: Forge) -> None:
    reply = of_review(REVIEW)
    for author in ("reporter", "another[bot]", BOT):
        # A comment of another workflow of this bot that quotes ours does not begin with the marker.
        forge.comment(1, ("> " if author == BOT else "") + reply.comment, author)
    for _ in range(40):
        forge.comment(1, "noise", "someone")
    assert answer(repository(forge), 1, reply) == "commented"
    changes = len([request for request in forge.requests if not request.startswith("GET")])
    assert answer(repository(forge), 1, reply) == "the comment was updated"
    again = [request for request in forge.requests if not request.startswith("GET")][changes:]
    assert again == ["POST /repos/owner/repo/labels"]  # which exists
    assert answer(repository(forge), 1, running(REVIEW, "boss", "https://x.example")) == "the comment was updated"
    assert next(body for body in forge.bodies(1) if body.startswith("<!--")).count("**Running**") == 1
    assert len(forge.bodies(1)) == 2


def test_two_simultaneous_answers_leave_one_comment(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    from reprokit.github import reply as commenting

    found = commenting._ours
    calls: list[int] = []

    def late(repository: Repository, number: int) -> object:
        calls.append(number)
        if len(calls) > 1:
            return found(repository, number)
        forge.comment(1, of_review(REVIEW).comment + "older", BOT)  # the other run, between our look and our post
        return None

    monkeypatch.setattr(commenting, "_ours", late)
    answer(repository(forge), 1, of_review(REVIEW))
    assert forge.bodies(1) == [of_review(REVIEW).comment]


def test_the_verdict_is_kept_and_its_label_removed(forge: Forge) -> None:
    forge.label(1, REVIEW.label)
    answer(repository(forge), 1, running(REVIEW, "boss", "u"))
    assert forge.names(1) == [REVIEW.label]
    done = answer_run(REVIEW.digest, CASE, {"cases": []}, "u")
    answer(repository(forge), 1, done)
    assert (forge.bodies(1), forge.names(1)) == ([done.comment], [])
    assert answer(repository(forge), 1, of_review(REVIEW)) == "the result for this text is kept"
    assert forge.bodies(1) == [done.comment]


def test_a_run_that_a_newer_one_cancelled_does_not_comment(forge: Forge) -> None:
    """Its label was added again: the new run cancels the old one, whose last job still answers."""
    forge.label(1, REVIEW.label)
    answer(repository(forge), 1, running(REVIEW, "boss", "https://x/runs/2"), "https://x/runs/2")
    ended = {number: answer_run(REVIEW.digest, CASE, None, f"https://x/runs/{number}") for number in (1, 2)}
    assert answer(repository(forge), 1, ended[1], "https://x/runs/1") == "a newer run of this text is in progress"
    assert "**Running**" in forge.bodies(1)[0]
    assert forge.names(1) == [REVIEW.label]
    assert answer(repository(forge), 1, ended[2], "https://x/runs/2") == "the comment was updated"
    assert (forge.bodies(1), forge.names(1)) == ([ended[2].comment], [])


def test_a_label_is_removed_with_its_text_unless_another_issue_has_that_text(forge: Forge) -> None:
    answer(repository(forge), 1, of_review(REVIEW))
    other = forge.open_issue("same", form(CASE))
    forge.label(other, REVIEW.label)
    forge.label(1, "bug")
    for body in (form(CASE.replace("pasted", "pasted2")), form(CASE.replace("pasted", "pasted3"))):
        forge.issues[1]["body"] = body
        answer(repository(forge), 1, of_review(review(body)))
    assert set(forge.labels) == {"bug", REVIEW.label, review(body).label}
    assert forge.names(1) == ["bug"]
    assert forge.names(other) == [REVIEW.label]


def test_a_deleted_or_changed_issue_gets_no_answer(forge: Forge) -> None:
    assert answer(repository(forge), 99, of_review(REVIEW)) == "the issue no longer exists"
    forge.issues[1]["body"] = None
    assert "has changed since" in answer(repository(forge), 1, of_review(REVIEW))
    assert answer(repository(forge), 1, Reply(state="closed", digest=REVIEW.digest)) == "no comment is needed"
    assert (forge.bodies(1), forge.labels) == ([], {})
