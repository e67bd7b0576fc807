"""Workflow commands, outputs and summaries that no text can break out of; read back as the runner reads them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.core.workflow_commands import MAX_SUMMARY, add_summary, command, quoted, set_outputs
from tests.unit.github.steps import entries, obeyed

HOSTILE = "x\n::add-mask::y\r\n::set-output name=a::b%0A::error::z"


@settings(deadline=None)
@given(st.text(), st.text())
def test_a_command_is_one_line_that_says_what_was_given(message: str, title: str) -> None:
    line = command("error", message, title=title, line=3)
    found = obeyed(line)
    assert "\n" not in line
    assert "\r" not in line
    assert line.count("::") >= 2
    (name, properties, _) = found[0]
    assert name == "error"
    assert properties.endswith("line=3")
    assert len(found) == 1


def test_the_escapes_are_the_documented_ones() -> None:
    assert command("warning", HOSTILE, file="a,b:c%", end_line=2) == (
        "::warning file=a%2Cb%3Ac%25,end-line=2::x%0A::add-mask::y%0D%0A::set-output name=a::b%250A::error::z"
    )
    assert command("endgroup") == "::endgroup::"


def test_outputs_hold_any_text(tmp_path: Path) -> None:
    file = tmp_path / "out"
    values = {"a": HOSTILE, "b": "", "c": "end-0\nEOF\nd=evil", "status": "1"}
    set_outputs(values, {"GITHUB_OUTPUT": str(file)})
    set_outputs({"later": "x=y<<z"}, {"GITHUB_OUTPUT": str(file)})
    read = entries(file.read_bytes().decode().replace("\r\n", "\n"))
    assert read == {**values, "a": HOSTILE.replace("\r\n", "\n"), "later": "x=y<<z"}
    with pytest.raises(ValueError, match="no name of an output"):
        set_outputs({"a\nb": "x"}, {"GITHUB_OUTPUT": str(file)})


def test_outside_of_a_workflow_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    set_outputs({"a": "b"}, {})
    add_summary("# hello", {})
    assert capsys.readouterr().out == "a=b\n# hello\n"


def test_a_long_summary_is_cut_where_github_would_drop_it(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    add_summary("é" * 40 + "\n" + "é" * 40 + "\n", {"GITHUB_STEP_SUMMARY": str(file)})
    assert file.read_text() == "é" * 40 + "\n" + "é" * 40 + "\n\n"
    file.unlink()
    add_summary("line é\n" * 400_000, {"GITHUB_STEP_SUMMARY": str(file)})
    assert MAX_SUMMARY - 100 < file.stat().st_size < 1024**2
    assert file.read_text().endswith("line é\n\n(cut: GitHub shows 1 MiB; the artifact has all)\n\n")


def test_quoted_text_is_not_a_command_and_cannot_end_the_quotation() -> None:
    out = io.StringIO()
    with quoted(out):
        out.write("::stop-commands::x\n::x::\n##[add-path]/tmp\n text ##[error]boo\n::add-mask::e")
    print("::notice::after", file=out)
    assert obeyed(out.getvalue()) == [("notice", "", "after")]
    assert len(obeyed("::add-mask::e\n text ##[error]boo\n")) == 2
