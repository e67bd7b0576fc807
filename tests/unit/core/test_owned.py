"""Settings, stores and caches of other users: obeyed where they are named, refused where they are only found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.core import cache
from reprokit.core.errors import UsageError
from reprokit.core.owned import other_owner
from reprokit.engine.site import config

OTHER = 54321


def owned_by_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root the file is given away; else this process takes itself for another user."""
    if os.getuid() == 0:
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER)


@pytest.mark.parametrize("depth", [0, 1, 3], ids=["here", "parent", "far-above"])
@pytest.mark.parametrize("command", [["config"], ["show"], ["run", "x.yaml"], ["gc"]], ids=lambda words: words[0])
def test_a_configuration_of_another_user_is_not_obeyed(
    command: list[str],
    depth: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "reprokit.toml"
    file.write_text('pip_index_url = "https://evil.example/simple"\n')
    here = tmp_path.joinpath(*["sub"] * depth)
    here.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(here)
    owned_by_another(file, monkeypatch)
    assert invoke(command) == 2
    said = capsys.readouterr().err
    assert f"{file} belongs to " in said
    assert f"REPROKIT_CONFIG={file}" in said
    assert "evil.example" not in said


def test_a_configuration_of_another_user_is_obeyed_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "reprokit.toml"
    file.write_text("jobs = 7\n")
    owned_by_another(file, monkeypatch)
    assert config.load({"REPROKIT_CONFIG": str(file)}, tmp_path).jobs == 7
    assert config.load({"REPROKIT_CONFIG": os.devnull}, tmp_path).jobs is None


def test_a_link_of_another_user_to_a_file_of_a_trusted_case_is_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.toml"
    own.write_text("jobs = 7\n")
    link = tmp_path / "sub" / "reprokit.toml"
    link.parent.mkdir()
    link.symlink_to(own)
    assert config.load({}, link.parent).jobs == 7
    owned_by_another(link, monkeypatch)
    with pytest.raises(UsageError, match="belongs to"):
        config.load({}, link.parent)


def test_under_sudo_the_files_of_the_calling_user_are_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unless = tmp_path / "file"
    unless.touch()
    real = unless.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if real:
        assert other_owner(unless, {}) != ""
        assert other_owner(unless, {"SUDO_UID": "x"}) != ""
        assert other_owner(unless, {"SUDO_UID": str(real)}) == ""
    else:
        os.chown(unless, OTHER, OTHER)
        assert other_owner(unless, {}) == f"the user {OTHER}"
        assert other_owner(unless, {"SUDO_UID": str(OTHER)}) == ""
    assert other_owner(tmp_path / "absent", {}) == ""


@pytest.mark.parametrize("command", [["run", "c.yaml"], ["lock", "c.yaml"], ["isolate", "c.yaml"]], ids=" ".join)
def test_a_store_of_another_user_that_was_only_found_decides_nothing(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / ".reprokit"
    store.mkdir()
    (tmp_path / "c.yaml").write_text("schema: reprokit/v1\nid: c\ntitle: t\ncommand: 'true'\n")
    monkeypatch.chdir(tmp_path)
    owned_by_another(store, monkeypatch)
    assert invoke(command) == 2
    assert f"{store} belongs to" in (said := capsys.readouterr().err)
    assert f"--store {store}" in said
    assert invoke(["history"]) in (0, 2)  # reading it is harmless
    assert "belongs to" not in capsys.readouterr().err


def test_a_cache_that_another_user_may_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "reprokit").mkdir(mode=0o755)
    assert cache.folder("sources") == tmp_path / "reprokit" / "sources"
    (tmp_path / "reprokit").chmod(0o777)
    with pytest.raises(UsageError, match=r"can be written by every user(.|\n)*chmod o-w"):
        cache.folder("sources")
    (tmp_path / "reprokit").chmod(0o755)
    owned_by_another(tmp_path / "reprokit", monkeypatch)
    with pytest.raises(UsageError, match=r"belongs to(.|\n)*XDG_CACHE_HOME"):
        cache.folder("sources")


def test_a_new_store_is_closed_to_other_users(tmp_path: Path) -> None:
    from reprokit.store.folder import make_folder

    assert make_folder(tmp_path / "new").stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o750)
    assert make_folder(shared).stat().st_mode & 0o777 == 0o750
