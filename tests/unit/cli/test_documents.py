"""Every command prints JSON by a published schema, or says why it prints none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import jsonschema
import pytest

from reprokit.cli import cli, documents, invoke
from tests.documents import as_published
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE, toy

ELSEWHERE = {"search", "audit", "doctor", "runs", "timings"}
"""Documents whose real ones are compared elsewhere."""
COMMANDS = {
    "result": ["run", "toy.yaml", "--json", "-"],
    "build": ["run", "--build-only", "toy.yaml", "--json", "-"],
    "explanation": ["show", "--why", "--json"],
    "validate": ["validate", "toy.yaml", "--asks", "--json"],
    "matrix": ["validate", "--cells", "toy.yaml", "--json"],
    "list": ["list", ".", "--json", "-"],
    "locks": ["lock", "toy.yaml", "--check", "--json", "-"],
    "exec": ["exec", "toy.yaml", "--json", "-", "--", "true"],
    "changes": ["history", "--since", "7d", "--json"],
    "diff": ["diff", "last:1", "last:3", "--json"],
    "rejudge": ["store", "rejudge", "--json"],
    "history": ["history", "toy", "--json"],
    "store-check": ["store", "check", "--json"],
    "store-import": ["store", "import", "runs.tar.gz", "--store", "other", "--json"],
    "store-rebuild": ["store", "rebuild", "--json"],
    "store-copy": ["store", "copy", "store", "copied", "--json"],
    "store-sync": ["store", "sync", "--json"],
    "config": ["config", "--json"],
    "gc": ["gc", "--json"],
}
_STEP = "a step of a workflow, which sets the outputs of that step"
WITHOUT = {
    "new": "writes cases: `reprokit validate --json` reads it",
    "collect": "prints Markdown: `reprokit new --from` reads it",
    "render": "writes Dockerfiles with their build contexts, or a folder for editors",
    "bundle": "writes an archive that describes itself",
    "report": "writes pages or another format: `--format json` is the result file",
    "share": "writes Markdown",
    "shell": "is for people at a terminal: `reprokit exec --json` is for programs",
    "store backup": "writes an archive of the store",
    "store export": "writes an archive of journals and logs",
    "integrate schema": "prints a JSON Schema",
    "integrate completion": "prints a shell script",
    "integrate mcp": "speaks a protocol of its own",
    "integrate github admit": _STEP,
    "integrate github check-issue": _STEP,
    "integrate github comment": _STEP,
    "integrate github matrix": "prints the JSON of `strategy.matrix`",
    "integrate github run": _STEP,
    "integrate github run-cells": _STEP,
    "integrate github run-issue": _STEP,
}
"""Command -> why it has no ``--json``."""


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FakeEngine]:
    """A folder with a case and its run, and the engine that ran it."""
    folder, engine = tmp_path_factory.mktemp("done"), FakeEngine(toy)
    (folder / "toy.yaml").write_text(CASE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REPROKIT_BASE_IMAGES", "registry")
        patch.setattr("reprokit.run.invocation._engine", lambda name: engine)
        invoke(["run", "toy.yaml", "--store", "store"])
        invoke(["store", "export", "runs.tar.gz", "--store", "store"])
    return folder, engine


@pytest.fixture
def ran(
    done: tuple[Path, FakeEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, engine = done
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("REPROKIT_BASE_IMAGES", "registry")
    monkeypatch.setattr("reprokit.run.invocation._engine", lambda name: engine)
    monkeypatch.setattr("reprokit.engine.registry.make", lambda name: engine)
    capsys.readouterr()


def test_every_command_prints_json_or_says_why_not() -> None:
    every = dict(commands(cli))
    assert set(documents.PRINTED) | set(WITHOUT) == set(every), "reprokit/cli/documents/__init__.py lists all"
    assert not set(documents.PRINTED) & set(WITHOUT)
    with_json = {name for name, command in every.items() if any("--json" in one.opts for one in command.params)}
    assert with_json == set(documents.PRINTED)
    assert {name for names in documents.PRINTED.values() for name in names} == set(documents.SCHEMAS)
    assert set(COMMANDS) | ELSEWHERE == set(documents.SCHEMAS)


@pytest.mark.parametrize("name", documents.SCHEMAS)
def test_a_schema_is_valid_and_names_its_format(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["integrate", "schema", name]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    if "format" in schema.get("properties", {}):
        assert schema["properties"]["format"]["const"] == f"reprokit-{name}/v1"
    assert ":class:" not in json.dumps(schema)


def test_the_schema_of_cases_stays_the_one_without_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["integrate", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["$id"] == "urn:reprokit:case:v1"
    assert invoke(["integrate", "schema", "--list"]) == 0
    assert "result: run --json, show --json, store merge --json\n" in capsys.readouterr().out
    assert invoke(["integrate", "schema", "reslt"]) == 2
    assert "no schema 'reslt'; did you mean 'result'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_is_what_its_schema_says(
    ran: None, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    invoke(COMMANDS[name])
    as_published(name, json.loads(capsys.readouterr().out))
    if name == "result":
        assert invoke(["show", "--json"]) == 0
        as_published(name, json.loads(capsys.readouterr().out))


def test_the_list_of_runs(ran: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["history", "--json"]) == 0
    [run] = as_published("runs", json.loads(capsys.readouterr().out))["runs"]
    assert (run["cases"], run["verdicts"]) == (["toy"], {"not-reproduced": 2, "reproduced": 2})


def test_a_build_says_which_cells_share_an_image_and_which_have_none(
    ran: None, done: tuple[Path, FakeEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    trials = len(done[1].trials)
    assert invoke(["run", "--build-only", "toy.yaml", "--json", "-", "--gcc", "12"]) == 0
    [image] = as_published("build", json.loads(capsys.readouterr().out))["images"]
    assert len(image["cells"]) == 4
    assert invoke(["run", "--build-only", "toy.yaml", "--json", "-", "--gcc", "4.1"]) == 3
    found = as_published("build", json.loads(capsys.readouterr().out))
    assert (found["images"], len(done[1].trials)) == ([], trials)
    assert {one["verdict"] for one in found["failed"]} == {"unsupported"}


def test_where_the_time_went(ran: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["show", "--timings", "--json"]) == 0
    found = as_published("timings", json.loads(capsys.readouterr().out))
    [part] = found["parts"]
    assert [one["number"] for one in part["cells"]] == [1, 2, 3, 4]
    assert [one["cells"] for one in part["images"]] == [[1, 2, 3, 4]]
    assert {"preparing", "build", "program", "judging", "recording"} <= set(part["sum"])
    assert part["critical_path"][-1]["kind"] in ("judging", "recording")  # it repeats a cell at its end
    assert invoke(["show", "--timings", "--trace", "trace.json"]) == 0
    assert "critical path, " in capsys.readouterr().out
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    groups = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert set(groups.values()) == {"workers", "images", "cells"}
    assert invoke(["show", "last", "1", "--timings"]) == 2
    assert "about a whole run" in capsys.readouterr().err


def test_a_run_shows_its_times(ran: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run", "toy.yaml", "--timings", "--trace", "trace.json", "--json", "-"]) == 0
    said = capsys.readouterr()
    as_published("result", json.loads(said.out))
    assert "where the time went: " in said.err
    assert Path("trace.json").is_file()
    assert invoke(["run", "toy.yaml", "--trace", "toy.yaml/trace.json"]) == 2
    assert "toy.yaml cannot be written; name another file" in capsys.readouterr().err


def test_an_output_with_a_key_that_no_schema_has_is_found() -> None:
    with pytest.raises(jsonschema.ValidationError, match="'more' was unexpected"):
        as_published("runs", {"format": "reprokit-runs/v1", "runs": [], "more": 1})
