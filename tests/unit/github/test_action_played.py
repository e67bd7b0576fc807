"""The composite action, replayed in another repository: installed, run, shown."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reprokit.cli import invoke
from reprokit.github.action import arguments
from tests.unit.github.steps import REPOSITORY, Job, load, play_action
from tests.unit.github.test_workflows import steps_of

ACTION = ".github/actions/reprokit"
CI = REPOSITORY / ".github" / "workflows" / "ci.yml"
PTXAS = (REPOSITORY / "cases" / "ptxas_unknown_arch.yaml").read_text(encoding="utf-8")


def played(folder: Path, inputs: dict[str, str], **given: Any) -> Job:
    return play_action(ACTION, folder, inputs, **{"installed": ["reprokit-action"], **given})


@pytest.mark.system
def test_inputs_with_any_text_stay_single_arguments(tmp_path: Path) -> None:
    hostile = "x'; touch pwned; '$(touch pwned)`touch pwned`\n::error::x\n--fix"
    job = played(tmp_path, {"case": hostile, "only": hostile, "cuda": "11.8; touch pwned", "artifact": ""})
    assert job.result == "failure"
    assert job.outputs["status"] == "2"
    assert "--cuda 11.8; touch pwned: expected a version" in job.log
    assert job.commands == []
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.system
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"case": "a", "fail-on": "departures"}, "did you mean 'departure'"),
        ({"case": "a", "fix": "yes"}, "input `fix`: expected true or false"),
        ({"case": " "}, "input `case`: name case files or folders"),
    ],
)
def test_a_wrong_input_is_reported_before_anything_is_run(tmp_path: Path, inputs: dict[str, str], message: str) -> None:
    job = played(tmp_path, inputs)
    assert job.result == "failure"
    assert message in job.log
    assert not list((tmp_path / "artifacts").iterdir())


@pytest.mark.integration
def test_it_runs_cases_and_shows_what_departs(tmp_path: Path, engine: Any) -> None:
    """With the real installation of the locked versions, and a case whose expectation is wrong in one cell."""
    wrong = PTXAS.replace('    - {cuda: "12.0", arch: sm_35}', '    - {cuda: "11.8", arch: sm_35}')
    assert wrong != PTXAS
    wrong = wrong.replace("files:\n", "files:\n  'named:as?no/artifact*takes.it': ''\n")
    inputs = {"case": "bugs/", "cuda": "11.8,12.0", "axes": "arch=sm_35", "artifact": "result"}
    job = played(tmp_path / "a", inputs, files={"bugs/ptxas.yaml": wrong}, installed=[])
    assert "reprokit, version" in job.step("action/Install reprokit").log
    assert job.result == "failure"
    assert {key: job.outputs[key] for key in ("status", "cells", "departures", "inconclusive")} == {
        "status": "1",
        "cells": "2",
        "departures": "2",
        "inconclusive": "0",
    }
    assert json.loads(job.outputs["verdicts"]) == {"not-reproduced": 1, "reproduced": 1}
    lines = wrong.split("\n")
    errors = {message: properties for name, properties, message in job.commands if name == "error"}
    assert len(errors) == len(job.commands) == 2
    for message, properties in errors.items():
        key = "reproduces:" if message.startswith("reproduced") else '- {cuda: "11.8", arch: sm_35}'
        number = next(number for number, line in enumerate(lines, 1) if line.strip().startswith(key))
        assert properties.startswith(f"file=bugs/ptxas.yaml,line={number},")
    assert "**reproduced** (expected not-reproduced)" in job.summary
    kept = tmp_path / "a" / "artifacts" / "result"
    assert json.loads((kept / "result.json").read_text())["exit_status"] == 1
    assert (kept / "junit.xml").is_file()
    assert list(kept.glob("store/runs/*/*"))
    # The run's own words are not commands, and what is asked for is not ended as a failure.
    store = {"store": str(tmp_path / "kept"), "fail-on": "never", "artifact": ""}
    job = played(tmp_path / "b", {**inputs, **store}, files={"bugs/ptxas.yaml": wrong})
    assert (job.result, job.outputs["status"]) == ("success", "1")
    assert Path(job.outputs["store"]) == tmp_path / "kept"
    assert not (tmp_path / "b" / "artifacts" / "result").exists()


@pytest.mark.system
def test_other_systems_and_old_pythons_are_supported(tmp_path: Path) -> None:
    """A job of a project that tests itself with an old Python has that one first on its PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("uname", "#!/bin/sh\necho MINGW64_NT\n"), ("python3", "#!/bin/sh\nexit 1\n")):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    path = {"PATH": f"{tools}:/usr/bin:/bin"}
    words = [REPOSITORY / ".ci" / "install", tmp_path / "to"]
    done = subprocess.run(words, env=path, capture_output=True, text=True, check=False)
    assert (done.returncode, "use a runner such as ubuntu-24.04" in done.stderr) == (1, True)
    usable = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))"
    if (
        not Path("/usr/bin/python3").exists()
        or subprocess.run(["/usr/bin/python3", "-c", usable], check=False).returncode
    ):
        pytest.skip("this system has no Python of its own that is new enough")
    words = [REPOSITORY / ".ci" / "venv", tmp_path / "a folder"]
    subprocess.run(words, env=path, capture_output=True, check=True)
    assert (tmp_path / "a folder" / "bin" / "pip").exists()


def test_what_ci_calls_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """The steps of ci.yml take an hour, so this only checks that the files that they call exist."""
    scripts = {step["run"] for step, _ in steps_of(CI) if "run" in step}
    called = {"make audit", "make docs", "make fuzz SECONDS=60", "make lint unit system"}
    assert scripts == {*called, "make test", "make test-all"}
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {word for script in scripts for word in script.split()[1:] if "=" not in word} <= targets
    (quick,) = [step["with"] for step, _ in steps_of(CI) if step.get("uses") == f"$/{ACTION}"]
    known = load(REPOSITORY / ACTION / "action.yml")["inputs"]
    assert quick.keys() <= known.keys()
    words = arguments(quick)
    assert words[1:] == ["--tag=quick", "--fix", "--yes", "--", "cases/"]
    assert invoke(["list", str(REPOSITORY / "cases"), "--tag", "quick"]) == 0
    assert "ptxas-unknown-arch" in capsys.readouterr().out
