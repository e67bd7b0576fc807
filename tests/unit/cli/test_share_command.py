"""``reprokit share`` over recorded runs, and back."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from reprokit import cli
from reprokit.core.ownership import HOST
from reprokit.evidence.details import CellDetails, FailureRecord
from reprokit.evidence.origin import OwnerRecord
from reprokit.evidence.records import ANSWER, RequestRecord, SearchRecord
from tests.unit.nights import CASE, Nights


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return Nights(tmp_path / "store")


def output(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert cli.invoke(list(words)) == status
    out, err = capsys.readouterr()
    return out if status == 0 else err


def test_a_run_a_case_and_a_file_of_it_are_shared_and_read_back(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    run = nights.run({"1": "N", "2": "R"})
    text = output(capsys, "share")
    assert text.startswith("## Run every night\n")
    assert "| `numpy` | verdict | why |" in text
    assert "In 3 trials each: failed in the 1 cell with numpy = 2" in text
    assert output(capsys, "share", run.id[:12]) == text
    assert output(capsys, "share", "nightly") == text
    Path("nightly.yaml").write_text(CASE)
    assert output(capsys, "share", "nightly.yaml", "-o", "issue.md") == ""
    assert Path("issue.md").read_text() == text
    assert "valid (2 cells)" in output(capsys, "validate", "issue.md")
    assert output(capsys, "share", "issue.md") == text  # the same case, digest and all


def test_an_edited_case_is_not_the_one_that_ran(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    nights.run({"1": "N", "2": "R"})
    Path("nightly.yaml").write_text(CASE + "tags: [x]\n")
    assert "no run of the current text of the case 'nightly' is recorded; run it first" in output(
        capsys, "share", "nightly.yaml", status=2
    )
    assert "holds no run" in output(capsys, "share", "nightlies", status=2)


def test_one_of_several_cases_is_chosen_by_id(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    run = nights.run({"1": "N"})
    other = nights.run({"1": "R"}, case=CASE.replace("nightly", "other"), case_id="other")
    both = nights.store.run(other.id)
    merged = dataclasses.replace(both, id="20270101-1", cells=(*nights.store.run(run.id).cells, *(
        dataclasses.replace(cell, number=9) for cell in both.cells
    )))  # fmt: skip
    nights.store.begin(merged, {})
    assert "--case ID (nightly, other)" in output(capsys, "share", "20270101-1", status=2)
    assert "**reproduced**" in output(capsys, "share", "20270101-1", "--case", "other")
    assert "did you mean 'other'" in output(capsys, "share", "20270101-1", "--case", "othr", status=2)


def test_a_case_that_holds_a_secret_is_not_shared_by_mistake(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    token = "ghp_" + "a1B2" * 9
    nights.run({"1": "R"}, case=CASE + f"env: {{HF_TOKEN: {token}}}\n")
    refused = output(capsys, "share", status=2)
    assert "line 7" in refused
    assert token not in refused
    assert token in output(capsys, "share", "--yes")


def test_names_of_this_host_and_user_are_removed(
    nights: Nights, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "wonderland.example")
    title = "failed on wonderland.example and lookingglass in /home/alice/x with hf_" + "Ab3" * 11
    made_by = OwnerRecord(labels={HOST: "lookingglass/0123"})
    details = CellDetails(failure=FailureRecord(version="1", id="x", kind="AError", title=title))
    nights.run({"1": "N", "2": "R"}, owner=made_by, details=details)
    text = output(capsys, "share")
    assert "failed on" in text
    assert "wonderland" not in text
    assert "lookingglass" not in text
    assert "alice" not in text
    assert "hf_Ab3" not in text


def test_a_search_is_shared_with_its_answer(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    digest = "sha256:" + hashlib.sha256(CASE.encode()).hexdigest()
    search = SearchRecord(kind="isolate", line=("isolate",), digest=digest)
    run = nights.run({"1": "N", "2": "R"}, request=RequestRecord(search=search))
    nights.store.find(run.id, ANSWER, {"words": ["it takes numpy 1 -> 2"], "exit_status": 0})
    text = output(capsys, "share")
    assert "it takes numpy 1 -> 2" in text
    assert "It reproduces exactly" not in text
