"""Pages of a real run: what the engine printed is in them, and what says where it ran is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_run import User
from tests.unit.report.test_html import cell_in, data, files

pytestmark = pytest.mark.integration
CASE = """\
schema: reprokit/v1
id: paths
title: A program says where it lives
matrix: {os: [debian-12], word: [good, bad]}
command: |
  exec 2>&1    # through one pipe: what comes through two may come in either order
  echo "reading /home/alice/data, 数据"
  test {{ word }} = good || { echo "lost: /home/alice/data" >&2; exit 3; }
expect: {failure: {exit_code: 3, output: lost}, reproduces: [{word: bad}]}
"""


def test_a_run_becomes_pages(tmp_path: Path) -> None:
    user = User(tmp_path)
    user.write("paths.yaml", CASE)
    user.types("run", str(tmp_path / "paths.yaml"))
    said = user.types("report", "-o", "site")
    assert "1 case, 2 pages of cells" in said
    assert "left out of the texts: " in said
    site = tmp_path / "site"
    [row] = data(site, "overview")["cases"]
    assert (row["status"], row["tally"]) == ("as-expected", {"not-reproduced": 1, "reproduced": 1})
    assert row["flip"] == {"claim": "exact", "words": "word = bad", "axes": ["word"], "trials": ""}
    cell = cell_in(site, row["last"]["run"], 2, "paths")
    assert cell["verdict"] == "reproduced"
    trial = cell["trials"][0]
    assert cell["log1"]["parts"] == [[1, "reading ~/data, 数据\nlost: ~/data"]]
    assert trial["lines"] == [2]
    written = b"".join(files(site).values())
    assert b"alice" not in written
    user.types("run", str(tmp_path / "paths.yaml"), "--only", "word=bad")
    assert "1 case, 3 pages of cells" in user.types("report", "-o", "site")
    [row] = data(site, "overview")["cases"]
    assert row["cells"] == 2  # the other as it was last found
    assert len(row["strip"]) == 2
