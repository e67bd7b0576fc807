"""The registry of report formats: every format that says it is scrubbed is, and one module makes one more."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from reprokit.cli import invoke
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails, FailedBuildRecord, FailureRecord
from reprokit.evidence.origin import OwnerRecord
from reprokit.evidence.records import RunRecord
from reprokit.report import formats
from reprokit.report.formats import Format, FormatSources, PagesFormat, RunFormat, scrub_run
from reprokit.report.html.building import PagesRequest
from tests.unit.nights import Nights
from tests.unit.report.test_html import nights, report

__all__ = ["nights"]

TOKEN = "ghp_" + "a1B2" * 9
PRIVATE = f"in /home/alice/work on dune-7.corp.example, as alice@dune-7.corp.example, token={TOKEN}"
WORDS = (TOKEN, "alice", "dune-7")
ALL = formats.formats()


@pytest.fixture
def run(nights: Nights) -> RunRecord:
    """A recorded run that says private things in every field that can hold them."""
    (nights.store.folder / "runs/none.log").write_text(f"one\n{PRIVATE}\n")  # the log of every trial
    failure = FailureRecord(id="0123456789ab", kind="ValueError", title=PRIVATE, message=PRIVATE, version="1")
    build = FailedBuildRecord(step=PRIVATE, tail=(PRIVATE,))
    nights.run(
        {"1": "R", "2": "O"},
        owner=OwnerRecord(labels={"org.reprokit.host": "dune-7.corp.example/boot/pid"}),
        engine=f"Docker Engine 20.10 {PRIVATE}",
        kernel=PRIVATE,
        reason=PRIVATE,
        case_path="/home/alice/bugs/nightly.yaml",
        repeat=f"docker run -v /home/alice/data -e HF={TOKEN}",
        dockerfile=f"FROM debian\nENV TOKEN={TOKEN}\nRUN echo {PRIVATE}\n",
        details=CellDetails(failure=failure, build=build),
        environment=Measured(os="debian-12", glibc=PRIVATE, packages={"pip": {"six": PRIVATE}}),
    )
    return nights.store.run("last")


def _written(form: Format, run: RunRecord, nights: Nights, folder: Path) -> str:
    """All that the format writes of the run."""
    if isinstance(form, RunFormat):
        return form.text(run, FormatSources.of(nights.store, run))
    assert isinstance(form, PagesFormat)
    form.write(nights.store, folder, PagesRequest(), form.scrubber([run]))
    return "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("form", ALL.values(), ids=ALL)
def test_a_scrubbed_format_holds_nothing_private(form: Format, run: RunRecord, nights: Nights, tmp_path: Path) -> None:
    text = _written(form, run, nights, tmp_path / "out")
    assert run.id in text or "reproduced" in text
    if form.scrubbed:
        assert [word for word in WORDS if word in text] == []
    else:
        assert TOKEN in text, "a format that leaves private things out must say so"


@pytest.mark.parametrize("form", ALL.values(), ids=ALL)
def test_every_format_is_offered_with_its_help(
    form: Format, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ALL[form.name] is form
    assert form.suffix == "" if isinstance(form, PagesFormat) else form.suffix.startswith(".")
    report("--help")
    assert f"{form.name} ({form.help})" in " ".join(capsys.readouterr().out.split())


def test_what_a_case_says_stays_and_everything_else_is_scrubbed(run: RunRecord) -> None:
    cell = replace(run.cells[0], cell={"user": "alice"}, case_id="alice")
    found = scrub_run(replace(run, cells=(cell,)), lambda text: text.replace("alice", "-"))
    assert (found.id, found.cells[0].cell, found.cells[0].case_id) == (run.id, {"user": "alice"}, "alice")
    assert found.cells[0].trials[0].log == cell.trials[0].log
    assert found.cells[0].verdict is cell.verdict
    left = asdict(replace(found, cells=(replace(found.cells[0], cell={}, case_id=""),)))
    assert "alice" not in json.dumps(left, default=str)


def test_the_path_of_a_case_below_the_checkout_still_leads_to_it(
    run: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    cell = replace(run.cells[0], case_path=str(tmp_path / "cases" / "x.yaml"))
    assert scrub_run(replace(run, cells=(cell,)), str).cells[0].case_path == "../cases/x.yaml"


TAP = """
from reprokit.report.formats import RunFormat


def _write(run, sources):
    lines = [f"{'not ' * bool(cell.as_expected is False)}ok {cell.number} {cell.reason}" for cell in run.cells]
    return "\\n".join([f"1..{len(lines)}", *lines, repr(run)]) + "\\n"


FORMAT = RunFormat(name="made-up", help="Test Anything Protocol", suffix=".made-up", scrubbed=True, write=_write)
"""


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more format, as one more module of the package."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "made_up.py").write_text(TAP, encoding="utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "more")])
    for module in ("reprokit.cli.report_command", "reprokit.report.formats.made_up"):
        monkeypatch.setitem(sys.modules, module, None)  # forgotten afterwards
        del sys.modules[module]


@pytest.mark.usefixtures("made_up", "run")
def test_one_module_is_enough_for_one_more_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("--format", "made-up") == 0
    out = capsys.readouterr().out
    assert out.startswith("1..2\nnot ok 1 in ~/work on <host>, as <user>@<host>, token=<github-token>\n")
    assert "RunRecord(" in out
    assert [word for word in WORDS if word in out] == []  # though it writes all of the record
    assert report("--help") == 0
    assert "made-up (Test Anything Protocol)" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_format_is_wrong_usage(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("--format", "made-up") == 2
    assert "'made-up' is not one of" in capsys.readouterr().err


def test_whether_a_format_is_scrubbed_must_be_said() -> None:
    said: dict[str, Any] = {"name": "x", "help": "x", "suffix": ".x", "write": lambda run, sources: ""}
    with pytest.raises(TypeError, match="scrubbed"):
        RunFormat(**said)


def test_pages_are_not_text_of_one_run() -> None:
    with pytest.raises(KeyError, match="html writes a folder"):
        formats.run_format("html")


def test_show_and_report_write_the_same_result_file(
    run: RunRecord, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report("--format", "json") == 0
    reported = capsys.readouterr().out
    assert invoke(["show", "--store", "store", "--json"]) == 0
    assert capsys.readouterr().out == reported
