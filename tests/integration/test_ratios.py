"""Cells that are measured against another, on the real engine: since when a program is slow, and why."""

from __future__ import annotations

import json

import pytest

from tests.integration.test_run import User

pytestmark = pytest.mark.integration

CASE = """
schema: reprokit/v1
id: slow
title: From its third release on, a program does its work many times
matrix: {os: [debian-12], python: ["3.11"], release: ["1", "2", "3"]}
files:
  work.py: |
    import sys, time
    release = int(sys.argv[1])
    sum(number % 7 for number in range(3_000_000 if release > 2 else 300_000))
    print(f"reprokit: seconds={time.process_time():.6f}")
command: [python, work.py, "{{ release }}"]
resources: {timeout: 10m}
expect:
  slower_than: {ratio: 2, of: {release: "1"}}
"""


@pytest.mark.nightly
def test_bisect_finds_since_when_it_is_slow_and_explain_says_where(user: User) -> None:
    user.write("case.yaml", CASE)
    output = user.types("bisect", "case.yaml", "--axis", "release", "--values", "1,2,3", "--json", "found.json")
    found = json.loads((user.folder / "found.json").read_text())
    assert found["answer"]["since"] == "3", output
    cells = {one["cell"]["release"]: one for one in user.result()["cases"][0]["cells"]}
    assert {release: one["verdict"] for release, one in cells.items()} == {
        "1": "not-reproduced",
        "2": "not-reproduced",
        "3": "reproduced",
    }
    assert "printed time is" in cells["3"]["reason"]
    assert "of the reference os=debian-12 python=3.11 release=1" in cells["3"]["reason"]
    assert cells["3"]["details"]["ratio"]["times"]["low"] > 2
    assert "it reproduces (as measured) when\n  release = 3\n" in user.types("show", "--why", "case.yaml")
