"""``reprokit config``: what it prints, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.cli import invoke
from tests.documents import as_published

CONFIG = """\
registry = "mirror.example/hub"
proxy = "http://me:s3cr3tword@proxy.example:3128"
max_memory = "16g"
datasets = {cityscapes = "/data/cityscapes"}
pip_index_url = "https://t0kenword@pypi.example/simple"
"""
SECRETS = ("s3cr3tword", "t0kenword", "n0tshown")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder of a user with a home of their own."""
    for name, value in (("HOME", tmp_path / "home"), ("PIP_CONFIG_FILE", tmp_path / "pip.conf"), ("REPROKIT_JOBS", 3)):
        monkeypatch.setenv(name, str(value))
    (tmp_path / "pip.conf").write_text("[global]\nfind-links = https://me:n0tshown@links.example/\nno-index = true\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/reprokit.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path / "project")
    assert invoke(["config", "--json"]) == 2
    assert invoke(["config", "trust"]) == 0
    return tmp_path


def rows(text: str) -> dict[str, list[str]]:
    return {
        line.split("  ")[0]: [word.strip() for word in line.split("  ")[1:] if word.strip()]
        for line in text.split("\n")
    }


def test_each_value_is_shown_with_its_origin(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["config"]) == 0
    text = capsys.readouterr().out
    found = rows(text)
    assert found["registry"] == ["mirror.example/hub", "reprokit.toml:1"]
    assert found["jobs"] == ["3", "REPROKIT_JOBS"]
    assert found["engine"] == ["auto", "default"]
    assert found["max_memory"] == ["16 GiB", "reprokit.toml:3"]
    assert found["datasets.cityscapes"] == ["/data/cityscapes", "reprokit.toml:4"]
    assert found["proxy"] == ["http://me:****@proxy.example:3128", "reprokit.toml:2"]
    assert found["pip index-url"] == ["https://****@pypi.example/simple", "reprokit.toml:5"]
    assert found["pip find-links"] == ["https://me:****@links.example/", str(folder / "pip.conf")]
    assert "pip no-index" not in found
    assert found["HTTPS_PROXY"] == ["http://me:****@proxy.example:3128", "reprokit.toml:2"]
    assert not any(word in text for word in SECRETS)


def test_json_has_all_keys_without_passwords(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["config", "--json"]) == 0
    text = capsys.readouterr().out
    found = json.loads(text)
    own = str(folder / "project/reprokit.toml")
    assert found["format"] == "reprokit-config/v1"
    assert found["files"] == [own]
    assert found["settings"]["max_memory"] == {"value": 2**34, "origin": f"{own}:3"}
    assert found["settings"]["gpus"] == {"value": [], "origin": "default"}
    assert {"name": "HTTP_PROXY", "value": "http://me:****@proxy.example:3128", "origin": f"{own}:2"} in found["builds"]
    assert not any(word in text for word in SECRETS)


@pytest.mark.usefixtures("folder")
def test_one_key_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for key, printed in (
        ("registry", "mirror.example/hub\n"),
        ("python_providers", "distribution\nimage\nuv\nconda\n"),
        ("datasets", "cityscapes=/data/cityscapes\n"),
        ("datasets.cityscapes", "/data/cityscapes\n"),
        ("ca_bundle", "\n"),
    ):
        assert invoke(["config", key]) == 0
        assert capsys.readouterr().out == printed
    assert invoke(["config", "datasets", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    as_published("config", found)
    assert list(found["settings"]) == ["datasets.cityscapes"]
    assert invoke(["config", "datsets"]) == 2
    assert "did you mean 'datasets'?" in capsys.readouterr().err


def test_an_invalid_value_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "project/reprokit.toml").write_text("\njobs = 0\n")
    assert invoke(["config"]) == 2
    assert "reprokit.toml:2: jobs: expected a whole number, at least 1; found 0" in capsys.readouterr().err
