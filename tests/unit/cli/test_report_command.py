"""``reprokit report``: what it writes where, and what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from reprokit.report.formats import RunFormat, formats
from tests.unit.nights import CASE, Nights
from tests.unit.report.test_html import data, nights, report

__all__ = ["nights"]


def test_a_run_in_another_format_goes_to_standard_output_or_a_file(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    first = nights.run({"1": "N"})
    nights.run({"1": "N", "2": "R"})
    assert report("--format", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["cases"][0]["cells"]) == 2
    assert report(first.id, "--format", "junit", "-o", "out.xml") == 0
    assert 'tests="1"' in Path("out.xml").read_text()
    assert report("--format", "md") == 0
    assert "eproduces when numpy = 2 (10 of 10 runs; elsewhere 0 of 10" in capsys.readouterr().out
    assert report("--format", "csv") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert report("nightly", "--format", "json") == 0  # the newest run of a case
    assert len(json.loads(capsys.readouterr().out)["cases"][0]["cells"]) == 2


def test_of_a_case_come_its_own_cells_alone(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    nights.run({"1": "N"}, case_id="other")
    nights.run({"1": "N"})
    assert report("other", "-o", "site") == 0
    assert [row["id"] for row in data(Path("site"), "overview")["cases"]] == ["other"]
    assert "1 case, 1 page of cells" in capsys.readouterr().out


def test_cases_of_a_folder_are_listed_before_they_are_run(nights: Nights) -> None:
    Path("bugs").mkdir()
    Path("bugs/a.yaml").write_text(CASE)
    Path("bugs/b.yaml").write_text(CASE.replace("id: nightly", "id: fresh").replace("every night", "never"))
    nights.run({"1": "N"}, case=CASE)
    assert report("-o", "site", "--cases", "bugs") == 0
    fresh, known = data(Path("site"), "overview")["cases"]
    assert (fresh["id"], fresh["status"], fresh["cells"], fresh["last"]) == ("fresh", "never-run", 2, None)
    assert fresh["flip"] == {"claim": "expected", "words": "numpy 2; not 1", "axes": ["numpy"], "trials": ""}
    assert (known["status"], known["changed"]) == ("as-expected", False)


def test_a_folder_of_cases_is_reported_with_those_that_were_never_run(nights: Nights) -> None:
    Path("bugs").mkdir()
    Path("bugs/a.yaml").write_text(CASE)
    Path("bugs/b.yaml").write_text(CASE.replace("id: nightly", "id: fresh").replace("every night", "never"))
    nights.run({"1": "N"}, case=CASE)
    nights.run({"1": "N"}, case_id="elsewhere")
    assert report("-o", "site", "bugs") == 0
    rows = data(Path("site"), "overview")["cases"]
    assert [(row["id"], row["status"]) for row in rows] == [("fresh", "never-run"), ("nightly", "as-expected")]


def test_a_case_that_was_edited_since_says_so(nights: Nights) -> None:
    Path("cases").mkdir()
    Path("cases/a.yaml").write_text(CASE.replace("go.py", "come.py"))
    nights.run({"1": "N"}, case=CASE)
    assert report("-o", "site") == 0  # cases/ is the default
    [row] = data(Path("site"), "overview")["cases"]
    assert row["changed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say where the pages go"),
        (["-o", "-"], "pages are a folder"),
        (["nightli", "-o", "site"], "no run of a case 'nightli' is recorded; did you mean 'nightly'?"),
        (["--format", "json", "--serve"], "are about pages"),
        (["--format", "json", "nightly", "last"], "is about one run or case, not about 2"),
        (["19990101", "-o", "site"], "holds no run '19990101'"),
    ],
)
def test_what_cannot_be_written_is_reported(
    nights: Nights, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    nights.run({"1": "N"})
    assert report(*arguments) == 2
    assert words in capsys.readouterr().err
    assert not Path("site").exists()


@pytest.mark.system
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_report_is_served_to_this_machine_alone_until_ctrl_c(
    end: signal.Signals, nights: Nights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    nights.run({"1": "N"})
    command = [sys.executable, "-m", "reprokit", "report", "--store", "store", "--serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        url = process.stdout.readline().split()[0]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as answer:
            assert b"data/overview.js" in answer.read()
        base, token = url.rstrip("/").rsplit("/", 1)
        for wrong in ("", "/", f"/{token[:-1]}/", f"/{token}x/", f"/x/../{token}/", "/data/overview.js"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(base + wrong)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}data/")
        elsewhere = urllib.request.Request(url, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(elsewhere)
        with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as leaving:
            # A reader who leaves: what was begun is reset, not closed.
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            leaving.sendall(b"GET / HTTP/1.0\r\nHost: ")
        with urllib.request.urlopen(url) as answer:
            assert answer.read()
        assert list(scratch.iterdir())
        process.send_signal(end)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("form", [name for name, one in formats().items() if isinstance(one, RunFormat)])
def test_no_format_writes_what_acts_on_a_terminal(
    form: str, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    nights.run({"1": "?", "2": "R"}, reason="a\x1b[2J\x9b31m\u202e\u2028\x07b")
    report("last", "--format", form)
    said = "".join(capsys.readouterr())
    assert said
    assert not any(letter in said for letter in "\x1b\x9b\u202e\u2028\x07")
