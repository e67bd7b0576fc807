"""The command line, without an engine: what is refused, what is printed, which exit status."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest

from reprokit.cli import COMMANDS, GROUPS, cli, invoke
from reprokit.store.database import Store
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    (tmp_path / "toy.yaml").write_text(CASE)
    return tmp_path


@pytest.mark.parametrize("name", [*COMMANDS, ""])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*filter(None, [name]), "--help"]) == 0
    assert "Usage: reprokit" in capsys.readouterr().out


def test_the_help_fits_on_one_screen_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line in {f"{group}:" for group in GROUPS}] == [f"{group}:" for group in GROUPS]
    assert [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS] == [*COMMANDS]


def test_the_options_of_run_are_in_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run", "--help"]) == 0
    said = capsys.readouterr().out
    places = [said.index(f"{section}:\n") for section in ("Select", "Trials", "Build", "Where", "Output")]
    assert places == sorted(places)
    assert " ".join(said.split()).count("service, started if need be") == 1
    command = cli.get_command(click.Context(cli), "run")
    assert command is not None
    assert all(option.opts[-1] in said for option in command.params if isinstance(option, click.Option))


HEAVY = {"docker", "sqlalchemy", "rich", "grpc", "httpx"}


@pytest.mark.parametrize(
    ("words", "needless"),
    [
        (["--help"], {"traceback", "pydantic", "yaml", "jinja2", "packaging", "reprokit.engine.site.config"}),
        (["validate", "toy.yaml"], {"jinja2", "packaging", "reprokit.run.admitting", "reprokit.engine.protocol"}),
        (
            ["validate", "toy.yaml"],
            {"reprokit.environment.host", "reprokit.environment.lock", "reprokit.evidence.judgement"},
        ),
        (["render", "toy.yaml", "--base", "registry"], {"httpcore", "asyncio"}),
    ],
)
def test_a_command_imports_nothing_that_it_does_not_need(
    words: list[str], needless: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    code = f"import sys; from reprokit.cli import invoke; assert not invoke({words}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reprokit.cli" in (loaded := set(done.stdout.splitlines()[-1].split()))
    assert loaded & (HEAVY | needless) == set()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["rnu"], "did you mean 'run'"),
        (["run"], "no CASE given"),
        (["run", "nope.yaml"], "nope.yaml"),
        (["run", "toy.yaml", "--only", "a=9"], "axis 'a' has no such value"),
        (["run", "toy.yaml", "--skip", "a=1", "--skip", "a=2"], "selection is empty"),
        (["run", "toy.yaml", "--axis", "c=1"], "the case has no axis 'c'; it has: a, b"),
        (["run", "toy.yaml", "--dataset", "d"], "NAME=DIR"),
        (["run", "toy.yaml", "--dataset", "d=nowhere"], "nowhere is not a folder"),
        (["run", "toy.yaml", "--source", "s=."], "--source s"),
        (["run", "toy.yaml", "--tag", "gpu"], "no case has the tag"),
        (["run", "--resume"], "nothing to resume"),
        (["run", "--resume", "--trials", "3"], "continues with the options of that run: leave out --trials"),
        (["isolate", "--resume", "--engine", "podman"], "leave out the other options"),
        (["reduce", "--resume", "--source", "a=."], "leave out the other options"),
        (["run", "toy.yaml", "--trials", "0"], "'--trials': 0: expected a whole number, at least 1"),
        (["run", "toy.yaml", "--trials", "often"], "often: expected a whole number"),
        (["run", "toy.yaml", "--trials", "mx=3"], "'mx' is not one of max, confidence, rate; did you mean 'max'?"),
        (["run", "toy.yaml", "--trials", "max=3,max=4"], "'max' is given twice"),
        (["run", "toy.yaml", "--trials", "rate=1"], "expected a rate above 0 and below 1 such as 0.1"),
        (["run", "--resume", "-"], "leave out the -"),
        (["run", "toy.yaml", "--json", "toy.yaml/r.json"], "cannot be written"),
        (["run", "toy.yaml", "--failed", "--resume"], "--failed chooses the cells: leave out --resume"),
        (["run", "toy.yaml", "--watch", "--failed"], "--watch begins with all cells: leave out --failed"),
        (["run", "--watch"], "no CASE given"),
        (["run", "toy.yaml", "--build-only", "--trials", "3"], "--build-only runs nothing: leave out --trials"),
        (["exec", "toy.yaml", "1"], "no command: reprokit exec CASE [CELL] -- COMMAND"),
        (["exec", "toy.yaml", "1", "--"], "no command: reprokit exec CASE [CELL] -- COMMAND"),
        (["validate", "--json", "none.yaml"], "none.yaml"),
        (["validate", "toy.yaml", "--cuda", "12.0"], "only --cells selects: leave out --cuda"),
        (["render", "toy.yaml", "--devcontainer"], "name a new or empty one with -o"),
        (["run", "toy.yaml", "--gcc", "12,abc"], "--gcc abc: expected a version (digits and dots) or none"),
        (["run", "toy.yaml", "--axis", "gcc=abc"], "--gcc abc: expected a version (digits and dots) or none"),
        (["history", "--exit-code"], "name since when, with --since"),
        (["report", "-o", "site"], "nothing was run here yet"),
        (["show"], "nothing was run here yet"),
        (["history", "x"], "nothing was run here yet"),
        (["list"], "no folder cases/"),
        (["list", ".", "--json", "toy.yaml/x"], "cannot be written"),
        (["run", ".", "--framework", "torch"], "no case installs it"),
        (["run", ".", "--tag", ""], "--tag: no value is given"),
        (["list", ".", "--framework", " , "], "--framework: no value is given"),
        (["list", ".", "--needs", ""], "--needs: no value is given"),
        (["list", "--write", "cases/README.md"], "cases is not a folder"),
        (["list", "--write", "r.md", "--check", "--results", "r.json"], "leave out --results"),
        (["list", "--write", "r.md", "--results", "toy.yaml"], "toy.yaml"),
    ],
)
def test_wrong_usage_exits_with_2_and_a_hint_and_leaves_no_files(
    folder: Path, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    assert invoke(words) == 2
    assert text in capsys.readouterr().err
    assert [path for path in sorted(folder.iterdir()) if path.name != "store"] == before


def test_a_wrong_case_exits_with_2_and_lists_every_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.yaml").write_text(CASE.replace("title:", "titel:").replace("{{ b }}", "{{ bb }}"))
    assert invoke(["run", "bad.yaml"]) == 2
    errors = capsys.readouterr().err
    assert "did you mean 'title'" in errors
    assert "2 problems" in errors
    assert not (folder / "store").exists()


def test_a_run_is_shown_listed_and_remembered(
    folder: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", "toy.yaml", "--base", "registry", "--json", "out/r.json", "--junit", "r.xml"]) == 0
    assert "2 not-reproduced, 2 reproduced; all as expected" in capsys.readouterr().out
    assert json.loads((folder / "out" / "r.json").read_text())["exit_status"] == 0
    assert (folder / "r.xml").read_text().startswith("<?xml")
    assert invoke(["show"]) == 0
    assert "all as expected" in capsys.readouterr().out
    assert invoke(["show", "last", "3"]) == 0
    shown = capsys.readouterr().out
    for words in ("a=2 b=x", ">     1 boom", "\ncommand: toy\n", "--only a=2,b=x\n", "reprokit shell 2", "Python: 3"):
        assert words in shown
    assert not any(words in shown for words in ("FROM ", "docker run", "cudnn", "GPUs used"))
    assert invoke(["show", "last", "3", "--dockerfile"]) == 0
    assert "FROM debian" in capsys.readouterr().out
    assert invoke(["show", "last", "3", "--log"]) == 0
    assert capsys.readouterr().out == "boom\n"
    assert invoke(["history", "toy", "--only", "a=2", "-v"]) == 0
    assert capsys.readouterr().out.count("reproduced (as expected)") == 2
    assert invoke(["history"]) == 0
    assert "toy: 2 not-reproduced" in capsys.readouterr().out
    assert invoke(["list", "."]) == 0
    assert " as expected [fake]  A toy" in capsys.readouterr().out
    assert invoke(["list", ".", "--json", "-"]) == 0
    [listed] = json.loads(capsys.readouterr().out)
    assert (listed["cells"], listed["needs"], listed["last_run"]["departures"]) == (4, [], 0)
    (folder / "toy.yaml").write_text(CASE + "\n")
    assert invoke(["list", "."]) == 0
    assert " changed since [fake]  A toy" in capsys.readouterr().out
    assert invoke(["show", "last", "9"]) == 2


def test_a_run_that_is_not_finished_shows_its_cells_as_undecided(
    folder: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", "toy.yaml", "--base", "registry"]) == 0
    store = Store(folder / "store")
    done = store.run("last")
    cells = tuple(dataclasses.replace(cell, verdict=None, reason="", trials=()) for cell in done.cells)
    host = dataclasses.replace(done.host, engine=None)
    begun = dataclasses.replace(done, id="20990101-000000-0000", exit_status=None, cells=cells, host=host)
    store.put(dataclasses.replace(begun, started_at="2099-01-01T00:00:00.000Z"), {})
    capsys.readouterr()
    assert invoke(["show", "last"]) == 0
    table = capsys.readouterr().out
    assert "not finished, engine not recorded yet" in table
    assert "4 undecided" in table
    assert invoke(["show", "last", "3"]) == 0
    assert "undecided: the run was stopped, or has not come to this cell yet" in capsys.readouterr().out


def test_the_result_on_standard_output_is_only_the_result(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", "toy.yaml", "--base", "registry", "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["format"] == "reprokit-result/v1"
    assert "all as expected" in printed.err


def test_verbose_streams_the_output_of_cells_by_number(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run", "toy.yaml", "--base", "registry", "-v"]) == 0
    assert "  #3 | boom" in capsys.readouterr().out


def test_rendering_writes_a_folder_per_image_and_replaces_only_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert invoke(["render", "toy.yaml", "--base", "registry", "-o", "out"]) == 0
    [made] = (folder / "out").iterdir()
    assert (made / "Dockerfile").read_text().startswith("FROM debian:")
    (made / "Dockerfile").unlink()
    assert invoke(["render", "toy.yaml", "--base", "registry", "-o", "out"]) == 2
    assert "not overwriting" in capsys.readouterr().err


def test_the_matrix_is_shown_with_the_expected_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["validate", "--cells", "toy.yaml", "--axis", "a=2,3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["cell"]["a"], row["expected"]) for row in rows] == [("2", "reproduced")] * 2 + [("3", None)] * 2


def test_the_matrix_shows_unavailable_cells_and_conflicting_versions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        schema: reprokit/v1
        id: compilers
        title: t
        matrix: {os: [debian-12], cuda: ["11.8"], gcc: ["11", "12", "13"], say: [a, b]}
        environment: {apt: [nvidia-cuda-toolkit]}
        command: nvcc {{ say }}
        expect: {reproduces: [{gcc: "12", say: a}]}
    """
    (folder / "compilers.yaml").write_text(textwrap.dedent(text))
    conflict = "gcc 12 is not supported by nvcc 11.8: at most GCC 11"
    assert invoke(["validate", "--cells", "compilers.yaml", "--base", "bootstrap"]) == 0
    lines = {line.split("  ")[0].partition("gcc=")[2]: line for line in capsys.readouterr().out.splitlines()[:-1]}
    assert lines["11 say=a"].endswith("(not-reproduced expected)")
    assert lines["12 say=a"].endswith(f"  conflict tolerated, the case expects its failure here: {conflict}")
    assert lines["12 say=b"].endswith(f"  unsupported: {conflict}")
    assert "  unsupported: gcc 13 " in lines["13 say=a"]
    assert invoke(["validate", "--cells", "compilers.yaml", "--base", "bootstrap", "--json"]) == 0
    rows = {(row["cell"]["gcc"], row["cell"]["say"]): row for row in json.loads(capsys.readouterr().out)}
    assert rows["11", "a"]["unsupported"] is None
    assert "nearest: gcc 11 on debian-12" in rows["12", "b"]["unsupported"]
    assert [conflict in note for note in rows["12", "a"]["notes"]] == [True]


def test_a_sites_own_compatibility_table_counts(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "own.yaml").write_text('cuda: {gcc: {"13.0": {most: "11"}}}\n')
    monkeypatch.setenv("REPROKIT_COMPATIBILITY", str(folder / "own.yaml"))
    argv = [
        "validate",
        "--cells",
        "toy.yaml",
        "--os",
        "debian-12",
        "--cuda",
        "13.0",
        "--gcc",
        "12",
        "--base",
        "bootstrap",
    ]
    assert invoke(argv) == 0
    assert "unsupported: gcc 12 is not supported by nvcc 13.0: at most GCC 11" in capsys.readouterr().out
    monkeypatch.delenv("REPROKIT_COMPATIBILITY")
    assert invoke(argv) == 0
    assert "unsupported" not in capsys.readouterr().out
    (folder / "wrong.yaml").write_text("cuda: {gc: {}}\n")
    monkeypatch.setenv("REPROKIT_COMPATIBILITY", str(folder / "wrong.yaml"))
    assert invoke(argv) == 2
    assert "wrong.yaml:1: cuda: unknown key 'gc' (did you mean 'gcc'?)" in capsys.readouterr().err


def test_a_result_goes_through_a_link_and_into_a_pipe(
    folder: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "real.json").write_text("old")
    (folder / "link.json").symlink_to("real.json")
    assert invoke(["run", "toy.yaml", "--base", "registry", "--json", "link.json", "--junit", "/dev/null"]) == 0
    assert (folder / "link.json").is_symlink()
    assert json.loads((folder / "real.json").read_text())["exit_status"] == 0
    assert Path("/dev/null").is_char_device()


def test_a_result_is_written_even_when_the_record_cannot_be(
    folder: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "store").mkdir()
    (folder / "store" / "reprokit.db").write_text("no database at all, and longer than a header" * 10)
    assert invoke(["run", "toy.yaml", "--base", "registry", "--json", "r.json"]) == 3
    said = capsys.readouterr().err
    assert "is damaged (file is not a database): `reprokit store check` lists what is wrong" in said
    assert "this run is kept in" in said
    assert len(json.loads((folder / "r.json").read_text())["cases"][0]["cells"]) == 4
    assert invoke(["show"]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_options_for_several_cases_need_only_fit_some_of_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = "schema: reprokit/v1\nid: other\ntitle: t\nmatrix: {z: [q]}\ncommand: x {{ z }}\n"
    (folder / "other.yaml").write_text(other)

    def shown(*words: str) -> list[str]:
        assert invoke(["validate", "--cells", ".", *words]) == 0
        return [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[:-1]]

    assert shown("--skip", "a=1,b=x") == ["other: z=q", "toy: a=1 b=y", "toy: a=2 b=x", "toy: a=2 b=y"]
    assert shown("--only", "a=1") == ["toy: a=1 b=x", "toy: a=1 b=y"]
    assert shown("--axis", "z=r") == ["other: z=r"]
    assert invoke(["validate", "--cells", ".", "--skip", "aa=1"]) == 2


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENAMETOOLONG])
def test_a_folder_that_may_not_be_looked_into_is_named_and_no_defect(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path) -> bool:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    assert invoke(["show", "--store", "/home/of/another/store"]) == 2
    assert capsys.readouterr().err == f"reprokit: /home/of/another/store: {os.strerror(number)}\n"
