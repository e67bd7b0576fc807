"""A bug of a data set is imported, and runs: the commit before the fix fails its tests, and the fix passes them."""

from __future__ import annotations

import pytest

from tests import bug_datasets
from tests.integration.test_run import User

pytestmark = pytest.mark.integration


def test_the_buggy_commit_fails_and_the_fix_passes(user: User) -> None:
    made = bug_datasets.project(user.folder)
    files: dict[str, str | bytes] = {
        "run_test.sh": f"python3 -m unittest {bug_datasets.ID}\n",
        # With a requirement, a newer pip comes first: it builds apart from the environment, where no pip is.
        "requirements.txt": f"six==1.16.0\n-e git+https://github.com/example/greet@{made.buggy}#egg=greet\n",
    }
    bug_datasets.bugsinpy(user.folder / "data", made, files=files)
    user.types("new", "--data-set", "bugsinpy", "data", "greet:1", "-o", "bugs")
    sources = [f"--source={name}={made.folder}" for name in ("greet", "greet-tests")]
    user.types("run", "bugs", "--fix", "--os", "debian-12", "--python", "3.11", *sources)
    assert [cell["verdict"] for cell in user.cells()] == ["reproduced", "not-reproduced"]


def test_what_a_build_lacks_is_put_into_the_case_and_it_is_tried_again(user: User) -> None:
    made = bug_datasets.project(user.folder)
    info = f'python_version="3.11.2"\nbuggy_commit_id="{made.buggy}"\nfixed_commit_id="{made.fixed}"\n'
    files: dict[str, str | bytes] = {
        "bug.info": f'{info}test_file="{bug_datasets.TEST}"\n',
        "setup.sh": "jq --version\n",
        "run_test.sh": f"python3 -m unittest {bug_datasets.ID}.test_comma\n",
    }
    bug_datasets.bugsinpy(user.folder / "data", made, files=files)
    user.write("reprokit.toml", f"sources = {{greet = '{made.folder}', greet-tests = '{made.folder}'}}\n")
    said = user.types("new", "--data-set", "bugsinpy", "data", "greet:1", "--try", "-o", "bugs")
    assert "put into the case: apt: jq: " in said
    assert "1 case of 1 confirmed" in said
    text = " ".join((user.folder / "bugs/bugsinpy-greet-1.yaml").read_text().replace("\n#", "\n").split())
    assert "git, jq]" in text
    assert "Tried by `reprokit new --try`" in text.partition("schema:")[0]
    assert [cell["verdict"] for cell in user.cells()] == ["reproduced", "not-reproduced"]


def test_a_task_of_swe_bench_5_is_built_from_its_dockerfile_and_graded_by_the_names_of_its_tests(user: User) -> None:
    bug_datasets.task_repository(user.folder / "repo", bug_datasets.project(user.folder))
    user.types("new", "--data-set", "swe-bench", "repo", "-o", "bugs")
    user.types("run", "bugs", "--fix")
    assert [cell["verdict"] for cell in user.cells()] == ["reproduced", "not-reproduced"]


def test_a_case_that_is_a_task_and_again_a_case_has_the_same_verdicts(user: User) -> None:
    user.write(
        "case.yaml",
        """\
schema: reprokit/v1
id: no-comma
title: A greeting has no comma
matrix: {os: [debian-12], python: [none]}
environment: {apt: [git]}
files: {greet.sh: "echo Hello $1"}
command: sh greet.sh x | grep "Hello, x"
expect: {reproduces: all}
fix: {files: {greet.sh: "echo Hello, $1"}}
""",
    )
    for kind in ("swe-bench", "harbor"):
        user.types("render", "case.yaml", "--as", kind, "-o", kind)
        user.types("new", "--data-set", kind, kind, "-o", "back")
    user.types("run", "case.yaml", "back", "--fix")
    assert [cell["verdict"] for cell in user.cells()] == ["reproduced", "not-reproduced"] * 3
