"""Every workflow and action: the published schemas, actionlint, zizmor, shellcheck, and our own rules."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.github.pins import PINS
from tests.unit.github.steps import REPOSITORY, SHELLS, load

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
DEPENDABOT = REPOSITORY / ".github" / "dependabot.yml"
ACTIONS = sorted((REPOSITORY / ".github" / "actions").glob("*/action.yml"))
FORMS = sorted((REPOSITORY / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
SCRIPTS = [path for path in sorted((REPOSITORY / ".ci").iterdir()) if path.is_file()]
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def named(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=named)
every_file = pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=named)


def says(program: str, *words: str | Path) -> str:
    """What a checker prints, which must find nothing."""
    found = shutil.which(program, path=PATH)
    if not found:
        pytest.skip(f"{program} is not installed: pip install '.[dev]'")
    done = subprocess.run(
        [found, *words], cwd=REPOSITORY, env={**os.environ, "PATH": PATH}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{program}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def steps_of(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Each step of a file, with the shell that its job's defaults give it."""
    data = load(path)
    if "runs" in data:
        yield from ((step, "") for step in data["runs"].get("steps", ()))
        return
    for job in data["jobs"].values():
        defaults = {**data.get("defaults", {}).get("run", {}), **job.get("defaults", {}).get("run", {})}
        yield from ((step, defaults.get("shell", "")) for step in job["steps"])


@pytest.mark.system
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.github-actions", ACTIONS),
        ("vendor.dependabot", [DEPENDABOT]),
        ("vendor.github-issue-forms", [path for path in FORMS if path.name != "config.yml"]),
        ("vendor.github-issue-config", [path for path in FORMS if path.name == "config.yml"]),
    ],
)
def test_the_published_schemas_accept_them(schema: str, files: list[Path]) -> None:
    if files:
        says("check-jsonschema", "--builtin-schema", schema, *files)


@pytest.mark.system
def test_zizmor_finds_nothing() -> None:
    says("zizmor", "--offline", "--no-progress", "--persona=pedantic", *WORKFLOWS, *ACTIONS, DEPENDABOT)


@pytest.mark.system
def test_actionlint_finds_nothing() -> None:
    says("actionlint", *WORKFLOWS)


@pytest.mark.system
@every_file
def test_shellcheck_finds_nothing_in_run_steps(path: Path, tmp_path: Path) -> None:
    scripts = []
    for number, (step, _) in enumerate(steps_of(path)):
        if "run" in step:
            scripts.append(tmp_path / f"{number}.sh")
            scripts[-1].write_text(step["run"].rstrip("\n") + "\n")
    if scripts:
        says("shellcheck", "--shell=bash", *scripts)


def test_shellcheck_finds_nothing_in_the_scripts_that_they_call() -> None:
    says("shellcheck", *SCRIPTS)


@every_file
def test_no_script_contains_an_expression(path: Path) -> None:
    for step, shell in steps_of(path):
        assert "${{" not in step.get("run", ""), f"{named(path)}: an expression would become part of a program"
        if "run" in step:
            assert SHELLS[step.get("shell", shell)] == SHELLS["bash"], "without pipefail a failure would pass"


@every_file
def test_every_action_is_pinned_to_the_commit_of_a_release(path: Path) -> None:
    used = [step["uses"] for step, _ in steps_of(path) if "uses" in step]
    assert used or path.name == "action.yml"
    lines = re.findall(r"uses: (\S+)(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert len([line for line in lines if "OWNER" not in line[0]]) == len(used)
    for uses, comment in lines:
        if uses.startswith("$/") or "OWNER" in uses:
            continue
        name, _, commit = uses.partition("@")
        assert name in PINS, f"{name}: look its commit up, and add it to tests/github/pins.py"
        assert (commit, comment) == (PINS[name][0], f" # {PINS[name][1]}")


@every_workflow
def test_every_job_has_limits(path: Path) -> None:
    data = load(path)
    assert data["permissions"] == {}, "each job says what it needs"
    for name, job in data["jobs"].items():
        assert "permissions" in job, f"{name}: no permissions"
        assert isinstance(job["timeout-minutes"], int), f"{name}: no timeout"
        assert "latest" not in str(job["runs-on"]), f"{name}: a runner that changes by itself"
        assert data.get("concurrency") or job.get("concurrency"), f"{name}: no concurrency"
    for step, _ in steps_of(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@every_workflow
def test_a_later_attempt_downloads_artifacts_by_the_name_of_their_job(path: Path) -> None:
    """Run again, failed jobs count another attempt than those before them, which are not run again."""
    for step, _ in steps_of(path):
        if step.get("uses", "").startswith(("actions/download-artifact@", "actions/deploy-pages@")):
            assert "run_attempt" not in str(step["with"]), f"{named(path)}: {step}"


@every_file
def test_no_untrusted_text_is_in_an_expression(path: Path) -> None:
    expressions = "\n".join(re.findall(r"\$\{\{(.*?)\}\}", path.read_text(encoding="utf-8"), re.DOTALL))
    expressions += "\n".join(str(step.get("if", "")) for step, _ in steps_of(path))
    # Texts that any user may write: https://docs.github.com/en/actions/concepts/security/script-injections
    for written in ("body", "title", "head_ref", "head.ref", "head.label", "message", "page_name", "email", "login"):
        assert not re.search(rf"github\.[\w.]*\b{re.escape(written)}\b", expressions), written


def test_violations_of_a_rule_are_found(tmp_path: Path) -> None:
    """The checkers themselves: a file with the classic mistake must not pass."""
    bad = tmp_path / ".github" / "workflows" / "bad.yml"
    bad.parent.mkdir(parents=True)
    bad.write_text(
        "name: bad\non: issues\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n"
        "      - uses: actions/checkout@v4\n      - run: echo ${{ github.event.issue.body }}\n"
    )
    for program, words in (("zizmor", ["--offline", "--no-progress", tmp_path]), ("actionlint", [bad])):
        with pytest.raises(AssertionError, match=r"injection|untrusted"):
            says(program, *words)
