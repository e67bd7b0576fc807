"""Tasks of SWE-bench 5 and of Harbor: their Dockerfiles, how runs are graded, and what is refused. No engine.

The logs are lines that the runners print, with names of tests as the data sets have them (swebench 5.0.2, MIT licence).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.render import render
from reprokit.cli import invoke
from reprokit.environment.cases import load
from reprokit.intake.bug import WrongBug, write_cases
from reprokit.intake.importing import kinds
from reprokit.intake.recipe import _expanding, translate
from reprokit.intake.task import graded
from tests import bug_datasets
from tests.bug_datasets import ID, Project, own_folder, shared_project

__all__ = ["own_folder", "shared_project"]


def why_refused(kind: str, place: str) -> str:
    """Why the only entry of a data set is not written."""
    [one] = write_cases(kinds()[kind].entries(Path(place), (), None), Path("out"), force=False)
    assert not list(Path("out").glob("*"))
    return one.why_not


class TestDockerfile:
    def test_each_instruction(self, folder: Path) -> None:
        for name in ("a.txt", "sub/b.txt"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(name)
        text = """ARG BASE=ubuntu:jammy
FROM --platform=linux/amd64 ${BASE} AS main
ARG A=1
ENV B="two $A" C=3
ENV D four words
WORKDIR /x
# a comment
RUN one \\
  # within
  two <<EOF
line
EOF
RUN ["echo", "a b"]
RUN --mount=type=cache,target=/c --mount=type=bind,source=a.txt,target=/run/a <<-'EOF'
\tthree
\tEOF
COPY --chown=1:1 a.txt /to
COPY ["sub", "/sub/"]
USER other
CMD ["never"]
"""
        found = translate(text, folder)
        assert (found.cell, found.image) == ({"os": "ubuntu-22.04"}, "")
        begun = ['export B="two $A"', 'export C="3"', 'export D="four words"', 'mkdir -p "/x" && cd "/x"']
        assert found.start == begun
        step, run = ["cat > /tmp/step <<'STEP'"], ["STEP", "/bin/sh /tmp/step"]
        assert found.setup == [
            'export BASE="ubuntu:jammy"',
            'export A="1"',
            *begun,
            *[*step, "one \\", "  two <<EOF", "line", "EOF", *run],
            *[*step, "echo 'a b'", *run],
            "[ -e /run/a ] || { mkdir -p $(dirname /run/a); cp /task/context/a.txt /run/a; }",
            *[*step, "three", *run],
            'mkdir -p "$(dirname "/to")" && cp -R /task/context/a.txt "/to"',
            'mkdir -p "/sub/" && cp -R /task/context/sub/. "/sub/"',
        ]
        assert found.files == {"context/a.txt": "a.txt", "context/sub/b.txt": "sub/b.txt"}

    @pytest.mark.parametrize(
        ("image", "cell"),
        [
            ("debian:bookworm-slim", {"os": "debian-12"}),
            ("docker.io/library/debian:12", {"os": "debian-12"}),
            ("ubuntu:24.04", {"os": "ubuntu-24.04"}),
            ("python:3.11-slim", {"os": "debian-12", "python": "3.11"}),
            ("python:3.11.4-slim-bookworm", {"os": "debian-12", "python": "3.11"}),
            ("ubuntu:latest", {}),
            ("python", {}),
            ("example.com/python:3.11", {}),
        ],
    )
    def test_the_system_of_an_official_image(self, folder: Path, image: str, cell: dict[str, str]) -> None:
        found = translate(f"FROM {image}", folder)
        assert (found.cell, found.image) == (cell, "" if cell else image)
        assert bool(found.notes) == ("python" in cell), "another way to the same Python is said"

    @pytest.mark.parametrize(
        "text",
        [
            "FROM a\nFROM b",
            "FROM a\nCOPY --from=b /x /y",
            "FROM a\nADD https://example.com/x /x",
            "FROM a\nCOPY ../secret /x",
            "FROM a\nCOPY link /x",
            "FROM a\nRUN --mount=type=bind,from=b,target=/x true",
            "FROM a\nRUN --security=insecure true",
            "FROM a\nUSER other\nRUN true",
            'FROM a\nSHELL ["bash", "-c"]',
            "FROM a\nONBUILD RUN true",
            "FROM scratch",
            "FROM a;b",
            "RUN true",
            "",
        ],
    )
    def test_what_a_case_cannot_do_is_refused(self, folder: Path, text: str) -> None:
        (folder / "task").mkdir()
        (folder / "secret").write_text("of the host")
        (folder / "task/link").symlink_to(folder / "secret")
        with pytest.raises(WrongBug):
            translate(text, folder / "task")

    @given(st.text(alphabet="a $`\"'\\({x;&|\n!", max_size=12).filter(lambda text: "\n" not in text))
    def test_a_value_is_one_word_that_runs_nothing(self, text: str) -> None:
        if "${" in text.replace("\\", "") and "}" not in text:
            return
        line = f'export V={_expanding(text)}; shift $#; set -- "$V"; echo $#'
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env={})
        assert "command not found" not in done.stderr
        assert done.stdout in ("1\n", "")


LOGS = {
    "parse_log_pytest": (
        ["a.py::test_a[x y]", "a.py::test_b"],
        "PASSED a.py::test_a[x y]\nFAILED a.py::test_b - assert 'ok'\n",
        "PASSED a.py::test_a[x y]\nPASSED a.py::test_b\n",
    ),
    "parse_log_pytest_v2": (
        ["a.py::test_a[x", "a.py::test_b"],  # cut at a blank: all of the function must pass
        "\x1b[32mPASSED\x1b[0m a.py::test_a[x y]\nFAILED a.py::test_a[x z]\nPASSED a.py::test_b\n",
        "a.py::test_a[x y] PASSED [ 50%]\na.py::test_a[x z] PASSED [ 90%]\nPASSED a.py::test_b\n",
    ),
    "parse_log_requests": (
        ["a.py::test_a[/b.py]"],
        "FAILED a.py::test_a[/home/x/b.py]\n",
        "PASSED a.py::test_a[/home/x/b.py]\n",
    ),
    "parse_log_django": (
        ["test_a (m.C)", "A docstring, with ok in it."],
        "test_a (m.C) ... ok\nA docstring, with ok in it. ... FAIL\n",
        "test_a (m.C) ... ok\nA docstring, with ok in it. ... ok\n",
    ),
    "parse_log_sympy": (["test_a", "test_ab"], "test_ab ok\ntest_a F\n", "test_ab ok\ntest_a ok\n"),
    "parse_log_gotest": (
        ["TestA", "TestA/b"],
        "--- PASS: TestA/b (0.0s)\n--- FAIL: TestA (0.0s)\n",
        "--- PASS: TestA/b (0.0s)\n--- PASS: TestA (0.0s)\n",
    ),
    "parse_log_cargo": (["m::a"], "test m::a ... FAILED\n", "test m::a ... ok\n"),
    "parse_log_ant": (["m.A"], "[junit] [FAIL] m.A\n", "[junit] [PASS] m.A\n"),
    "parse_log_gradle_custom": (["m.A > b"], "m.A > b FAILED\n", "m.A > b PASSED\n"),
    "parse_log_googletest": (["A.b"], "[  FAILED  ] A.b (0 ms)\n", "[       OK ] A.b (0 ms)\n"),
    "parse_log_redis": (["a b"], "[err]: a b in x.tcl\n", "[ok]: a b (3 ms)\n"),
    "parse_log_jq": (["tests/a"], "FAIL: tests/a\n", "PASS: tests/a\n"),
}


class TestGrading:
    @pytest.mark.parametrize("parser", LOGS)
    def test_a_log_of_each_format(self, folder: Path, parser: str) -> None:
        names, bad, good = LOGS[parser]
        assert grade(folder, parser, names, [], good) == (0, "")
        status, said = grade(folder, parser, names, [], bad)
        assert (status, said.splitlines()[-1]) == (1, f"tests to fix: 1 of {len(names)} do not pass")
        assert grade(folder, parser, names, [], "")[0] == 1, "a test that did not run does not pass"

    def test_what_must_stay(self, folder: Path) -> None:
        fixed, stay = ["test_a"], ["test_b", "test_c"]
        status, said = grade(folder, "pytest", fixed, stay, "PASSED test_a\nPASSED test_b\nFAILED test_c\n")
        assert (status, said.splitlines()) == (
            1,
            ["to stay, does not pass: test_c", "tests to stay: 1 of 2 do not pass"],
        )
        assert grade(folder, "pytest", fixed, stay, "PASSED test_a\nSKIPPED test_b\nPASSED test_c\n")[0] == 0
        assert grade(folder, "pytest", fixed, stay, "SKIPPED test_a\nPASSED test_b\nPASSED test_c\n")[0] == 1
        assert grade(folder, "pytest", fixed, stay, "ImportError: x\n")[0] == 3, "then it is not the bug that fails"

    def test_only_what_is_between_the_marks_counts(self, folder: Path) -> None:
        log = "PASSED a\n+ : '>>>>> Start Test Output'\nFAILED a\n+ : '>>>>> End Test Output'\nPASSED a\n"
        assert grade(folder, "pytest", ["a"], [], log)[0] == 1

    def test_another_format_goes_by_the_status_of_what_runs_the_tests(self, folder: Path) -> None:
        for runs, status in (("true", 0), ("(exit 7)", 7)):
            script = (
                f"#!/bin/bash\nset -uxo pipefail\n: {bug_datasets.MARKS[0]}\n{runs}\n: {bug_datasets.MARKS[1]}\ntrue\n"
            )
            command, files, failure, said = graded(script, "parse_log_jest", ["a"], [])
            (folder / "eval.sh").write_text(files["eval.sh"])
            done = subprocess.run(["bash", "-c", command], env={"task": str(folder), "PATH": "/usr/bin:/bin"})
            assert done.returncode == status
            assert (failure, "parse_log_jest" in said) == ({"exit_code": "nonzero"}, True)


def grade(folder: Path, parser: str, fails: list[str], passes: list[str], log: str) -> tuple[int, str]:
    """The status of the grading of a log, and what it prints."""
    command, files, _, _ = graded("", parser, fails, passes)
    for name, text in {**files, "log": log}.items():
        (folder / name).write_text(text)
    line = command.splitlines()[-1].replace("/tmp/eval.log", '"$task/log"')
    done = subprocess.run(
        ["bash", "-c", line], env={"task": str(folder), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert not done.stderr
    return done.returncode, done.stdout


class TestSweBench5:
    def test_a_task_is_built_from_its_dockerfile_and_graded_by_its_script(
        self, project: Project, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bug_datasets.task_repository(Path("repo"), project)
        assert invoke(["new", "--data-set", "swe-bench", "repo", "example__greet-7", "-o", "bugs"]) == 0
        assert capsys.readouterr().err.endswith("next: reprokit run bugs --fix\n")
        [file] = load("bugs/swe-bench-example-greet-7.yaml")
        case = file.case
        assert dict(case.matrix.axes) == {"os": ("debian-12",)}
        assert not case.sources
        assert case.environment.image in (None, "")
        assert "git init -q ." in str(case.environment.setup)
        assert case.files["eval.sh"] == (Path("repo/tasks/example__greet-7/eval.sh")).read_text()
        assert str(case.resources.user) == "root"
        assert file.fixed is not None
        assert file.fixed.env == {**case.env, "TASK_FIX": "1"}
        assert (file.fixed.files, file.fixed.environment) == (case.files, case.environment), "one image"
        assert "not a text: assets" not in file.text
        assert "Left out: assets of the Dockerfile: assets/a.png is not a text." in file.text

    def test_an_image_where_the_dockerfile_is_more_than_a_case_can_do(self, project: Project) -> None:
        bug_datasets.task_repository(Path("repo"), project, files={"Dockerfile": "FROM a\nFROM b\n"})
        assert invoke(["new", "--data-set", "swe-bench", "repo"]) == 0
        [file] = load("swe-bench-example-greet-7.yaml")
        assert file.case.environment.image == "swebench/sweb.eval.x86_64.example_1776_greet-7:latest"
        assert "The image as it is published: the Dockerfile has FROM 'b'" in " ".join(
            file.text.replace("\n#", "").split()
        )

    @pytest.mark.parametrize(
        "fields",
        [
            {"image": "swebench/x:latest", "eval_script": "pytest -rA", "log_parser": "parse_log_pytest"},
            {"docker_image": "swebench/x:latest", "test_cmds": ["pytest -rA"], "log_parser": "pytest"},
            {
                "image_name": "swebench/x:latest",
                "install_config": {"test_cmd": "pytest -rA", "log_parser": "parse_log_pytest"},
            },
        ],
        ids=["SWE-bench 5", "SWE-bench-Live", "SWE-rebench"],
    )
    def test_a_row_with_an_image(self, project: Project, fields: dict[str, Any]) -> None:
        Path("rows.jsonl").write_text(json.dumps(bug_datasets.row(project, **fields)))
        assert invoke(["new", "--data-set", "swe-bench", "rows.jsonl"]) == 0
        [file] = load("swe-bench-example-greet-7.yaml")
        assert file.case.environment.image == "swebench/x:latest"
        script = str(file.case.files["eval.sh"])
        assert "pytest -rA" in script
        assert ("test.patch" in script) == ("eval_script" not in fields)
        assert "does not say how" not in file.text

    @pytest.mark.parametrize(
        ("files", "fields", "why"),
        [
            ({"task.yaml": "instance_id: ../x\n"}, {}, "instance_id is not"),
            ({"task.yaml": "[" * 100_000}, {}, "is not YAML"),
            ({"task.yaml": "!!python/object/apply:os.system ['touch hacked']\n"}, {}, "not objects"),
            ({"tests.json": "[]"}, {}, "not objects"),
            ({"tests.json": '{"FAIL_TO_PASS": ["a\\nb"]}'}, {}, "each a text of one line"),
            ({"Dockerfile": "FROM a\nCOPY ../../../x /x\n"}, {"image": ""}, "without .."),
            ({"Dockerfile": ""}, {"image": "a b"}, "is not the name of an image"),
            ({}, {"repo": "../x"}, "is not a name"),
        ],
    )
    def test_a_hostile_task_is_refused(
        self, project: Project, files: dict[str, str], fields: dict[str, Any], why: str
    ) -> None:
        bug_datasets.task_repository(Path("repo"), project, files=files, **fields)
        assert why in why_refused("swe-bench", "repo")
        assert not Path("hacked").exists()

    def test_a_file_of_this_host_is_not_read(self, project: Project, folder: Path) -> None:
        (folder / "secret").write_text("of the host")
        bug_datasets.task_repository(Path("repo"), project)
        eval_script = Path("repo/tasks/example__greet-7/eval.sh")
        eval_script.unlink()
        eval_script.symlink_to(folder / "secret")
        assert "leads out of the data set" in why_refused("swe-bench", "repo")

    def test_a_folder_without_tasks(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert invoke(["new", "--data-set", "swe-bench", "."]) == 2
        assert "tasks/ID/task.yaml" in capsys.readouterr().err


def harbor(place: Path, **files: str) -> Path:
    """A task of Harbor; ``files`` replace those that it has, by their paths."""
    contents = {
        "task.toml": 'schema_version = "1.4"\n[environment]\nworkdir = "/app"\n[verifier.env]\nWHO = "${WHO:-a b}"\n',
        "instruction.md": "# Say hello\n\nWrite it to a file.\n",
        "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY start.txt .\n",
        "environment/start.txt": "start\n",
        "solution/solve.sh": "#!/bin/bash\necho hello > /app/hello.txt\n",
        "tests/test.sh": "#!/bin/bash\n[ -e /app/hello.txt ] && [ \"$WHO\" = 'a b' ]\n"
        "echo $((1 - $?)) > /logs/verifier/reward.txt\n",
        **files,
    }
    for name, text in contents.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


class TestHarbor:
    def test_a_task(self) -> None:
        harbor(Path("tasks/say-hello"))
        assert invoke(["new", "--data-set", "harbor", "tasks", "say-hello"]) == 0
        [file] = load("harbor-say-hello.yaml")
        case = file.case
        assert (case.title, dict(case.matrix.axes)) == ("Say hello", {"os": ("debian-12",)})
        assert 'cp -R /task/context/start.txt "."' in str(case.environment.setup)
        assert {"tests/test.sh", "solution/solve.sh", "context/start.txt"} == set(case.files)
        assert "env WHO='a b' /tests/test.sh" in str(case.command)
        assert str(case.expect.failure.output) == "/^reward: 0/"
        assert "installs packages" not in Path("harbor-say-hello.yaml").read_text()

    @pytest.mark.parametrize(
        "script", ["apt-get update\napt-get install -y curl\n", "if uvx pytest; then\n", "x && pip install a\n"]
    )
    def test_what_a_trial_cannot_install_is_said(self, script: str) -> None:
        """No network, and no capability of root: the reward is 0 for that alone."""
        harbor(Path("task"), **{"tests/test.sh": script})
        Path("task/tests/test.sh").chmod(0o755)
        assert invoke(["new", "--data-set", "harbor", "task"]) == 0
        assert "installs packages in test.sh or solve.sh" in " ".join(Path("harbor-task.yaml").read_text().split())

    def test_apt_of_a_dockerfile_brings_recommended_packages_where_it_does_not_decline_them(self) -> None:
        for line, expected in (("apt-get install -y gcc", True), ("dnf install gcc  # apt", False)):
            made = translate(f"FROM ubuntu:24.04\nRUN {line}\n", Path())
            assert any("Install-Recommends" in one for one in made.setup) is expected

    @pytest.mark.parametrize(
        ("files", "why"),
        [
            ({"task.toml": "steps = [{name = 'a'}]"}, "one step"),
            ({"task.toml": "="}, "not TOML"),
            ({"task.toml": "[environment]\nos = 'windows'"}, "Linux"),
            ({"task.toml": "[solution.env]\nTOKEN = '${TOKEN}'"}, "of the host"),
            ({"environment/docker-compose.yaml": ""}, "one container"),
            ({"environment/Dockerfile": "FROM a\nFROM b"}, "FROM 'b'"),
            ({"environment/Dockerfile": ""}, "docker_image"),
            ({"tests/test.sh": "\0"}, "no tests/test.sh"),
        ],
    )
    def test_what_is_not_imported_is_said(self, files: dict[str, str], why: str) -> None:
        harbor(Path("task"), **files)
        assert why in why_refused("harbor", "task")


class TestEarlierRows:
    @staticmethod
    def imported(project: Project, **fields: Any) -> tuple[str, str]:
        Path("rows.jsonl").write_text(json.dumps(bug_datasets.row(project, **fields)))
        assert invoke(["new", "--data-set", "swe-bench", "rows.jsonl"]) == 0
        [file] = load("swe-bench-example-greet-7.yaml")
        return str(file.case.files.get("fail_to_pass.txt", "")), file.text

    def test_a_name_that_is_cut_at_a_blank_is_the_whole_function(self, project: Project) -> None:
        names = ["tests/a.py::test_a[x", "tests/a.py::test_a[y", "tests/a.py::test_b[f(x[0]"]
        found, _ = self.imported(project, FAIL_TO_PASS=names)
        assert found == "tests/a.py::test_a\ntests/a.py::test_b\n"

    @pytest.mark.parametrize(
        ("recipe", "steps"),
        [
            ({"pip_packages": ["six==1.16.0"]}, [("pytest",), ("six==1.16.0",)]),
            ({"pip_packages": ["pytest==7.0.0"]}, [("pytest==7.0.0",)]),
            ({"packages": "pytest"}, [("pytest",)]),
        ],
    )
    def test_pytest_where_a_recipe_has_none(self, project: Project, recipe: dict[str, Any], steps: Any) -> None:
        self.imported(project, FAIL_TO_PASS=["tests/a.py::test_a"], install_config=recipe)
        [file] = load("swe-bench-example-greet-7.yaml")
        spec = render(file.case, {name: values[0] for name, values in file.case.matrix.axes.items()})
        assert [step.requirements for step in spec.environment.pip_steps] == steps

    def test_docstrings_of_django_are_the_modules_of_the_tests(self, project: Project) -> None:
        repo = {"repo": "django/django", "FAIL_TO_PASS": ["A docstring.", f"test_comma ({ID})"]}
        found, text = self.imported(project, **repo)
        assert "tests/runtests.py --parallel 1 --verbosity 2 test_greet\n" in text
        assert not found
