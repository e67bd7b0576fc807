"""``reprokit share`` over recorded runs, and back."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from reprokit import cli
from reprokit.core.ownership import HOST
from reprokit.core.redaction import Omitted
from reprokit.core.version import DISTRIBUTION
from reprokit.evidence.details import CellDetails, FailureRecord
from reprokit.evidence.origin import OwnerRecord
from reprokit.evidence.records import ANSWER, RequestRecord, SearchRecord
from reprokit.intake.draft import summary
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
    assert "eproduces when numpy = 2 (10 of 10 runs; elsewhere 0 of 10" in text
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
    text = output(capsys, "share", "nightly.yaml")
    assert "Not run yet here" in text
    assert "tags: [x]" in text
    assert "reproduced" not in text
    assert "holds no run" in output(capsys, "share", "nightlies", status=2)


def test_one_of_several_cases_is_chosen_by_id(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    run = nights.run({"1": "N"})
    other = nights.run({"1": "R"}, case=CASE.replace("nightly", "other"), case_id="other")
    both = nights.store.run(other.id)
    merged = dataclasses.replace(both, id="20270101-1", cells=(*nights.store.run(run.id).cells, *(
        dataclasses.replace(cell, number=9) for cell in both.cells
    )))  # fmt: skip
    nights.store.put(merged, {})
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
    assert "It reproduces when" not in text


FIXED = CASE + "fix: {summary: Guard *it*., env: {A: b}}\n"


def test_a_case_is_shared_before_anything_was_run_with_its_fix_and_how_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    Path("nightly.yaml").write_text(FIXED)
    text = output(capsys, "share", "nightly.yaml", "-o", "issue.md") or Path("issue.md").read_text()
    assert not (tmp_path / "store").exists()
    assert "**Not run yet here:** this is the case alone, without verdicts." in text
    assert "**The fix:** Guard \\*it\\*. `--fix` runs it beside the case." in text
    assert f"\nuvx {DISTRIBUTION} run URL-OF-THIS-ISSUE --fix " in text
    # The copy breaks nothing beside the case, not even once the case is edited.
    Path("nightly.yaml").write_text(FIXED + "tags: [x]\n")
    Path("notes.md").write_text("# Notes\n\n```yaml\nkey: value\n```\n")
    Path("again.md").write_text(text)
    assert output(capsys, "validate", ".") == "nightly.yaml: nightly: valid (2 cells)\n"
    assert "1 case, 2 cells" in output(capsys, "list", ".")
    Path("nightly.yaml").unlink()
    assert output(capsys, "validate", ".") == "again.md: nightly: valid (2 cells)\n"
    assert "nothing was run here yet" in output(capsys, "share", status=2)


def test_the_last_run_that_says_something_is_shared(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    Path("nightly.yaml").write_text(CASE)
    failed = nights.run({"1": "E"})
    assert "Not run yet here" in output(capsys, "share", "nightly.yaml")
    assert "Not run yet here" in output(capsys, "share", "nightly")
    assert "says anything about its case" in output(capsys, "share", status=2)
    assert "engine-error" in output(capsys, "share", failed.id)  # a run that is named is shared as it is
    nights.run({"1": "?"})
    assert "build-failed" in output(capsys, "share")
    nights.run({"1": "N", "2": "R"})
    nights.run({"1": "?", "2": "?"})
    nights.run({"1": "E", "2": "E"})
    for words in ((), ("nightly",), ("nightly.yaml",)):
        assert "1 not-reproduced, 1 reproduced" in output(capsys, "share", *words)


def test_what_a_draft_says_it_left_out_is_not_a_secret(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    comments = "".join(
        f"# {line}\n"
        for line in summary((
            Omitted(kind="aws-access-key", where="line 20"),
            Omitted(kind="secret", where="env HF_TOKEN"),
            Omitted(kind="authorization", where="file a.sh, line 3"),
        ))
    )  # fmt: skip
    Path("draft.yaml").write_text(comments.replace("# ", "# - ") + CASE)
    assert "# - aws-access-key: line 20" in output(capsys, "share", "draft.yaml")
    Path("draft.yaml").write_text("# - aws-access-key: hunter2hunter\n" + CASE)
    assert "seems to contain a secret (secret, line 1" in output(capsys, "share", "draft.yaml", status=2)
