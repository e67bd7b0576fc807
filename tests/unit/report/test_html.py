"""The static report: what is written for a made-up store, and what is never replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.cli import invoke
from reprokit.evidence.origin import OwnerRecord
from reprokit.evidence.records import RequestRecord
from reprokit.evidence.spans import Span, Timings, read_timings
from reprokit.report.html import building, gathering, overview, writing
from reprokit.report.html.case import _time_cells
from tests.unit.fakes import FakeEngine
from tests.unit.nights import CASE, Nights
from tests.unit.run.test_runner import CASE as TOY
from tests.unit.run.test_runner import toy


def data(site: Path, key: str) -> Any:
    """The value of a data file of a report."""
    text = (site / "data" / f"{key}.js").read_text(encoding="utf-8")
    head = f'reprokit.data("{key}",'
    assert text.startswith(head)
    assert text.endswith(");\n")
    return json.loads(text[len(head) : -3])


def cell_in(site: Path, run: str, number: int, case: str = "nightly") -> dict[str, Any]:
    """What the page of a cell reads, as ``assets/core.js`` takes it out of its file."""
    found = data(site, f"cells/{run}/{case}/{number // 100}")
    row = found["cells"].index(number)
    at = {name: one[row] if isinstance(one, list) else one for name, one in found["columns"].items()}
    cell = {name: found["values"][one] for name, one in at.items() if one >= 0}
    large = {name: one["$shared"] for name, one in cell.items() if isinstance(one, dict) and "$shared" in one}
    return cell | {name: data(site, f"shared/{digest}") for name, digest in large.items()}


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    """A store of its own in an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return Nights(tmp_path / "store")


def report(*arguments: str) -> int:
    """Run ``reprokit report`` over the store of :func:`nights`."""
    return invoke(["report", "--store", "store", *arguments])


def files(site: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def test_a_report_has_every_case_with_its_last_nights(nights: Nights) -> None:
    for night in range(20):
        nights.run({"1": "N", "2": "R" if night < 19 else "N"})
    assert report("-o", "site") == 0
    [row] = data(Path("site"), "overview")["cases"]
    assert row["status"] == "departs"
    assert row["departs"] == 1
    assert row["tally"] == {"not-reproduced": 2}
    assert [square["status"] for square in row["strip"]] == ["as-expected"] * 13 + ["departs"]
    assert row["strip"][-1]["words"] == "2 not-reproduced; 1 departs"
    assert data(Path("site"), "case/nightly")["cells"]["number"] == [1, 2]
    paged = [data(Path("site"), f"cells/{square['run']}/nightly/0") for square in row["strip"][-2:]]
    assert [one["cells"] for one in paged] == [[1, 2], [1, 2]]  # of the two newest runs
    assert len(list(Path("site/data/cells").iterdir())) == 2
    ids = data(Path("site"), "runs")["run"].split()
    block = data(Path("site"), "runs/0")
    assert [run["id"] for run in block["runs"]] == ids
    assert [run["cases"][0]["verdict"] for run in block["runs"]] == ["NR"] * 19 + ["Nn"]
    assert block["runs"][0]["cases"] == [{"layout": 0, "verdict": "NR", "reasons": [[0, [2]]]}]  # why it failed
    assert block["reasons"] == ["as made up"]
    assert (block["layouts"][0]["numbers"], len(block["layouts"])) == ([1, 2], 1)


def test_the_same_store_makes_the_same_report(nights: Nights) -> None:
    nights.run({"1": "N", "2": "F"})
    assert [report("-o", "one"), report("-o", "two")] == [0, 0]
    assert files(Path("one")) == files(Path("two"))


def test_a_folder_that_is_not_a_report_is_left_alone(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    nights.run({"1": "N"})
    Path("thesis").mkdir()
    Path("thesis/index.html").write_text("mine")
    assert report("-o", "thesis") == 2
    assert "thesis holds index.html and is not a report of reprokit" in capsys.readouterr().err
    assert files(Path("thesis")) == {"index.html": b"mine"}


def test_what_lies_beside_a_report_stays_when_it_is_written_again(nights: Nights) -> None:
    nights.run({"1": "N"})
    assert report("-o", "site") == 0
    Path("site/CNAME").write_text("bugs.example.com")
    Path("site/data/case/old.js").write_text("left over")
    assert report("-o", "site") == 0
    assert Path("site/CNAME").read_text() == "bugs.example.com"
    assert not Path("site/data/case/old.js").exists()
    assert not list(Path("site").glob(f"{writing.STAGE}*"))


def test_a_report_that_cannot_be_finished_leaves_the_old_one(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.run({"1": "N"})
    assert report("-o", "site") == 0
    before = files(Path("site"))
    nights.run({"1": "R"})

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reprokit.report.html.building._assets", broken)
    assert report("-o", "site") == 3
    assert files(Path("site")) == before


@given(st.text())
def test_no_value_ends_a_script_or_a_line(text: str) -> None:
    written = writing.script("x", {"a": [text]})
    assert not set("<\r\u2028\u2029") & set(written)
    assert written.count("\n") == 1
    assert json.loads(written.removeprefix('reprokit.data("x",').removesuffix(");\n")) == {"a": [text]}


@given(st.text(min_size=1))
def test_every_id_has_a_name_that_is_safe_anywhere(text: str) -> None:
    found = writing.name(text)
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert len(found) <= 100
    assert not found.startswith(".")
    assert found.partition(".")[0] not in {"con", "nul", "aux", "prn", "com1", "lpt1"}
    assert (found == text) == ("." not in found)


def test_ids_that_differ_have_names_that_differ() -> None:
    ids = ["a", "A", "a/b", "a-b", "..", "x" * 101, "con", "", "案例"]
    assert len({writing.name(one).lower() for one in ids}) == len(ids)


def test_every_verdict_has_a_colour_and_a_letter() -> None:
    assets = Path(building.__file__).parent / "assets"
    css, script = ((assets / name).read_text(encoding="utf-8") for name in ("base.css", "core.js"))
    for verdict in overview.VERDICTS:
        assert f".v-{verdict} {{" in css
        assert f'"{verdict}": {{ glyph:' in script
    letters = re.findall(r'": { glyph: "(.)"', script)
    assert len(set(letters)) == len(letters) == len(overview.VERDICTS)


def test_the_page_names_nothing_elsewhere_and_runs_nothing_inline() -> None:
    assets = Path(building.__file__).parent / "assets"
    for path in assets.iterdir():
        text = re.sub(r"http://www\.w3\.org/(2000/svg|1999/xhtml)", "", path.read_text(encoding="utf-8"))
        assert not re.search(r"(?:src|href|url|import|fetch)\W{1,3}(?:https?:)?//", text), path.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
    page = (assets / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", page)
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in page
    named = set(re.findall(r"assets/([\w.]+)", page))
    assert named == {path.name for path in assets.iterdir()} - {"index.html"}


def test_what_is_private_is_in_no_file(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    token = "ghp_" + "a1B2" * 9
    key = f"-----BEGIN PRIVATE KEY-----\n{'Ab1+' * 16}\n-----END PRIVATE KEY-----"
    log = f"one\n/home/alice/train.py\n{key}\nsix {token}\n"
    (nights.store.folder / "runs/none.log").write_text(log)  # the log of every trial
    owner = OwnerRecord(labels={"org.reprokit.host": "dune-7.corp.example/boot/pid"})
    nights.run(
        {"1": "R"},
        owner=owner,
        reason=f"exit status 1 in /home/alice/train.py on dune-7; token={token}",
        case_path="/home/alice/bugs/nightly.yaml",
        repeat=f"docker run -e HF={token}",
    )
    assert report("-o", "site") == 0
    found = b"".join(files(Path("site")).values())
    assert not [word for word in (b"alice", token.encode(), b"dune-7", b"Ab1+") if word in found]
    assert "left out of the texts: github-token, home, host, private-key" in capsys.readouterr().out
    run = nights.store.run("last").id
    [[first, text]] = cell_in(Path("site"), run, 1)["log1"]["parts"]
    assert first == 1
    assert text.splitlines()[1] == "~/train.py"
    assert text.splitlines()[5] == "six <github-token>"  # lines keep their numbers
    assert report("-o", "site", "--as-recorded") == 0
    assert b"alice" in b"".join(files(Path("site")).values())


def test_what_pages_find_each_other_by_stays(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTNAME", "nightly")
    nights.run({"1": "R"})
    assert report("-o", "site") == 0
    [row] = data(Path("site"), "overview")["cases"]
    assert data(Path("site"), f"case/{row['name']}")["id"] == row["id"] == "nightly"


def test_the_newest_verdicts_are_those_of_explain(nights: Nights) -> None:
    """A cell that was not decided last night keeps what was found before; one of an older case text is gone."""
    nights.run({"3": "R"}, case="an older text")
    nights.run({"1": "N", "2": "R"})
    nights.run({"1": "?", "2": "N"})
    nights.run({"2": "R"}, engine="venv (uv 0.9)", request=RequestRecord(asked={"engine": "venv"}))
    nights.run({"1": "?"})
    [known] = gathering.known_cases(nights.store)
    assert [(run.id[-4:], record.cell["numpy"], str(record.verdict)) for run, record in known.current] == [
        ("0002", "1", "not-reproduced"),
        ("0003", "2", "not-reproduced"),
    ]
    assert [run.id[-4:] for run in known.runs] == ["0001", "0002", "0003", "0004", "0005"]


def test_a_run_that_goes_on_is_reported_as_undecided(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    begun = nights.store.run("last")
    cells = tuple(replace(cell, verdict=None, trials=()) for cell in begun.cells)
    later = replace(begun, id="20270101-000000-0000", started_at="2027-01-01T00:00:00.000Z", cells=cells)
    nights.store.put(later, {})
    assert report("-o", "site") == 0
    [row] = data(Path("site"), "overview")["cases"]
    assert row["status"] == "as-expected"  # by what was decided
    assert [(one["status"], one["words"]) for one in row["strip"]] == [
        ("as-expected", "1 not-reproduced, 1 reproduced"),
        ("inconclusive", "2 undecided"),
    ]


def test_a_store_of_another_user_writes_nothing_outside_the_folder(nights: Nights) -> None:
    nights.run({"1": "R"}, case_id="../../evil")
    before = {path for path in Path.cwd().parent.rglob("*") if Path.cwd() / "site" not in path.parents}
    assert report("-o", "site") == 0
    after = {path for path in Path.cwd().parent.rglob("*") if Path.cwd() / "site" not in path.parents}
    assert after - before == {Path.cwd() / "site"}
    [row] = data(Path("site"), "overview")["cases"]
    assert data(Path("site"), f"case/{row['name']}")["id"] == "../../evil"


def test_a_case_that_the_folder_does_not_have_says_so(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    nights.run({"1": "R"}, case=CASE.replace("id: nightly", "id: renamed"), case_id="renamed")
    Path("cases").mkdir()
    Path("cases/a.yaml").write_text(CASE)
    assert report("-o", "site") == 0
    rows = {row["id"]: row for row in data(Path("site"), "overview")["cases"]}
    assert {name: row["elsewhere"] for name, row in rows.items()} == {"nightly": False, "renamed": True}
    assert report("renamed", "-o", "site") == 0  # what was asked for by name needs no folder
    assert not data(Path("site"), "overview")["cases"][0]["elsewhere"]


def test_the_times_are_of_the_cells_of_the_case_alone() -> None:
    images = ((1, 2), (3,))
    spans = [
        Span("preparing", 0, 5.0),
        Span("build", 5, 10.0, image=0),
        Span("step", 6, 3.0, image=0, name="RUN pip install"),
        Span("build", 5, 90.0, image=1),
        *(Span("program", 15 + number, 2.0, cell=number) for number in (1, 2, 3)),
    ]
    whole = Timings(began="2026-01-01T00:00:00.000Z", seconds=100.0, images=images, spans=tuple(spans))
    found = _time_cells("r", whole, {1})
    assert found.sum == {"build": 10.0, "program": 2.0}
    assert found.seconds == 13.0
    assert [(kind, start) for kind, _, start, _, _ in found.path] == [("build", 0.0), ("program", 11.0)]
    assert _time_cells("r", whole, {4}).path == ()


def test_the_times_of_a_run_are_read_once_for_all_its_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_BASE_IMAGES", "registry")
    for name in ("toy", "other"):
        Path(f"{name}.yaml").write_text(TOY.replace("id: toy", f"id: {name}"))
    engine = FakeEngine(toy)
    monkeypatch.setattr("reprokit.run.invocation._engine", lambda name: engine)
    invoke(["run", "toy.yaml", "other.yaml", "--store", "store"])
    read: list[object] = []

    def counted(findings: Mapping[str, Any]) -> tuple[Timings, ...]:
        read.append(findings)
        return read_timings(findings)

    monkeypatch.setattr("reprokit.report.html.building.read_timings", counted)
    assert invoke(["report", "-o", "site", "--store", "store"]) == 0
    assert {"build", "program", "judging"} <= set(data(Path("site"), "case/toy")["timing"]["sum"])
    times = [data(Path("site"), f"case/{name}")["timing"] for name in ("toy", "other")]
    assert times[0]["run"] == times[1]["run"]
    assert not {cell for *_, cell in times[0]["path"]} & {cell for *_, cell in times[1]["path"] if cell}
    assert len(read) == 1
