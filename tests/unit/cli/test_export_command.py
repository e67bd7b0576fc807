"""A cell as a folder that editors open. That its Dockerfile builds: tests/integration/test_run.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.cli import invoke
from tests.unit.run.test_runner import CASE


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written("files: {a/run.sh: 'echo ${HOME}'}\nresources: {shm_size: 64MiB}")


def written(more: str = "", shown: str = 'a "b" $HOME') -> None:
    case = CASE.replace("env: {A:", f"env: {{SHOWN: '{shown}', A:")
    Path("toy.yaml").write_text(case.replace("command: toy", f"{more}\ncommand: toy"))


def export(*words: str) -> int:
    return invoke(["render", "toy.yaml", "--devcontainer", *words, "--base", "registry"])


def test_an_editor_finds_the_cell_and_nothing_of_this_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert export("--only", "a=2,b=x", "-o", "out") == 0
    folder = Path("out/.devcontainer")
    assert [one.name for one in Path("out").iterdir()] == [".devcontainer"]
    about = json.loads((folder / "devcontainer.json").read_text())
    assert about == {
        "name": "toy: a=2 b=x",
        "build": {"dockerfile": "Dockerfile", "context": "."},
        "workspaceFolder": "/workspace",
        "workspaceMount": "",
        "containerEnv": {"PYTHONUNBUFFERED": "1", "SHOWN": 'a "b" $HOME', "A": "2", "B": "x"},
        "remoteUser": "repro",
        "updateRemoteUserUID": False,
        "init": True,
        "runArgs": [f"--shm-size={64 * 1024**2}"],
    }
    assert (folder / "files/a/run.sh").read_text() == "echo ${HOME}"
    assert (folder / "Dockerfile").read_text().count("FROM ") == 1
    said = capsys.readouterr().out
    assert "the command of the case: toy" in said
    assert "docker build out/.devcontainer" in said


def test_several_cells_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert export("--only", "a=2", "-o", "out") == 2
    assert "reprokit render toy.yaml --devcontainer -o out --only a=2,b=x" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_folder_that_is_in_use_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    kept = Path("out/.devcontainer/Dockerfile")
    kept.parent.mkdir(parents=True)
    kept.write_text("FROM mine")
    assert export("--only", "a=1,b=x", "-o", "out") == 2
    assert kept.read_text() == "FROM mine"
    assert "out is not an empty folder" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["${localEnv:TOKEN}", "${env:TOKEN}", "x${ LOCALENV:T}", "${localWorkspaceFolder}"])
def test_what_an_editor_would_fill_in_from_the_host_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    written(shown=value)
    assert export("--only", "a=1,b=x", "-o", "out") == 2
    assert "your host" in capsys.readouterr().err
    assert not Path("out").exists()


def test_real_data_is_mounted_where_it_is_named() -> None:
    written("datasets: {data: {path: d}}")
    Path("real").mkdir()
    assert export("--only", "a=1,b=x", "-o", "out", "--dataset", "data=real") == 0
    about = json.loads(Path("out/.devcontainer/devcontainer.json").read_text())
    assert about["mounts"] == [f"type=bind,source={Path('real').absolute()},target=/workspace/d,readonly"]
