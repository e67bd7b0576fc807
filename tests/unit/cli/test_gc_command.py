"""``reprokit gc`` on a fake engine, a cache and a store of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reprokit.cli import gc_command, show_command
from reprokit.core.errors import EngineError, UsageError
from reprokit.engine import registry
from tests.documents import as_published
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import Project


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = FakeEngine()
    made.built, made.image_bytes = ["reprokit/img:1", "reprokit/img:2"], 1_000_000_000
    monkeypatch.setattr(registry, "make", lambda name, environ=None: made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("reprokit.core.ownership.orphan_folders", list)
    monkeypatch.setattr("reprokit.engine.venv.environments.top", lambda: tmp_path / "venvs")
    monkeypatch.chdir(tmp_path)
    return made


def gc(*words: str) -> Result:
    return CliRunner().invoke(gc_command.command, ["--store", "store", *words], standalone_mode=False)


def test_without_a_budget_it_shows_and_removes_nothing(engine: FakeEngine) -> None:
    done = gc()
    assert done.return_value == 0
    assert done.output == "reprokit keeps 2.0 GB on this disk:\n  image                    2    2.0 GB\n"
    assert engine.discarded == []


def test_clocks_that_differ_are_said(engine: FakeEngine) -> None:
    engine.ahead = 40 * 86400.0
    assert "the clock of Fake 1 is 960 h ahead of this host's" in gc().stderr


def test_an_engine_that_is_named_and_not_cleaned_is_shown(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///one.sock")
    monkeypatch.setenv("CONTAINER_HOST", "unix:///two.sock")
    assert "(unix:///two.sock), use --engine podman" in gc().stderr
    assert gc("--engine", "podman").stderr == ""


def test_a_dry_run_names_exactly_what_would_go(engine: FakeEngine) -> None:
    shown = gc("--budget", "1g", "--dry-run")
    assert "would go: image reprokit/img:1: frees 1.0 GB" in shown.output
    assert "about 50.0 s to make again" in shown.output
    assert "1 thing, 1.0 GB would be removed; making all of it again takes 50.0 s" in shown.output
    assert engine.discarded == []
    done = gc("--budget", "1g")
    assert done.return_value == 0
    assert engine.discarded == ["reprokit/img:1"]
    assert done.output.endswith("1 thing, 1.0 GB removed; making all of it again takes 50.0 s\n1.0 GB are kept\n")
    assert "nothing to remove" in gc("--budget", "1g").output


def test_a_budget_that_what_stays_does_not_fit_into_is_said(engine: FakeEngine) -> None:
    done = gc("--budget", "1m", "--keep", "*:2")
    assert done.return_value == 3
    assert engine.discarded == ["reprokit/img:1"]
    why = "image reprokit/img:2 (1.0 GB): --keep *:2"
    assert f"the budget of 1.0 MB is exceeded by what cannot be removed: {why}" in done.output


def test_the_budget_of_the_configuration_counts(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_BUDGET", "1g")
    assert gc().return_value == 0
    assert engine.discarded == ["reprokit/img:1"]


def test_json(engine: FakeEngine) -> None:
    found = as_published("gc", json.loads(gc("--budget", "1g", "--json").output))
    assert (found["format"], found["total"], found["left"]) == ("reprokit-gc/v1", 2_000_000_000, 1_000_000_000)
    assert found["kept"] == [{"kind": "image", "count": 2, "bytes": 2_000_000_000}]
    (one,) = found["removed"]
    assert (one["name"], one["freed"], one["seconds_known"]) == ("reprokit/img:1", 1_000_000_000, False)
    assert found["rebuild_seconds"] == 50.0


@pytest.mark.parametrize("words", [("--budget", "much"), ("--older-than", "long"), ("--keep", "x")])
def test_wrong_usage(engine: FakeEngine, words: tuple[str, ...]) -> None:
    assert gc(*words).exception is not None
    assert engine.discarded == []


def test_files_are_collected_where_no_engine_answers(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def silent(name: str, environ: object = None) -> None:
        raise EngineError("no container engine listens")

    (tmp_path / "cache/reprokit/sources/trees/abc").mkdir(parents=True)
    (tmp_path / "cache/reprokit/sources/trees/abc/file").write_text("x" * 5000)
    monkeypatch.setattr(registry, "make", silent)
    done = gc("--budget", "1")
    assert done.return_value == 0
    assert "no engine answers, so that its images are not counted" in done.output
    assert not (tmp_path / "cache/reprokit/sources/trees/abc").exists()
    assert isinstance(gc("--budget", "1", "--engine", "docker").exception, EngineError)


def test_images_of_a_case_are_kept_by_its_id_and_logs_go_with_a_note(engine: FakeEngine, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.engine.image_bytes = 1000
    project.run()
    engine.built, engine.image_bytes = project.engine.built, 1000
    kept = gc("--budget", "1", "--keep", "toy")
    assert (kept.return_value, engine.discarded) == (3, [])
    assert gc("--budget", "1").return_value == 0
    shown = CliRunner().invoke(show_command.command, ["last", "1", "--store", "store"], standalone_mode=False)
    assert shown.exception is None
    assert "not-reproduced" in shown.output
    assert "(the logs of this run were removed by reprokit gc on 20" in shown.output
    log = CliRunner().invoke(show_command.command, ["last", "1", "--log", "--store", "store"], standalone_mode=False)
    assert isinstance(log.exception, UsageError)
    assert "its verdicts stay" in str(log.exception)
