"""Another author's case may have the id of the user's own: its records are apart, and no verdict of that."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reprokit.case.read import Text
from reprokit.case.trust import Trust
from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.core.ownership import ownership
from reprokit.evidence.details import CellDetails
from reprokit.evidence.origin import OwnerRecord, WorkflowRecord
from reprokit.evidence.records import RequestRecord
from reprokit.run import loading
from reprokit.run.request import Request
from reprokit.store.database import Store
from tests.unit.nights import CASE, Nights
from tests.unit.run.test_runner import CASE as TOY
from tests.unit.run.test_runner import Project

URL, OTHER = "https://cases.example.org/nightly.yaml", "https://other.example.org/nightly.yaml"
THEIRS = {
    "unread": (URL, Trust.STRANGER),
    "read": (URL, Trust.REVIEWED),
    "capitals": (URL.replace("https", "HTTPS"), Trust.STRANGER),
    "file": ("draft.yaml", Trust.STRANGER),
    "issue on CI": ("/runner/review/case.yaml", Trust.REVIEWED),
}


@pytest.mark.parametrize("whose", THEIRS)
def test_no_command_joins_another_authors_case_to_the_users_own_of_the_same_id(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        invoke([*words])
        seen = capsys.readouterr()
        return seen.out + seen.err

    monkeypatch.chdir(tmp_path)
    Path("nightly.yaml").write_text(CASE)
    path, trust = THEIRS[whose]
    own, both = Nights(tmp_path / "own"), Nights(tmp_path / "both")
    for nights in (own, both):
        nights.run({"1": "N", "2": "R"})
        nights.run({"1": "N", "2": "R"})
    for _ in range(2):
        both.run({"1": "R", "2": "N"}, case_path=path, details=CellDetails(trust=trust))
    commands = (
        *("history nightly", "history nightly --json", "history --since 2026-01-02 --exit-code nightly"),
        *("report nightly --format csv", "show --why nightly", "show --why nightly.yaml", "list nightly.yaml"),
        *("share nightly -o - --yes", "share nightly.yaml -o - --yes", "store rejudge nightly"),
    )
    for command in commands:
        shown = [said(*command.split(), "--store", store) for store in ("own", "both")]
        assert shown[0].replace("own", "both") == shown[1].replace("own", "both"), command
    monkeypatch.setattr(loading, "fetch", lambda url: pytest.fail(f"{url} was fetched"))
    origin = path if "://" in path else both.store.run("last").cells[0].case_digest
    Path("nightly.yaml").unlink()
    assert "does not hold it any more" in said("validate", "nightly", "--store", "both")
    assert said("history", origin, "--store", "both").startswith(f"nightly from {origin}: 2 cells, 2 runs")
    said("report", "-o", "site", "--store", "both")
    data = Path("site/data/overview.js").read_text()
    cases = json.loads(data[data.index("{") : data.rindex("}") + 1])["cases"]
    assert {one["id"] for one in cases} == {"nightly", f"nightly from {origin}"}
    assert len({one["name"] for one in cases}) == 2


def test_an_id_names_the_case_of_another_author_where_no_other_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(command: str) -> str:
        status = invoke([*command.split(), "--store", str(tmp_path / "store")])
        return f"{status} {capsys.readouterr()}"

    nights = Nights(tmp_path / "store")
    nights.run({"1": "N", "2": "R"}, case_path=URL, details=CellDetails(trust=Trust.STRANGER))
    commands = ("history {}", "report {} --format csv", "share {} --yes", "share --case {} --yes", "show --why {}")
    for command in (*commands, "store rejudge {}"):
        words = [*command.split(), "--store", str(tmp_path / "store")]
        invoke([word.format(f"nightly from {URL}") for word in words])
        whole = capsys.readouterr()
        assert "no run of" not in whole.err, command
        assert said(command.format("nightly")).endswith(f" {whole}"), command
    for name in ("last", "20260101-020000-0001"):
        nights.run({"1": "N", "2": "N"}, case_id=name, case=CASE.replace("nightly", name), case_path="http://x.org")
        nights.run({"1": "N", "2": "R"}, case_path=URL, details=CellDetails(trust=Trust.STRANGER))
        assert "id: nightly" in said(f"share {name} --yes")
        assert "numpy = 2" in said(f"show {name} --why")
    two = nights.run({"1": "N", "2": "R"}, case_path=OTHER, details=CellDetails(trust=Trust.STRANGER))
    for command in commands:
        answer = said(command.format("nightly"))
        assert answer.startswith("2 ") == ("--case" not in command), command
        assert (URL in answer and OTHER in answer) == ("--case" not in command), command
        assert said(command.format(URL)).startswith("0 ") == ("--case" not in command), command
    own = nights.run({"1": "R", "2": "N"})
    assert "2 cells in both" not in said(f"diff {two.id} {own.id}")
    assert said(f"diff {two.id} {own.id}").count("only here") == 4


@pytest.mark.parametrize(("first", "second"), [(URL, ""), ("", URL), (URL, OTHER), (URL, URL), ("", "")])
def test_no_record_of_another_origin_is_reused_or_the_last_run(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path)
    monkeypatch.setattr(loading, "fetch", lambda url: Text(path=url, text=TOY))
    project.run(cases=(first or str(project.case),), yes=True)
    project.session = project.new_session()
    project.run(cases=(second or str(project.case),), yes=True, reuse=9999.0)
    assert [bool(cell.reused_from) for cell in project.cells] == [first == second] * 4
    elsewhere = Request(cases=(f"{URL}?ref=2",), yes=True, base_images="registry")
    with pytest.raises(UsageError, match="is recorded here"):
        project.new_session().start(elsewhere, failed=True)


def test_jobs_of_the_users_own_join_and_those_of_another_origin_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for job, (cells, path) in enumerate((({"1": "N"}, "a.yaml"), ({"2": "R"}, "b.yaml"), ({"1": "R"}, URL))):
        trust = Trust.STRANGER if path == URL else Trust.OWN
        Nights(tmp_path / "jobs" / str(job)).run(
            cells,
            case_path=path,
            details=CellDetails(trust=trust),
            owner=OwnerRecord(labels={**ownership(), "job": str(job)}),
            request=RequestRecord(workflow=WorkflowRecord(run="7", attempt="1", repository="me/mine")),
        )
    invoke(["store", "merge", str(tmp_path / "jobs"), "--store", str(tmp_path / "merged")])
    store = Store(tmp_path / "merged")
    [run] = store.runs()
    found = [(cell.case_key, dict(cell.cell)["numpy"]) for cell in store.run(run.id).cells]
    assert sorted(found) == [("nightly", "1"), ("nightly", "2"), (f"nightly from {URL}", "1")]
    assert len({cell.trials[0].log for cell in store.run(run.id).cells}) == 3


def test_a_case_of_a_long_id_has_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path)
    text = re.sub("(?m)^id: .*", f"id: {'x' * 300}", TOY)
    monkeypatch.setattr(loading, "fetch", lambda url: Text(path=url, text=text))
    project.run(cases=(URL,), yes=True)
    logs = [trial.log for cell in project.cells for trial in cell.trials]
    assert logs
    assert all((tmp_path / "store" / log).exists() for log in logs)
