"""``reprokit exec`` and ``reprokit shell`` from the command line, on a fake engine."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.cli import exec_command, invoke
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE


def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    """Prints a line that depends on B, and ends with A."""
    sink(f"version {trial.env['B']}\n".encode())
    if trial.command[-1] == "binary":
        sink(b"\xff")
    return Ending(exit_code=int(trial.env["A"]), seconds=0.1)


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("REPROKIT_BASE_IMAGES", "registry")
    (tmp_path / "toy.yaml").write_text(CASE)
    fake = FakeEngine(behave)
    monkeypatch.setattr("reprokit.run.invocation._engine", lambda name: fake)
    return fake


def test_one_cell_writes_to_standard_output_and_its_exit_status_is_passed_on(
    engine: FakeEngine, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert invoke(["exec", "toy.yaml", "a=2,b=y", "--", "lib", "--", "binary"]) == 2
    assert capfdbinary.readouterr().out == b"version y\n\xff"
    assert engine.trials[-1].command == ("lib", "--", "binary")


def test_a_character_that_comes_in_two_pieces_is_whole_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown, data = exec_command._Shown(), "段错误\n".encode()
    for piece in (data[:4], data[4:]):
        shown(None, piece)  # type: ignore[arg-type]
    assert capsys.readouterr().out == "段错误\n"


def test_several_cells_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert invoke(["exec", "toy.yaml", "--only", "a=1", "--json", "out.json", "--", "lib"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["b=x: exit status 1", "b=y: exit status 1"]
    assert lines[3:] == ["Lines that differ: 1; the same in all cells: 0.", "         b=x  b=y", "version  x    y"]
    found = json.loads((tmp_path / "out.json").read_text())
    assert [(one["cell"]["b"], one["exit_code"]) for one in found["cells"]] == [("x", 1), ("y", 1)]
    assert invoke(["exec", "toy.yaml", "--", "lib"]) == 1  # 1 and 2: not the same in all


def test_what_is_on_standard_input_reaches_every_cell(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "given").write_bytes(b"\xff text")
    read: list[bytes] = []

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        mount = trial.mounts[-1]
        assert mount.read_only
        assert trial.command == ("sh", "-c", f'exec "$@" < {mount.target}/stdin', "sh", "cat")
        read.append((mount.source / "stdin").read_bytes())
        assert stat.S_IMODE(mount.source.stat().st_mode) == 0o755
        return Ending(exit_code=0, seconds=0.1)

    engine.behave = behave
    with (tmp_path / "given").open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        assert invoke(["exec", "toy.yaml", "-i", "--", "cat"]) == 0
    assert read == [b"\xff text"] * 4


def test_standard_input_that_cannot_be_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke(["exec", "-", "-i", "--", "cat"]) == 2
    assert "name the case by its file" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert invoke(["exec", "toy.yaml", "1", "-i", "--", "cat"]) == 2
    assert "standard input is a terminal" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", None)
    assert invoke(["exec", "toy.yaml", "1", "-i", "--", "cat"]) == 2
    assert "standard input is closed" in capsys.readouterr().err


def test_a_recorded_cell_is_named_alone(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(["run", "toy.yaml"])
    assert invoke(["exec", "last:3", "--", "lib"]) == 2
    assert invoke(["exec", "last:3", "a=1", "--", "lib"]) == 2
    assert "last:3 names a cell: leave out a=1" in capsys.readouterr().err


def test_folders_to_write_are_named_before_anything_is_built(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert invoke(["exec", "toy.yaml", "1", "--writable", "nowhere", "--", "lib"]) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err
    assert engine.built == []
    (tmp_path / "src").mkdir()
    assert invoke(["exec", "toy.yaml", "1", "--writable", "src", "--writable", "src=deep/er", "--", "lib"]) == 1
    assert [one.target for one in engine.trials[-1].mounts] == ["/workspace/src", "/workspace/deep/er"]


def test_a_shell_without_a_terminal_names_the_command_that_needs_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert invoke(["shell", "toy.yaml"]) == 2
    assert "reprokit exec CASE CELL -- COMMAND" in capsys.readouterr().err
