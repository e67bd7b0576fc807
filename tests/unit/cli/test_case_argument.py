"""CASE as the id of a case: found below this folder, else where it was run from."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.cli import case_argument, cli, invoke
from reprokit.core.files import shipped
from reprokit.evidence.records import RequestRecord
from tests.unit.nights import Nights

CASE = """\
schema: reprokit/v1
id: {}
title: A title
matrix: {{n: ["1", "2"]}}
command: echo {{{{ n }}}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    folder = tmp_path / "here"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "one.yaml").write_text(CASE.format("the-one"))
    (folder / "deep" / "two.yml").write_text(CASE.format("the-two"))
    (folder / "deep" / "shared.md").write_text(f"# Shared\n\n```yaml\n{CASE.format('the-one')}```\n")
    (folder / "compose.yaml").write_text("id: the-one\nservices: {}\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("command", ["validate", "list"])
def test_an_id_is_accepted_where_a_path_is(command: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([command, "the-one"]) == 0
    assert "the-one" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "render", "lock", "isolate", "bisect", "reduce"])
def test_an_unknown_id_is_reported_with_a_near_match(
    command: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([command, "the-tow"]) == 2
    words = capsys.readouterr().err
    assert "the-tow: there is no such file or folder, and no case of this id was run or lies below this folder" in words
    assert "did you mean 'the-two'?" in words


def test_two_files_with_an_id_are_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "again.yaml").write_text(CASE.format("the-one"))
    assert invoke(["validate", "the-one"]) == 2
    assert "again.yaml and deep/er/one.yaml have this id" in capsys.readouterr().err


def test_the_id_of_a_case_that_was_run_elsewhere_is_its_file(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = RequestRecord(asked={"cases": [str(here / "deep")]})
    Nights(tmp_path / "store").run({"1": "R"}, case_id="the-two", request=asked, case_path="deep/two.yml")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert invoke(["validate", "--cells", "the-two"]) == 0
    assert "the-two: n=1" in capsys.readouterr().out
    (here / "deep" / "two.yml").unlink()
    assert invoke(["validate", "--cells", "the-two"]) == 2
    assert "the case was run from deep/two.yml, which does not hold it any more" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["validate", "render"])
def test_the_case_that_comes_with_reprokit_needs_no_checkout(
    command: str, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--only", "cuda=11.7,arch=sm_90"] if command == "render" else []
    assert invoke([command, case_argument.EXAMPLE, *options]) == 0
    assert capsys.readouterr().out
    assert sorted(path.name for path in here.iterdir()) == ["compose.yaml", "deep"]
    assert not (tmp_path / "store").exists()


def test_a_case_of_the_users_own_comes_before_the_one_that_comes_with_reprokit(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cells() -> int:
        assert invoke(["validate", "--cells", case_argument.EXAMPLE]) == 0
        return capsys.readouterr().out.count("\n")

    theirs = cells()
    (here / "own.yaml").write_text(CASE.format(case_argument.EXAMPLE))
    assert cells() < theirs
    asked = RequestRecord(asked={"cases": [str(here / "own.yaml")]})
    Nights(tmp_path / "store").run({"1": "R"}, case_id=case_argument.EXAMPLE, request=asked, case_path="own.yaml")
    monkeypatch.chdir(tmp_path)
    assert cells() < theirs
    (here / "own.yaml").unlink()  # as the folder that `uvx` ran it from
    assert cells() == theirs


def test_the_help_names_the_case_that_comes_with_reprokit(capsys: pytest.CaptureFixture[str]) -> None:
    assert f"reprokit run {case_argument.EXAMPLE}`" in (cli.epilog or "")
    assert f"id: {case_argument.EXAMPLE}\n" in shipped("cases/ptxas_unknown_arch.yaml").read_text()
    assert invoke(["run"]) == 2
    assert f"reprokit run {case_argument.EXAMPLE}" in capsys.readouterr().err
