"""A release: the same commit gives the same bytes, what is in it is known, and few may publish it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.unit.github.steps import REPOSITORY, load

RELEASE = load(REPOSITORY / ".github" / "workflows" / "release.yml")
LARGE = ("cases/", "tests/golden/", "docs/images/")
EXAMPLES = ("cases/ptxas_unknown_arch.yaml",)
COMMITTED = {**os.environ, "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"}


def checkout(folder: Path) -> Path:
    """A repository of one commit, with what is in the working tree and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPOSITORY, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("needs a git checkout")
    for name in sorted(listed.stdout.decode().split("\0"), reverse=folder.name == "b"):
        if name and (REPOSITORY / name).is_file() and (not name.startswith(LARGE) or name in EXAMPLES):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)
    own = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], [*own, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=folder, env=COMMITTED, check=True)
    return folder


@pytest.mark.system
def test_two_builds_of_a_commit_have_the_same_bytes(tmp_path: Path) -> None:
    """In folders of another name and depth, at other times, with other rights, locales, time zones and leftovers."""
    pytest.importorskip("hatchling", reason="needs the build backend, of the extra dev")
    made = []
    for name, mask, environ in (
        ("a", 0o022, {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
        (
            "deep/er/b",
            0o077,
            {"TZ": "Asia/Shanghai", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2", "SOURCE_DATE_EPOCH": "1"},
        ),
    ):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        usual = os.umask(mask)
        try:
            checkout(folder)
            for path in folder.rglob("*.py"):
                os.utime(path, (1_000_000_000 + mask, 1_000_000_000 + mask))
            (folder / "left-over.txt").write_text(name)
            subprocess.run(
                [folder / ".ci" / "dist", sys.executable, folder / "dist"],
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environ},
                capture_output=True,
                check=True,
            )
        finally:
            os.umask(usual)
        made.append({path.name: path.read_bytes() for path in (folder / "dist").iterdir()})
    assert len(made[0]) == 2
    assert made[0] == made[1]
    [wheel] = (tmp_path / "a" / "dist").glob("*.whl")
    [sdist] = (tmp_path / "a" / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {"reprokit/dockerfiles/Dockerfile.j2", *(f"reprokit/{name}" for name in EXAMPLES)} <= set(names)
        assert {name.split("/")[0] for name in names} <= {"reprokit", wheel.name.rsplit("-", 3)[0] + ".dist-info"}
        assert all(not info.external_attr >> 16 & 0o022 for info in archive.infolist()), "writable by others"
    with tarfile.open(sdist) as packed:
        assert not [member.name for member in packed if member.name.endswith("left-over.txt")]
        assert all(member.isreg() and (member.uid, member.mtime) == (0, 1767323045) for member in packed)


def test_who_may_publish_runs_none_of_our_code() -> None:
    """A job with a permission to write only downloads what was built, and calls pinned actions or gh."""
    writers = {name: job for name, job in RELEASE["jobs"].items() if "write" in job["permissions"].values()}
    assert set(writers) == {"attest", "publish", "release"}
    for name, job in writers.items():
        for step in job["steps"]:
            assert not step.get("uses", "").startswith("actions/checkout@"), name
            assert step.get("run", "gh release").startswith("gh release"), name
    assert writers["publish"]["environment"] == {"name": "release"}
    assert "password" not in json.dumps(RELEASE)
    assert "secrets" not in json.dumps(RELEASE)


def test_what_is_published_was_built_twice_and_attested() -> None:
    jobs = RELEASE["jobs"]
    assert jobs["attest"]["needs"] == ["build", "rebuild"]
    assert (jobs["publish"]["needs"], jobs["release"]["needs"]) == (["attest"], ["publish"])
    attested = [step["with"] for step in jobs["attest"]["steps"] if step["uses"].startswith("actions/attest@")]
    assert [sorted(given) for given in attested] == [["subject-path"], ["sbom-path", "subject-path"]]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "requirements-release.txt"])
def test_every_locked_requirement_has_a_hash_and_no_index(name: str) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    pinned = re.findall(r"^[A-Za-z0-9._-]+==.*(?:\\\n {4}.*)+", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[^ #\n]", text, re.MULTILINE))
    assert all("--hash=sha256:" in entry for entry in pinned)
    assert "://" not in text


@pytest.mark.parametrize("name", ["dist", "sbom"])
def test_the_scripts_say_how_they_are_called(name: str) -> None:
    done = subprocess.run([REPOSITORY / ".ci" / name], capture_output=True, text=True, check=False)
    assert (done.returncode, "usage: .ci/" in done.stderr) == (1, True)


def test_paths_with_owners_exist() -> None:
    lines = (REPOSITORY / ".github" / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert paths[0] == "*"
    assert [path for path in paths[1:] if not list(REPOSITORY.glob(path.strip("/")))] == []
