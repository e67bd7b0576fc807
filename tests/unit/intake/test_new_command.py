"""``reprokit new``: where the draft goes, and its summary."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.core import issues
from reprokit.environment.cases import load_text
from tests.unit.intake.reports import CONSOLE, FORM


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_draft_is_printed_and_summarised_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("report.md").write_text(FORM, encoding="utf-8")
    assert invoke(["new", "--from", "report.md"]) == 0
    shown = capsys.readouterr()
    assert load_text("case.yaml", shown.out, draft=True).case.command == "python bug.py"
    assert "from report.md: 1 cell" in shown.err
    assert "left out as secret or personal: " in shown.err


def test_a_file_is_written_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CONSOLE))
    assert invoke(["new", "--from", "-", "-o", "case.yaml"]) == 0
    assert "next: review case.yaml" in capsys.readouterr().err
    assert invoke(["validate", "case.yaml"]) == 0
    Path("case.yaml").write_text("mine", encoding="utf-8")
    Path("report.md").write_text(CONSOLE, encoding="utf-8")
    assert invoke(["new", "--from", "report.md", "-o", "case.yaml"]) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("case.yaml").read_text(encoding="utf-8") == "mine"
    assert invoke(["new", "--from", "report.md", "-o", "case.yaml", "--force"]) == 0


@pytest.mark.system
def test_a_draft_beside_the_schema_names_it_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    line = "# yaml-language-server: $schema=reprokit.schema.json\n"
    Path("report.md").write_text(CONSOLE, encoding="utf-8")
    assert invoke(["integrate", "schema"]) == 0
    Path("cases").mkdir()
    Path("cases/reprokit.schema.json").write_text(capsys.readouterr().out, encoding="utf-8")
    for target, named in (("cases/one.yaml", True), ("one.yaml", False)):
        assert invoke(["new", "--from", "report.md", "-o", target]) == 0
        assert Path(target).read_text(encoding="utf-8").startswith(line) is named
        assert invoke(["validate", target]) == 0
    assert invoke(["new", "-o", "cases/two.yaml", "--", "false"]) == 1
    assert Path("cases/two.yaml").read_text(encoding="utf-8").startswith(line)


def test_an_issue_is_read_with_its_title_and_its_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://github.com/nobody/tablelib/issues/7"
    body = issues.IssuePart(url=url, author="nobody", text=FORM)
    monkeypatch.setattr(issues, "read", lambda address: issues.Issue(url=address, title="Means are wrong", body=body))
    assert invoke(["new", "--from", url]) == 0
    shown = capsys.readouterr().out
    assert "title: Means are wrong\n" in shown
    assert f"url: {url}\n" in shown


def test_a_file_that_is_not_a_report_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hello.md").write_text("Hello!\n", encoding="utf-8")
    Path("picture.png").write_bytes(b"\x89PNG\0\xff\xfe")
    for source, words in (
        ("hello.md", "nothing in it that a case can be made of"),
        ("picture.png", "not text: copy what it shows"),
        ("none.md", "no such file"),
        (".", "folder"),
    ):
        assert invoke(["new", "--from", source, "-o", "case.yaml"]) == 2
        assert words in capsys.readouterr().err
    assert not Path("case.yaml").exists()


def test_a_report_that_holds_a_case_is_run_rather_than_drafted(capsys: pytest.CaptureFixture[str]) -> None:
    case = "schema: reprokit/v1\nid: a-b\ntitle: It dies\ncommand: python a.py\n"
    for name, text, where in (("issue.md", f"# It dies\n\n```yaml\n{case}```\n", " in line 4"), ("a.yaml", case, "")):
        Path(name).write_text(text, encoding="utf-8")
        assert invoke(["new", "--from", name]) == 2
        printed = capsys.readouterr()
        assert not printed.out
        assert f"{name} holds a case already{where}: reprokit validate {name} checks it" in printed.err


def test_what_is_missing_is_a_placeholder_that_validate_explains(capsys: pytest.CaptureFixture[str]) -> None:
    Path("report.md").write_bytes("# 启动之后一直没有窗口，什么也看不到\n\n系统是 Ubuntu 22.04。\n".encode("gb18030"))
    assert invoke(["new", "--from", "report.md", "-o", "case.yaml"]) == 0
    assert "write it under command" in capsys.readouterr().err
    assert invoke(["validate", "case.yaml"]) == 2
    assert invoke(["run", "case.yaml"]) == 2
    shown = capsys.readouterr().err
    assert "case.yaml:" in shown
    assert "write the command that fails, such as: python repro.py" in shown
    assert "write how it fails, such as {exception: ValueError" in shown


def test_an_unwritable_file_is_reported_before_any_question(capsys: pytest.CaptureFixture[str]) -> None:
    Path("report.md").write_text(CONSOLE)
    Path("taken").write_text("a file, and no folder")
    for source in (["--from", "report.md"], []):
        assert invoke(["new", *source, "-o", "taken/case.yaml"]) == 2
        there = Path("taken").absolute()
        assert f"-o taken/case.yaml: {there} cannot be written; name another file" in capsys.readouterr().err
    assert Path("taken").read_text() == "a file, and no folder"
