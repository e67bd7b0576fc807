"""A runner that was used before, or belongs to a person, runs no untrusted case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.core.errors import EngineError, UsageError
from reprokit.engine.site import pipconfig
from reprokit.github import used_runner


class Engine:
    """As much of an engine as is asked: its images, and what reprokit keeps on it."""

    def __init__(self, *images: str) -> None:
        client = SimpleNamespace(images=lambda: [{"Id": "sha256:0", "RepoTags": [name]} for name in images])
        self.wire = SimpleNamespace(client=lambda: client, errors=self._errors)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        yield


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The environment of a runner that holds nothing; what this machine holds is hidden."""
    monkeypatch.setattr(pipconfig, "SYSTEM", tmp_path / "none")
    monkeypatch.setattr(used_runner, "holders", lambda engine, scratch: [])
    monkeypatch.setattr(used_runner, "find_engine", lambda environ: Engine())
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path / "none"),
        "VIRTUAL_ENV": str(tmp_path / "none"),
        "RUNNER_ENVIRONMENT": "self-hosted",
        "GITHUB_TOKEN": "ghs_0123456789",
        "PATH": "/usr/bin",
    }


def test_a_new_runner_is_fit(bare: dict[str, str], tmp_path: Path) -> None:
    used_runner.check(bare, tmp_path)


@pytest.mark.parametrize("file", [*used_runner.FILES, ".netrc"])
def test_files_with_credentials_are_found(bare: dict[str, str], tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("machine x login l password canary-w0rd")
    with pytest.raises(UsageError) as caught:
        used_runner.check(bare, tmp_path)
    assert file in str(caught.value)
    assert "credentials: " in str(caught.value)
    assert "set the repository's variable RUNNER_MAY_HOLD to what it may hold: credentials" in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("PIP_INDEX_URL", "https://me:canary-w0rd@index.example/simple"),
        ("PIP_EXTRA_INDEX_URL", "https://a.example https://canary-t0ken@b.example"),
        ("PIP_CLIENT_CERT", "/canary.pem"),
        ("HTTPS_PROXY", "http://me:canary-w0rd@proxy:3128"),
        ("AWS_SECRET_ACCESS_KEY", "canary-0123456789"),
        ("HF_TOKEN", "canary-0123456789"),
        ("DB_PASSWORD", "canary-0123456789"),
    ],
)
def test_variables_with_credentials_are_found(bare: dict[str, str], tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(UsageError, match=r"credentials: ") as caught:
        used_runner.check({**bare, name: value}, tmp_path)
    assert "canary" not in str(caught.value)
    used_runner.check({**bare, name: value, "RUNNER_MAY_HOLD": "credentials"}, tmp_path)
    used_runner.check({**bare, name: value, "RUNNER_ENVIRONMENT": "github-hosted"}, tmp_path)


def test_images_and_caches_are_found(bare: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [SimpleNamespace(kind=kind) for kind in ("source tree", "source tree", "download", "measurement", "image")]
    monkeypatch.setattr(used_runner, "find_engine", lambda environ: Engine("internal/tool:1", "debian:12"))
    monkeypatch.setattr(used_runner, "holders", lambda engine, scratch: [SimpleNamespace(kept=lambda: kept)])
    with pytest.raises(UsageError) as caught:
        used_runner.check(bare, tmp_path)
    said = "(images: internal/tool:1, debian:12; caches: source tree (2), download (1))"
    assert said in str(caught.value)
    with pytest.raises(UsageError, match=r"may hold: images,caches$"):
        used_runner.check({**bare, "RUNNER_MAY_HOLD": "images"}, tmp_path)
    used_runner.check({**bare, "RUNNER_MAY_HOLD": " images, caches "}, tmp_path)


def test_a_wrong_variable_is_reported_even_on_a_new_runner(bare: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"RUNNER_MAY_HOLD: expected a list of images, caches, credentials; found yes"):
        used_runner.check({**bare, "RUNNER_MAY_HOLD": "yes"}, tmp_path)


def test_without_an_engine_the_rest_is_looked_at(
    bare: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(environ: object) -> None:
        raise EngineError("no engine answers")

    monkeypatch.setattr(used_runner, "find_engine", none)
    used_runner.check(bare, tmp_path)
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text(json.dumps({"auths": {}}))
    with pytest.raises(UsageError, match=r"~/.docker/config.json"):
        used_runner.check(bare, tmp_path)
