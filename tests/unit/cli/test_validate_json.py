"""``reprokit validate --json``: what editors, scripts and agents read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprokit.cli import invoke
from tests.documents import as_published

GOOD = "schema: reprokit/v1\nid: good\ntitle: Good\nmatrix: {os: [debian-12], n: [1, 2]}\ncommand: 'true'\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *words: str, status: int) -> dict[str, Any]:
    assert invoke(["validate", "--json", *words]) == status
    said = capsys.readouterr()
    assert said.err == ""
    found: dict[str, Any] = json.loads(said.out)
    assert found["format"] == "reprokit-validate/v1"
    as_published("validate", found)
    return found


def test_a_valid_case_comes_with_its_cells_digest_and_what_it_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.yaml").write_text(GOOD)
    found = printed(capsys, "good.yaml", status=0)
    [case] = found["cases"]
    assert (found["valid"], found["problems"]) == (True, [])
    assert (case["path"], case["id"], case["cells"], case["warnings"]) == ("good.yaml", "good", 2, [])
    assert case["digest"].startswith("sha256:")
    assert "asks" not in case
    assert case["digest"] in printed(capsys, "good.yaml", "--asks", status=0)["cases"][0]["asks"]


def test_every_problem_of_every_file_has_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.yaml").write_text(GOOD + "resources: {shmsize: 1g}\n")
    Path("two.yaml").write_text(GOOD.replace("command", "comand").replace("good", "two"))
    found = printed(capsys, "one.yaml", "two.yaml", status=2)
    assert (found["valid"], found["cases"]) == (False, [])
    assert {(one["path"], one["line"]) for one in found["problems"]} >= {("one.yaml", 6), ("two.yaml", 5)}
    near = next(one for one in found["problems"] if one["path"] == "one.yaml")
    assert near.keys() == {"path", "line", "column", "message", "hint"}
    assert "shm_size" in near["hint"]
