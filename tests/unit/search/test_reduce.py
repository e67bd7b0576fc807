"""What a reduction tries and what it ends with: planted needs, found with few cells; resumed, recorded and reported."""

from __future__ import annotations

import io
import os
import random
import re
import signal
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.case.matrix import Selection, parse_group
from reprokit.cli import invoke
from reprokit.cli.display.plain import labels
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import BuildFailed, Cancelled, UsageError
from reprokit.engine.protocol import Trial
from reprokit.environment.cases import load, load_text
from reprokit.evidence.model import Ending
from reprokit.evidence.reading import Reading
from reprokit.run.request import Request
from reprokit.search import reduce_case
from reprokit.search.queries import Candidate, Query, drive
from reprokit.search.reduce_parts import KINDS
from reprokit.search.reduce_text import first_reduction, what_runs, write_candidate
from reprokit.search.reduction import Reduced, Trying, minimize
from reprokit.search.search_session import SearchSession
from reprokit.store.database import Store
from tests.bench import reducing as bench
from tests.bench.reducing import shrink
from tests.unit.fakes import FakeEngine


@given(st.integers(1, 40), st.data())
@settings(deadline=None)
def test_only_the_needed_parts_are_left(parts: int, draw: st.DataObject) -> None:
    needed = draw.draw(st.frozensets(st.integers(0, parts - 1), max_size=5))
    left, asked = shrink(parts, lambda rest: Reading.FAIL if needed <= rest else Reading.PASS)
    assert left == needed
    assert asked <= 1 + 2 * (len(needed) + 1) * (parts.bit_length() + 1)


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_for_any_results_no_single_part_of_the_rest_can_be_removed(parts: int, seed: int) -> None:
    """Not monotone, and with unknown readings among them: the result fails, and is 1-minimal."""

    def answer(rest: frozenset[int]) -> Reading:
        if len(rest) == parts:
            return Reading.FAIL
        return list(Reading)[hash((seed, rest)) % 3]

    left, _ = shrink(parts, answer)
    assert answer(left) is Reading.FAIL
    assert all(answer(left - {part}) is not Reading.FAIL for part in left)


def test_an_option_and_its_value_are_removed_together() -> None:
    left, _ = shrink(7, lambda rest: Reading.FAIL if (3 in rest) == (4 in rest) and {0, 6} <= rest else Reading.PASS)
    assert left == {0, 3, 4, 6}  # single parts are not enough
    left, _ = shrink(
        7, lambda rest: Reading.FAIL if (3 in rest) == (4 in rest) and {0, 6} <= rest else Reading.PASS, pairs=True
    )
    assert left == {0, 6}


def test_simulated_reductions_keep_the_failure_and_take_few_cells() -> None:
    plain = bench.simulate(parts=16, needed=2, tied=0, flaky=0.0, trials=1, runs=100, seed=1)
    assert plain.exact == plain.fails == 100
    assert plain.cells < 16
    tied = bench.simulate(parts=16, needed=2, tied=3, flaky=0.0, trials=1, runs=100, seed=2)
    assert tied.fails == 100
    flaky = bench.simulate(parts=16, needed=2, tied=0, flaky=0.3, trials=3, runs=100, seed=3)
    assert flaky.fails == 100


def test_parts_not_tried_within_the_budget_are_kept() -> None:
    left, asked = shrink(16, lambda rest: Reading.FAIL if 3 in rest else Reading.PASS, cells=3)
    assert asked == 3
    assert {3} < left


CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {os: [debian-12], a: ["1", "2"], b: [x]}
environment:
  apt: [bash, curl]
  pip: [numpy<2, "torch=={{ a }}"]
  setup: |
    echo {{ b }}
    echo more
files:
  go.py: |
    import os
    def never():
        pass
    raise ValueError("boom")
  data.txt: x
env: {A: "{{ a }}", B: 1, C: 2}
command: |
  echo start
  python go.py --size 3 --fast && echo end
resources: {shm_size: 1g, memory: 1g, timeout: 1m}
expect:
  failure: {exception: ValueError}
  reproduces: [{a: "2"}]
fix: {summary: Another, env: {A: 0}}
"""
LOG = 'Traceback (most recent call last):\n  File "/w/go.py", line 4, in <module>\n    x\nValueError: {0}\n'


def text_of(case: Any, path: str) -> str:
    """The text of a file of a case."""
    file = case.files.get(path, "")
    return file if isinstance(file, str) else str(file.content)


def needs(case: Any) -> str:
    """The message with which the toy fails: ``boom`` with A, --size and the raise; something else without."""
    command = case.command if isinstance(case.command, str) else " ".join(case.command)
    if "python go.py" not in command or "raise" not in text_of(case, "go.py"):
        return ""
    return "boom" if "A" in case.env and "--size 3" in command and _installs(case) else "other"


def _installs(case: Any) -> bool:
    return any("numpy<2" in step.requirements for step in case.environment.pip_steps)


def reduce_toy(
    kinds: tuple[str, ...] = tuple(KINDS), text: str = CASE, asks: list[Query] | None = None
) -> tuple[Reduced, list[Candidate]]:
    file = load_text("toy.yaml", text)
    cell = {"os": "debian-12", "a": "2", "b": "x"}
    asked: list[Candidate] = []

    def answer(ask: Query) -> tuple[Reading, ...]:
        asked.extend(ask.candidates)
        if asks is not None:
            asks.append(ask)
        assert all(one.file is not None for one in ask.candidates)
        return tuple(Reading.FAIL if needs(one.file.case) == "boom" else Reading.PASS for one in ask.candidates)  # type: ignore[union-attr]

    data = first_reduction(file, cell, {"exception": "ValueError", "message": "boom"}, keep_matrix=False)
    trying = Trying(write=partial(write_candidate, file, cell, path="small.yaml"), same=what_runs)
    whole = trying.write(data, "")
    assert whole is not None
    trying.knows(whole, fails=True)
    return drive(minimize(data, trying, kinds), answer), asked


def test_a_case_is_reduced_to_what_it_needs() -> None:
    result, asked = reduce_toy()
    assert dict(result.data) == {
        "schema": "reprokit/v1",
        "id": "toy-reduced",
        "title": "A toy",
        "matrix": {"os": ["debian-12"], "a": ["2"]},
        "environment": {"pip": ["numpy<2"]},
        "files": {"go.py": 'raise ValueError("boom")\n'},
        "env": {"A": "{{ a }}"},
        "command": "python go.py --size 3",
        "resources": {"memory": "1g", "timeout": "1m"},
        "expect": {"failure": {"exception": "ValueError", "message": "boom"}, "reproduces": "all"},
        "fix": {"summary": "Another", "env": {"A": "0"}},
    }
    assert {(part.kind, part.name) for part in result.kept} >= {("env", "A"), ("pip", "numpy<2"), ("axes", "a")}
    assert result.gone["env"] == ["B", "C"]
    assert result.gone["axes"] == ["b"]
    digests = [one.file.digest for one in asked if one.file]
    assert len(set(digests)) == len(digests), "nothing is asked for twice"
    assert "axes: without b" not in {one.name for one in asked}, "an axis that nothing names need not be run without"


def test_the_next_image_is_built_meanwhile_for_either_result() -> None:
    text = CASE.replace("[numpy<2, ", "[one, two, three, four, numpy<2, ")
    asks: list[Query] = []
    reduce_toy(("env", "pip"), text, asks)
    assert not any(ask.soon for ask in asks if "env:" in ask.candidates[0].name)
    pip = [ask for ask in asks if "pip:" in ask.candidates[0].name]
    digests = [[one.file.digest for one in (*ask.candidates, *ask.soon) if one.file] for ask in pip]
    announced = [later[0] in earlier[1:] for earlier, later in pairwise(digests)]
    assert all(len(set(some)) == len(some) for some in digests)
    assert sum(announced) >= len(announced) - 1


def test_only_the_given_kinds_are_removed() -> None:
    result, _ = reduce_toy(("env",))
    assert result.data["env"] == {"A": "{{ a }}"}
    assert result.data["command"] == load_text("", CASE).case.command
    assert set(result.gone) == {"env"}


def test_invalid_bash_or_python_is_not_run() -> None:
    text = CASE.replace("  echo start\n", "  if true; then\n    echo start\n  fi\n")
    _, asked = reduce_toy(text=text)
    for one in asked:
        assert one.file is not None
        assert one.file.case.command
        compile(text_of(one.file.case, "go.py"), "go.py", "exec")


def test_a_file_that_its_parser_rejects_is_still_shortened_by_lines() -> None:
    text = CASE.replace("    import os\n", "    import os; print 1\n")
    result, _ = reduce_toy(text=text)
    assert result.data["files"]["go.py"] == '    raise ValueError("boom")\n'.lstrip()
    text = CASE.replace("\n    ", "\n      ").replace("  go.py: |\n", "  go.py:\n    mode: 600\n    content: |\n")
    file = reduce_toy(text=text)[0].data["files"]["go.py"]
    assert file == {"mode": "600", "content": 'raise ValueError("boom")\n'}
    text = CASE.replace("  data.txt: x\n", "  data.yml: |\n    a: [1,\n      2]\n    b: 3\n").replace(
        "python go.py", "cat data.yml; python go.py"
    )
    _, asked = reduce_toy(("contents",), text)
    tried = {text_of(one.file.case, "data.yml") for one in asked if one.file}
    assert "b: 3\n" in tried
    assert not any("[1" in one and "2]" not in one for one in tried)


def test_a_fix_that_no_longer_fits_is_left_out() -> None:
    text = CASE.replace("fix: {summary: Another, env: {A: 0}}", 'fix: {env: {A: "{{ b }}"}}')
    result, _ = reduce_toy(text=text)
    assert "b" in result.data["matrix"] or "fix" in result.data
    cell = {"os": "debian-12", "a": "2", "b": "x"}
    written = write_candidate(load_text("toy.yaml", text), cell, result.data, "", "x.yaml")
    assert written is not None


def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    """The toy program: fails with ``boom`` where A and --size are present, else with another message."""
    command = " ".join(trial.command)
    if "python go.py" not in command or "raise" not in trial.files.get("go.py", "raise"):
        return Ending(exit_code=0, seconds=1.0)
    message = "boom" if "A" in trial.env and "--size 3" in command else "slipped"
    sink(LOG.format(message).encode())
    return Ending(exit_code=1, seconds=1.0)


class Project:
    def __init__(self, folder: Path) -> None:
        self.case = folder / "toy.yaml"
        self.case.write_text(CASE)
        self.store = folder / "store"
        self.engine = FakeEngine(behave)
        self.output = io.StringIO()

    def session(self) -> SearchSession:
        return SearchSession(self.store, display=Screen(self.output), engine=lambda: self.engine)

    def reduce(self, only: str = "", confirm: str = "never", **more: Any) -> tuple[int, SearchSession]:
        session = self.session()
        out = str(self.case.with_name("small.yaml"))
        arguments = reduce_case.ReductionRequest(
            **{"out": out, "kinds": ("env", "command", "resources", "axes"), **more}
        )
        groups = (parse_group(only),) if only else ()
        selection = Selection(only=groups)
        request = Request(cases=(str(self.case),), base_images="registry", jobs=1, selection=selection, confirm=confirm)
        return session.start("reduce", request, arguments, partial(reduce_case.make, folder=self.store)), session

    def resume(self) -> tuple[int, SearchSession]:
        session = self.session()
        return session.resume("reduce", (), partial(reduce_case.make, folder=self.store)), session


def test_the_reduced_case_has_the_same_failure_and_lists_what_did_not_matter(project: Project) -> None:
    status, session = project.reduce()
    assert status == 0
    assert session.answer is not None
    text = session.answer.to_json()["text"]
    assert text.startswith("# Reduced from toy (sha256:")
    assert "# environment variables: 1 of 3 kept; did not matter: B, C\n" in text
    assert "#   kept: A (without it the program fails in another way)\n" in text
    small = load_text("small.yaml", text).case
    assert small.command == "python go.py --size 3"
    assert dict(small.env) == {"A": "{{ a }}"}
    assert small.expect.failure.message == "boom", "else it would slip to the other ValueError"
    assert small.resources.memory == "1g"
    output = project.output.getvalue()
    assert "  kept: A (without it the program fails in another way: exit status 1 with ValueError: slipped" in output
    assert "EXPECTED" not in output
    assert session.answer.to_json()["did_not_matter"]["env"] == ["B", "C"]
    assert session.answer.to_json()["cells_run"] == len(project.engine.trials)
    cells = Store(project.store).run("last").cells
    assert [cell.details.tried for cell in cells][:2] == ["", "env: without A, B, C"]
    assert labels(cells)[2] == "env: without A, B, C"


def test_a_needed_part_is_distinguished_from_one_that_could_not_be_removed(project: Project) -> None:
    """A build that fails without a package says nothing about the failure."""
    project.case.write_text(CASE.replace("apt: [bash, curl]", "apt: [cowsay, curl, git]"))
    building = project.engine.build

    def build(*given: Any) -> Any:
        if "cowsay" not in given[0].dockerfile:
            raise BuildFailed("the image could not be built", step="RUN pip install", tail=("error: no cowsay",))
        return building(*given)

    project.engine.build = build  # type: ignore[method-assign]
    project.engine.behave = lambda trial, sink: (
        behave(trial, sink) if "B" in trial.env else Ending(exit_code=0, seconds=1.0)
    )
    _, session = project.reduce(kinds=("env", "apt"))
    assert session.answer is not None
    output = project.output.getvalue()
    assert (
        "apt packages: 1 of 3 kept; did not matter: curl, git\n  kept: cowsay (without it the image cannot be "
        in output
    )
    assert "  matters: B (without it not-reproduced: the only trial passed" in output
    matters = {part["name"]: part["matters"] for part in session.answer.to_json()["kept"]}
    assert matters == {"A": None, "B": True, "cowsay": None}
    assert "#   kept: cowsay (without it the image cannot be built)\n" in session.answer.to_json()["text"]
    assert "#   matters: B\n" in session.answer.to_json()["text"]


def test_a_few_passing_trials_of_a_flaky_failure_prove_nothing(project: Project) -> None:
    counted = iter(range(1000))

    def sometimes(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        return behave(trial, sink) if "B" in trial.env and next(counted) % 2 else Ending(exit_code=0, seconds=1.0)

    project.engine.behave = sometimes
    for trials, matters in ((2, None), (8, True)):
        project.case.write_text(CASE + f"trials: {trials}\n")
        _, session = project.reduce(kinds=("env",))
        assert session.answer is not None
        assert {part["name"]: part["matters"] for part in session.answer.to_json()["kept"]} == {"A": None, "B": matters}


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_a_flaky_failure_is_reduced_to_what_it_needs(project: Project, rate: float) -> None:
    """With one trial of each case, of which any may pass by chance: also the first, and the last."""
    luck = random.Random(f"{rate}")
    project.engine.behave = lambda trial, sink: (
        behave(trial, sink) if "B" in trial.env and luck.random() < rate else Ending(exit_code=0, seconds=1.0)
    )
    status, session = project.reduce(kinds=("env", "command"), confirm="auto")
    assert session.answer is not None
    assert status == 0, session.answer.words
    answer = session.answer.to_json()
    assert {part["name"]: part["matters"] for part in answer["kept"] if part["kind"] == "env"} == {"A": None, "B": True}
    assert answer["did_not_matter"]["env"] == ["C"]
    assert answer["cells_run"] < len(project.engine.trials)


def test_what_is_too_flaky_to_be_reduced_says_what_it_would_cost(project: Project) -> None:
    project.engine.behave = lambda trial, sink: (
        behave(trial, sink) if len(project.engine.trials) in (1, 30) else Ending(exit_code=0, seconds=1.0)
    )
    status, session = project.reduce(confirm="auto")
    assert status == 3
    assert session.answer is not None
    assert session.answer.words[0] == "too flaky to reduce: the failure shows in 2 of 60 trials"
    assert "a part counts as needed after 772 trials without it that pass" in session.answer.words[1]


def test_a_case_that_passed_by_chance_is_repeated_before_it_is_called_not_reproducing(project: Project) -> None:
    project.engine.behave = lambda trial, sink: Ending(exit_code=0, seconds=1.0)
    status, session = project.reduce(confirm="auto")
    assert status == 1
    assert session.answer is not None
    assert "20 of 20 trials passed; a failure rate of up to 13.9 % is still possible" in session.answer.words[1]


def test_names_with_characters_that_a_comment_cannot_hold_are_still_listed(project: Project) -> None:
    command = 'command: "echo \\a\\u2028x; python go.py --size 3"\n'
    project.case.write_text(CASE[: CASE.index("command:")] + command + CASE[CASE.index("resources:") :])
    status, session = project.reduce()
    assert status == 0
    assert session.answer is not None
    assert "# pieces of the command: did not matter: echo  ; x;" in session.answer.to_json()["text"]


def test_the_limit_applies_to_the_search_for_a_cell_that_reproduces(project: Project) -> None:
    project.case.write_text(CASE.replace('a: ["1", "2"]', 'a: ["1", "2", "3", "4", "5"]').replace('[{a: "2"}]', "all"))
    project.engine.behave = lambda trial, sink: Ending(exit_code=0)
    status, session = project.reduce(max_cells=3)
    assert status == 1
    assert len(project.engine.trials) == 2
    assert session.answer is not None
    assert "2 of 5 cells were tried before the limit was reached" in session.answer.words[0]


def test_the_file_is_written_before_the_answer_is_recorded(project: Project) -> None:
    """A killed search leaves a file or can be resumed. If the file cannot be written, it goes to the store."""
    _, session = project.reduce()
    assert session.answer is not None
    assert project.case.with_name("small.yaml").read_text() == session.answer.to_json()["text"]
    status, session = project.reduce(out=str(project.case / "small.yaml"))
    assert status == 3
    assert session.answer is not None
    assert "small.yaml cannot be written: " in session.answer.words[-1]
    assert (project.store / "small.yaml").read_text() == session.answer.to_json()["text"]


def test_the_matrix_can_be_kept(project: Project) -> None:
    _, session = project.reduce("a=2", keep_matrix=True)
    assert session.answer is not None
    small = load_text("small.yaml", session.answer.to_json()["text"]).case
    assert small.matrix.axes["a"] == ("1", "2")
    assert small.expect.reproduces == ({"a": "2"},)


def test_a_case_that_does_not_reproduce_is_not_reduced(project: Project) -> None:
    project.engine.behave = lambda trial, sink: Ending(exit_code=0)
    status, session = project.reduce()
    assert status == 1
    assert session.answer is not None
    assert "nothing to reduce: no cell that was tried reproduces" in session.answer.words
    assert "not-reproduced" in session.answer.words[1]
    assert len(project.engine.trials) == 1


def test_a_case_that_cannot_be_run_is_inconclusive(project: Project) -> None:
    project.case.write_text(CASE.replace("resources: {", "resources: {gpus: 64, "))
    status, session = project.reduce()
    assert status == 3
    assert session.answer is not None
    assert "unsupported" in session.answer.words[1]


def test_a_steady_failure_does_not_become_a_flaky_one(project: Project) -> None:
    def behaves(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        steady = "B" in trial.env or len(project.engine.trials) % 2
        return behave(trial, sink) if steady else Ending(exit_code=0)

    project.engine.behave = behaves
    project.case.write_text(CASE + "trials: 3\n")
    _, session = project.reduce()
    assert session.answer is not None
    assert "B: 1" in session.answer.to_json()["text"]


def test_a_reduced_case_that_does_not_reproduce_is_not_written(project: Project) -> None:
    def flaky(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        held = "B" in trial.env or "C" in trial.env or "echo" in " ".join(trial.command)
        return behave(trial, sink) if held or len(project.engine.trials) % 2 else Ending(exit_code=0)

    project.engine.behave = flaky
    for _ in range(2):
        status, session = project.reduce()
        assert session.answer is not None
        holds = session.answer.to_json()["verdict"] == "reproduced"
        assert (status == 0) == holds
        assert any("nothing was written" in line for line in session.answer.words) != holds


@pytest.mark.parametrize("limit", [{"max_cells": 5}, {"seconds": 1e-6}])
def test_limits_stop_it_early_and_are_reported(project: Project, limit: dict[str, Any]) -> None:
    status, session = project.reduce(**limit)
    assert status == 0
    assert session.answer is not None
    assert len(project.engine.trials) <= 6
    assert session.answer.to_json()["stopped"]
    assert any("limit of cells or time was reached" in line for line in session.answer.words)


@pytest.mark.system
def test_killed_anywhere_a_resumed_reduction_ends_the_same_and_repeats_nothing(
    project: Project, tmp_path: Path
) -> None:
    _, whole = project.reduce()
    assert whole.answer is not None
    cells = len(project.engine.trials)
    for at in (2, cells - 1):
        folder = tmp_path / f"killed-{at}"
        folder.mkdir()
        again = Project(folder)

        def killed(trial: Trial, sink: Callable[[bytes], None], again: Project = again, at: int = at) -> Ending:
            if len(again.engine.trials) > at:
                os.kill(os.getpid(), signal.SIGINT)
                assert again.engine.cancel.wait(10)
                raise Cancelled("stopped")
            return behave(trial, sink)

        again.engine.behave = killed
        assert again.reduce()[0] == 130
        again.engine.behave = behave
        status, resumed = again.resume()
        assert status == 0
        assert resumed.answer is not None
        assert resumed.answer.to_json()["text"] == whole.answer.to_json()["text"]
        assert len(again.engine.trials) == cells + 1  # the one that was stopped
        run = Store(again.store).run("last")
        assert [cell.number for cell in run.cells] == list(range(1, cells + 1))


@pytest.mark.parametrize(
    "stated", ["compare: {outputs: [out.json], reference: {cell: {a: '1'}}}", "leaks: {per_iteration: 1MiB}"]
)
def test_a_case_without_a_signature_is_refused_with_the_reason(stated: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.case.write_text(re.sub(r"(?s)expect:.*", f"expect: {{{stated}}}\n", CASE))
    with pytest.raises(UsageError, match=r"toy.yaml: expect\.(compare|leaks): reduce needs a failure with a signature"):
        project.reduce()


@pytest.mark.parametrize(
    ("stated", "noted"), [("failure: {exit_code: 1}", True), ("leaks: {per_iteration: 1MiB}", False)]
)
def test_how_files_are_shortened_is_noted_of_cases_that_are_reduced(
    stated: str, noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path)
    project.case.write_text(re.sub(r"(?s)expect:.*", f"expect: {{{stated}}}\n", CASE))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    # Both end before anything is run: at the case, or at the engine.
    assert invoke(["reduce", str(project.case), "--engine", "docker", "--store", str(tmp_path / "store")]) != 0
    said = capsys.readouterr().err
    assert ("note: the contents of files are not shortened without Lithium" in said) is noted, said


@pytest.mark.system
def test_every_case_of_the_library_can_be_read_and_rewritten() -> None:
    """The first candidate of every case with a signature is one valid cell that runs the same command."""
    for file in load(str(Path(__file__).parents[3] / "cases")):
        if reduce_case.find_measure(file):
            continue
        cell = {name: values[0] for name, values in file.case.matrix.axes.items()} or dict(file.case.matrix.include[0])
        given = (file.positions.data.get("expect") or {}).get("failure") or {}
        data = first_reduction(file, cell, given, keep_matrix=False)
        whole = write_candidate(file, cell, data, "", "small.yaml")
        assert whole is not None, file.path
        assert whole.file is not None
        assert what_runs(whole) == what_runs(Candidate(cell=cell, file=file))


@pytest.mark.parametrize(
    ("pip", "left"),
    [
        ("[[six], [numpy<2, other]]", [["numpy<2"]]),
        ("[[numpy<2], {requirements: [other, six], options: [--pre]}]", [["numpy<2"]]),
        ("\n  - - six\n    - numpy<2\n  - requirements: [other]\n    options: [--pre]", [["numpy<2"]]),
    ],
)
def test_requirements_of_steps_are_removed_and_steps_without_any(pip: str, left: Any) -> None:
    text = CASE.replace('[numpy<2, "torch=={{ a }}"]', pip)
    asks: list[Query] = []
    result, _ = reduce_toy(("pip",), text, asks)
    assert result.data["environment"]["pip"] == left


def test_the_day_of_packages_is_dropped_where_the_failure_does_not_need_it() -> None:
    result, _ = reduce_toy(("pip",), CASE.replace("  setup: |", "  pip_before: 2021-05-04\n  setup: |"))
    assert "pip_before" not in result.data["environment"]
    assert result.gone["pip"] == ["pip_before", "torch=={{ a }}"]
