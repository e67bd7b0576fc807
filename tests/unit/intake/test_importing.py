"""``reprokit new --data-set``: what it writes, what it refuses, and what a hostile data set cannot do. No engine."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.cellspec import CellSpec
from reprokit.case.model import Case
from reprokit.case.render import render
from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.environment.cases import load
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending
from reprokit.intake import bug as checks
from reprokit.intake.bug import Bug, DatasetKind, _decode, python, write_cases
from reprokit.intake.importing import kinds
from tests import bug_datasets
from tests.bug_datasets import ID, TEST, Project, own_folder, shared_project

__all__ = ["own_folder", "shared_project"]
OTHER = '{{ 7 * 7 }} {% raw %} $(touch hacked) "; touch hacked #'
"""A text that is a template and shell."""


def both(file: str) -> tuple[Case, CellSpec, CellSpec]:
    """A case, and what it and its fix ask for in its cell."""
    [found] = load(file)
    assert found.fixed is not None
    cell = {name: values[0] for name, values in found.case.matrix.axes.items()}
    return found.case, render(found.case, cell), render(found.fixed, cell)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said of an import that writes nothing."""
    assert invoke(["new", "--data-set", *words]) == 2
    assert not list(Path().glob("*.yaml"))
    assert not Path("hacked").exists()
    return capsys.readouterr().err


class TestBugsInPy:
    def test_the_buggy_commit_with_the_tests_of_the_fix_and_the_fixed_commit(
        self, project: Project, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bug_datasets.bugsinpy(Path("data"), project, files={"setup.sh": "python setup.py build; touch a\r\n"})
        assert invoke(["new", "--data-set", "bugsinpy", "data", "greet:1", "-o", "bugs"]) == 0
        said = capsys.readouterr()
        assert said.out == "bugs/bugsinpy-greet-1.yaml\n"
        assert "--source greet=DIR --source greet-tests=DIR" in said.err
        case, buggy, fixed = both("bugs/bugsinpy-greet-1.yaml")
        assert (buggy.sources["greet"].ref, fixed.sources["greet"].ref) == (project.buggy, project.fixed)
        assert buggy.sources["greet-tests"] == fixed.sources["greet-tests"]
        assert buggy.sources["greet-tests"].ref == project.fixed
        assert "(cd .fixed && cp -r --parents -- tests ../greet/)" in buggy.environment.setup, "with what they use"
        assert buggy.environment.setup.endswith("python setup.py build\ntouch a\n"), "a step that fails stops the build"
        assert case.command == f"cd greet\npython -m unittest -q {ID}.test_comma\n"
        assert case.expect.reproduces == "all"
        assert (case.matrix.axes["os"], case.matrix.axes["python"]) == (("ubuntu-20.04",), ("3.8",))

    def test_a_sample_is_the_same_for_a_seed_also_when_the_set_grows(
        self, project: Project, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def drawn(out: str, sample: str) -> set[str]:
            assert invoke(["new", "--data-set", "bugsinpy", "data", "--sample", sample, "-o", out]) == 0
            return {one.stem for one in Path(out).iterdir()}

        bugs = bug_datasets.bugsinpy(Path("data"), project) / "projects/greet/bugs"
        for number in range(2, 9):
            shutil.copytree(bugs / "1", bugs / str(number))
        first = drawn("a", "4:spring")
        assert len(first) == 4
        assert drawn("b", "4:spring") == first != drawn("c", "4:autumn")
        for number in range(9, 13):
            shutil.copytree(bugs / "1", bugs / str(number))
        new = {f"bugsinpy-greet-{number}" for number in range(9, 13)}
        assert drawn("d", "4:spring") - first <= new
        assert "--sample 0:x" in refused(capsys, "bugsinpy", "data", "--sample", "0:x")

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_requirements_in_any_encoding(self, project: Project, encoding: str) -> None:
        text = "attrs==19.3.0\r\nsix==1.15.0\r\n"
        bug_datasets.bugsinpy(Path("data"), project, files={"requirements.txt": text.encode(encoding)})
        assert invoke(["new", "--data-set", "bugsinpy", "data"]) == 0
        _, buggy, _ = both("bugsinpy-greet-1.yaml")
        tools, step = buggy.environment.pip_steps
        assert "wheel" in tools.requirements, "or each source package gets an environment of its own"
        assert (step.requirements, step.options) == (("attrs==19.3.0", "six==1.15.0"), ("--no-deps",))

    def test_what_is_not_installed_is_said(self, project: Project) -> None:
        lines = [
            "# made by pip freeze",
            "pywin32==227",
            "pkg-resources==0.0.0",
            "greet==1.0.dev0",
            f"-e git+https://github.com/example/greet@{project.buggy}#egg=Greet",
            "six>=1.15; python_version < '4'",
            "attrs==19.3.0",
            "py==1.8.1",
        ]
        bug_datasets.bugsinpy(Path("data"), project, files={"requirements.txt": "\n".join(lines)})
        assert invoke(["new", "--data-set", "bugsinpy", "data"]) == 0
        _, buggy, _ = both("bugsinpy-greet-1.yaml")
        _, step = buggy.environment.pip_steps
        assert step.requirements == ("six>=1.15; python_version < '4'", "attrs==19.3.0", "py==1.8.1")
        assert not step.options, "a list with ranges is not complete"
        assert "\npip install -e . ||" in buggy.environment.setup
        text = " ".join(Path("bugsinpy-greet-1.yaml").read_text().replace("#", "").split())
        assert "Left out: pywin32==227: it is for Windows." in text
        assert "Left out: pkg-resources==0.0.0:" in text
        assert "Left out: greet==1.0.dev0:" in text

    def test_installs_of_setup_are_steps_of_pip_and_what_builds_the_project_is_not(self, project: Project) -> None:
        steps = "python setup.py install\npip install Six\npip3 install nose mock==4.0\n"
        steps += "pip install -e .\npip install ; pip install x>=1\n"
        files: dict[str, str | bytes] = {"requirements.txt": "six==1.15.0\n", "setup.sh": steps}
        bug_datasets.bugsinpy(Path("data"), project, files=files)
        assert invoke(["new", "--data-set", "bugsinpy", "data"]) == 0
        _, buggy, _ = both("bugsinpy-greet-1.yaml")
        _, *listed = (step.requirements for step in buggy.environment.pip_steps)
        assert listed == [("six==1.15.0",), ("nose", "mock==4.0")]
        assert "--no-build-isolation --no-deps -e ." in buggy.environment.setup, "what it pins may be in no index"
        assert "\npip install -e . ||" in buggy.environment.setup, "pip fetches what it needs, from the site's index"
        assert buggy.environment.setup.endswith("\npip install -e .\npip install\npip install 'x>=1'\n")

    def test_a_sequence_of_tests_pytest_without_a_version_and_tox(self, project: Project) -> None:
        commands = "pytest tests/a.py::T::test_a[x y]\n\npython3 -m pytest tests/a.py::test_b;tox tests/b.py::test_c\n"
        bug_datasets.bugsinpy(Path("data"), project, files={"run_test.sh": commands})
        assert invoke(["new", "--data-set", "bugsinpy", "data"]) == 0
        case, buggy, _ = both("bugsinpy-greet-1.yaml")
        assert isinstance(case.command, str)
        assert [shlex.split(line) for line in case.command.splitlines()] == [
            ["cd", "greet"],
            ["pytest", "tests/a.py::T::test_a[x", "y]"],
            ["python3", "-m", "pytest", "tests/a.py::test_b"],
            ["python", "-m", "pytest", "tests/b.py::test_c"],
        ]
        assert [step.requirements for step in buggy.environment.pip_steps] == [("pytest==5.4.3",)]
        assert "tox would install from the index" in Path("bugsinpy-greet-1.yaml").read_text()

    def test_folders_of_pythonpath_are_those_of_the_tree(self, project: Project) -> None:
        info = f'python_version="3.8.3"pythonpath="x/build/lib/;x"\nbuggy_commit_id="{project.buggy}"\n'
        info += f'fixed_commit_id="{project.fixed}"\ntest_file="{TEST}"'
        bug_datasets.bugsinpy(Path("data"), project, files={"bug.info": info})
        assert invoke(["new", "--data-set", "bugsinpy", "data"]) == 0
        _, buggy, _ = both("bugsinpy-greet-1.yaml")
        assert buggy.env == {"PYTHONPATH": "/workspace/greet/build/lib:/workspace/greet"}

    def test_one_that_is_wrong_is_reported_and_the_others_are_written(
        self, project: Project, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bug_datasets.bugsinpy(Path("data"), project)
        bug_datasets.bugsinpy(Path("data"), project, name="worse", files={"bug.info": "", "run_test.sh": "x"})
        assert invoke(["new", "--data-set", "bugsinpy", "data"]) == 2
        said = capsys.readouterr()
        assert said.out == "bugsinpy-greet-1.yaml\n"
        assert "worse:1: not written: data/projects/worse/bugs/1/bug.info: " in said.err
        assert "1 case written to .; 1 bug not written" in said.err

    def test_a_file_that_exists_is_kept(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        bug_datasets.bugsinpy(Path("data"), project)
        Path("bugsinpy-greet-1.yaml").write_text("mine")
        assert invoke(["new", "--data-set", "bugsinpy", "data"]) == 2
        assert "overwrite it with --force" in capsys.readouterr().err
        assert Path("bugsinpy-greet-1.yaml").read_text() == "mine"
        assert invoke(["new", "--data-set", "bugsinpy", "data", "--force"]) == 0
        both("bugsinpy-greet-1.yaml")

    def test_two_bugs_never_get_one_file(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        bug_datasets.bugsinpy(Path("data"), project, name="a-b")
        bug_datasets.bugsinpy(Path("data"), project, name="a_b")
        assert invoke(["new", "--data-set", "bugsinpy", "data", "--force"]) == 2
        assert "a_b:1: not written: its case would have the id bugsinpy-a-b-1" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["bugsinpi", "data"], "did you mean 'bugsinpy'?"),
            (["bugsinpy", "data/projects"], "a folder with projects/NAME/bugs/N is expected"),
            (["bugsinpy", "data", "gret"], "did you mean 'greet'?"),
            (["bugsinpy", "data", "greet:2"], "greet has no bug '2': it has 1"),
            (["bugsinpy", "data", "--pip", "six"], "--pip"),
            (["bugsinpy", "data", "--specs", "data/projects/greet/project.info"], "bugsinpy says itself"),
        ],
    )
    def test_wrong_usage(
        self, project: Project, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
    ) -> None:
        bug_datasets.bugsinpy(Path("data"), project)
        assert expected in refused(capsys, *words)

    def test_an_unknown_bug_is_refused_before_anything_is_written(
        self, project: Project, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bug_datasets.bugsinpy(Path("data"), project)
        assert "greet has no bug '2'" in refused(capsys, "bugsinpy", "data", "greet:1", "greet:2", "-o", "bugs")
        assert not Path("bugs").exists()


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("bug.info", 'buggy_commit_id="--upload-pack=x"\nfixed_commit_id="{fixed}"', "is not a commit"),
        ("bug.info", 'buggy_commit_id="HEAD"\nfixed_commit_id="{fixed}"', "is not a commit"),
        ("bug.info", '{commits}\ntest_file="../../etc/passwd"', "is not a path within the repository"),
        ("bug.info", '{commits}\ntest_file="/etc/passwd"', "is not a path within the repository"),
        ("bug.info", '{commits}\ntest_file=".git/hooks/pre-commit"', "is not a path of a file that a repository has"),
        ("bug.info", '{commits}\npythonpath="../.."', "is not a path within the repository"),
        ("requirements.txt", "--index-url https://example.com/simple", "is not a requirement of pip"),
        ("requirements.txt", "a @ https://example.com/a.whl", "is installed from an address"),
        ("requirements.txt", "a==1\n" + OTHER, "requirements.txt:2: "),
        ("run_test.sh", "", "it has no command"),
        ("bug_patch.txt", "--- a/../x.py\n+++ b/../x.py\n@@ -1 +1 @@\n-a\n+b\n", "is not a path within the repository"),
    ],
)
def test_what_leads_out_of_the_tree_or_names_no_commit_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str], file: str, content: str, expected: str
) -> None:
    commits = f'buggy_commit_id="{project.buggy}"\nfixed_commit_id="{project.fixed}"'
    content = content.replace("{commits}", commits).replace("{fixed}", project.fixed)
    bug_datasets.bugsinpy(Path("data"), project, files={file: content})
    assert expected in refused(capsys, "bugsinpy", "data")


@pytest.mark.parametrize("address", ["ext::sh -c touch% hacked", "git@example.com:a/b", "file:///etc", "https://a/b;c"])
def test_an_address_that_is_not_https_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    bug_datasets.bugsinpy(Path("data"), project)
    Path("data/projects/greet/project.info").write_text(f'github_url="{address}"')
    assert "is not the https:// address of a repository" in refused(capsys, "bugsinpy", "data")


def test_a_link_out_of_the_data_set_is_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    bug_datasets.bugsinpy(Path("data"), project)
    Path("private.txt").write_text("six==1.0")
    list_ = Path("data/projects/greet/bugs/1/requirements.txt")
    list_.unlink()
    list_.symlink_to(Path("private.txt").resolve())
    assert "a link that leads out of the data set" in refused(capsys, "bugsinpy", "data")


def test_texts_of_a_data_set_are_neither_templates_nor_shell(project: Project) -> None:
    """What the data set's own program would run as words is run as these words."""
    bug_datasets.bugsinpy(Path("data"), project, files={"run_test.sh": OTHER, "setup.sh": OTHER})
    assert invoke(["new", "--data-set", "bugsinpy", "data"]) == 0
    assert not Path("hacked").exists()
    _, buggy, _ = both("bugsinpy-greet-1.yaml")
    line = buggy.command[-1].splitlines()[1]
    first, rest = OTHER.split(";")
    assert shlex.split(line) == first.split()
    assert [shlex.split(one)[: len(rest.split())] for one in buggy.environment.setup.splitlines() if "hacked" in one][
        -1
    ] == rest.split()


class TestSweBench:
    def written(self, tmp_path: Path, *rows: Any) -> str:
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
        return "rows.jsonl"

    def test_the_patches_and_the_tests_of_a_row(self, project: Project, tmp_path: Path) -> None:
        assert invoke(["new", "--data-set", "swe-bench", self.written(tmp_path, bug_datasets.row(project))]) == 0
        case, buggy, fixed = both("swe-bench-example-greet-7.yaml")
        assert case.title == "A greeting has no comma"
        assert case.report is not None
        assert case.report.url == "https://github.com/example/greet/pull/7"
        assert buggy.sources["greet"].patch == project.diff(TEST)
        assert fixed.sources["greet"].patch == project.diff(TEST) + project.diff("greet.py")
        assert buggy.files["fail_to_pass.txt"].text == f"{ID}.test_comma\n"
        assert buggy.files["pass_to_pass.txt"].text == f"{ID}.test_is_text\n"
        assert isinstance(case.command, str)
        assert case.command.splitlines()[1:3] == [
            "mapfile -t tests < ../fail_to_pass.txt",
            'python -m unittest "${tests[@]}"',
        ]
        assert "does not say how version 1.0 is installed" in Path("swe-bench-example-greet-7.yaml").read_text()

    def test_how_a_version_is_installed_of_a_table_or_of_the_row(self, project: Project, tmp_path: Path) -> None:
        recipe = {
            "python": "3.9",
            "packages": "'numpy==1.19.2' pytest",
            "pip_packages": ["six==1.15.0"],
            "pre_install": ["sed -i s/{{/x/ a"],
            "install": "python -m pip install .",
            "eval_commands": ["export LANG=C.UTF-8"],
        }
        Path("specs.json").write_text(json.dumps({"example/greet": {"1.0": recipe}}))
        ids = json.dumps([f"{TEST}::GreetingTest::test_comma"])
        row = bug_datasets.row(project, FAIL_TO_PASS=ids, PASS_TO_PASS="[]")
        assert invoke(["new", "--data-set", "swe-bench", self.written(tmp_path, row), "--specs", "specs.json"]) == 0
        case, buggy, _ = both("swe-bench-example-greet-7.yaml")
        assert case.matrix.axes["python"] == ("3.9",)
        assert [step.requirements for step in buggy.environment.pip_steps] == [
            ("numpy==1.19.2", "pytest"),
            ("six==1.15.0",),
        ]
        assert buggy.environment.setup.splitlines()[-2:] == ["sed -i s/{{/x/ a", "python -m pip install ."]
        assert "export LANG=C.UTF-8\nmapfile" in buggy.command[-1]
        named = bug_datasets.row(project, install_config=recipe | {"packages": "requirements.txt"}, FAIL_TO_PASS=ids)
        assert invoke(["new", "--data-set", "swe-bench", self.written(tmp_path, named), "--force"]) == 0
        _, buggy, _ = both("swe-bench-example-greet-7.yaml")
        assert "for list in requirements.txt " in buggy.environment.setup
        assert not buggy.environment.pip_before, "a pin may be younger than the row"
        assert "pip install six==1.15.0\n" in buggy.environment.setup

    def test_bare_names_are_selected_in_the_files_of_the_patch(self, project: Project, tmp_path: Path) -> None:
        row = bug_datasets.row(project, FAIL_TO_PASS=["test_comma", "test_b"], PASS_TO_PASS=["test_is_text"])
        assert invoke(["new", "--data-set", "swe-bench", self.written(tmp_path, row)]) == 0
        case, buggy, _ = both("swe-bench-example-greet-7.yaml")
        assert f'python -m pytest {TEST} -k "${{tests[@]}}"' in case.command
        assert buggy.files["fail_to_pass.txt"].text == "test_comma or test_b\n"
        assert [step.requirements for step in buggy.environment.pip_steps] == [("pytest",)]

    @pytest.mark.parametrize(
        ("created", "day"), [("2024-01-31T23:00:00Z", "2024-01-31"), ("2019-08-21", "2023-11-01"), ("x", "2023-11-01")]
    )
    def test_packages_without_pins_are_of_the_row_s_day(self, project: Project, created: str, day: str) -> None:
        ids = ["a.py::test_a[f(x[0]", "a.py::test_b[a]"]
        row = bug_datasets.row(project, FAIL_TO_PASS=ids, created_at=created)
        assert invoke(["new", "--data-set", "swe-bench", self.written(Path(), row)]) == 0
        _, buggy, _ = both("swe-bench-example-greet-7.yaml")
        assert buggy.environment.pip_before == f"{day}T00:00:00Z"
        assert "# The data set pins no version" in Path("swe-bench-example-greet-7.yaml").read_text()
        assert buggy.files["fail_to_pass.txt"].text == "a.py::test_a\na.py::test_b[a]\n"

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"repo": "../../x"}, "is not a name"),
            ({"repo": "greet"}, "is not OWNER/NAME"),
            ({"repo": "example/greet;touch hacked"}, "is not a name"),
            ({"base_commit": "main"}, "is not a commit"),
            ({"patch": "not a patch"}, "it is not a patch"),
            ({"test_patch": "--- a/x\n+++ b/../../x\n@@ -1 +1 @@\n-a\n+b\n"}, "is not a path within the repository"),
            ({"test_patch": "--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+b\n"}, "is not a path of a file"),
            ({"test_patch": ""}, "test_patch is missing"),
            ({"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS names no test"),
            ({"FAIL_TO_PASS": {"a": 1}}, "FAIL_TO_PASS is not a list of tests"),
            ({"FAIL_TO_PASS": ["t.py::test_a\n-k x"]}, "FAIL_TO_PASS is not a list of tests"),
            ({"FAIL_TO_PASS": ["a sentence about it"]}, "is neither an id of pytest nor of unittest"),
            ({"install_config": {"pip_packages": ["--index-url=https://example.com"]}}, "is not a requirement of pip"),
            ({"install_config": {"reqs_path": ["../../etc/passwd"]}}, "is not a path within the repository"),
            ({"install_config": {"packages": "'a"}}, "packages of how it is installed: "),
            ({"install_config": "{"}, "install_config is not JSON"),
        ],
    )
    def test_a_row_that_is_wrong_is_refused(
        self,
        project: Project,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        fields: dict[str, Any],
        expected: str,
    ) -> None:
        rows = self.written(tmp_path, bug_datasets.row(project, **fields))
        said = refused(capsys, "swe-bench", rows)
        assert "example__greet-7: not written: " in said
        assert expected in said

    def test_wrong_rows_and_files(self, project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "row 1: not written: row 1 of rows.jsonl: an object" in refused(
            capsys, "swe-bench", self.written(tmp_path, 7)
        )
        rows = self.written(tmp_path, bug_datasets.row(project))
        assert "no instance 'example__greet-8'; did you mean 'example__greet-7'?" in refused(
            capsys, "swe-bench", rows, "example__greet-8"
        )
        Path("rows.parquet").write_bytes(b"PAR1...")
        assert "is a Parquet file: convert it" in refused(capsys, "swe-bench", "rows.parquet")
        Path("rows.jsonl").write_text('{"a": 1}\n{"a"\n')
        assert "rows.jsonl:2: it is not a line of JSON" in refused(capsys, "swe-bench", "rows.jsonl")
        Path("rows.json").write_text("[" * 100_000)
        assert "nested too deeply" in refused(capsys, "swe-bench", "rows.json")
        Path("rows.json").write_text("[]")
        assert "rows.json has no bugs" in refused(capsys, "swe-bench", "rows.json")

    @pytest.mark.parametrize("form", ["lines", "list", "one"])
    @pytest.mark.parametrize("mark", ["", "\ufeff", "\n \n"])
    def test_json_however_it_is_written(self, project: Project, form: str, mark: str) -> None:
        row = bug_datasets.row(project)
        text = {"lines": json.dumps(row), "list": json.dumps([row], indent=1), "one": json.dumps(row, indent=1)}[form]
        Path("rows.json").write_text(f"{mark}{text}\r\n", encoding="utf-8")
        assert invoke(["new", "--data-set", "swe-bench", "rows.json", "example__greet-7"]) == 0

    def test_a_signature_has_the_first_of_many_tests(self, project: Project, tmp_path: Path) -> None:
        names = [f"test_{number}_{'x' * (number % 7)}" for number in range(2000)]
        row = bug_datasets.row(project, FAIL_TO_PASS=[f"{TEST}::{name}" for name in names])
        assert invoke(["new", "--data-set", "swe-bench", self.written(tmp_path, row)]) == 0
        case, buggy, _ = both("swe-bench-example-greet-7.yaml")
        assert "(?:test_0_|test_1_x|" in str(case.expect.failure.output)
        assert len(buggy.files["fail_to_pass.txt"].text.splitlines()) == 2000


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.text() | st.sampled_from([OTHER, "a\rb", "{% endraw %}", "\x1b[2J", "\ud800"])
            for name in ("problem_statement", "version", "repo", "instance_id", "base_commit", "created_at")
        }
        | {"FAIL_TO_PASS": st.lists(st.text().map(lambda text: f"tests/a.py::test_a[{text}]"), min_size=1, max_size=3)},
    )
)
def test_any_text_of_a_row_is_refused_or_is_that_text_in_a_valid_case(fields: dict[str, Any]) -> None:
    row = bug_datasets.row(Fake("greet.git"), **fields)
    row["patch"] = row["test_patch"] = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+{{ b }}\n"
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "rows.jsonl"
        file.write_text(json.dumps(row))
        for one in write_cases(kinds()["swe-bench"].entries(file, (), None), Path(place), force=False):
            if one.file is None:
                assert one.why_not
                continue
            case, buggy, _ = both(str(one.file))
            assert buggy.sources[case.tags[1].partition("/")[2]].patch == row["test_patch"]
            written = buggy.files["fail_to_pass.txt"].text
            # A name that is cut at a blank is the whole function.
            names = [one if one.count("[") == one.count("]") else one.split("[")[0] for one in row["FAIL_TO_PASS"]]
            assert isinstance(row["FAIL_TO_PASS"], str) or written == "".join(
                f"{one}\n" for one in dict.fromkeys(names)
            )


class Fake(Project):
    """A project of which no commit is looked at."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder=Path(folder), buggy="a" * 40, fixed="b" * 40)

    def diff(self, *paths: str) -> str:
        return ""


@pytest.mark.parametrize(
    ("log", "matches"),
    [
        ("_____ GreetingTest.test_comma _____\nE  assert 1\n", True),
        ("FAILED tests/test_greet.py::GreetingTest::test_comma - assert 1\n", True),
        ("FAIL: test_comma (tests.test_greet.GreetingTest)\n", True),
        ("ERROR: test_comma (tests.test_greet.GreetingTest)\nKeyError: 1\n", True),
        ("E   ImportError: cannot import name 'x' from 'greet.y' (/a/b)\n", True),
        ("E   ModuleNotFoundError: No module named 'greet.new'\n", True),
        ("E   ModuleNotFoundError: No module named 'greet'\n", False),
        ("E   ModuleNotFoundError: No module named 'psutil'\n", False),
        ("____ ERROR at setup of test_comma ____\n", False),
        ("FAILED tests/test_greet.py::test_comma_too - assert 1\n", False),
        ("ERROR: not found: /a/tests/test_greet.py::test_comma\n", False),
    ],
)
def test_the_signature_is_the_test_and_not_an_environment_that_lacks_something(
    project: Project, log: str, matches: bool
) -> None:
    bug_datasets.bugsinpy(Path("data"), project)
    assert invoke(["new", "--data-set", "bugsinpy", "data", "--force"]) == 0
    case, _, _ = both("bugsinpy-greet-1.yaml")
    judged = judge(case.expect.failure, Ending(exit_code=1, seconds=1.0), log)
    assert (judged.outcome == "reproduced") is matches


@pytest.mark.parametrize(
    ("asked", "cell", "said"),
    [
        ("3.8.3", {"os": "ubuntu-20.04", "python": "3.8"}, "this is 3.8.10, of the same series"),
        ("3.6.9", {"os": "ubuntu-18.04", "python": "3.6"}, ""),
        ("3.7.0", {"os": "ubuntu-18.04", "python": "3.7"}, "this is 3.7.5, of the same series"),
        ("3.5.2", {"os": "ubuntu-16.04", "python": "3.5"}, ""),
        ("3.11.2", {"os": "debian-12", "python": "3.11"}, ""),
        ("3.4.3", {"os": "debian-12", "python": "3.4.3"}, "Python 3.4.3 is not available"),
        ("2.7", {"os": "debian-11", "python": "2.7"}, ""),
        ("1.5", {"os": "debian-12", "python": "1.5"}, "Python 1.5 is not available"),
        ("3.x; rm", {"os": "debian-12"}, "is not a version"),
        ("9" * 5000, {"os": "debian-12"}, "is not a version"),
        ("", {"os": "debian-12"}, "names no Python"),
    ],
)
def test_the_python_of_the_data_set_or_of_its_series(asked: str, cell: dict[str, str], said: str) -> None:
    found, why = python(asked)
    assert found == cell
    assert said in why if said else not why


@given(st.binary())
def test_any_bytes_are_text(data: bytes) -> None:
    _decode(data)


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        ("tests/test_a.py::TestA::test_x[1.0-test_y]", "test_x"),
        ("tests.test_a.TestA.test_x", "test_x"),
        ("test_x (a.b.TestA)", "test_x"),
        ("tests/test_a.py", ""),
        ("pytest", ""),
    ],
)
def test_the_function_in_the_id_of_a_test(identifier: str, name: str) -> None:
    assert checks.test_name(identifier) == name


def test_a_new_kind_is_one_object() -> None:
    """What someone writes who adds a data set: entries, each of which reads a bug or says what is wrong with it."""

    def entries(place: Path, chosen: Any, specs: Path | None) -> Any:
        for line in place.read_text().splitlines():
            yield checks.BugEntry(key=line, read=lambda line=line: bug(line))

    def bug(line: str) -> Bug:
        return Bug(
            key=line,
            case_id=f"mine-{line}",
            title=line,
            description="",
            tags=(),
            url="https://example.com",
            folder=checks.name(line, "mine"),
            git="https://example.com/a/b",
            buggy="a" * 40,
            fixed="b" * 40,
            command="make test\n",
        )

    kind = DatasetKind(name="mine", takes="PATH is a file", entries=entries)
    Path("mine.txt").write_text("one\n../two\n")
    first, second = write_cases(kind.entries(Path("mine.txt"), (), None), Path("out"), force=False)
    case, _, _ = both(str(first.file))
    assert case.expect.failure.exit_code == "nonzero"
    assert "'../two' is not a name" in second.why_not


def test_the_files_that_git_says_are_changed(folder: Path) -> None:
    """Every way in which git names a file: quoted, new, gone, renamed, with another mode, binary, empty."""
    names = ["plain.py", "with space.py", "ä.py", 'quo"te.py', "gone.py", "old name.py", "mode.py", "binary", "empty"]
    bug_datasets.git(folder, "init", "--quiet")
    for name in names:
        (folder / name).write_text("".join(f"{line}\n" for line in range(30)))
    bug_datasets.git(folder, "add", "-A")
    bug_datasets.git(folder, "commit", "--quiet", "-m", "before")
    for name in names[:4]:
        (folder / name).write_text("--- a/../x\n+++ b/../x\n")
    (folder / "gone.py").unlink()
    (folder / "old name.py").rename(folder / "new name.py")
    (folder / "mode.py").chmod(0o755)
    (folder / "binary").write_bytes(b"\0\xff")
    (folder / "empty").write_text("")
    (folder / "new.py").write_text("a")
    bug_datasets.git(folder, "add", "-A")
    said = bug_datasets.git(folder, "diff", "--cached", "--binary", "-M")
    assert set(checks.changed_files(said, "it")) == {*names, "new name.py", "new.py"}


def test_every_kind_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["new", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for kind in kinds().values():
        assert f"{kind.name}: PATH is" in said
    with pytest.raises(UsageError, match="is not a BugsInPy"):
        list(kinds()["bugsinpy"].entries(Path(), (), None))
