"""``pytest --reprokit``: cells as tests, on a fake engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import reprokit.api
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE, toy

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.system
assert reprokit.api  # loaded once for all: pytester forgets what is imported in its runs

Pytest = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Pytest:
    monkeypatch.setenv("REPROKIT_STORE", str(pytester.path / "store"))
    monkeypatch.setenv("REPROKIT_BASE_IMAGES", "registry")
    (pytester.path / "toy.yaml").write_text(CASE)

    def run(*words: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess("-p", "reprokit.pytest_plugin", "-p", "no:xdist", "--reprokit", *words)

    return run


def broken(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    """Fails with the signature where it should not, and otherwise where it should."""
    if trial.env["A"] == "1":
        sink(b"first\n\x1b[2Jboom\n")
        return Ending(exit_code=3, seconds=0.1)
    sink(b"another\n")
    return Ending(exit_code=4, seconds=0.1)


def test_each_cell_is_a_test_and_an_expected_failure_is_xfailed(run: Pytest) -> None:
    result = run("-v", "-rx")
    result.assert_outcomes(passed=2, xfailed=2)
    result.stdout.fnmatch_lines(
        [
            "toy.yaml::toy[[]a=1 b=x[]] PASSED*",
            "toy.yaml::toy[[]a=2 b=y[]] XFAIL*",
            "XFAIL toy.yaml::toy[[]a=2 b=x[]] - expected: reproduced",
        ]
    )


def test_no_text_of_a_case_acts_on_the_terminal_of_pytest(run: Pytest, pytester: pytest.Pytester) -> None:
    text = CASE.replace("b: [x, y]", 'b: ["x\\e[2J\\u202e", "y\\x9bm"]')
    assert text != CASE
    (pytester.path / "toy.yaml").write_text(text)
    result = run("-v", "-ra")
    assert "x\\x1b[2J\\u202e" in result.stdout.str()
    assert not [word for word in ("\x1b[2J", "\u202e", "\x9b") if word in result.stdout.str()]


def test_a_failing_test_shows_verdict_reason_and_log(run: Pytest, engine: FakeEngine) -> None:
    engine.behave = broken
    result = run()
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "reproduced (expected not-reproduced): *",
            "trial 1, the last lines of its log:",
            "  first",
            "  \\x1b[[]2Jboom",
            "more: reprokit show * 1",
            "different-failure (expected reproduced): *",
        ]
    )
    assert "pytest_plugin.py" not in result.stdout.str()


def test_a_case_that_no_longer_reproduces_is_strict_as_pytest_is_configured(run: Pytest, engine: FakeEngine) -> None:
    engine.behave = lambda trial, sink: Ending(exit_code=0, seconds=0.1)
    run().assert_outcomes(passed=2, xpassed=2)
    run("-o", "xfail_strict=true").assert_outcomes(passed=2, failed=2)


def test_what_this_host_cannot_serve_is_skipped_and_a_failed_build_fails(
    run: Pytest, engine: FakeEngine, pytester: pytest.Pytester
) -> None:
    from reprokit.core.errors import BuildFailed

    gpu = CASE.replace("command: toy", "command: toy\nresources: {gpus: 64}").replace("id: toy", "id: gpu")
    (pytester.path / "gpu.yaml").write_text(gpu)
    engine.build_error = BuildFailed("pip failed", step="RUN pip", tail=("no such package",))
    result = run("-rs")
    result.assert_outcomes(failed=4, skipped=4)
    result.stdout.fnmatch_lines(["SKIPPED*GPU*"])
    result.stdout.fnmatch_lines(["build-failed*: *"])


@pytest.mark.parametrize(
    ("words", "passed", "xfailed"),
    [
        (["toy.yaml::toy[a=2 b=y]"], 0, 1),
        (["toy.yaml::toy"], 2, 2),
        (["-k", "a-1"], 2, 0),
        (["-k", "a-2 and b-x or not a-2"], 2, 1),
    ],
)
def test_cells_are_selected_as_tests_are(run: Pytest, words: list[str], passed: int, xfailed: int) -> None:
    run(*words).assert_outcomes(
        passed=passed, xfailed=xfailed, deselected=0 if "::" in words[0] else 4 - passed - xfailed
    )


def test_the_last_failed_run_again(run: Pytest, engine: FakeEngine) -> None:
    engine.behave = broken
    run("-x").assert_outcomes(failed=1)
    engine.behave = toy
    run("--lf").assert_outcomes(passed=1)


def test_each_test_is_a_run_in_the_store_that_junit_names(run: Pytest, pytester: pytest.Pytester) -> None:
    from reprokit.store.database import Store

    run("--junitxml", "r.xml", "-k", "a-2 and b-y")
    [recorded] = Store(pytester.path / "store").runs()
    text = (pytester.path / "r.xml").read_text()
    assert f'name="reprokit_run" value="{recorded.id}"' in text
    assert 'name="verdict" value="reproduced"' in text


def test_a_wrong_case_is_an_error_of_collection_with_all_positions(run: Pytest, pytester: pytest.Pytester) -> None:
    (pytester.path / "toy.yaml").write_text(CASE.replace("command: toy", "comand: toy"))
    (pytester.path / "other.yaml").write_text("a: tool's own file\n")
    (pytester.path / "toy.lock.yaml").write_text("schema: reprokit/v1\n")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*toy.yaml:6:1: *did you mean 'command'*"])


def test_a_named_file_without_a_case_says_so(run: Pytest, pytester: pytest.Pytester) -> None:
    (pytester.path / "notes.md").write_text("# no case\n")
    result = run("notes.md")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*notes.md*no fenced block holds*"])


def test_an_error_of_the_engine_is_its_message(run: Pytest, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise reprokit.EngineError("no engine answers: install one")

    monkeypatch.setattr("reprokit.run.invocation._engine", none)
    result = run("-k", "a-1 and b-x")
    result.assert_outcomes(failed=1, deselected=3)
    result.stdout.fnmatch_lines(["no engine answers: install one"])
    assert "Traceback" not in result.stdout.str()


def test_xdist_groups_cells_by_their_image(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in its processes, which are given ``loadgroup``."""
    case = CASE.replace("command: toy", 'command: toy\nenvironment: {setup: "echo {{ a }}"}')
    (pytester.path / "toy.yaml").write_text(case)
    (pytester.path / "conftest.py").write_text(
        "def pytest_configure(config): config.option.loadgroup = True\n"
        "def pytest_itemcollected(item): print('GROUP', item.name, item.get_closest_marker('xdist_group').args[0])\n"
    )
    result = pytester.runpytest_inprocess(
        "-p", "reprokit.pytest_plugin", "-p", "no:xdist", "--reprokit", "--collect-only", "-s", "toy.yaml"
    )
    groups = [line.split("GROUP ")[1] for line in result.stdout.lines if "GROUP" in line]
    one, two = (group.split()[-1] for group in groups[1:3])
    assert [group.split()[-1] for group in groups] == [one, one, two, two]
    assert one != two


@pytest.mark.system
def test_without_the_option_nothing_is_collected_or_imported(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(CASE)
    (tmp_path / "test_one.py").write_text(
        "import sys\ndef test_one():\n"
        "    found = {name.removeprefix('reprokit.') for name in sys.modules if name.startswith('reprokit.')}\n"
        "    assert found == {'core', 'core.version', 'pytest_plugin'}\n"
    )
    words = [sys.executable, "-m", "pytest", "-p", "reprokit.pytest_plugin", "-p", "no:cacheprovider", "-q", "."]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
