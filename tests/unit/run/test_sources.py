"""Fetching and exporting source trees, with a real git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprokit.case.cellspec import DatasetSpec, SourceSpec
from reprokit.core.errors import UsageError
from reprokit.run.plan import check_dataset
from reprokit.run.sources import SourceError, fetch, tree_digest

PATCH = """\
--- a/hello.py
+++ b/hello.py
@@ -1 +1 @@
-print("one")
+print("patched")
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "-q")
    for text, tag in (('print("one")\n', "v1"), ('print("two")\n', "v2")):
        (folder / "hello.py").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", tag)
        git(folder, "tag", tag)
    return folder


def spec(repository: Path, ref: str = "v1", patch: str = "") -> SourceSpec:
    return SourceSpec(git=str(repository), ref=ref, path="tree", patch=patch)


@pytest.mark.parametrize("form", ["tag", "commit", "branch"])
def test_a_tag_a_branch_and_a_commit_are_pinned_to_the_commit(repository: Path, tmp_path: Path, form: str) -> None:
    ref = {"tag": "v1", "commit": git(repository, "rev-parse", "v1"), "branch": "main"}[form]
    tree = fetch("s", spec(repository, ref), kept=tmp_path / "cache")
    assert tree.commit == git(repository, "rev-parse", ref)
    assert (tree.archive / "hello.py").read_text() == ('print("two")\n' if form == "branch" else 'print("one")\n')


def test_a_pinned_commit_is_served_from_the_cache_when_upstream_is_gone(repository: Path, tmp_path: Path) -> None:
    pinned = spec(repository, git(repository, "rev-parse", "v1"))
    first = fetch("s", pinned, kept=tmp_path / "cache")
    repository.rename(tmp_path / "gone")
    assert fetch("s", pinned, kept=tmp_path / "cache") == first


def test_a_patch_changes_tree_and_digest_and_one_that_does_not_apply_is_refused(
    repository: Path, tmp_path: Path
) -> None:
    plain = fetch("s", spec(repository), kept=tmp_path / "cache")
    patched = fetch("s", spec(repository, patch=PATCH), kept=tmp_path / "cache")
    assert (patched.archive / "hello.py").read_text() == 'print("patched")\n'
    assert patched.digest != plain.digest
    with pytest.raises(SourceError, match="does not apply"):
        fetch("s", spec(repository, "v2", PATCH), kept=tmp_path / "cache")


def test_an_unknown_ref_and_an_unreachable_repository_say_what_to_do(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="'v9'"):
        fetch("s", spec(repository, "v9"), kept=tmp_path / "cache")
    with pytest.raises(SourceError, match="--source s=DIR"):
        fetch("s", spec(tmp_path / "nowhere"), kept=tmp_path / "cache")
    nowhere = SourceSpec(git=f"file://{tmp_path}/nowhere", ref="v1", path="tree")  # git ends with advice in this case
    with pytest.raises(SourceError, match="does not appear to be a git repository"):
        fetch("s", nowhere, kept=tmp_path / "cache")


def test_a_bare_stand_in_serves_the_pinned_ref_and_a_checkout_as_it_stands(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare")
    elsewhere = SourceSpec(git="https://nowhere.invalid/x", ref="v1", path="tree")
    bare = fetch("s", elsewhere, stand_in=tmp_path / "bare", kept=tmp_path / "cache")
    assert bare.commit == git(repository, "rev-parse", "v1")
    checkout = fetch("s", elsewhere, stand_in=repository, kept=tmp_path / "cache")
    assert checkout.commit == git(repository, "rev-parse", "v2")
    assert "the case pins v1" in checkout.note
    (repository / "hello.py").write_text("dirty\n")
    dirty = fetch("s", elsewhere, stand_in=repository, kept=tmp_path / "cache")
    assert dirty.commit.endswith("-dirty")
    assert (dirty.archive / "hello.py").read_text() == "dirty\n"


def test_a_plain_folder_stands_in_and_its_digest_follows_the_content(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a").write_text("1")
    elsewhere = SourceSpec(git="https://nowhere.invalid/x", ref="v1", path="tree")
    first = fetch("s", elsewhere, stand_in=folder, kept=tmp_path / "cache")
    (folder / "a").write_text("2")
    second = fetch("s", elsewhere, stand_in=folder, kept=tmp_path / "cache")
    assert first.digest != second.digest
    assert tree_digest(second.archive) == tree_digest(folder)


def test_a_dataset_that_is_not_laid_out_right_names_every_glob(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.png").write_bytes(b"x")
    good = DatasetSpec(path="d", layout=(("train/*.png", 1),))
    assert check_dataset("d", good, tmp_path) == tmp_path.resolve()
    bad = DatasetSpec(path="d", layout=(("train/*.png", 2), ("val/*.png", 1)), sha256={"train/a.png": "00"})
    with pytest.raises(UsageError) as caught:
        check_dataset("d", bad, tmp_path)
    for text in ("'train/*.png' matches 1", "'val/*.png' matches 0", "has sha256 2d711642"):
        assert text in str(caught.value)
