"""Fetching and exporting source trees, with a real git."""

from __future__ import annotations

import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from reprokit.case.cellspec import DatasetSpec, SourceSpec
from reprokit.case.trust import Trust
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


def _nested(folder: Path, entry: str, levels: int, times: int) -> str:
    """A commit of trees within each other, each of which names the next one so many times: kilobytes that make any."""
    for _ in range(levels):
        entry = f"{entry[: entry.index(chr(9))]}\t"
        lines = "".join(f"{entry}n{number}\n" for number in range(times))
        made = subprocess.run(["git", "mktree"], cwd=folder, input=lines, capture_output=True, check=True, text=True)
        entry = f"040000 tree {made.stdout.strip()}\t"
    return git(folder, "commit-tree", "-m", "x", entry.split(" ")[2].strip())


@pytest.mark.parametrize("kind", ["entries", "no files", "depth", "zeros", "noise", "message", "time"])
def test_what_grows_when_it_is_unpacked_is_refused_before_it_does(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("REPROKIT_MAX_FETCH_ENTRIES", "2000")
    monkeypatch.setenv("REPROKIT_MAX_FETCH_SIZE", "2m")
    blob = f"100644 blob {git(repository, 'rev-parse', 'HEAD:hello.py')}\t"
    words = {"entries": "more than 2000 entries .max_fetch_entries", "depth": "levels deep"}.get(kind, "max_fetch_size")
    if kind in ("entries", "no files", "depth"):
        empty = f"040000 tree {git(repository, 'hash-object', '-wt', 'tree', '/dev/null')}\t"
        shape = {"entries": (blob, 6, 10), "no files": (empty, 40, 2), "depth": (blob, 250, 1)}[kind]
        git(repository, "update-ref", "refs/heads/main", _nested(repository, *shape))
        words = "max_fetch_entries" if kind == "no files" else words
    else:
        text = {"zeros": bytes(3 << 20), "time": b"", "noise": os.urandom(3 << 20), "message": b"$Format:%B$" * 200}[
            kind
        ]
        (repository / "large").write_bytes(text)
        (repository / ".gitattributes").write_text("large export-subst\n" if kind == "message" else "")
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", "m" * 100_000)
    if kind == "time":
        monkeypatch.setenv("REPROKIT_MAX_FETCH_TIME", "0.001s")
        words = "max_fetch_time"
    with pytest.raises(SourceError, match=words):
        fetch("s", spec(repository, "main"), kept=tmp_path / "cache")
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*")) < 12 << 20


def test_a_patch_takes_no_more_memory_than_a_patch_does(repository: Path, tmp_path: Path) -> None:
    (repository / "large").write_bytes(b"0123456789abcde\n" * (16 << 16))
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "large")
    copy = "diff --git a/large b/n{0}\nsimilarity index 100%\ncopy from large\ncopy to n{0}\n"
    few, many = ("".join(copy.format(number) for number in range(count)) for count in (2, 100))
    assert (fetch("s", spec(repository, "main", few), kept=tmp_path / "cache").archive / "n1").exists()
    with pytest.raises(SourceError, match="the patch does not apply: it takes more than 384 MiB of memory"):
        fetch("s", spec(repository, "main", many), kept=tmp_path / "cache")


@pytest.mark.parametrize(
    ("host", "named"),
    [
        *((one, False) for one in ("127.0.0.1", "localhost", "0.0.0.0", "127.1", "2130706433", "[::ffff:127.0.0.1]")),
        *((one, True) for one in ("127.0.0.1", "localhost")),
    ],
)
def test_git_of_an_untrusted_case_reaches_public_addresses_and_what_the_site_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, named: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(0.1)
        port = server.getsockname()[1]
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setenv("REPROKIT_BUILD_HOSTS", f"{host}:{port}" if named else "corp.example")
        source = SourceSpec(git=f"https://{host}:{port}/x", ref="v1", path="tree")
        fetched = pool.submit(fetch, "s", source, Trust.STRANGER, kept=tmp_path / "cache")
        reached = ended = False
        while not ended:
            ended = fetched.done()
            with suppress(TimeoutError):
                server.accept()[0].close()  # that is not TLS
                reached = True
        with pytest.raises(SourceError, match="cannot fetch" if named else "build_hosts"):
            fetched.result()
        assert reached is named


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
