"""``reprokit diff``: what differs, in the order in which it is likely to matter, aligned and once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reprokit.environment.measured import Measured
from reprokit.evidence.model import Verdict
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import differences
from reprokit.report.differences import Difference, EnvironmentFacts, compare, pairs, read_cell
from reprokit.store.joining import key_of

ENVIRONMENT: dict[str, Any] = {
    "os": "debian-12",
    "glibc": "2.36",
    "python": "3.11.2",
    "gpu": [],
    "packages": {
        "pip": {"torch": "2.0.1", "numpy": "1.26.4", "tqdm": "4.66.1"},
        "apt": {"libc6": "2.36-9", "libzstd1": "1.5.4", "bash": "5.2"},
    },
}


def run(engine: str = "Docker Engine 20.10.24") -> RunRecord:
    return RunRecord(
        id="r1",
        started_at="",
        version="",
        host=HostRecord(engine=engine, engine_kind=engine.split()[0].lower(), kernel="6.1"),
    )


def cell(verdict: Verdict = Verdict.REPRODUCED, number: int = 1, **changes: Any) -> CellRecord:
    packages = {kind: {**ENVIRONMENT["packages"][kind], **changes.pop(kind, {})} for kind in ("pip", "apt")}
    return CellRecord(
        number=number,
        case_id="x",
        case_path="x.yaml",
        case_digest="",
        cell={"n": str(number)},
        verdict=verdict,
        environment=Measured.from_json({**ENVIRONMENT, **changes, "packages": packages}),
    )


def side(record: CellRecord, **values: Any) -> EnvironmentFacts:
    return read_cell("r1:1", run(), record, values)


def test_what_is_likely_to_matter_comes_first() -> None:
    newer = cell(
        pip={"torch": "2.1.0", "numpy": "2.0.0", "tqdm": "4.67"},
        apt={"libc6": "2.41", "libzstd1": "1.5.7", "bash": "5.3"},
        glibc="2.41",
        python="3.13.1",
        gcc="14.2",
        cuda="12.0",
    )
    found = compare(side(cell()), side(newer, **{"environment variables": {"A": "1"}}))
    assert [(one.concern, one.name) for one in found] == [
        ("operating system", "glibc"),
        ("CUDA", "release"),
        ("frameworks", "torch"),
        ("Python", "version"),
        ("GCC", "version"),
        ("environment variables", "A"),
        ("packages beneath the frameworks", "numpy"),
        ("other pip packages", "tqdm"),
        ("libraries (apt)", "libc6"),
        ("libraries (apt)", "libzstd1"),
        ("other packages (apt)", "bash"),
    ]
    assert found[1] == Difference(concern="CUDA", name="release", before=None, after="12.0")


def test_names_are_compared_as_indexes_do() -> None:
    assert not compare(side(cell(pip={"jaraco.text": "1"})), side(cell(pip={"jaraco-text": "1"})))


def test_engines_that_differ_are_named_first_and_their_versions_later() -> None:
    venv = read_cell("b", run("venv 1"), cell(), {})
    found = compare(side(cell()), venv)
    assert (found[0].concern, found[0].before, found[0].after) == ("engine", "docker", "venv")
    [newer] = compare(side(cell()), read_cell("b", run("Docker Engine 28"), cell(), {}))
    assert newer.concern == "kernel"


def test_a_cell_without_an_image_does_not_look_like_one_that_lacks_every_package() -> None:
    refused = side(replace(cell(Verdict.UNSUPPORTED), environment=None))
    assert compare(side(cell()), refused) == ()
    assert any("no image that was measured" in line for line in differences.cell_text(side(cell()), refused))


def test_two_cells_are_reported_aligned_below_their_verdicts() -> None:
    after = side(cell(Verdict.NOT_REPRODUCED, pip={"numpy": "2.0.0", "scipy": "1.13.1"}), command={"command": "a\nb"})
    lines = list(differences.cell_text(side(cell(), command={"command": "a"}), after))
    assert lines == [
        "- r1:1  x: n=1: reproduced",
        "+ r1:1  x: n=1: not-reproduced",
        "",
        "packages beneath the frameworks",
        "  numpy  - 1.26.4  + 2.0.0",
        "  scipy  - (none)  + 1.13.1",
        "command",
        "  command",
        "    - a",
        "    + a",
        "    + b",
    ]


def test_the_same_environment_is_reported_as_such() -> None:
    assert list(differences.cell_text(side(cell()), side(cell())))[-1].startswith("the environments are the same")


def test_two_runs_tell_a_difference_once_for_all_cells_that_share_it_and_verdicts_first() -> None:
    before = [cell(number=number) for number in (1, 2, 3, 4)]
    after = [cell(number=number, pip={"numpy": "2.0.0"}) for number in (1, 2)]
    after = [replace(after[0], verdict=Verdict.FLAKY), after[1], before[2]]
    sides = [{key_of(one): side(one) for one in cells} for cells in (before, after)]
    found = pairs(sides[0], sides[1])
    assert list(differences.run_text("run a", "run b", found)) == [
        "- run a",
        "+ run b",
        "",
        "verdicts",
        "  x: n=1",
        "    - reproduced",
        "    + flaky",
        "",
        "x: n=1",
        "x: n=2",
        "  packages beneath the frameworks",
        "    numpy  - 1.26.4  + 2.0.0",
        "- only here: x: n=4: reproduced",
        "",
        "3 cells in both: 1 the same, 1 with another verdict, 2 with another environment",
    ]
    assert [len(pair.differences) for pair in differences.describe_pairs(found).pairs] == [1, 1, 0, 0]


def test_a_lock_and_a_cell_are_compared_by_what_both_know() -> None:
    cell = EnvironmentFacts(
        name="a", title="a", facts={"GPU": {"driver": "1"}, "other pip packages": {"six": "1.16.0"}}
    )
    lock = EnvironmentFacts(
        name="b", title="b", facts={"Python": {"served by": "x"}, "other pip packages": {"six": "1.17.0"}}, locked=True
    )
    assert [(one.concern, one.name) for one in compare(cell, lock)] == [("other pip packages", "six")]
