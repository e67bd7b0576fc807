"""case-from-issue.yml, replayed from the paste to the comment: each run step in a real bash, on a real HTTP server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from reprokit.github.issue import label_of, review
from tests.unit.github.server import BOT, TOKEN, Forge
from tests.unit.github.steps import REPOSITORY, Replay
from tests.unit.github.test_issue import CASE, HOSTILE, form
from tests.unit.github.test_workflows import steps_of

# Tests that replay several events take seconds each, and so are integration tests.
WORKFLOW = REPOSITORY / ".github" / "workflows" / "case-from-issue.yml"
HOSTILE_CASE = (
    CASE.replace("title: Pasted into an issue", f"title: {json.dumps(' '.join(HOSTILE))}")
    + "env:\n"
    + "".join(f"  V{number}: {json.dumps(text)}\n" for number, text in enumerate(HOSTILE))
    .replace("${{", "{% raw %}${{")
    .replace("}}", "}}{% endraw %}")
)
"""A valid case with hostile text in its title and variables."""


class Site:
    """A repository on the test server, and the workflow runs that its events start."""

    def __init__(self, folder: Path, forge: Forge) -> None:
        self.folder, self.forge = folder, forge
        self.runs: list[Replay] = []
        self.variables: dict[str, str] = {}
        forge.permissions["maintainer"] = "maintain"

    def happens(self, number: int, action: str, sender: str = "reporter", label: str = "") -> Replay:
        """One event, and the workflow run for it, in which no secret may have leaked."""
        replay = Replay(
            WORKFLOW,
            self.folder / f"run-{len(self.runs)}",
            event="issues",
            payload=self.forge.event(number, action, sender, label),
            environment={"GITHUB_API_URL": self.forge.url},
            token=TOKEN,
            variables=self.variables,
            secrets={"X": "the-secret-of-the-repository"},
            installed=["reprokit"],
        )
        self.runs.append(replay)
        replay.run()
        self.contained(replay)
        return replay

    def labels(self, number: int, label: str, sender: str) -> Replay:
        """A user adds a label."""
        self.forge.label(number, label)
        return self.happens(number, "labeled", sender, label)

    def edits(self, number: int, body: str, sender: str = "reporter") -> Replay:
        """A user edits the issue."""
        self.forge.issues[number]["body"] = body
        return self.happens(number, "edited", sender)

    def contained(self, replay: Replay) -> None:
        jobs = [job for runs in replay.jobs.values() for job in runs]
        for job in jobs:
            assert job.commands == [], "a text became a workflow command"
            assert set(job.outputs) <= {"state", "answer", "digest", "runner", "admitted"}
            assert TOKEN not in job.log
            for step in job.steps:
                speaks = job.name in ("comment", "verdict") and "GITHUB_TOKEN" in step.environment
                assert TOKEN not in step.environment.values() or speaks or step.name == "admit"
                assert "the-secret" not in json.dumps(step.environment)
        assert not list(replay.folder.rglob("*pwned*")), "a text was run by a shell"
        for file in replay.artifacts.rglob("*"):
            assert not file.is_file() or TOKEN.encode() not in file.read_bytes()

    def comment(self, number: int) -> str:
        """Our one comment."""
        (body,) = self.forge.bodies(number)
        return body


def results(replay: Replay) -> dict[str, str]:
    return {name: jobs[0].result for name, jobs in replay.jobs.items()}


def state_of(comment: str) -> str:
    return comment.split("state=")[1].split(" ")[0]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Forge().served() as forge:
        yield Site(tmp_path, forge)


@pytest.mark.system
def test_a_hostile_text_is_answered_and_has_no_effect(site: Site) -> None:
    seen = "\n".join(HOSTILE)
    number = site.forge.open_issue("$(touch pwned) ${{ secrets.X }}\n::error::t", form(HOSTILE_CASE, seen))
    replay = site.happens(number, "opened")
    assert results(replay) == {"check": "success", "comment": "success", "run": "skipped", "verdict": "skipped"}
    comment = site.comment(number)
    assert state_of(comment) == "valid"
    assert f"`{label_of(review(form(HOSTILE_CASE)).digest)}`" in comment
    assert "the-secret" not in comment
    assert [label for label in site.forge.labels if label.startswith("run:")] == [
        label_of(review(form(HOSTILE_CASE)).digest)
    ]
    assert site.forge.names(number) == []  # the label exists but was not added


@pytest.mark.nightly
@pytest.mark.integration
def test_errors_are_reported_by_position_and_the_comment_follows_the_edits(site: Site) -> None:
    bad = CASE + "resources: {privileged: true}\nvolumes: ['/var/run/docker.sock:/var/run/docker.sock']\n"
    number = site.forge.open_issue("t", form(bad).replace("\n", "\r\n"))
    site.happens(number, "opened")
    first = site.comment(number)
    assert "line 7, column 13: `unknown key 'privileged'" in first
    assert "line 8, column 1: `unknown key 'volumes'" in first
    assert not site.forge.labels
    # Another user forges our marker, and a person edits our comment: the first is ignored, the second is overwritten.
    forged = site.forge.comment(number, first.replace("invalid", "verdict"), "reporter")
    site.forge.issues[number]["comments"].reverse()
    ours = next(item for item in site.forge.issues[number]["comments"] if item["user"]["login"] == BOT)
    ours["body"] = ours["body"].split("\n")[0] + "\nLooks good to me!"
    site.edits(number, form(CASE))
    assert state_of(site.comment(number)) == "valid"
    assert "Looks good" not in site.comment(number)
    assert forged["body"] == first.replace("invalid", "verdict")
    site.edits(number, "Never mind.")
    assert state_of(site.comment(number)) == "none"
    assert not site.forge.labels


@pytest.mark.nightly
@pytest.mark.integration
def test_labels_that_run_nothing(site: Site) -> None:
    number = site.forge.open_issue("t", form(CASE))
    label = review(form(CASE)).label
    site.happens(number, "opened")
    # The author, who may not write; a label of another text.
    for sender, what in (
        ("reporter", label),
        ("helper[bot]", label),
        ("maintainer", label_of("0" * 64)),
    ):
        replay = site.labels(number, what, sender)
        assert results(replay)["run"] == "skipped"
        assert replay.job("check").outputs["admitted"] == "false"
        assert state_of(site.comment(number)) == "refused"
        assert site.forge.names(number) == [], "a label that was refused does not stay"
    assert "another text" in site.comment(number)
    # An edit between reading and labelling: the label is of what was read.
    site.forge.issues[number]["body"] = form(CASE.replace("pasted", "pasted2"))
    replay = site.labels(number, label, "maintainer")
    assert replay.job("check").outputs["admitted"] == "false"
    # Other labels are ignored, and so are those that only look like ours.
    assert results(site.labels(number, "bug", "maintainer"))["check"] == "skipped"
    assert results(site.labels(number, "run:tests", "maintainer"))["run"] == "skipped"
    assert site.forge.names(number) == ["bug", "run:tests"]


@pytest.mark.nightly
@pytest.mark.integration
def test_issues_without_a_case_are_left_alone(site: Site) -> None:
    number = site.forge.open_issue("A question", "How do I install this?")
    assert results(site.happens(number, "opened"))["comment"] == "skipped"
    site.edits(number, "How do I install this, please?")
    assert site.forge.bodies(number) == []
    large = site.forge.open_issue("Large", form(CASE) + "x" * 1_000_000)
    site.happens(large, "opened")
    assert "at most 262,144 are read" in site.comment(large)


@pytest.mark.system
@pytest.mark.parametrize(
    ("gpus", "variables", "wanted"),
    [
        pytest.param(1, {}, ["ubuntu-24.04"], marks=pytest.mark.nightly),
        (1, {"GPU_RUNNER": "a100, mine"}, ["a100", "mine"]),
        pytest.param(1, {"GPU_RUNNER": "none", "HOSTED_RUNNER": "large"}, ["large"], marks=pytest.mark.nightly),
        (0, {"GPU_RUNNER": "a100"}, ["ubuntu-24.04"]),
    ],
)
def test_the_runner_labels_come_from_the_repositorys_variables(
    gpus: int, variables: dict[str, str], wanted: list[str], site: Site
) -> None:
    number = site.forge.open_issue("t", form(f"{CASE}resources: {{gpus: {gpus}}}\n"))
    site.variables = variables
    assert json.loads(site.happens(number, "opened").job("check").outputs["runner"]) == wanted


@pytest.mark.nightly
@pytest.mark.integration
def test_closing_removes_the_label_and_reopening_checks_again(site: Site) -> None:
    number = site.forge.open_issue("t", form(CASE))
    site.happens(number, "opened")
    site.happens(number, "closed", "maintainer")
    assert not site.forge.labels
    assert state_of(site.comment(number)) == "valid"
    site.happens(number, "reopened", "maintainer")
    assert list(site.forge.labels) == [review(form(CASE)).label]


@pytest.mark.integration
def test_a_reply_to_an_outdated_text_is_dropped(site: Site) -> None:
    number = site.forge.open_issue("t", form(CASE))
    payload = site.forge.event(number, "opened", "reporter")
    site.forge.issues[number]["body"] = "Never mind."
    site.forge.event = lambda *_: payload  # type: ignore[method-assign,assignment]
    replay = site.happens(number, "opened")
    assert "has changed since" in replay.job("comment").log
    assert site.forge.bodies(number) == []


SMALL = """\
schema: reprokit/v1
id: pasted-ptxas
title: "@everyone <b>ptxas</b> refuses ${{ secrets.X }}"
matrix:
  os: [debian-12]
  cuda: ["11.8", "12.0"]
env:
  HOSTILE: "$(touch pwned)"
files:
  "named:as?no/artifact*takes.it": ""
  kernel.ptx: |
    .version 4.0
    .target sm_35
    .address_size 64
    .visible .entry nothing() { ret; }
command: |
  echo "::set-output name=admitted::true"
  echo "::add-mask::a"; echo "##[error]boo"
  ptxas --gpu-name sm_35 --output-file /dev/null kernel.ptx && exit 0
  echo "::error::@everyone </details> | \\`x\\`"; exit 255
expect:
  failure: {exit_code: 255, output: "::error::@everyone"}
  reproduces: [{cuda: "12.0"}]
"""


@pytest.mark.integration
def test_paste_label_comment(site: Site, engine: Any) -> None:
    """End to end on the real engine, and again after the label is added again; with an edit while it runs."""
    number = site.forge.open_issue("t", form(SMALL))
    label = review(form(SMALL)).label
    site.happens(number, "opened")
    replay = site.labels(number, label, "maintainer")
    assert set(results(replay).values()) == {"success"}
    assert len(replay.steps_run) == sum("run" in step for step, _ in steps_of(WORKFLOW)), "a run step was not played"
    assert replay.job("run").runs_on == ["ubuntu-24.04"]
    comment = site.comment(number)
    assert state_of(comment) == "verdict"
    assert re.search(r"^\| 1 \| `11\.8` \| not-reproduced \| `.*passed", comment, re.MULTILINE)
    assert re.search(r"^\| 2 \| `12\.0` \| \*\*reproduced\*\* \| <code>.*exit status 255", comment, re.MULTILINE)
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(comment):
        assert all(child.type != "text" or "@everyone" not in child.content for child in token.children or ())
    assert site.forge.names(number) == []
    kept = {path.name for path in (replay.artifacts / "verdict").iterdir()}
    assert {"result.json", "junit.xml"} <= kept
    # Words around the case change nothing; the verdicts stay, and so they do against labels that run nothing.
    site.edits(number, form(SMALL, seen="More words."))
    site.labels(number, label, "reporter")
    assert site.comment(number) == comment
    assert site.forge.names(number) == []
    # The same text in another issue: a maintainer's label runs it there.
    other = site.forge.open_issue("t", "Mine, too.\n\n" + form(SMALL))
    site.happens(other, "opened")
    # ... and while it runs, the text is exchanged: what was reviewed runs, and no verdict is put under another text.
    payload = site.forge.event(other, "labeled", "maintainer", label)
    site.forge.issues[other]["body"] = form(SMALL.replace("exit 255", "touch pwned"))
    site.forge.event = lambda *_: payload  # type: ignore[method-assign,assignment]
    replay = site.happens(other, "labeled")
    assert (replay.artifacts / "review" / "case.yaml").read_text() == SMALL + "\n"
    assert "has changed since" in replay.job("verdict").log
    assert state_of(site.comment(other)) == "valid"
