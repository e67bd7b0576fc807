"""What is missing is put into a draft once, with a comment, and only where a log or an index proves it. No engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from reprokit.environment.cases import load_text
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails, FailedBuildRecord
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, ExceptionRecord, TrialRecord
from reprokit.intake.draft import Draft, render
from reprokit.intake.repairing import leave_out_missing, repair

INDEX = {
    "numpy": {Version("1.18.4"), Version("1.19.0")},
    "six": {Version("1.15.0")},
    "unittest": frozenset[Version](),
    "ours": None,  # an index does not answer
}


def draft(**environment: Any) -> Draft:
    source = {"git": "https://x.org/y", "ref": "v1", "path": "yaml"}
    expect = {"failure": {"exception": "ValueError"}}
    data = {"id": "x", "title": "x", "matrix": {"os": ["debian-12"]}, "command": "true", "expect": expect}
    return Draft(data={**data, "environment": environment, "sources": {"yaml": source}})


def cell(put: str, verdict: Verdict = Verdict.BUILD_FAILED, *trials: TrialRecord) -> CellRecord:
    build = FailedBuildRecord(step="RUN x", cause="the cause", put=put)
    return CellRecord(
        number=1, case_id="x", case_path="x.yaml", case_digest="sha256:0", cell={"os": "debian-12"},
        verdict=verdict, details=CellDetails(build=build), trials=trials,
    )  # fmt: skip


def environment_of(made: Draft) -> Any:
    """As a case that is read again has it: a draft that is not a valid case fails here."""
    load_text("x.yaml", render(made), draft=True)
    return made.data["environment"]


@pytest.mark.parametrize(
    ("line", "kept", "said"),
    [
        ("numpy==1.19.0rc2", "numpy==1.19.0", "numpy==1.19.0 instead of numpy==1.19.0rc2"),
        ("numpy==1.19.0.dev0", "", "Left out: numpy==1.19.0.dev0: no index has this version."),
        ("six==1.99", "", "Left out: six==1.99: no index has this version."),
        ("unittest", "", "Left out: unittest: no index has this package."),
        ("six==1.15.0", "six==1.15.0", ""),
        ("six>=1.0", "six>=1.0", ""),
        ("numpy==1.18.*", "numpy==1.18.*", ""),
        ("ours==1.0", "ours==1.0", ""),
        ("-e .", "-e .", ""),
        ("six @ https://x.org/six-9.whl", "six @ https://x.org/six-9.whl", ""),
    ],
)
def test_what_no_index_has_is_left_out_and_said(line: str, kept: str, said: str) -> None:
    for step in ([line, "six"], {"requirements": [line, "six"], "options": ["--no-deps"]}):
        made, lines = leave_out_missing(draft(pip=[step]), INDEX.__getitem__)
        [left] = environment_of(made)["pip"]
        assert (left["requirements"] if isinstance(left, dict) else left) == [*filter(None, [kept]), "six"]
        assert len(lines) == bool(said)
        assert said in " ".join(lines)
        assert said in " ".join(render(made).replace("#", " ").split())


def test_where_nothing_is_left_to_install_it_is_said_at_the_top() -> None:
    made, _ = leave_out_missing(draft(pip=["unittest"], apt=["git"]), INDEX.__getitem__)
    assert environment_of(made) == {"apt": ["git"]}
    assert render(made).startswith("# Left out: unittest: no index has this package.")


def test_a_package_that_is_missing_is_put_once() -> None:
    found = repair(draft(apt=["git"]), [cell("environment.apt: [libxml2-dev, git]")], "r-1")
    assert found is not None
    made, words = found
    assert environment_of(made)["apt"] == ["git", "libxml2-dev"]
    assert "the cause" in words
    assert "run r-1" in render(made)
    assert repair(made, [cell("environment.apt: [libxml2-dev]")], "r-2") is None, "it is there: something else is wrong"


@pytest.mark.parametrize("put", ["", "matrix.cmake: [VERSION]"])
def test_what_is_not_proven_is_not_put(put: str) -> None:
    assert repair(draft(apt=["git"]), [cell(put)], "r-1") is None


def test_a_version_of_an_axis_is_put_where_the_case_has_none() -> None:
    found = repair(draft(), [cell('matrix.cmake: ["3.31"]')], "r-1")
    assert found is not None
    assert found[0].data["matrix"]["cmake"] == ["3.31"]
    assert repair(found[0], [cell('matrix.cmake: ["3.31"]')], "r-2") is None


@pytest.mark.parametrize("setup", ["cd yaml && pip install .", ""])
def test_a_pin_of_a_list_that_setup_replaces_becomes_what_it_installs(setup: str) -> None:
    lines = ["Tornado[x]==5.0", "six==1.15.0", "attrs==19.*", "idna>=9", "luigi==2.8"]
    steps = [["wheel"], {"requirements": lines, "options": ["--no-deps"]}]
    pip = {"tornado": "4.5.3", "six": "1.15.0", "attrs": "20.1", "idna": "2", "luigi": "3.0"}
    seen = replace(
        cell("", Verdict.ENVIRONMENT_MISMATCH),
        environment=Measured(packages={"pip": pip, "apt": {}}, source_trees=("luigi",)),
        details=CellDetails(),
    )
    made = draft(pip=steps, **({"setup": setup} if setup else {}))
    assert repair(made, [seen], "r-1") is None, "a report means its version"
    found = repair(made, [seen], "r-1", of_list=True)
    assert (found is not None) == bool(setup), "what pip itself left otherwise is no proof"
    if found:
        assert environment_of(found[0])["pip"][1]["requirements"] == ["Tornado[x]==4.5.3", *lines[1:]]
        assert "Tornado[x]==4.5.3 instead of Tornado[x]==5.0" in render(found[0]).replace("\n  # ", " ")
        assert repair(found[0], [seen], "r-2", of_list=True) is None


def test_numpy_1_where_another_failure_than_the_reported_one_proves_that_it_is_needed() -> None:
    seen = ExceptionRecord(type="AttributeError", message="`np.NaN` was removed in the NumPy 2.0 release.")
    values: dict[str, Any] = {"exit_code": 1, "seconds": 1.0, "oom": False, "timed_out": False, "reason": "", "log": ""}
    trial = TrialRecord(number=1, outcome=Outcome.DIFFERENT_FAILURE, exception=seen, **values)
    differs, before = cell("", Verdict.DIFFERENT_FAILURE, trial), draft(pip=["pandas==2.0.0", "numpy"])
    assert (found := repair(before, [differs], "r1"))
    assert environment_of(found[0])["pip"] == [["numpy<2"], ["pandas==2.0.0", "numpy"]]
    assert repair(found[0], [differs], "r2") is None
    assert repair(before, [cell("", Verdict.REPRODUCED, trial)], "r1") is None
    assert repair(draft(pip=["numpy==2.1.0"]), [differs], "r1") is None, "the report names its numpy"
