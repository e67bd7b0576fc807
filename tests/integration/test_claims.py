"""What a run says of failures that come and go, on the real engines: "exactly" only of those that depend on an axis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import own_cache
from tests.integration.test_run import User

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: flake
title: k stands in a comment only
matrix: {{os: [debian-12], k: [a, b, c, d]}}
files:
  go.py: |
    import os
    k = "{{{{ k }}}}"  # only to be read
    if {fails}:
        raise ValueError("now and then")
command: python3 go.py
expect: {{failure: {{exception: ValueError}}}}
"""
STATED = re.compile(r"^(?:flake: )?reproduces (?:more often |exactly )?when", re.M)


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    """A cache that an unprivileged user can reach, for virtual environments."""
    with own_cache() as folder:
        yield folder


@pytest.fixture
def user(cache: Path, tmp_path: Path) -> User:
    return User(tmp_path)


def said(user: User, fails: str, *words: str) -> str:
    user.write("flake.yaml", CASE.format(fails=fails))
    return user.types("run", "flake.yaml", *words)


def test_a_failure_that_depends_on_an_axis_is_said_to_after_a_few_trials(user: User) -> None:
    text = said(user, "k == 'b'")
    assert "more to confirm" in text
    assert re.search(
        r"reproduces when k = b \(\d+ of \d+ runs; elsewhere 0 of \d+.* each, a failure in up to \d+ %", text
    )
    cells = user.cells()
    assert sum(len(cell["trials"]) for cell in cells) < 30
    assert [cell["verdict"] for cell in cells].count("reproduced") == 1
    assert not STATED.search(said(user, "k == 'b'", "--confirm", "never"))
    seen = "failed in the 1 cell with k = b, passed in the other 3 cells, where a failure in nearly every run"
    assert f"in one trial each: {seen}" in user.types("show")
    assert "in one trial each (elsewhere a failure in nearly every run is not excluded), it failed where" in user.types(
        "show", "--why"
    )
    assert "In one trial each: failed in the 1 cell with k = b" in user.types("share")


def test_a_fix_is_judged_where_the_case_reproduced_and_nowhere_else(user: User) -> None:
    fix = "fix: {env: {FIXED: '1'}}\n"
    words = ("--engine", "venv", "--fix", "--confirm", "never")
    user.write("flake.yaml", CASE.format(fails="k in 'ab' and 'FIXED' not in os.environ") + fix)
    user.types("run", "flake.yaml", *words)
    assert (
        "with the fix: gone in 2 of the 2 cells where it reproduced, in one trial each (a failure in nearly every run"
        in user.types("show", "--why")
    )
    user.write("flake.yaml", CASE.format(fails="k == 'z'") + fix)
    text = user.types("run", "flake.yaml", *words)
    assert "passed 1 of 1" in text
    assert text.count("in up to 95 % of runs is not excluded") == 1
    assert "it cannot be judged: the case reproduced in none of its cells" in user.types("show", "--why")
