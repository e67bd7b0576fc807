"""Small data sets of bugs in the layouts of BugsInPy and SWE-bench, over a git repository that a test makes itself."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

WRONG = "def greeting(name):\n    return 'Hello ' + name\n"
RIGHT = "def greeting(name):\n    return 'Hello, ' + name\n"
SETUP = "import pip, setuptools\nsetuptools.setup(name='greet', py_modules=['greet'])\n"
"""Of its time: a build environment of its own has no pip."""
OLD_TEST = "import unittest\n\n\nclass GreetingTest(unittest.TestCase):\n    def test_is_text(self):\n        pass\n"
NEW_TEST = """\
import unittest

from greet import greeting


class GreetingTest(unittest.TestCase):
    def test_is_text(self):
        self.assertIsInstance(greeting('x'), str)

    def test_comma(self):
        self.assertEqual(greeting('x'), 'Hello, x')
"""
TEST = "tests/test_greet.py"
ID = "tests.test_greet.GreetingTest"


@dataclass(frozen=True)
class Project:
    """A repository with a bug: ``buggy`` fails the tests of ``fixed``, which are not in it."""

    folder: Path
    buggy: str
    fixed: str

    def diff(self, *paths: str) -> str:
        """The patch of the fix in some of the files."""
        return git(self.folder, "diff", self.buggy, self.fixed, "--", *paths)


def git(folder: Path, *words: str) -> str:
    """What git prints; an author of its own, and no settings of this machine."""
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout


def project(folder: Path) -> Project:
    """Make the repository below ``folder``."""
    home = folder / "greet-repository"
    (home / "tests").mkdir(parents=True)
    git(home, "init", "--quiet")
    commits = []
    for module, test in ((WRONG, OLD_TEST), (RIGHT, NEW_TEST)):
        (home / "greet.py").write_text(module)
        (home / "setup.py").write_text(SETUP)
        (home / "tests/__init__.py").write_text("")
        (home / TEST).write_text(test)
        git(home, "add", "-A")
        git(home, "commit", "--quiet", "-m", "commit")
        commits.append(git(home, "rev-parse", "HEAD").strip())
    bare = folder / "greet.git"  # serves any commit of it, as `--source greet=DIR`
    git(folder, "clone", "--quiet", "--bare", str(home), str(bare))
    return Project(folder=bare, buggy=commits[0], fixed=commits[1])


def bugsinpy(folder: Path, made: Project, *, name: str = "greet", files: dict[str, str | bytes] | None = None) -> Path:
    """A folder in the layout of BugsInPy with bug 1 of the project; ``files`` of the bug replace those that it has."""
    home = folder / "projects" / name
    contents: dict[str, str | bytes] = {
        "bug.info": f'python_version="3.8.3"\nbuggy_commit_id="{made.buggy}"\nfixed_commit_id ="{made.fixed}"\n'
        f'test_file="{TEST}"',
        "bug_patch.txt": made.diff("greet.py"),
        "requirements.txt": "",
        "run_test.sh": f"python -m unittest -q {ID}.test_comma",
        **(files or {}),
    }
    (home / "bugs/1").mkdir(parents=True, exist_ok=True)
    (home / "project.info").write_text('github_url="https://github.com/example/greet"\nstatus="OK"\n')
    for file, content in contents.items():
        (home / "bugs/1" / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def row(made: Project, **fields: Any) -> dict[str, Any]:
    """A row of SWE-bench."""
    return {
        "instance_id": "example__greet-7",
        "repo": "example/greet",
        "base_commit": made.buggy,
        "patch": made.diff("greet.py"),
        "test_patch": made.diff(TEST),
        "problem_statement": "A greeting has no comma\n\nIt says Hello x.",
        "created_at": "2024-01-01T00:00:00Z",
        "version": "1.0",
        "environment_setup_commit": made.buggy,
        "FAIL_TO_PASS": json.dumps([f"test_comma ({ID})"]),
        "PASS_TO_PASS": json.dumps([f"test_is_text ({ID})"]),
        **fields,
    }


DOCKERFILE = """\
# A Dockerfile as those of SWE-bench 5, with a tree that needs no network.
FROM --platform=linux/amd64 debian:bookworm

ARG DEBIAN_FRONTEND=noninteractive
ENV TZ=Etc/UTC WHO="of greet"
RUN apt-get update && apt-get install -y \\
    git \\
    # what runs the tests
    python3 \\
    && rm -rf /var/lib/apt/lists/*
ENV PYTHONPATH $HOME_OF_TESTS/testbed
COPY tree /testbed/
COPY ["assets", "/assets"]
WORKDIR /testbed
RUN <<EOF_1
#!/bin/bash
set -euxo pipefail
[[ $PWD == /testbed ]]
git init -q . && git add -A
git -c user.name=A -c user.email=a@example.com commit -q -m "base of $WHO"
EOF_1
CMD ["bash"]
"""
MARKS = ("'>>>>> Start Test Output'", "'>>>>> End Test Output'")


def eval_script(patch: str, runs: str) -> str:
    """An ``eval.sh`` as those of SWE-bench 5: the patch of the tests, and what runs them between two marks."""
    lines = [
        "#!/bin/bash",
        "set -uxo pipefail",
        "cd /testbed",
        f"git checkout HEAD {TEST}",
        "git apply -v - <<'EOF_114'",
    ]
    return (
        "\n".join([*lines, f"{patch}EOF_114", f": {MARKS[0]}", runs, f": {MARKS[1]}", f"git checkout HEAD {TEST}"])
        + "\n"
    )


def task_repository(folder: Path, made: Project, *, files: dict[str, str] | None = None, **fields: Any) -> Path:
    """A task repository of SWE-bench 5 with one task of the project; ``files`` replace those that it has."""
    names = {"FAIL_TO_PASS": [f"test_comma ({ID}.test_comma)"], "PASS_TO_PASS": [f"test_is_text ({ID}.test_is_text)"]}
    values = {**row(made), **names, **fields}
    home = folder / "tasks" / values["instance_id"]
    about = {key: values[key] for key in ("instance_id", "repo", "base_commit", "version", "created_at")}
    about |= {"split": "test", "log_parser": "parse_log_django", "eval_type": "pass_and_fail"}
    about |= {"image": f"swebench/sweb.eval.x86_64.{values['instance_id'].replace('__', '_1776_')}:latest"}
    tests = {key: values[key] for key in names}
    contents = {
        "task.yaml": json.dumps({key: fields.get(key, value) for key, value in about.items()}),
        "tests.json": json.dumps(tests),
        "gold.patch": values["patch"],
        "test.patch": values["test_patch"],
        "problem_statement.md": values["problem_statement"],
        "eval.sh": eval_script(values["test_patch"], f"python3 -m unittest -v {ID}"),
        "Dockerfile": DOCKERFILE,
        "tree/greet.py": WRONG,
        "tree/tests/__init__.py": "",
        f"tree/{TEST}": OLD_TEST,
        **(files or {}),
    }
    for name, content in contents.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    (home / "assets").mkdir(exist_ok=True)
    (home / "assets/a.png").write_bytes(b"\x89PNG\0")
    (folder / "sweb.yaml").write_text(json.dumps({"datasets": ["example/greet"], "splits": ["test"]}))
    return folder


@pytest.fixture(name="project", scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return project(tmp_path_factory.mktemp("project"))


@pytest.fixture(name="folder", autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, of each test of a module that has this fixture."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
