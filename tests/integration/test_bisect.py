"""``reprokit bisect`` as a user types it, on the real engine: releases of an index, commits, a kill and a resume."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_run import REPOSITORY, User
from tests.unit.search.test_commits import commit, git

pytestmark = pytest.mark.integration


def answer(user: User, name: str) -> dict[str, Any]:
    found = json.loads((user.folder / name).read_text())
    assert found["format"] == "reprokit-search/v1"
    return dict(found["answer"])


@pytest.mark.nightly
def test_the_release_since_which_numpy_warns_no_more(user: User) -> None:
    case = str(REPOSITORY / "cases" / "np_dtype_synonym.yaml")
    fixed = ("--only", "os=debian-12,shape=1")
    output = user.types("bisect", case, "--axis", "numpy=1.26.3..2.0.1", *fixed, "--json", "out.json")
    assert "4 releases of numpy from 1.26.3 to 2.0.1" in output
    assert "fixed since numpy 2.0.0 (released 2024-06-16); last failing 1.26.4 (released 2024-02-05)" in output
    assert answer(user, "out.json")["since"] == "2.0.0"
    # The case itself has no expectation for the cells in between; show prints the answer of the search.
    assert "fixed since numpy 2.0.0" in user.types("show")
    assert "choose one value of each, such as --only" in user.types(
        "bisect", case, "--axis", "numpy=1.26.3..2.0.1", status=2
    )


CASE = """
schema: reprokit/v1
id: bisected
title: A tree of which each commit holds a number
sources: {tree: {git: "https://example.invalid/tree", ref: v1, path: tree}}
command: |
  sleep 1
  number=$(cat tree/value)
  [ "$number" != broken ] || exit 9
  [ "$number" -lt 6 ] || { echo boom; exit 3; }
expect: {failure: {exit_code: 3, output: boom}}
"""


def tree(folder: Path) -> list[str]:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    values = ["0", "1", "2", "3", "4", "broken", "6", "7", "8", "9", "10", "11"]
    shas = [commit(folder, value) for value in values]
    git(folder, "tag", "v1", shas[0])
    return [sha[:12] for sha in shas]


@pytest.mark.nightly
def test_a_killed_bisection_is_resumed_and_gives_the_same_answer(user: User) -> None:
    user.write("case.yaml", CASE)
    shas = tree(user.folder / "tree")
    words = ("bisect", "case.yaml", "--source", "tree=v1..main", "--source", "tree=tree")
    killed = user.starts(*words)
    assert killed.stdout is not None
    for line in killed.stdout:
        if line.startswith("#3 "):
            break
    time.sleep(0.5)  # into the next cell
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    before = json.loads(user.types("show", "--json"))
    resumed = user.types("bisect", "--resume", "--json", "resumed.json", status=3)
    assert "resuming bisect" in resumed
    # 5 fails in another way: the answer is a range, and it says so.
    assert f"broken between tree {shas[4]}" in resumed
    assert f" and {shas[6]}" in resumed
    assert f"unresolved: {shas[5]} (different-failure)" in resumed
    after = json.loads(user.types("show", "--json"))
    assert after["run_id"] == before["run_id"]
    kept = {json.dumps(one["cell"]): one["trials"] for case in before["cases"] for one in case["cells"]}
    now = {json.dumps(one["cell"]): one["trials"] for case in after["cases"] for one in case["cells"]}
    assert len(kept) >= 3
    assert kept.items() <= now.items()  # the same trials
    user.types(*words, "--store", "other", "--json", "straight.json", status=3)
    assert answer(user, "straight.json") == answer(user, "resumed.json")


def test_history_names_the_bisection_of_the_commits_that_came_between(user: User) -> None:
    folder = user.folder / "tree"
    tree(folder)
    git(folder, "branch", "moving", "main~9")
    user.write("case.yaml", CASE.replace("https://example.invalid/tree", str(folder)).replace("ref: v1", "ref: moving"))
    for at in ("main~9", "main~9", "main", "main"):
        git(folder, "branch", "-f", "moving", at)
        user.types("run", "bisected", "--trials", "5")
    [line] = [one for one in user.types("history", "bisected").splitlines() if "since which commit: " in one]
    words = shlex.split(line.partition(": ")[2])
    assert words[:2] == ["reprokit", "bisect"]
    assert "broken between tree " in user.types(*words[1:], "--confirm", "never", status=3)


INSTALLED = """
schema: reprokit/v1
id: installed
title: six as setup installs it
matrix: {os: [debian-12], six: ["1.10.0", "1.16.0"]}
environment: {setup: "pip install six=={{ six }}"}
command: |
  python -c 'import six; raise SystemExit(3 * (tuple(map(int, six.__version__.split("."))) < (1, 14)))'
expect: {failure: {exit_code: 3}}
"""


def test_a_version_that_setup_installs_has_its_releases_tried_and_its_boundary_confirmed(user: User) -> None:
    user.write("case.yaml", INSTALLED)
    output = user.types("bisect", "installed", "--axis", "six=1.10.0..1.16.0", "--json", "out.json")
    assert "7 releases of six from 1.10.0 to 1.16.0" in output
    found = answer(user, "out.json")
    assert found["words"][0].startswith("fixed since six 1.14.0 (released 2020-01-15); last failing 1.13.0")
    assert found["confirmed"]
    assert found["trials"]["1.14.0"]["passed"] > 3
    by_hand = user.types("bisect", "installed", "--axis", "six", "--values", "1.12.0,1.16.0", "--confirm", "never")
    assert "in one trial each: last failing six 1.12.0, first passing 1.16.0" in by_hand
