"""What people and machines read of a run."""

from __future__ import annotations

import csv
import dataclasses
import shlex
from pathlib import Path

import pytest

from reprokit.case.cellspec import Limits
from reprokit.cli import invoke
from reprokit.cli.display.plain import labels, shared_axes
from reprokit.engine.container_spec import docker_run_line
from reprokit.engine.protocol import Mount, Trial
from reprokit.evidence.details import CellDetails, FailedBuildRecord
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord
from reprokit.report import detail
from reprokit.report import labels as report_labels
from tests.conftest import as_files
from tests.unit.nights import Nights

LOG = "".join(f"line {n}\n" for n in range(1, 101))
TRIAL = TrialRecord(
    number=1, outcome=Outcome.REPRODUCED, exit_code=1, seconds=0.5, oom=False, timed_out=False, reason="r", log="t.log"
)


def cell(number: int, verdict: Verdict | None, expected: Verdict | None = None, **values: object) -> CellRecord:
    base = CellRecord(
        number=number,
        case_id="c",
        case_path="c.yaml",
        case_digest="sha256:1",
        cell={"os": "debian-12", "cuda": str(number)},
        verdict=verdict,
        expected=expected,
        reason="so it is\nand more",
    )
    return dataclasses.replace(base, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([cell(1, Verdict.REPRODUCED, Verdict.REPRODUCED)], "1 reproduced; all as expected"),
        ([cell(1, Verdict.REPRODUCED)], "1 reproduced"),
        ([cell(1, Verdict.FLAKY, Verdict.REPRODUCED)], "1 flaky; 1 departs from what the case expects"),
        ([cell(1, Verdict.UNSUPPORTED, Verdict.REPRODUCED)], "inconclusive: 1 unsupported"),
        ([cell(1, None)], "1 undecided"),
    ],
)
def test_the_summary_says_what_the_exit_status_says(cells: list[CellRecord], text: str) -> None:
    assert report_labels.summary(cells) == text


def test_labels_leave_out_what_is_the_same_everywhere() -> None:
    fixed = dataclasses.replace(cell(2, None), number=3, variant="fix")
    cells = [cell(1, None), cell(2, None), fixed]
    assert labels(cells) == {1: "cuda=1", 2: "cuda=2", 3: "cuda=2 [fix]"}
    assert labels(cells[:1]) == {1: "os=debian-12 cuda=1"}
    assert shared_axes(cells) == ["in all cells: os=debian-12"]
    assert labels([cell(1, None), cell(2, None, case_id="d")]) == {1: "c", 2: "d"}
    long = "a-rather-long-id-of-a-case"
    several = [*cells, *(cell(n, None, case_id=long, cell={"os": os, "cuda": "9"}) for n, os in ((4, "x"), (5, "y")))]
    assert labels(several, short=True)[4] == "a-rather-long-id-of-a-c… os=x"
    assert shared_axes(several) == ["in all cells of c: os=debian-12", f"in all cells of {long}: cuda=9"]


@pytest.mark.parametrize(("columns", "cut"), [("", False), ("0", False), ("90", True)])
def test_a_table_in_a_pipe_is_not_cut_unless_columns_says_how_wide(
    columns: str, cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    Nights(tmp_path / "store").run({"1" * 70: "N", "2": "R"}, reason="a long reason " * 20)
    assert invoke(["show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.lstrip().startswith("2 "))
    assert row.endswith("a long reason " * 19 + "a long reason") is not cut
    assert any("numpy=" + "1" * 70 in line for line in lines) is not cut
    assert all(line == line.rstrip() for line in lines)
    assert not cut or max(map(len, lines[1:4])) <= 90


def test_the_log_is_shown_around_what_matched_and_marked() -> None:
    shown = detail.mark(LOG.encode(), dataclasses.replace(TRIAL, lines=(50,)), colour=False)
    assert ">    50 line 50" in shown
    assert shown[0] == "      ... 37 line(s) ..."
    assert shown[-1] == "      ... 38 line(s) ..."
    assert sum(line.startswith(">") for line in shown) == 1


def test_a_log_without_a_match_is_shown_from_its_end() -> None:
    assert detail.mark(LOG.encode(), TRIAL, colour=False)[-1] == "    100 line 100"
    cut = LOG.replace("line 20\n", "line 20\n[reprokit: 900 bytes (100 lines) cut]\n")
    shown = detail.mark(cut.encode(), dataclasses.replace(TRIAL, lines=(20, 51)), colour=False)
    assert [line for line in shown if line.startswith(">")] == [">    20 line 20", ">   150 line 50"]
    assert detail.mark(b"", TRIAL, colour=False) == ["(no output)"]


def test_what_would_disturb_a_terminal_is_shown_as_its_number() -> None:
    assert detail.printable("a\x07b\tc\r") == "a\\x07b\tc"
    assert detail.printable("x" * 5000).endswith("4000 more characters")


def test_a_cell_that_was_not_built_shows_step_and_tail(tmp_path: Path) -> None:
    build = FailedBuildRecord(step="RUN pip", tail=("ERROR: no such version",))
    failed = cell(1, Verdict.BUILD_FAILED, details=CellDetails(build=build))
    run = RunRecord(id="r", started_at="t", version="0", cells=(failed,))
    shown = "\n".join(detail.cell(run, failed, tmp_path, 1))
    assert "Failed step of the build: pip" in shown
    assert "ERROR: no such version" in shown


def test_the_line_that_repeats_a_trial_holds_every_limit() -> None:
    trial = Trial(
        image="img:1",
        command=("bash", "-c", "echo 'a b'"),
        env={"A": "x y"},
        workdir="/workspace",
        limits=Limits(gpus=1, cpus=1.5, memory=1 << 30, shm_size=1 << 20, pids=9, user="root", network="bridge"),
        mounts=(Mount(source=Path("/data"), target="/workspace/d"),),
        files=as_files({"a/b.py": "pass"}),
        gpus=("GPU-1",),
    )
    line = shlex.split(docker_run_line(trial, Path("/store/files")))
    for word in (
        '--gpus="device=GPU-1"',
        "--cpus=1.5",
        "--memory=1073741824",
        "--memory-swap=1073741824",
        "--shm-size=1048576",
        "--pids-limit=9",
        "--user=root",
        "--network=bridge",
        "--env=A=x y",
        "--mount=type=bind,source=/data,target=/workspace/d,readonly",
        "--mount=type=bind,source=/store/files/a/b.py,target=/workspace/a/b.py,readonly",
        "--cap-drop=ALL",
    ):
        assert word in line
    assert line[-8:] == ["img:1", "sh", "-c", 'exec "$@" 2>&1', "sh", "bash", "-c", "echo 'a b'"]


def test_the_line_that_repeats_a_trial_keeps_odd_names_whole() -> None:
    files = as_files(dict.fromkeys(("a b.txt", "a,b.txt", 'say "x".txt', "it's.txt", "ü.txt"), ""))
    trial = Trial(
        image="img:1",
        command=("true",),
        env={},
        workdir="/workspace",
        limits=Limits(),
        mounts=(Mount(source=Path("/my,data"), target="/workspace/d", read_only=False),),
        files=files,
    )
    words = shlex.split(docker_run_line(trial, Path("/store")))
    mounts = [next(csv.reader([word[8:]], strict=True)) for word in words if word.startswith("--mount=")]
    assert mounts == [
        ["type=bind", "source=/my,data", "target=/workspace/d"],
        *(["type=bind", f"source=/store/{name}", f"target=/workspace/{name}", "readonly"] for name in files),
    ]
    # Quotes only where there must be any: the client's CSV knows none inside of a plain field.
    assert "--mount=type=bind,source=/store/it's.txt,target=/workspace/it's.txt,readonly" in words


def test_of_a_large_log_only_the_lines_that_are_shown_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(detail, "clean", lambda text: read.append(text) or text)
    shown = detail.mark(b"\xff\x00 line\n" * 100_000, dataclasses.replace(TRIAL, lines=(50_000,)), colour=False)
    assert len(read) < 100
    assert "> 50000 \N{REPLACEMENT CHARACTER}\\x00 line" in shown
    assert shown[-1] == "      ... 49988 line(s) ..."
