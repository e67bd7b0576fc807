"""Commits between two refs of real repositories, made here."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.cellspec import SourceSpec
from reprokit.case.files import CaseFile
from reprokit.case.render import render
from reprokit.core.errors import UsageError
from reprokit.environment.cases import load
from reprokit.run import sources
from reprokit.run.sources import SourceError
from reprokit.search.bisect_line import BisectLine, add_axis, axis_of, commits_between, list_moved_submodules

SPEC = SourceSpec(git="https://example.invalid/demo", ref="main", path="demo", patch="")


def git(folder: Path, *words: str) -> str:
    own = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    days = {"GIT_AUTHOR_DATE": "2024-03-01T12:00:00Z", "GIT_COMMITTER_DATE": "2024-03-01T12:00:00Z"}
    environ = {**os.environ, **own, **days, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, name: str, path: str = "value") -> str:
    (folder / path).write_text(name)
    git(folder, "add", path)
    git(folder, "commit", "-qm", name)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """main: a b c (tag v2) M d; a branch of v1 comes from b: r (tag v1); M merges s, which comes from b."""
    folder = tmp_path / "demo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "a")
    commit(folder, "b")
    git(folder, "switch", "-qc", "side")
    commit(folder, "s", "other")
    git(folder, "switch", "-qc", "release", "main")
    commit(folder, "r")
    git(folder, "tag", "v1")
    git(folder, "switch", "-q", "main")
    commit(folder, "c | with, odd (words)")
    git(folder, "tag", "-a", "-m", "second", "v2")
    git(folder, "merge", "-q", "--no-ff", "-m", "M", "side")
    commit(folder, "d")
    return folder


def subjects(folder: Path, low: str, high: str, **more: bool) -> list[str]:
    return [one.subject.split()[0].strip(";") for one in commits_between("demo", folder, low, high, **more)[0]]


def test_commits_are_in_the_order_of_the_branch(checkout: Path) -> None:
    assert subjects(checkout, "main~4", "main") == ["a", "b", "c", "M", "d"]
    assert subjects(checkout, "main", "v2") == ["c", "M", "d"]  # whichever is named first
    found = commits_between("demo", checkout, "main~4", "main", spelt=("v2",))[0]
    assert [one.value for one in found][2] == "v2"
    assert found[2].details == "2024-03-01 c | with, odd (words)"
    assert len(found[0].value) == 12
    assert [one.merge for one in found] == [False, False, False, True, False]
    assert commits_between("demo", checkout, "main~4", "main")[0][2].details.startswith("v2, 2024-03-01")
    assert subjects(checkout, "main~4", "main", tags_only=True) == ["a", "c", "d"]


def test_odd_subjects_and_tags_are_shown_safely(checkout: Path) -> None:
    commit(checkout, "clear \x1b[2J screen \u2028 and \x0c page \x1f field")
    git(checkout, "tag", "a),b")
    last = commits_between("demo", checkout, "v2", "main")[0][-1]
    assert last.subject == "clear \ufffd[2J screen \ufffd and \ufffd page \ufffd field"
    assert last.tags == ("a),b",)


def test_a_ref_of_another_branch_is_followed_by_the_merge_base(checkout: Path) -> None:
    found, note = commits_between("demo", checkout, "v1", "main")
    assert [one.subject[0] for one in found] == ["r", "b", "c", "M", "d"]
    assert found[0].value == "v1"
    assert found[1].details.endswith("b; v1 branched off here")
    assert "v1 is not an ancestor of main" in note
    # The range inside a merge, which the command suggests.
    merge = commits_between("demo", checkout, "v2", "main")[0][1].value
    assert subjects(checkout, f"{merge}^1", f"{merge}^2") == ["c", "b", "s"]


def test_a_submodule_that_moves_is_named_with_what_to_bisect(checkout: Path) -> None:
    old, new = "1" * 40, "2" * 40
    for sha in (old, new):
        git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{sha},deep/part")
        git(checkout, "commit", "-qm", sha[:1])
    commits = {one.value: one for one in commits_between("demo", checkout, "v2", "main")[0]}
    line = BisectLine(
        axis="demo",
        of="demo",
        things="commits",
        rest={},
        values=tuple(commits),
        commits=commits,
        repository=str(checkout),
    )
    last = len(commits) - 1
    moved = f"the submodule deep/part moves: bisect {old[:12]}..{new[:12]} of its repository"
    assert list_moved_submodules(line, last - 1, last) == [moved]
    assert list_moved_submodules(line, last - 2, last - 1) == []  # it begins there
    assert list_moved_submodules(replace(line, commits={}), 0, last) == []


def test_refs_that_do_not_exist_are_refused(checkout: Path) -> None:
    with pytest.raises(UsageError, match=r"--source demo=v1\.\.mian: .* no commit, tag or branch 'mian'; did you mean"):
        commits_between("demo", checkout, "v1", "mian")
    with pytest.raises(UsageError, match="both are the commit"):
        commits_between("demo", checkout, "main", "main~0")
    git(checkout, "switch", "-q", "--orphan", "alone")
    commit(checkout, "z")
    with pytest.raises(UsageError, match="no commit in common"):
        commits_between("demo", checkout, "main", "alone")


def test_history_comes_from_a_local_repository_or_is_fetched(checkout: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    fetched = sources.history("demo", SPEC, stand_in=checkout, kept=kept)
    assert subjects(fetched, "v1", "main")[-1] == "d"
    commit(checkout, "e")
    assert sources.history("demo", SPEC, stand_in=checkout, kept=kept) == fetched
    assert subjects(fetched, "v1", "main")[-1] == "e"
    # The tree of a commit comes out of it, and not what the checkout happens to hold.
    (checkout / "value").write_text("uncommitted")
    spec = SourceSpec(
        git=SPEC.git, ref=commits_between("demo", fetched, "v1", "main")[0][-2].value, path="demo", patch=""
    )
    assert (sources.fetch("demo", spec, stand_in=fetched, kept=kept).archive / "value").read_text() == "d"
    own = SourceSpec(git=str(checkout), ref="main", path="demo", patch="")
    assert subjects(sources.history("demo", own, kept=kept), "v1", "main")[-1] == "e"
    bare = tmp_path / "bare"
    git(tmp_path, "clone", "-q", "--bare", str(checkout), str(bare))
    assert sources.history("demo", SPEC, stand_in=bare, kept=kept) == bare
    # A branch that a clone knows of its origin alone is found too.
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(checkout), str(clone))
    assert subjects(sources.history("demo", SPEC, stand_in=clone, kept=kept), "main~4", "release") == ["b", "r"]


def test_missing_history_is_refused(checkout: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(SourceError, match="this is not a git repository"):
        sources.history("demo", SPEC, stand_in=tmp_path, kept=kept)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{checkout}", str(shallow))
    with pytest.raises(SourceError, match="git fetch --unshallow"):
        sources.history("demo", SPEC, stand_in=shallow, kept=kept)
    gone = SourceSpec(git=str(tmp_path / "gone"), ref="main", path="demo", patch="")
    with pytest.raises(SourceError, match="cannot fetch the history"):
        sources.history("demo", gone, kept=kept)


CASE = """
schema: reprokit/v1
id: demo
title: Demo
matrix: {mode: [a, b]}
sources:
  demo-tree: {git: https://example.invalid/demo, ref: REF, path: demo}
command: run
fix: {env: {X: 1}}
"""


def case(tmp_path: Path, ref: str) -> CaseFile:
    path = tmp_path / "demo.yaml"
    path.write_text(CASE.replace("REF", ref))
    return load(str(path))[0]


def test_a_cell_names_its_commit(tmp_path: Path) -> None:
    file = case(tmp_path, "v1")
    axis = axis_of(file, "demo-tree")
    assert axis == "demo_tree"
    changed = add_axis(file, "demo-tree", axis)
    assert changed.digest == file.digest
    for one in (changed.case, changed.fixed):
        assert one is not None
        assert render(one, {"mode": "a", axis: "abc"}).sources["demo-tree"].ref == "abc"
    assert render(file.case, {"mode": "a"}).sources["demo-tree"].ref == "v1"


def test_an_axis_that_is_the_ref_is_the_one_to_bisect(tmp_path: Path) -> None:
    file = case(tmp_path, '"{{ mode }}"')
    assert axis_of(file, "demo-tree") == "mode"
    assert add_axis(file, "demo-tree", "mode") is file
    with pytest.raises(UsageError, match="no such source; did you mean 'demo-tree'"):
        axis_of(file, "demo_treee")
    (tmp_path / "demo.yaml").write_text(CASE.replace("REF", "v1").replace("mode:", "demo_tree:"))
    with pytest.raises(UsageError, match="an axis 'demo_tree' that is not the ref"):
        axis_of(load(str(tmp_path / "demo.yaml"))[0], "demo-tree")
