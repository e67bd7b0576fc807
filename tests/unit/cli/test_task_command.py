"""A cell as a task of other programs, and back again. That these programs solve it by its fix: tests/integration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reprokit.cli import invoke
from reprokit.environment.cases import load
from tests import bug_datasets

CASE = """\
schema: reprokit/v1
id: no-comma
title: A greeting has no comma
matrix: {os: [debian-12], python: [none], who: [x, y]}
environment: {setup: "cp greet.sh {{ who }}.sh"}
files:
  greet.sh: {content: "echo Hello $1\\n", mode: "755"}
  test.sh: |
    [ "$(sh $WHO.sh $WHO)" = "Hello, $WHO" ]
env: {WHO: "{{ who }}"}
command: sh test.sh
expect: {reproduces: all}
fix:
  summary: With a comma
  files:
    greet.sh: {content: "echo Hello, $1\\n", mode: "755"}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("case.yaml").write_text(CASE)


def export(kind: str, *words: str) -> int:
    return invoke(["render", "case.yaml", "--as", kind, "--only", "who=x", "-o", "out", "--base", "registry", *words])


def solved(folder: Path, patch: Path, run: Path) -> list[int]:
    """The statuses of the test in the work folder of a task, before its patch and after it, as these programs do it."""
    tree = Path("tree")
    tree.mkdir()
    parts = [f"{folder}/{part}" for part in ("files/.", "executables/.", ".task")]
    subprocess.run(["cp", "-R", *parts, str(tree)], check=True)
    script = run.read_text().replace("cd /workspace", f"cd {tree.absolute()}")
    script = script.replace("/tmp/task.log", str(Path("log").absolute()))
    subprocess.run(["sh", ".task/setup.sh"], cwd=tree, check=True)
    for words in (["init", "--quiet"], ["add", "-Af", "."], ["commit", "--quiet", "-m", "task"]):
        bug_datasets.git(tree, *words)
    found = [subprocess.run(["bash", "-c", script], capture_output=True).returncode]
    subprocess.run(["git", "apply", str(patch.absolute())], cwd=tree, check=True)
    return [*found, subprocess.run(["bash", "-c", script], capture_output=True).returncode]


def test_a_task_of_swe_bench_5_has_what_its_check_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert export("swe-bench") == 0
    folder = Path(capsys.readouterr().out.strip())
    assert folder == Path("out/tasks/reprokit__no-comma-os-debian-12-python-none-who-x")
    about = yaml.safe_load((folder / "task.yaml").read_text())
    assert about["instance_id"] == folder.name
    assert about["image"] == f"swebench/sweb.eval.x86_64.{folder.name}:latest".replace("__", "_1776_")
    assert set(about) >= {"repo", "version", "base_commit", "split", "log_parser", "eval_type", "datasets"}
    config = yaml.safe_load(Path("out/sweb.yaml").read_text())
    assert (about["split"] in config["splits"], set(about["datasets"]) <= set(config["datasets"])) == (True, True)
    assert json.loads((folder / "tests.json").read_text()) == {
        "FAIL_TO_PASS": [f"case::{folder.name}"],
        "PASS_TO_PASS": [],
    }
    dockerfile = (folder / "Dockerfile").read_text()
    assert dockerfile.startswith("FROM debian:bookworm-slim\n"), "an image that others have, too"
    assert "/run/reprokit" not in dockerfile
    assert "secret" not in dockerfile
    assert not (folder / "reprokit/site.sh").exists()
    assert (folder / "gold.patch").read_text().count("diff --git a/greet.sh b/greet.sh") == 1
    assert solved(folder, folder / "gold.patch", folder / ".task/run.sh") == [1, 0]
    assert export("swe-bench") == 2, "a task that exists stays"


def test_a_task_of_harbor(capsys: pytest.CaptureFixture[str]) -> None:
    assert export("harbor") == 0
    folder = Path(capsys.readouterr().out.strip())
    names = {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}
    assert {"task.toml", "instruction.md", "environment/Dockerfile", "solution/solve.sh", "tests/test.sh"} <= names
    assert os.access(folder / "tests/test.sh", os.X_OK)
    assert solved(folder / "environment", folder / "solution/fix.patch", folder / "environment/.task/run.sh") == [1, 0]


def test_a_test_of_pytest_fails_as_the_case_does(capsys: pytest.CaptureFixture[str]) -> None:
    case = CASE.replace("sh $WHO.sh", "sh greet.sh")
    Path("case.yaml").write_text(case)
    assert export("pytest") == 0
    assert "without environment.setup: " in capsys.readouterr().err
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "out/test_no_comma.py"]
    assert subprocess.run(words, capture_output=True).returncode == 1
    Path("case.yaml").write_text(case.replace("echo Hello $1", "echo Hello, $1"))
    Path("out/test_no_comma.py").unlink()
    assert export("pytest") == 0
    assert subprocess.run(words, capture_output=True).returncode == 0


def test_sources_are_in_the_work_folder_and_the_patch_is_of_them(tmp_path: Path) -> None:
    made = bug_datasets.project(tmp_path)
    Path("rows.jsonl").write_text(json.dumps(bug_datasets.row(made)))
    assert invoke(["new", "--data-set", "swe-bench", "rows.jsonl", "-o", "bugs"]) == 0
    words = ["--as", "harbor", "-o", "out", "--base", "registry", "--source", f"greet={made.folder}"]
    assert invoke(["render", "bugs", *words]) == 0
    [folder] = Path("out").iterdir()
    assert "test_comma" in (folder / "environment/sources/greet" / bug_datasets.TEST).read_text()
    patch = (folder / "solution/fix.patch").read_text()
    assert re.findall("^diff .*", patch, re.MULTILINE) == ["diff --git a/greet/greet.py b/greet/greet.py"]


def test_what_is_installed_of_the_files_is_installed_again_after_the_patch() -> None:
    old = 'setup: "cp greet.sh {{ who }}.sh"'
    Path("case.yaml").write_text(
        CASE.replace(old, f"{old}, pip: [./tree]").replace("python: [none]", 'python: ["3.11"]')
    )
    assert export("harbor") == 0
    [setup] = Path("out").glob("*/environment/.task/setup.sh")
    assert setup.read_text() == "pip install ./tree\ncp greet.sh x.sh"


def test_limits_are_in_the_task_or_named_and_the_user_is_that_of_the_case(capsys: pytest.CaptureFixture[str]) -> None:
    Path("case.yaml").write_text(f"{CASE}resources: {{memory: 64m, cpus: 0.5, pids: 99}}\n")
    assert export("harbor") == 0
    shown = capsys.readouterr()
    [run, config] = [Path(shown.out.strip()) / name for name in ("environment/.task/run.sh", "task.toml")]
    assert "memory_mb = 64\ncpus = 0.5\n" in config.read_text()
    assert re.findall(r"resources\.\w+", shown.err) == ["resources.pids"]
    assert "--userspec=repro " in run.read_text()
    Path("case.yaml").write_text(f"{CASE}resources: {{memory: 64m, user: root}}\n")
    assert export("swe-bench") == 0
    shown = capsys.readouterr()
    assert re.findall(r"resources\.\w+", shown.err) == ["resources.memory"]
    assert "--userspec" not in (Path(shown.out.strip()) / ".task/run.sh").read_text()


@pytest.mark.parametrize("kind", ["swe-bench", "harbor"])
def test_a_task_is_a_case_again(kind: str) -> None:
    assert export(kind) == 0
    assert invoke(["new", "--data-set", kind, "out", "-o", "back"]) == 0
    [file] = load(str(next(Path("back").glob("*.yaml"))))
    assert dict(file.case.matrix.axes) == {"os": ("debian-12",)}
    assert str(file.case.workdir) == "/task", "not the folder that the task has"
    assert "git init -q ." in str(file.case.environment.setup)
    assert "context/executables/greet.sh" in file.case.files


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("sh test.sh", "sh test.sh\nresources: {gpus: 1}", "no place for GPUs"),
        ("expect: {", "expect: {leaks: {per_iteration: 1MiB}, ", "measured memory"),
        ("expect: {", "expect: {slower_than: {ratio: 2, of: {who: y}}, ", "a second cell"),
        ("fix:\n  summary: With a comma", "tags:", "does not have"),
        ("  summary: With a comma\n", "  environment: {apt: [jq]}\n", "changes how the image is built"),
    ],
)
def test_what_cannot_be_such_a_task_is_said(old: str, new: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = CASE.replace(old, new)
    Path("case.yaml").write_text(text.partition("tags:")[0] if "tags:" in new else text)
    assert export("swe-bench") == 2
    assert why in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_failure_that_only_the_output_shows_is_looked_for_there() -> None:
    Path("case.yaml").write_text(
        CASE.replace("{reproduces: all}", "{failure: {output: '/^Hello \\w+$/'}}").replace(
            "sh test.sh\n", "sh greet.sh x\n"
        )
    )
    assert export("harbor") == 0
    [folder] = Path("out").iterdir()
    place = folder / "environment"
    assert solved(place, folder / "solution/fix.patch", place / ".task/run.sh") == [1, 0]
    assert export("pytest") == 2, "a test of pytest goes by the status"
