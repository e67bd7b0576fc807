"""What explanations say: at the end of a run, in `show`, `explain`, the result file and JUnit."""

from __future__ import annotations

import io
import itertools
import json
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.matrix import Selection, parse_group
from reprokit.cli import invoke
from reprokit.cli.display.screen import Screen
from reprokit.engine.protocol import Trial
from reprokit.environment.cases import load, select
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Ending, Outcome, Verdict
from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord
from reprokit.evidence.strength import not_excluded
from reprokit.evidence.usage import GpuRecord, Usage
from reprokit.report import explanation
from reprokit.report.formats import junit
from reprokit.report.formats.json import result
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from tests.documents import as_published
from tests.unit.fakes import FakeEngine

BAD, GOOD, OTHER = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.DIFFERENT_FAILURE
CASE = """\
schema: reprokit/v1
id: x
title: t
matrix: {os: [debian-12], cuda: ["11.8", "12.0"], cudnn: ["8.6", "8.9"], exclude: [{cuda: "12.0", cudnn: "8.6"}]}
command: x
"""


def trials_of(verdict: Verdict | None, count: int) -> tuple[TrialRecord, ...]:
    """Trials that come to a verdict; every third of a flaky cell fails."""
    ends = {
        BAD: (Outcome.REPRODUCED,),
        GOOD: (Outcome.PASSED,),
        Verdict.FLAKY: (Outcome.REPRODUCED, *[Outcome.PASSED] * 2),
    }
    outcomes = itertools.islice(itertools.cycle(ends[verdict]), count) if verdict in ends else ()
    return tuple(
        TrialRecord(
            number=at, outcome=one, exit_code=0, seconds=0.1, oom=False, timed_out=False, reason="", log="trial.log"
        )
        for at, one in enumerate(outcomes, 1)
    )


def cell(
    number: int, verdict: Verdict | None, variant: str = "case", case: str = "x", trials: int = 9, **axes: str
) -> CellRecord:
    return CellRecord(
        trials=trials_of(verdict, trials),
        number=number,
        case_id=case,
        case_path=f"{case}.yaml",
        case_digest=case,
        cell=axes,
        variant=variant,
        verdict=verdict,
        expected=GOOD,
    )


def full(records: list[CellRecord], text: str = "") -> list[str]:
    files = {"x": load("-", stdin=io.StringIO(text))[0]} if text else {}
    return list(explanation.full(explanation.explain_records(records, files.get)))


def test_conditions_come_with_the_cells_behind_them() -> None:
    records = [
        cell(1, GOOD, os="debian-12", cuda="11.8", gcc="11"),
        cell(2, BAD, os="debian-12", cuda="11.8", gcc="12"),
        cell(3, GOOD, os="debian-12", cuda="12.0", gcc="12"),
        cell(4, Verdict.BUILD_FAILED, os="debian-12", cuda="12.0", gcc="11"),
        cell(5, GOOD, "fix", os="debian-12", cuda="11.8", gcc="12"),
    ]
    assert full(records) == [
        "x: 3 cells decided, 1 reproduces",
        f"it reproduces (9 of 9 runs; elsewhere 0 of 9 each, {not_excluded([9], 3)}) when",
        "  cuda = 11.8 and gcc = 12",
        "      reproduces in: cuda=11.8 gcc=12",
        "      passes, one axis away: cuda=11.8 gcc=11, cuda=12.0 gcc=12",
        '"exactly" takes 90 trials of each cell that passes, 162 more: reprokit run x.yaml --confirm exact',
        "not decided: 1 build-failed",
        "  predicted to reproduce, if this holds: none of them",
        f"with the fix: gone in 1 of the 1 cell where it reproduced, in 9 trials each ({not_excluded([9], 1)})",
    ]


def test_a_threshold_comes_with_the_stretch_that_nothing_is_known_of() -> None:
    records = [cell(at, BAD if at > 2 else GOOD, numpy=f"1.{at * 8}.0") for at in range(5)]
    records.append(cell(6, BAD, numpy="2.0.0"))
    assert full(records) == [
        "x: 6 cells decided, 3 reproduce",
        f"it reproduces (27 of 27 runs; elsewhere 0 of 9 each, {not_excluded([9], 6)}) when",
        "  numpy >= 1.24.0",
        "      reproduces in: numpy=1.24.0, numpy=1.32.0, numpy=2.0.0",
        "      passes, one axis away: numpy=1.0.0, numpy=1.8.0, numpy=1.16.0",
        "      it changes between numpy 1.16.0 and 1.24.0: nothing between them is decided",
        '"exactly" takes 90 trials of each cell that passes, 243 more: reprokit run x.yaml --confirm exact',
    ]


def test_of_a_large_matrix_the_result_lists_some_cells_that_were_not_run() -> None:
    values = ", ".join(f'"{value}"' for value in range(1000))
    text = f"schema: reprokit/v1\nid: x\ntitle: t\nmatrix: {{a: [{values}]}}\ncommand: x\n"
    [file] = load("-", stdin=io.StringIO(text))
    records = [cell(1, BAD, a="0"), cell(2, GOOD, a="1"), cell(3, Verdict.UNSUPPORTED, a="500")]
    explained = explanation.explain_records(records, {"x": file}.get)
    assert list(explanation.short(explained)) == [
        (
            f"reproduces when a = 0 (9 of 9 runs; elsewhere 0 of 9, {not_excluded([9], 2)}; "
            "in the 2 cells decided; 1 unsupported; 997 more in the matrix)"
        )
    ]
    data = explanation.explain_case(explained).to_json()
    assert data["undecided"][0] == {"cell": {"a": "500"}, "verdict": "unsupported", "predicted": None}
    assert (len(data["undecided"]), data["undecided_more"]) == (101, 897)
    assert full(records, text)[-1] == "  not predictable: 998, with values that no decided cell has"


def test_rivals_come_with_a_line_that_runs_the_very_cell_that_tells_them_apart() -> None:
    [file] = load("-", stdin=io.StringIO(CASE))
    records = [
        cell(1, GOOD, os="debian-12", cuda="11.8", cudnn="8.6"),
        cell(2, BAD, os="debian-12", cuda="12.0", cudnn="8.9"),
    ]
    explained = explanation.explain_records(records, {"x": file}.get)
    data = explanation.explain_case(explained).to_json()
    assert (data["claim"], data["words"]) == ("one-of", "cuda = 12.0")
    assert [rival["words"] for rival in data["rivals"]] == ["cudnn = 8.9"]
    [telling] = data["tell_apart"]
    assert (telling["in_matrix"], telling["if_reproduced"]) == (True, ["cudnn = 8.9"])
    words = shlex.split(telling["command"])
    assert words[:4] == ["reprokit", "run", "x.yaml", "--only"]
    matrix = file.case.matrix
    only = Selection(only=(parse_group(words[4]),))
    assert select(matrix.axes, matrix.exclude, matrix.include, only) == [telling["cell"]]
    assert list(explanation.short(explained)) == [
        "several conditions fit (in the 2 cells decided; 1 more in the matrix): cuda = 12.0; cudnn = 8.9",
        f"what would tell them apart: {telling['command']}",
    ]
    for verdict in (Verdict.BUILD_FAILED, Verdict.UNSUPPORTED, Verdict.ENVIRONMENT_MISMATCH):
        again = explanation.explain_records(
            [*records, replace(cell(3, verdict), cell=telling["cell"])], {"x": file}.get
        )
        assert telling["cell"] not in [one.cell for one in again.explanation.tell_apart]


@pytest.mark.parametrize(
    ("matrix", "command"),
    [
        ("{a: [1], b: [x], include: [{a: 2, b: y}]}", ["--axis", "a=1", "--axis", "b=y"]),
        ("{include: [{a: 1, b: x}, {a: 2, b: y}]}", None),
    ],
)
def test_a_cell_beyond_the_matrix_is_asked_for_by_options_where_they_lead_to_it(
    matrix: str, command: list[str] | None
) -> None:
    text = f"schema: reprokit/v1\nid: x\ntitle: t\nmatrix: {matrix}\ncommand: x\n"
    records = [cell(1, GOOD, a="1", b="x"), cell(2, BAD, a="2", b="y")]
    [file] = load("-", stdin=io.StringIO(text))
    [telling] = explanation.explain_case(explanation.explain_records(records, {"x": file}.get)).tell_apart
    assert telling.in_matrix is False
    assert telling.command == (command and shlex.join(["reprokit", "run", "x.yaml", *command]))
    if command is None:
        assert "once it is in the matrix, under include" in "\n".join(full(records, text))


def test_what_was_measured_is_observed_where_the_axes_do_not_tell() -> None:
    def measured(verdict: Verdict, a: str, glibc: str) -> CellRecord:
        environment = Measured(glibc=glibc, packages={"pip": {"numpy": "1.0"}})
        return CellRecord(
            number=1, case_id="x", case_path="", case_digest="", cell={"a": a}, verdict=verdict, environment=environment
        )

    records = [
        measured(BAD if at in (1, 3, 5) else GOOD, str(at), "2.31" if at in (1, 3, 5) else "2.36") for at in range(7)
    ]
    assert full(records)[1:] == [
        "no explanation: no condition is shorter than a list of the 3 cells that reproduce",
        "glibc 2.36/2.31 changes at the same place",
    ]


@pytest.mark.parametrize(
    ("axis", "good", "bad", "words"),
    [
        ("lib", {"six": "1.16.0"}, {"six": "1.17.0"}, "six 1.16.0/1.17.0 changes at the same place"),
        ("lib", {"six": "1.16.0"}, {}, "six 1.16.0/none changes at the same place"),
        ("lib", {"a": "5", "b": "5"}, {"a": "6", "b": "6"}, "a 5/6; b 5/6 change at the same place"),
        ("lib", dict.fromkeys("abcdef", "5"), dict.fromkeys("abcdef", "6"), "and 2 more change at the same place"),
        ("lib", {"six": "1.16.0"}, {"six": "1.16.0"}, ""),
        ("lib", {"Lib": "9"}, {"Lib": "8"}, ""),  # what the axis names
        ("version_of_lib", {"liblib": "1.0.4"}, {"liblib": "2.0"}, ""),  # what it pins
    ],
)
def test_what_else_was_measured_to_change_is_named_where_a_claim_is_exact(
    axis: str, good: dict[str, str], bad: dict[str, str], words: str
) -> None:
    def image(pip: dict[str, str]) -> Measured:
        return Measured(python="3.11.2", packages={"pip": {"pip": "24.0", **pip}, "apt": {"libz": "1"}})

    records = [
        replace(cell(1, GOOD, trials=30, **{axis: "1", "other": "x"}), environment=image(good)),
        replace(cell(2, BAD, trials=30, **{axis: "2", "other": "x"}), environment=image(bad)),
    ]
    said = [line for line in full(records) if "at the same place" in line]
    assert [words in line for line in said] == ([True] if words else [])
    # A third cell that fails with the first package has the package on both sides.
    third = replace(cell(3, BAD, trials=30, **{axis: "2", "other": "y"}), environment=image(good))
    assert not any("at the same place" in line for line in full([*records, third]))


def test_a_statement_is_as_strong_as_its_trials() -> None:
    def said(bad: int, good: int, verdict: Verdict = BAD) -> list[str]:
        records = [cell(1, verdict, trials=bad, a="1"), cell(2, GOOD, trials=good, a="2")]
        return list(explanation.short(explanation.explain_records(records)))

    hint = "that may be chance; repeat the cells that decide it: reprokit run x.yaml --confirm always"
    one = "where a failure in nearly every run is not excluded"
    assert said(1, 1) == [f"in one trial each: failed in the 1 cell with a = 1, passed in the other cell, {one}", hint]
    assert said(1, 3)[0].startswith("in 1 to 3 trials each: failed")
    five = not_excluded([5], 2)
    assert said(5, 5) == [f"reproduces when a = 1 (5 of 5 runs; elsewhere 0 of 5, {five}; in the 2 cells decided)"]
    assert said(5, 90)[0].startswith(
        "reproduces exactly when a = 1 (5 of 5 runs; elsewhere 0 of 90, a failure in up to 6"
    )
    assert said(60, 60, Verdict.FLAKY) == [
        (f"reproduces when a = 1 (20 of 60 runs; elsewhere 0 of 60, {not_excluded([60], 2)}; in the 2 cells decided)")
    ]
    [weak] = said(60, 60 // 10, Verdict.FLAKY)[:1]
    assert weak.startswith("in 6 to 60 trials each: failed in the 1 cell with a = 1, in 20 of 60 trials, passed in")
    records = [cell(1, BAD, trials=1, a="1"), cell(2, GOOD, trials=1, a="2")]
    data = explanation.explain_case(explanation.explain_records(records)).to_json()
    assert (data["claim"], data["strength"]) == ("exact", "open")
    assert data["trials"] == {"each": [1, 1], "total": 2, "repeats": 0}
    assert full(records)[1] == f"in one trial each (elsewhere {one.removeprefix('where ')}), it failed where"
    assert data["statement"] == said(1, 1)[0]
    assert full(records)[-1] == hint


def test_cells_that_all_fail_at_different_rates_are_compared_by_their_rates() -> None:
    """lib 1 fails 4 of 12, lib 2 12 of 12: by chance once in some thousand runs."""
    records = [cell(1, Verdict.FLAKY, trials=12, lib="1"), cell(2, BAD, trials=12, lib="2")]
    explained = explanation.explain_records(records)
    line = "reproduces more often when lib = 2 (12 of 12 runs; elsewhere 4 of 12, p = 0.001; in the 2 cells decided)"
    assert list(explanation.short(explained)) == [line]
    assert full(records)[1:3] == [
        "it reproduces more often (12 of 12 runs; elsewhere 4 of 12, p = 0.001) when",
        "  lib = 2",
    ]
    assert explanation.conclude([explained], "r")[0] == [line]
    found = explanation.explain_case(explained).to_json()
    assert (found["claim"], found["more_often"]["words"], found["statement"]) == ("none", "lib = 2", line)
    both = [replace(one, cell={**one.cell, "tool": one.cell["lib"]}) for one in records]
    assert " when lib = 2 or tool = 2 (" in next(explanation.short(explanation.explain_records(both)))
    alike = [replace(records[0], number=at, cell={"lib": str(at)}) for at in (1, 2)]
    assert "no difference between them is shown to matter" in next(
        explanation.short(explanation.explain_records(alike))
    )


@pytest.mark.parametrize(
    ("case", "fix", "words"),
    [
        ((BAD, BAD, GOOD), (GOOD, GOOD, GOOD), "gone in 2 of the 2 cells where it reproduced"),
        ((BAD, BAD, GOOD), (GOOD, BAD, GOOD), "gone in 1 of the 2 cells where it reproduced; still there in 1"),
        ((BAD, BAD), (GOOD, Verdict.BUILD_FAILED), "gone in 1 of the 2 cells where it reproduced; not decided in 1"),
        ((BAD, BAD), (GOOD,), "gone in 1 of the 1 cell where it reproduced"),  # fix.only: not run in the other
        ((BAD, BAD), (GOOD, OTHER), "gone in 1 of the 2 cells where it reproduced; fails otherwise in 1"),
        ((GOOD, GOOD), (GOOD, GOOD), "it cannot be judged: the case reproduced in none of its cells"),
        ((Verdict.UNSUPPORTED,), (GOOD,), "it cannot be judged: the case reproduced in none of its cells"),
    ],
)
def test_a_fix_is_judged_where_the_case_reproduced(
    case: tuple[Verdict, ...], fix: tuple[Verdict, ...], words: str
) -> None:
    records = [cell(at, verdict, a=str(at)) for at, verdict in enumerate(case)]
    records += [cell(at, verdict, "fix", a=str(at)) for at, verdict in enumerate(fix)]
    judged = [one for one in fix if GOOD in fix and BAD in case][: case.count(BAD)]
    gone = words.replace(
        "where it reproduced", f"where it reproduced, in 9 trials each ({not_excluded([9], len(judged) or 1)})"
    )
    assert full(records)[-1] == f"with the fix: {gone}"


@pytest.mark.parametrize(
    ("axis", "providers", "said"),
    [
        ("os", ("image nvidia/cuda:11.8.0-devel-ubuntu22.04", "wheels nvidia-cuda-nvcc-cu11==11.8.89"), True),
        ("os", ("wheels nvidia-cuda-nvcc-cu11==11.7.99", "wheels nvidia-cuda-nvcc-cu11==11.8.89"), False),
        ("os", ("", "wheels nvidia-cuda-nvcc-cu11==11.8.89"), False),
    ],
)
def test_a_statement_about_the_system_says_where_cuda_is_from_several_providers(
    axis: str, providers: tuple[str, str], said: bool
) -> None:
    records = [
        replace(
            cell(number, verdict, **{axis: str(number)}),
            details=CellDetails(served_by={"cuda": who} if who else {}),
            environment=Measured(),
        )
        for number, (verdict, who) in enumerate(zip((BAD, GOOD), providers, strict=True), 1)
    ]
    short = list(explanation.short(explanation.explain_records(records)))
    for lines in (short, full(records)):
        assert any("the provider of CUDA wheels/image changes at the same place" in line for line in lines) is said
    # a line of its own, which pages that show few lines have as well
    assert not said or "provide" in short[1]


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("{command: 'true'}", "; but the fix runs another command"),
        ("{files: {go.sh: 'exit 0', new.cfg: a}}", "; but the fix changes go.sh of the case"),
        ("{files: {new.cfg: a}}", ""),
        ("{env: {A: b}}", ""),
    ],
)
def test_a_fix_that_runs_something_else_says_so(fix: str, said: str) -> None:
    records = [cell(1, BAD, cuda="11.8"), cell(2, GOOD, "fix", cuda="11.8")]
    line = full(records, f"{CASE}files: {{go.sh: 'true; exit 3', a.txt: ''}}\nfix: {fix}\n")[-1]
    assert line.endswith("confidence)") if not said else said in line


def test_a_fix_of_a_flake_says_how_many_trials_it_passed() -> None:
    records = [cell(1, Verdict.FLAKY, a="1"), cell(2, GOOD, "fix", trials=2, a="1")]
    assert full(records)[-1] == (
        "with the fix: gone in 1 of the 1 cell where it reproduced, in 2 trials each "
        "(a failure in up to 90 % of runs is not excluded at 99 % confidence)"
    )


def run_of(*cells: CellRecord) -> RunRecord:
    return RunRecord(id="r", started_at="", version="", cells=cells)


def test_a_run_over_many_cases_explains_those_that_depart_and_says_how_to_see_the_others() -> None:
    cells = [
        cell(number, verdict, case=f"case{number}", a=str(verdict)) for number in range(9) for verdict in (BAD, GOOD)
    ]
    quiet = [CellRecord(**{**vars(one), "expected": one.verdict}) for one in cells]
    assert explanation.conclude(explanation.explain_run(run_of(*quiet)), "r")[0] == [
        "9 cases reproduce in some cells and not in others: reprokit show --why r"
    ]
    lines = explanation.conclude(explanation.explain_run(run_of(*quiet[:16], *cells[16:])), "r")[0]
    seen = f"9 of 9 runs; elsewhere 0 of 9, {not_excluded([9], 2)}; in the 2 cells decided"
    assert lines == [f"case8: reproduces when a = reproduced ({seen})", "8 more cases: reprokit show --why r"]
    few = explanation.conclude(explanation.explain_run(run_of(*quiet[:4])), "r")[0]
    assert [line.split(":")[0] for line in few] == ["case0", "case1"]


def test_without_a_difference_a_run_says_nothing_and_its_result_makes_no_claim() -> None:
    run = run_of(cell(1, BAD, a="1"), cell(2, BAD, a="2"), cell(3, Verdict.UNSUPPORTED, a="3"))
    assert explanation.conclude(explanation.explain_run(run), "r")[0] == []
    found = result(run, Path("store")).cases[0].explanation
    assert (found.claim, found.decided, found.conditions) == ("none", 2, ())
    assert found.words == "both cells decided reproduce: no difference between them is shown to matter"
    assert [(one.cell, one.verdict) for one in found.undecided] == [({"a": "3"}, Verdict.UNSUPPORTED)]


# As a user sees it

TOY = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {os: [debian-12], a: ["1", "2", "6"], b: [x, y]}
files: {go.py: "print()"}
env: {A: "{{ a }}"}
command: python go.py
expect: {failure: {exit_code: 7}}
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    (tmp_path / "toy.yaml").write_text(TOY)
    return tmp_path / "store"


def toy(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    """6 fails with the signature, and 2 otherwise."""
    return Ending(exit_code={"6": 7, "2": 1}.get(trial.env["A"], 0), seconds=0.1)


def ran(store: Path, *only: str) -> tuple[Session, list[str]]:
    output = io.StringIO()
    session = Session(store, display=Screen(output), engine=lambda: FakeEngine(toy))
    selection = Selection(only=tuple(parse_group(text) for text in only))
    session.start(Request(cases=("toy.yaml",), base_images="registry", selection=selection))
    return session, output.getvalue().splitlines()


def test_a_run_ends_with_the_explanation_and_its_record_has_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session, said = ran(store)
    line = (
        "in one trial each: failed in the 2 cells with a = 6, passed in the other 2 cells, "
        "where a failure in nearly every run is not excluded (2 different-failure)"
    )
    more = "that may be chance; repeat the cells that decide it: reprokit run "
    assert said[-3] == line
    assert said[-2].startswith(more)
    assert sum("is not excluded" in one for one in said) == 1, "the bound is said once, in the statement"
    assert invoke(["show"]) == 0
    assert line in capsys.readouterr().out
    assert invoke(["show", "--json"]) == 0
    assert session.record is not None
    shown = as_published("result", json.loads(capsys.readouterr().out))
    assert shown == result(session.record, store, session.files.get).to_json(), "as --json had it"
    assert shown["cases"][0]["explanation"]["words"] == "a = 6"
    suite = ET.fromstring(junit.junit(session.record)).find("testsuite")
    assert suite is not None
    found = suite.find("properties/property[@name='explanation']")
    assert found is not None
    assert str(found.get("value")).startswith(f"{line} / {more}")


def test_the_newest_verdicts_of_a_case_are_explained_together(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(store, "a=6")
    ran(store, "a=1")
    assert invoke(["show", "--why"]) == 0
    assert "no explanation" in capsys.readouterr().out
    for name in ("toy", "toy.yaml"):
        assert invoke(["show", "--why", name]) == 0
        assert "\n  a = 6\n" in capsys.readouterr().out
    assert invoke(["show", "--why", "toy", "--json"]) == 0
    data = as_published("explanation", json.loads(capsys.readouterr().out))
    assert (data["format"], data["cases"][0]["explanation"]["claim"]) == ("reprokit-explanation/v1", "exact")
    Path("toy.yaml").write_text(TOY + "\n")
    assert invoke(["show", "--why", "toy.yaml"]) == 2
    assert "no run of the current text of the case 'toy' is recorded; run it first" in capsys.readouterr().err
    assert invoke(["show", "--why", "nothing"]) == 2
    assert "holds no run 'nothing'" in capsys.readouterr().err
    assert invoke(["show", "last", "1", "--why"]) == 2
    assert "--why is about whole cases: leave out CELL" in capsys.readouterr().err


def test_a_verdict_that_depends_on_the_gpu_says_so() -> None:
    def on(model: str, record: CellRecord) -> CellRecord:
        had = Usage(gpus=(GpuRecord(name=model, uuid="GPU-1"),))
        return replace(record, trials=tuple(replace(trial, usage=had) for trial in record.trials))

    def recorded(*cells: CellRecord) -> list[tuple[RunRecord, CellRecord]]:
        run = RunRecord(id="1", started_at="2026-01-01T00:00:00Z", version="1")
        return [(run, one) for one in cells]

    fails = [on("NVIDIA H100", cell(at, BAD, cuda=cuda, trials=30)) for at, cuda in enumerate(("11.8", "12.0"), 1)]
    passes = [on("Tesla V100", cell(at, GOOD, cuda=cuda, trials=30)) for at, cuda in enumerate(("11.8", "12.0"), 1)]
    undecided = cell(1, Verdict.UNSUPPORTED, cuda="11.8")
    both = explanation.explain_records(explanation.newest(recorded(undecided, *fails, *passes), None))
    assert "\n".join(explanation.full(both)).count(' when\n  GPU model = "NVIDIA H100"') == 1
    assert both.explanation.decided == 4
    one = explanation.newest(recorded(*fails, *passes[:0]), None)
    assert all(explanation.GPU_MODEL not in record.cell for record in one)
