"""reprokit from Python: what ``import reprokit`` offers, on a fake engine."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import reprokit
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE
from tests.unit.test_docs import FENCE, ROOT


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: FakeEngine) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("REPROKIT_BASE_IMAGES", "registry")
    (tmp_path / "toy.yaml").write_text(CASE)
    return tmp_path


def test_a_run_is_typed_records_and_is_recorded(folder: Path) -> None:
    run = reprokit.run("toy.yaml")
    assert run.exit_status == 0
    assert [cell.verdict for cell in run.cells] == [reprokit.Verdict.NOT_REPRODUCED] * 2 + [
        reprokit.Verdict.REPRODUCED
    ] * 2
    failed = run.cells[2]
    assert failed.cell == {"a": "2", "b": "x"}
    assert failed.as_expected is True
    assert failed.trials[0].exit_code == 3
    assert run.log(failed.trials[0]) == "boom\n"
    result = json.loads(run.json())
    assert result["format"] == "reprokit-result/v1"
    assert result["run_id"] == run.id
    assert Path(result["store"]) == run.store == folder / "store"


def test_cells_are_selected_and_axes_replaced_as_on_the_command_line(tmp_path: Path) -> None:
    def cells(**given: object) -> list[dict[str, str]]:
        return [dict(cell.cell) for cell in reprokit.run("toy.yaml", **given).cells]  # type: ignore[arg-type]

    assert cells(only={"a": "2"}) == [{"a": "2", "b": "x"}, {"a": "2", "b": "y"}]
    assert cells(only=[{"a": ["1"], "b": "x"}, "a=2,b=y"]) == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]
    assert cells(skip="a=1", axes={"b": ["z"]}) == [{"a": "2", "b": "z"}]
    assert cells(only="a=1,b=x", python="3.11") == [{"a": "1", "b": "x", "python": "3.11"}]


def test_options_reach_the_run(tmp_path: Path, engine: FakeEngine) -> None:
    run = reprokit.run([Path("toy.yaml")], only="a=2,b=x", trials=3, confirm="never", fix=True, store=tmp_path / "own")
    assert [(cell.variant, len(cell.trials)) for cell in run.cells] == [("case", 3), ("fix", 3)]
    assert run.store == tmp_path / "own"


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"cases": "nope.yaml"}, reprokit.UsageError, "nope.yaml: no such file"),
        ({"cases": []}, reprokit.UsageError, "no case is given"),
        ({"only": {"a": "9"}}, reprokit.UsageError, "axis 'a' has no such value"),
        ({"cuda": "new"}, reprokit.UsageError, "--cuda new: expected a version"),
        ({"datasets": {"d": "nowhere"}}, reprokit.UsageError, "datasets['d']: nowhere is not a folder"),
        ({"trails": 3}, TypeError, "no argument 'trails'; did you mean 'trials'?"),
        ({"b": ["z"]}, TypeError, "other axes go into axes={'b': [...]}"),
        ({"trials": {"rate": 2}}, reprokit.UsageError, "trials: rate=2: expected a rate"),
        ({"trials": {"mx": 2}}, reprokit.UsageError, "did you mean 'max'?"),
        ({"trials": 0}, reprokit.UsageError, "trials: 0: expected a whole number"),
        ({"engine": "dokcer"}, reprokit.UsageError, "did you mean 'docker'?"),
    ],
)
def test_what_makes_no_sense_is_an_error_and_nothing_runs(
    folder: Path, engine: FakeEngine, given: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        reprokit.run(**{"cases": "toy.yaml", **given})  # type: ignore[arg-type]
    assert text in str(caught.value)
    assert not engine.trials
    assert not (folder / "store").exists()


def test_all_errors_of_a_case_come_with_their_positions(folder: Path) -> None:
    (folder / "wrong.yaml").write_text(CASE.replace("command: toy", "comand: toy").replace("exit_code", "exit_cod"))
    problems = reprokit.validate("wrong.yaml", "toy.yaml")
    assert [(problem.line, problem.column) for problem in problems] == sorted(
        (problem.line, problem.column) for problem in problems
    )
    assert any("did you mean 'command'" in problem.hint for problem in problems)
    with pytest.raises(reprokit.CaseError) as caught:
        reprokit.load("wrong.yaml")
    assert caught.value.problems == problems
    assert reprokit.validate("toy.yaml") == ()
    assert [file.case.title for file in reprokit.load("toy.yaml")] == ["A toy"]


def test_an_untrusted_case_is_refused_without_a_word_or_a_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: FakeEngine
) -> None:
    from reprokit.case.read import Text
    from reprokit.run import loading

    url = "https://example.org/toy.yaml"
    monkeypatch.setattr(loading, "fetch", lambda url: Text(path=url, text=CASE))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with pytest.raises(reprokit.UsageError, match=r"give --reviewed (sha256:[0-9a-f]{64})") as caught:
        reprokit.run(url)
    assert capsys.readouterr() == ("", "")
    assert not engine.trials
    digest = str(caught.value).partition("--reviewed ")[2].split()[0]
    assert reprokit.run(url, reviewed=[digest]).exit_status == 0


def test_an_interrupt_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprokit.api.Session.start", lambda session, request: 130)
    with pytest.raises(KeyboardInterrupt):
        reprokit.run("toy.yaml")


def test_notes_go_to_the_logger(caplog: pytest.LogCaptureFixture, engine: FakeEngine) -> None:
    engine.sweep = lambda: ["a container"]  # type: ignore[method-assign]
    with caplog.at_level(logging.INFO, logger="reprokit"):
        reprokit.run("toy.yaml")
    assert any("a container" in record.getMessage() for record in caplog.records)


@pytest.mark.system
def test_the_name_run_is_the_function_and_the_room() -> None:
    """Whichever is imported first."""
    for first in ("from reprokit.run import plan", "import reprokit"):
        code = f"{first}\nimport reprokit\nfrom reprokit import run, load\nimport reprokit.run.plan as plan\n"
        code += "assert callable(run) and reprokit.run is run and callable(plan.plan)\n"
        code += "try: reprokit.run()\nexcept TypeError as error: print(error)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "run() missing 1 required positional argument: 'cases'" in done.stdout, done.stderr


def test_the_import_is_light_until_something_is_used() -> None:
    code = (
        "import sys, reprokit; reprokit.__version__, dir(reprokit); "
        "print([name for name in sys.modules if name.startswith('reprokit.') or name in ('typing', 'click')])"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "['reprokit.core', 'reprokit.core.version']\n"


def test_everything_that_is_offered_exists() -> None:
    assert all(getattr(reprokit, name) is not None for name in reprokit.__all__)
    assert set(reprokit.__all__) <= set(dir(reprokit))
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        _ = reprokit.rnu  # type: ignore[attr-defined]


def test_the_examples_of_the_page_run(folder: Path) -> None:
    """The blocks of the page, one after the other, as a reader types them: with the case of the page."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    blocks = [body for _, language, body in FENCE.findall(page) if language == "python"]
    assert len(blocks) >= 4
    for body in blocks:
        exec(compile(body, "docs/api.md", "exec"), names)
