"""What changes between nights, on the real engine: a package, a case and its signature."""

from __future__ import annotations

import json

import pytest

from tests.integration.test_run import User

pytestmark = pytest.mark.integration

NUMPY = """\
schema: reprokit/v1
id: numpy-alias
title: An alias that a release of NumPy removed
matrix: {os: [debian-12], python: ["3.11"], name: [bool, bool_]}
environment: {pip: ["numpy==1.26.4"]}
command: python -W ignore -c "import numpy; print(numpy.{{ name }})"
expect: {failure: {exception: AttributeError}, reproduces: [{name: bool}]}
"""


@pytest.mark.nightly
def test_a_bug_that_an_older_release_does_not_have_is_gone_and_comes_back(user: User) -> None:
    older = NUMPY.replace("1.26.4", "1.23.5")
    for text, status in ((NUMPY, 0), (NUMPY, 0), (older, 1), (older, 1)):
        user.write("case.yaml", text)
        user.types("run", "case.yaml", "--trials", "7", status=status)
    shown = user.types("history", "case.yaml")
    assert "RR..    gone since" in shown
    assert "reproducing -> gone: name=bool\n" in shown
    assert "      numpy  - 1.26.4  + 1.23.5\n" in shown
    assert "text (environment)" in shown
    [gone] = [one for one in json.loads(user.types("history", "--since", "1h", "--json"))["changes"] if one["before"]]
    assert (gone["cell"]["name"], gone["words"], gone["confirmed"]) == ("bool", "reproducing -> gone", True)
    assert next((one["name"], one["before"]) for one in gone["changed"]) == ("numpy", "1.26.4")
    user.types("history", "--since", "1h", "--exit-code", status=1)
    user.write("case.yaml", NUMPY)
    user.types("run", "case.yaml")
    assert "gone -> back: name=bool" in user.types("history", "--since", gone["confirmed_by"]["run"])
