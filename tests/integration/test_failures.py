"""Failures that are not the signature's, grouped and recognised, on the real engine."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.integration.test_run import User

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: fails-otherwise
title: Cells that fail otherwise, in two ways
matrix: {os: [debian-12], how: ["1", "2", "3", "4"]}
files:
  go.py: |
    import sys, tempfile
    how = int(sys.argv[1])
    def promote(x):
        raise TypeError(f"cannot promote {x!r} with shape [{how}, {how * 7}] from {tempfile.mkdtemp()}/part.bin")
    if how % 2:
        promote(object())
    elif how == 2:
        sys.exit("no data in 3.5 s")
    sys.exit("no data in 11 s")
command: python go.py {{ how }}
expect:
  failure: {exception: RuntimeError}
  reproduces: all
"""
KNOWN = """\
  known:
    - {id: promotion, failure: {exception: TypeError, frames: ["go.py:promote"]}, reproduces: [{how: "1"}, {how: "3"}]}
    - {id: no-data, failure: {output: no data}}
"""


def test_the_same_other_failure_is_one_line_and_a_known_one_has_a_name(tmp_path: Path) -> None:
    user = User(tmp_path)
    user.write("case.yaml", CASE)
    said = user.types("run", "case.yaml", status=1)
    assert "\n4 different-failure; 4 depart from what the case expects\n" in said
    _, _, listed = said.partition("\ndifferent failures:\n")
    first, second, details = listed.splitlines()
    assert first.startswith("  2 cells (1, 3): TypeError: cannot promote <object object at 0x")
    assert second.startswith("  2 cells (2, 4): exit status 1: no data in 3.5 s [")
    assert details.startswith("details: ")
    assert first in user.types("show").splitlines()
    identities = [line.rpartition("[")[2].rstrip("]") for line in (first, second)]
    assert [(one["id"], one["cells"]) for one in user.result()["failures"]] == list(
        zip(identities, ([1, 3], [2, 4]), strict=True)
    )
    assert f"\nfailure {identities[0]}: TypeError" in user.types("show", "last", "3")

    user.write("case.yaml", CASE + KNOWN)
    said = user.types("run", "case.yaml", "--junit", "out.xml", status=1)
    assert "2 depart" in said
    assert "  2 cells (1, 3): known as promotion: TypeError: cannot" in said
    assert "  2 cells (2, 4): known as no-data: exit status 1: no data in 3.5 s [" in said
    assert [cell["expected"] for cell in user.cells()] == ["different-failure", "reproduced"] * 2
    departs = [element.get("message") or "" for element in ET.parse(user.folder / "out.xml").iter("failure")]
    assert len(departs) == 2
    assert all(text.endswith(f"[failure {identities[1]}]") for text in departs)
    said = user.types("run", "case.yaml", "--axis", "how=1,3")
    assert "2 different-failure; all as expected" in said
