"""Backups, exports and imports: whole where they are ours, confined where they are untrusted."""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprokit.cli import invoke
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import RunRecord
from reprokit.store import archive
from reprokit.store.database import Store
from reprokit.store.journal import FILE, line_of
from tests.unit.store.test_journal import END, begun
from tests.unit.store.test_store import TRIAL, cell

EXTRACT: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python before 3.11.4 has no filters."""
LOG = "runs/run-1/001-c-case/trial-1.log"
LOGGED = cell(1, verdict=Verdict.REPRODUCED, trials=(dataclasses.replace(TRIAL, log=LOG),))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one run, one log and the findings of a search."""
    monkeypatch.chdir(tmp_path)
    store = tmp_path / ".reprokit"
    recorder = begun(store, "run-1", cell(1))
    (store / LOG).parent.mkdir(parents=True)
    (store / LOG).write_text("boom\n")
    recorder.decide(LOGGED)
    recorder.find("cost", 3)
    recorder.finish(**END)  # type: ignore[arg-type]
    recorder.close()
    return store


def test_a_backup_is_the_store_as_it_was(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Store(folder).run("last")
    assert invoke(["store", "backup", "b.tar.gz"]) == 0
    assert "b.tar.gz: 1 run; restore: mkdir FOLDER" in capsys.readouterr().out
    with tarfile.open("b.tar.gz") as kept:
        kept.extractall(tmp_path / "restored", **EXTRACT)
    assert not list((tmp_path / "restored").glob("*.lock"))
    again = Store(tmp_path / "restored")
    assert again.run("last") == before
    assert (tmp_path / "restored" / LOG).read_text() == "boom\n"
    assert invoke(["store", "check", "--store", str(tmp_path / "restored")]) == 0
    shutil.rmtree(folder / "runs")
    assert invoke(["store", "backup", "c.tar"]) == 0
    with tarfile.open("c.tar") as kept:
        kept.extractall(tmp_path / "records", **EXTRACT)
    assert Store(tmp_path / "records").run("last") == before


def test_a_backup_while_a_run_writes_has_all_that_was_decided_before_it_with_logs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = begun(folder, "run-2", cell(1), cell(2))
    recorder.decide(cell(2, verdict=Verdict.FLAKY))
    log, add, begins = "runs/run-2/001-c-case/trial-1.log", archive._add, [True]

    def add_meanwhile(*given: Any) -> None:
        add(*given)
        if begins and begins.pop():
            (folder / log).parent.mkdir()
            (folder / log).write_text("boom\n")
            recorder.decide(dataclasses.replace(LOGGED, trials=(dataclasses.replace(TRIAL, log=log),)))

    monkeypatch.setattr(archive, "_add", add_meanwhile)
    assert archive.back_up(Store(folder), tmp_path / "b.tar") == 2
    recorder.close()
    with tarfile.open(tmp_path / "b.tar") as kept:
        kept.extractall(tmp_path / "restored", **EXTRACT)
    assert Store(tmp_path / "restored").run("run-2").cells[1].verdict is Verdict.FLAKY
    assert invoke(["store", "check", "--store", str(tmp_path / "restored")]) == 0


def test_a_backup_that_cannot_be_written_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    assert invoke(["store", "backup", str(folder / "b.tar")]) == 2
    assert invoke(["store", "backup", str(tmp_path / "no" / "b.tar")]) in (2, 3)
    os.mkfifo(tmp_path / "fifo")
    assert invoke(["store", "backup", str(tmp_path / "fifo")]) == 2
    assert (tmp_path / "fifo").is_fifo()
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tar") or ".tar." in path.name]


def test_what_is_exported_is_imported_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["store", "export", "e.tar", "last", "run-1"]) == 0
    assert invoke(["store", "import", "e.tar", "--store", "other"]) == 0
    assert "1 run added" in capsys.readouterr().out
    mine, other = Store(folder).run("last"), Store(Path("other"))
    assert other.run("last").cells[0].verdict is Verdict.REPRODUCED
    assert dataclasses.replace(other.run("last"), cells=()) == dataclasses.replace(mine, cells=())
    assert (Path("other") / other.run("last").cells[0].trials[0].log).read_text() == "boom\n"
    assert other.case_text("sha256:1") == "text"
    assert invoke(["store", "import", "e.tar", "--store", "other"]) == 0
    assert "nothing new" in capsys.readouterr().out
    assert invoke(["store", "import", "e.tar"]) == 0
    assert "nothing new" in capsys.readouterr().out


Member = tuple[str, bytes | str | None]
"""A name, and the content, the target of a link, or None for a folder."""


def packed(path: Path, *members: Member) -> Path:
    """An export as an attacker may write it."""
    with tarfile.open(path, "w") as made:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                made.addfile(info, io.BytesIO(content))
            else:
                info.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
                info.linkname = content or ""
                made.addfile(info)
    return path


def journal_of(run: dict[str, Any], run_id: str = "run-1") -> Member:
    """The journal of a run."""
    return f"runs/{run_id}/{FILE}", line_of("put", run=run)


def hostile(change: Callable[[dict[str, Any]], Any]) -> Member:
    """The journal of a run with something changed."""
    run = RunRecord(id="run-1", started_at="2026-01-01T00:00:00Z", version="0", finished_at="x", cells=(LOGGED,))
    data = run.to_json()
    change(data)
    return journal_of(data)


def at_run(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(values)


def at_cell(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["cells"][0].update(values)


def at_trial(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["cells"][0]["trials"][0].update(values)


HOSTILE: list[Callable[[dict[str, Any]], Any]] = [
    *(at_run(id=name) for name in ("../../x", "/etc/x", ".", "..", "", "a/b", "x" * 41, "a\n")),
    *(at_run(id=value) for value in (3, None, ["x"], {"a": 1})),
    lambda data: data.update(started_at="yesterday"),
    lambda data: data.update(started_at=5),
    lambda data: data.update(cells=data["cells"] * 2),
    lambda data: data.update(cells={"a": 1}),
    lambda data: data.update(owner=[1]),
    lambda data: data.update(host={"gpus": 4}),
    lambda data: data.pop("version"),
    at_cell(case_id="../x"),
    at_cell(case_id="a/../../b"),
    at_cell(variant="../../x"),
    at_cell(number="1"),
    at_cell(number=-1),
    at_cell(cell={"a": {"b": 1}}),
    at_cell(reason=5),
    at_cell(trials=[{"number": 1}]),
    *(at_trial(log=log) for log in ("/etc/passwd", "../x", "runs/../../x", "reprokit.db", "runs", "runs//x", "")),
    at_trial(log="runs/" + "x" * 2000),
    at_trial(seconds="long"),
    at_trial(lines=["a"]),
]


@pytest.mark.parametrize("change", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_run_is_left_out_and_the_others_are_taken(
    change: Callable[[dict[str, Any]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = RunRecord(id="run-2", started_at="2026-01-01T00:00:00Z", version="0", cells=(cell(1),))
    file = packed(tmp_path / "e.tar", hostile(change), journal_of(good.to_json(), "run-2"))
    before = set(tmp_path.rglob("*"))
    assert invoke(["store", "import", str(file), "--store", str(tmp_path / "s")]) == 3
    printed = capsys.readouterr()
    assert "left out: e.tar " in printed.out
    assert "Traceback" not in printed.err
    assert [run.id for run in Store(tmp_path / "s").runs()] == ["run-2"]
    outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "s")}
    assert outside == before


def test_what_an_archive_has_beside_the_logs_of_its_runs_is_not_extracted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("secret")
    members: list[Member] = [
        hostile(lambda data: None),
        ("../evil", b"x"),
        ("/tmp/evil-of-a-test", b"x"),
        ("runs/../../x/journal.jsonl", b"x"),
        ("runs/run-1/other.log", b"x"),
        ("runs/link", str(tmp_path)),
        (LOG, str(tmp_path / "secret")),
    ]
    file = packed(tmp_path / "e.tar", *members)
    assert invoke(["store", "import", str(file), "--store", str(tmp_path / "s")]) == 3
    out = capsys.readouterr().out
    assert "left out: e.tar has 6 files that no run names as its log" in out
    assert "1 log of c cannot be read" in out
    assert not (tmp_path / "evil").exists()
    assert "secret" not in "".join(path.read_text("latin-1") for path in (tmp_path / "s" / "runs").rglob("*.log"))


def test_what_is_not_an_export_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for members in ([], [("x", b"y")], [("runs/run-1/journal.jsonl", None)], [("runs/run-1/a.log", b"")]):
        file = packed(tmp_path / "e.tar", *members)
        assert invoke(["store", "import", str(file), "--store", str(tmp_path / "s")]) == 2
        assert "is not an export of a store" in capsys.readouterr().err
    noise = tmp_path / "noise.tar"
    with tarfile.open(noise, "w:gz") as made:
        made.addfile(tarfile.TarInfo("x"))
    noise.write_bytes(noise.read_bytes()[:40] + b"x" * 5000)
    assert invoke(["store", "import", str(noise), "--store", str(tmp_path / "s")]) == 2
    assert "cannot be read as an export" in capsys.readouterr().err


def test_what_is_too_large_for_this_site_or_for_a_header_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of it is named by a run: all that it takes is reading."""
    bomb, many, header, broken = (tmp_path / f"{name}.tar.gz" for name in ("bomb", "many", "header", "broken"))
    with tarfile.open(bomb, "w:gz") as made:
        made.addfile(_sized("x", 3 << 20), io.BytesIO(bytes(3 << 20)))
    with tarfile.open(many, "w:gz") as made:
        for number in range(30):
            made.addfile(tarfile.TarInfo(f"x{number}"))
    with tarfile.open(header, "w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": "0" * (2 << 20)}) as made:
        made.addfile(tarfile.TarInfo("x"))
    broken.write_bytes(many.read_bytes()[:30] + b"x" * 300)
    monkeypatch.setenv("REPROKIT_MAX_FETCH_SIZE", "2m")
    monkeypatch.setenv("REPROKIT_MAX_FETCH_ENTRIES", "20")
    for file, words in ((bomb, "max_fetch_size"), (many, "max_fetch_entries"), (header, "a header"), (broken, "read")):
        assert invoke(["store", "import", str(file), "--store", str(tmp_path / "s")]) == 2
        assert words in capsys.readouterr().err


def _sized(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    return info


def test_deep_and_endless_lines_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b'"kind":"put","run":' + b"[" * 500_000
    deep = b'{"crc32":"%08x"' % zlib.crc32(body) + b"," + body + b"\n"
    monkeypatch.setattr(archive, "LARGEST_JOURNAL", 1 << 20)
    for text, status, words in ((deep, 3, "cannot be read whole"), (b"x" * (2 << 20), 2, "too large to be imported")):
        packed(tmp_path / "e.tar", (f"runs/run-1/{FILE}", text))
        assert invoke(["store", "import", str(tmp_path / "e.tar"), "--store", str(tmp_path / "s")]) == status
        printed = capsys.readouterr()
        assert words in printed.out + printed.err
    monkeypatch.setattr(archive, "LARGEST_LOG", 1)
    packed(tmp_path / "e.tar", hostile(lambda data: None), (LOG, b"xx"))
    assert invoke(["store", "import", str(tmp_path / "e.tar"), "--store", str(tmp_path / "s")]) == 2
    assert "too large to be imported" in capsys.readouterr().err
