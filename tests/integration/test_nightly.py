"""The nightly workflow itself, played night after night on the real engine, with its issues and its report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine.gpus import discovery
from tests.integration.test_history import NUMPY
from tests.unit.github.server import TOKEN, Forge
from tests.unit.github.steps import REPOSITORY, STAND_INS, Call, Failed, Replay

pytestmark = pytest.mark.integration
# Decided by a sequential test within a night: otherwise a change counts from the second night on that shows it.
ALIAS = NUMPY.replace("expect:", "trials: {max: 20, confidence: 0.95, rate: 0.15}\nexpect:")
ALIAS += 'files: {"named:as?no/artifact*takes.it": ""}\n'
GPU_STEPS = ("Look at the machine with the GPU", "Keep the disk of the machine with the GPU")
JOBS = ("plan", "run", "merge", "pages", "issues", "index")
GPU = """\
schema: reprokit/v1
id: needs-gpu
title: Needs a GPU
matrix: {os: [debian-12]}
command: nvidia-smi
resources: {gpus: 1}
expect: {failure: {exit_code: 1}}
"""


class Nights:
    """A repository with two cases and its nights. ``published``: the pages as they are now.

    ``lost``: how the names of artifacts begin that get lost.
    """

    def __init__(self, folder: Path, forge: Forge) -> None:
        self.folder = folder
        self.forge = forge
        self.source = folder / "repository"
        self.published = folder / "published"
        self.nights: dict[str, Replay] = {}
        self.lost = ""
        (self.source / "cases").mkdir(parents=True)
        (self.source / ".ci").mkdir()
        shutil.copy2(REPOSITORY / ".ci" / "install", self.source / ".ci")
        self.git("init", "-q")
        (self.source / "cases" / "gpu.yaml").write_text(GPU)
        self.change(ALIAS)

    def git(self, *words: str, folder: Path | None = None) -> None:
        name = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *name, *words], cwd=folder or self.source, check=True, capture_output=True)

    def change(self, text: str) -> None:
        """Commit another text of the case, with the page that lists it."""
        (self.source / "cases" / "alias.yaml").write_text(text)
        line = [sys.executable, "-m", "reprokit", "list", "--write", "cases/README.md"]
        subprocess.run(line, cwd=self.source, check=True, capture_output=True, env={"PYTHONPATH": str(REPOSITORY)})

    def night(self, **values: object) -> Replay:
        """Play one night; what it leaves is there for the next."""
        number = str(101 + len(self.nights))
        replay = Replay(
            REPOSITORY / ".github" / "workflows" / "nightly.yml",
            self.folder / f"night-{number}",
            event="schedule",
            token=TOKEN,
            source=self.source,
            environment={**self.forge.environment(), "HOME": str(Path.home())},
            installed=["reprokit"],
            stand_ins={
                "actions/checkout": self.checkout,
                "actions/download-artifact": self.download,
                "actions/upload-artifact": self.upload,
                "actions/deploy-pages": self.deploy,
            },
            **values,  # type: ignore[arg-type]
        )
        replay.github["run_id"] = number
        self.nights[number] = replay
        replay.run()
        if (replay.artifacts / "nightly-store").is_dir():
            run = {"id": int(number), "head_branch": "main", "repository_id": 1, "head_repository_id": 1}
            one = {"id": len(self.nights), "name": "nightly-store", "expired": False, "created_at": f"2026-01-{number}"}
            self.forge.artifacts.append({**one, "workflow_run": run})
        return replay

    def checkout(self, call: Call) -> None:
        """The files, as a repository of one commit."""
        STAND_INS["actions/checkout"](call)
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
            self.git(*words, folder=call.job.workspace)

    def download(self, call: Call) -> None:
        """An artifact of this run, or of the run that is named."""
        run = call.inputs.get("run-id")
        if not run:
            STAND_INS["actions/download-artifact"](call)
            return
        assert call.inputs["github-token"] == TOKEN
        kept = self.nights[run].artifacts / call.inputs["name"]
        if not kept.is_dir():
            raise Failed(f"Error: Artifact not found for name: {kept.name}")
        shutil.copytree(kept, call.path("path"), dirs_exist_ok=True)

    def upload(self, call: Call) -> None:
        """Keep an artifact, unless it gets lost."""
        if not self.lost or not call.inputs["name"].startswith(self.lost):
            STAND_INS["actions/upload-artifact"](call)

    def deploy(self, call: Call) -> None:
        """Publish the artifact that was uploaded for that."""
        shutil.rmtree(self.published, ignore_errors=True)
        shutil.copytree(call.replay.artifacts / call.inputs["artifact_name"], self.published)
        call.outputs["page_url"] = "https://owner.example/repo/"


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    with Forge().served() as forge:
        yield Nights(tmp_path, forge)


def results(replay: Replay) -> dict[str, list[str]]:
    return {name: [job.result for job in jobs] for name, jobs in replay.jobs.items()}


@pytest.mark.nightly
def test_three_nights_in_which_a_bug_goes_and_comes_back(nights: Nights) -> None:
    first = nights.night()
    good = {name: ["success"] for name in JOBS}
    assert results(first) == good, "\n".join(job.log for jobs in first.jobs.values() for job in jobs)
    assert [job.runs_on for job in first.jobs["run"]] == [["ubuntu-24.04"]]  # no one waits for a GPU
    assert "the variable GPU_RUNNER names no runner" in str(first.job("plan").commands)
    assert [first.job("run").step(name).outcome for name in GPU_STEPS] == ["skipped", "skipped"]
    assert "history starts here" in str(first.job("plan").commands)
    assert "1 unsupported" in first.job("merge").summary
    assert nights.forge.issues == {}

    nights.change(ALIAS.replace("1.26.4", "1.23.5"))
    second = nights.night()
    assert results(second) == good | {"run": ["failure"], "merge": ["failure"]}
    assert second.job("merge").step("What the night says").outcome == "failure"
    assert "from what the case expects" in second.job("merge").summary
    [issue] = nights.forge.issues.values()
    assert (issue["state"], issue["title"]) == ("open", "numpy-alias: reproducing, now not reproducing in 1 cell")
    assert "| `numpy` | `1.26.4` | `1.23.5` |" in issue["body"]
    assert "https://owner.example/repo/" in issue["body"]

    nights.change(ALIAS)
    third = nights.night()
    assert results(third) == good
    assert nights.forge.issues[1]["state"] == "closed"
    assert "Every cell is as it was before" in nights.forge.bodies(1)[-1]
    assert len(nights.forge.issues) == 1

    text = "".join(path.read_text() for path in nights.published.rglob("*.js*"))
    kept = json.loads((third.artifacts / "night" / "changes.json").read_text())
    assert len(kept["runs"]) == 3
    assert all(run in text for run in kept["runs"])

    nights.lost = "job-hosted"
    fourth = nights.night()
    assert results(fourth) == good
    assert "3 cells left no record" in str(fourth.job("merge").commands)
    assert "`the job hosted-01-debian-12 left no record of it" in fourth.job("merge").summary
    assert len(nights.forge.issues) == 1
    assert not any(
        TOKEN in job.log for replay in nights.nights.values() for jobs in replay.jobs.values() for job in jobs
    )


def test_a_night_without_cells_fails_and_does_not_say_that_all_is_well(nights: Nights) -> None:
    replay = nights.night(inputs={"cells": "--only name=bool --skip name=bool"})
    assert results(replay) == {name: ["failure" if name == "plan" else "skipped"] for name in JOBS}
    assert "the selection is empty" in replay.job("plan").log


def test_a_gpu_job_that_had_no_gpu_fails_and_says_why(nights: Nights) -> None:
    """The labels lead to a machine that lost its GPU: this one has none."""
    if found := discovery.facts().gpus:
        pytest.skip(f"this machine has {found[0].name}")
    replay = nights.night(variables={"GPU_RUNNER": "self-hosted, rtx", "GPU_BUDGET": "100G"})
    hosted, gpu = replay.jobs["run"]
    assert (hosted.result, gpu.result, gpu.runs_on) == ("success", "failure", ["self-hosted", "rtx"])
    assert [gpu.step(name).outcome for name in GPU_STEPS] == ["success", "success"]
    assert gpu.step("Run the cells").outcome == "failure"
    assert "no trial of this job had a GPU" in str(gpu.commands)
    assert "NVIDIA" in str(gpu.commands)
    assert "GPU_RUNNER" not in str(replay.job("plan").commands)
    assert "1 unsupported" in replay.job("merge").summary
