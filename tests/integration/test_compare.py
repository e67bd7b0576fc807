"""Numbers that are compared between cells, on the real engine: where and since when they are others."""

from __future__ import annotations

import json

import pytest

from tests.integration.test_run import User

pytestmark = pytest.mark.integration

CASE = """
schema: reprokit/v1
id: rounds-otherwise
title: From its third release on, a program rounds otherwise
matrix: {os: [debian-12], python: ["3.11"], release: ["1", "2", "3"]}
files:
  work.py: |
    import json, sys
    json.dump([round(0.5 + (int(sys.argv[1]) > 2)), 1.25], open("result.json", "w"))
command: [python, work.py, "{{ release }}"]
expect:
  compare: {outputs: [result.json], reference: {cell: {release: "1"}}}
  reproduces: [{release: "3"}]
"""


def test_run_and_bisect_run_the_reference_too_and_reduce_refuses_with_the_reason(user: User) -> None:
    user.write("case.yaml", CASE)
    said = user.types("run", "case.yaml", "--only", "release=3", "--confirm", "never")
    assert "2 cells" in said
    assert {(one["cell"]["release"], one["verdict"], one["as_expected"]) for one in user.cells()} == {
        ("1", "not-reproduced", True),
        ("3", "reproduced", True),
    }
    assert "release=1: result.json: 1 of 2 numbers differ, most at $[0]: 2 against 0" in said

    said = user.types("bisect", "case.yaml", "--axis", "release", "--values", "2,3", "--json", "found.json")
    assert json.loads((user.folder / "found.json").read_text())["answer"]["since"] == "3", said
    assert "release=1: not-reproduced" in said  # what they are compared with has a name

    said = user.types("reduce", "case.yaml", status=2)
    assert "case.yaml: expect.compare: reduce needs a failure with a signature (expect.failure)" in said
    assert "Lithium" not in said
