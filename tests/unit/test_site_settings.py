"""reprokit's config file."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.site import Settings, settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_files_everything_has_a_default(tmp_path: Path) -> None:
    assert settings({"HOME": str(tmp_path)}, tmp_path) == Settings()


def test_the_project_wins_and_folders_are_merged(tmp_path: Path) -> None:
    write(
        tmp_path / "config/reprokit/config.yaml",
        "base_images: registry\nregistry: mirror.example/hub\ndatasets: {a: ~/a, b: b}\nproxy: http://p:1\n",
    )
    write(tmp_path / "project/.reprokit/config.yaml", "base_images: bootstrap\ndatasets: {b: data/b, c: /c}\n")
    start = tmp_path / "project/deep/down"
    start.mkdir(parents=True)
    found = settings({"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}, start)
    assert found.base_images == "bootstrap"
    assert found.registry == "mirror.example/hub"
    assert found.proxy == "http://p:1"
    assert found.datasets == {"a": Path("~/a").expanduser(), "b": tmp_path / "project/data/b", "c": Path("/c")}


def test_a_named_file_stands_alone(tmp_path: Path) -> None:
    write(tmp_path / ".reprokit/config.yaml", "registry: no\n")
    named = write(tmp_path / "own.yaml", "ca_bundle: ca.pem\n")
    write(tmp_path / "ca.pem", "")
    found = settings({"REPROKIT_CONFIG": str(named)}, tmp_path)
    assert found.registry == ""
    assert found.ca_bundle == tmp_path / "ca.pem"
    with pytest.raises(UsageError, match=r"REPROKIT_CONFIG names .*absent"):
        settings({"REPROKIT_CONFIG": str(tmp_path / "absent")}, tmp_path)


def test_scalars_are_text(tmp_path: Path) -> None:
    named = write(tmp_path / "own.yaml", "registry: 3.10\nproxy:\n")
    found = settings({"REPROKIT_CONFIG": str(named)}, tmp_path)
    assert (found.registry, found.proxy) == ("3.10", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "proxy: http://p\nbase_image: auto\n",
            r"own\.yaml:2: unknown key 'base_image' \(did you mean 'base_images'\?\)",
        ),
        ("whatever: 1\n", "known keys: base_images"),
        ("base_images: docker\n", "none of auto, registry, bootstrap"),
        ("datasets: [a]\n", "expected a mapping from names to folders"),
        ("datasets: {a: {b: c}}\n", "expected a mapping from names to folders"),
        ("registry: [a]\n", "expected text"),
        ("proxy: host:3128\n", "expected a URL"),
        ("ca_bundle: absent.pem\n", "there is no file"),
        ("- a\n", "expected a mapping with the keys"),
        ("a: [\n", "is no YAML"),
    ],
)
def test_what_cannot_be_understood_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    named = write(tmp_path / "own.yaml", text)
    with pytest.raises(UsageError, match=words):
        settings({"REPROKIT_CONFIG": str(named)}, tmp_path)
