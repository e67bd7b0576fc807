"""compatibility-data.yml, played: one issue holds what tables lack, and a program that failed changes no issue."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.unit.github.steps import REPOSITORY, Job, Replay, load

WORKFLOW = REPOSITORY / ".github" / "workflows" / "compatibility-data.yml"


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.system
@pytest.mark.parametrize(
    ("prints", "status", "result", "gaps"),
    [
        ("the tables have all that the index has", 0, "success", "0"),
        ("builds.yaml: torch 2.16.0", 1, "success", "1"),
        ("", 1, "failure", ""),  # a traceback, on stderr
        ("", 3, "failure", ""),  # an index that does not answer
    ],
)
def test_only_a_list_of_gaps_is_one(tmp_path: Path, prints: str, status: int, result: str, gaps: str) -> None:
    installed = tmp_path / "compare-0" / "temp" / "reprokit" / "bin"
    program(installed / "reprokit", "echo 1")
    program(installed / "python", f"{f'echo {shlex.quote(prints)}' if prints else 'true'}; exit {status}")
    replay = Replay(WORKFLOW, tmp_path)
    replay.play("compare", replay.data["jobs"]["compare"])
    job = replay.job("compare")
    assert (job.result, job.outputs["gaps"]) == (result, gaps), job.log
    assert (replay.artifacts / "gaps" / "gaps.txt").is_file() == (result == "success")


@pytest.mark.system
@pytest.mark.parametrize(
    ("gaps", "number", "last"),
    [
        ("1", "", "issue create --title"),
        ("1", "12", "issue edit 12 --body-file"),
        ("0", "12", "issue close 12 --comment"),
        ("0", "", "issue list --author app/github-actions"),
    ],
)
def test_one_issue_is_opened_updated_and_closed(tmp_path: Path, gaps: str, number: str, last: str) -> None:
    program(
        tmp_path / "bin" / "gh",
        f'echo "$*" >> {tmp_path}/calls; cp body.md {tmp_path} 2>/dev/null; [ "$2" != list ] || echo "{number}"',
    )
    replay = Replay(WORKFLOW, tmp_path, event="schedule", environment={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    (replay.artifacts / "gaps").mkdir()
    (replay.artifacts / "gaps" / "gaps.txt").write_text("builds.yaml: torch 2.16.0\n", encoding="utf-8")
    replay.jobs["compare"] = [Job(name="compare", matrix={}, result="success", outputs={"gaps": gaps})]
    replay.play("issue", replay.data["jobs"]["issue"])
    assert replay.job("issue").result == "success", replay.job("issue").log
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines()[-1].startswith(last)
    if gaps == "1":
        assert "```text\nbuilds.yaml: torch 2.16.0\n```\n" in (tmp_path / "body.md").read_text(encoding="utf-8")


def test_the_job_that_writes_issues_runs_none_of_our_code() -> None:
    jobs = load(WORKFLOW)["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "compare": {"contents": "read"},
        "issue": {"issues": "write"},
    }
    assert not [step for step in jobs["issue"]["steps"] if "checkout" in step.get("uses", "")]
