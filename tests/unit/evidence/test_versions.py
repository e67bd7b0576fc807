"""The versions of the rules: results on the golden logs change only together with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reprokit.evidence import fingerprint
from reprokit.evidence.parser import Trait
from tests.golden.versions import FILE, Versioned, problem, versioned

RECORDED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("one", versioned(), ids=lambda one: one.name)
def test_results_change_only_with_their_version(one: Versioned) -> None:
    assert problem(one, RECORDED, one.results()) == ""


def test_everything_that_is_recorded_still_has_a_version() -> None:
    assert set(RECORDED) == {one.name for one in versioned()}


def test_a_changed_rule_is_noticed_and_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    one = next(one for one in versioned() if one.name == "fingerprint")
    monkeypatch.setattr(fingerprint, "has", lambda kind, trait: trait is Trait.SIGNAL)
    found = one.results()
    said = problem(one, RECORDED, found)
    assert "python-build-failed" in said
    assert " changed, and the version is still" in said
    assert "raise FINGERPRINT_VERSION in reprokit/evidence/fingerprint.py" in said
    assert said.endswith("python -m tests.golden")


def _one(version: str) -> Versioned:
    return Versioned(name="rules", version=version, place="RULES", results=dict)


def test_a_raised_version_asks_for_its_results() -> None:
    recorded = {"rules": {"version": "1", "logs": {"a": "in:out"}}}
    assert problem(_one("1"), recorded, {"a": "in:out"}) == ""
    said = problem(_one("2"), recorded, {"a": "in:other"})
    assert said == "rules: the results of version 2 are not recorded: python -m tests.golden"


@pytest.mark.parametrize("found", [{"a": "in:out", "b": "in:out"}, {"a": "other:other"}, {}])
def test_other_logs_ask_for_no_new_version(found: dict[str, str]) -> None:
    recorded = {"rules": {"version": "1", "logs": {"a": "in:out"}}}
    assert problem(_one("1"), recorded, found).startswith("rules: the results of version 1 are not recorded")
