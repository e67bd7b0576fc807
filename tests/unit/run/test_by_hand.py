"""Programs of the user's choice in the containers of cells, on a fake engine."""

from __future__ import annotations

import dataclasses
import io
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from reprokit.case.matrix import Selection
from reprokit.case.render import SHELL
from reprokit.case.trust import Trust
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import BuildFailed, UsageError
from reprokit.engine.kinds import Capabilities
from reprokit.engine.protocol import Build
from reprokit.environment.dockerfile import Rendered
from reprokit.environment.unfinished import before
from reprokit.evidence.model import Ending, Verdict
from reprokit.run.by_hand import ByHand, Changes, Used, ambiguous_cell, with_shell
from reprokit.run.request import Request
from reprokit.run.task import Task
from tests.conftest import trial
from tests.terminals import users_terminal
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE, toy

STRANGERS = "https://stranger.example/toy.yaml"


class Desk:
    """A folder with a case, and what a user opens its cells with."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.case = folder / "toy.yaml"
        self.case.write_text(CASE)
        self.engine = FakeEngine(lambda trial, sink: Ending(exit_code=int(trial.env["A"]), seconds=0.1))
        info = dataclasses.replace(self.engine.info(), capabilities=Capabilities(terminals=True))
        monkeypatch.setattr(self.engine, "info", lambda: info)
        self.output = io.StringIO()
        self.session = ByHand(folder / "store", display=Screen(self.output), engine=lambda: self.engine)
        self.request = Request(cases=(str(self.case),), base_images="registry")

    def tasks(self, cell: str | None = None, *, fix: bool = False) -> list[Task]:
        return self.session.tasks(self.request, cell, fix=fix)

    def execute(self, tasks: list[Task], changes: Changes | None = None) -> list[Used]:
        return self.session.execute(
            self.request, tasks, ["pip", "list"], changes or Changes(), lambda used, data: used.output.extend(data)
        )

    def shell(self, task: Task, changes: Changes | None = None) -> tuple[int, list[str]]:
        said: list[str] = []
        with users_terminal() as user:
            status = self.session.shell(self.request, task, user.terminal, changes or Changes(), said.append)
        return status, said


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("cell", "found"), [("a=2,b=x", ["2x"]), ("3", ["2x"]), ("b=x", ["1x", "2x"]), (None, ["1x", "1y", "2x", "2y"])]
)
def test_a_cell_is_named_by_its_values_or_its_number(desk: Desk, cell: str | None, found: list[str]) -> None:
    for fix in (False, True):
        tasks = desk.tasks(cell, fix=fix)
        assert ["".join(task.cell.values()) for task in tasks] == found
        assert {task.variant for task in tasks} == {"fix" if fix else "case"}


def test_a_cell_that_is_not_there_is_said(desk: Desk) -> None:
    with pytest.raises(UsageError, match="axis 'a' has no such value"):
        desk.tasks("a=9")
    with pytest.raises(UsageError, match="there is no cell 5: `reprokit validate --cells` lists them, from 1 to 4"):
        desk.tasks("5")
    desk.request = dataclasses.replace(desk.request, selection=Selection(only=({"a": ("1",)},)))
    with pytest.raises(UsageError, match="leave out one of them"):
        desk.tasks("b=x")


def test_several_cells_are_listed_as_what_to_type(desk: Desk) -> None:
    said = str(ambiguous_cell(desk.tasks("b=x"), ["reprokit", "shell", "toy.yaml"]))
    assert said.splitlines()[1:] == ["  reprokit shell toy.yaml a=1,b=x", "  reprokit shell toy.yaml a=2,b=x"]
    assert "and 5 more" in str(ambiguous_cell(desk.tasks()[:1] * 25, ["reprokit"]))


def test_a_command_runs_in_each_cell_as_its_trials_do(desk: Desk) -> None:
    used = desk.execute(desk.tasks("b=x"))
    assert [one.ending and one.ending.exit_code for one in used] == [1, 2]
    assert {each.command for each in desk.engine.trials} == {("pip", "list")}
    assert [each.env["B"] for each in desk.engine.trials] == ["x", "x"]
    assert not (desk.folder / "store" / "runs").exists()  # nothing is recorded


def test_what_stops_a_cell_is_said_and_the_others_run(desk: Desk) -> None:
    desk.case.write_text(CASE + "resources: {gpus: \"{{ 1 if a == '2' else 0 }}\"}\n")
    used = desk.execute(desk.tasks("b=x"))
    assert [one.ending and one.ending.exit_code for one in used] == [1, None]
    assert used[1].record is not None
    assert used[1].record.verdict is Verdict.UNSUPPORTED


def test_a_recorded_cell_is_of_the_case_as_it_was(desk: Desk) -> None:
    desk.engine.behave = toy
    desk.session.start(desk.request)
    desk.case.write_text("not a case")
    request, task = desk.session.recorded(desk.request, "last", 3, fix=False)
    assert (task.cell, task.variant, request.base_images) == ({"a": "2", "b": "x"}, "case", "registry")
    _, fixed = desk.session.recorded(desk.request, "last", 3, fix=True)
    assert fixed.spec.env["FIXED"] == "1"
    with pytest.raises(UsageError, match="has no cell 9; it has 1 to 4"):
        desk.session.recorded(desk.request, "last", 9, fix=False)


def test_an_untrusted_case_that_no_one_has_read_gets_no_more_than_its_trials(desk: Desk) -> None:
    [task] = desk.tasks("1")
    unread = dataclasses.replace(task, file=dataclasses.replace(task.file, path=STRANGERS, trust=Trust.STRANGER))
    assert desk.execute([unread])[0].ending is not None
    with pytest.raises(UsageError, match="gets none of --root, --network, --writable and --debug: read it, and give"):
        desk.execute([unread], Changes(root=True))


def test_the_container_differs_by_what_was_asked_and_nothing_else(tmp_path: Path) -> None:
    plain = trial("image", "true")
    assert Changes().applied(plain, containers=True) == plain
    changes = Changes(root=True, network=True, writable=((tmp_path, "src"),), debug=True)
    opened = changes.applied(plain, containers=True)
    assert (opened.limits.user, opened.limits.network, opened.core_dumps) == ("root", "bridge", True)
    assert {"SETUID", "SYS_PTRACE"} <= set(opened.capabilities)
    assert [(one.source, one.target, one.read_only) for one in opened.mounts] == [(tmp_path, "/workspace/src", False)]
    assert changes.applied(plain, containers=False).capabilities == ("SYS_PTRACE",)


def test_a_shell_has_the_terminal_and_its_exit_status_is_passed_on(desk: Desk) -> None:
    [task] = desk.tasks("a=2,b=y")
    status, said = desk.shell(task)
    assert status == 2
    assert desk.engine.trials[-1].terminal is not None
    assert desk.engine.trials[-1].env["REPROKIT_COMMAND"] == "toy"
    assert said[0].startswith("toy, a=2 b=y: reprokit/img:")


def test_a_shell_with_debuggers_is_in_a_layer_over_the_image(desk: Desk) -> None:
    desk.shell(desk.tasks("1")[0], Changes(debug=True))
    assert desk.engine.trials[-1].image.startswith("sha256:reprokit/img:debug-")
    assert desk.engine.trials[-1].capabilities == ("SYS_PTRACE",)


def test_an_engine_without_terminals_is_said_to_have_none(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    info = dataclasses.replace(desk.engine.info(), capabilities=Capabilities())
    monkeypatch.setattr(desk.engine, "info", lambda: info)
    assert desk.shell(desk.tasks("1")[0])[0] == 3
    assert "cannot attach a terminal: run one command with reprokit exec" in desk.output.getvalue()


def test_a_build_that_failed_leaves_its_last_good_step(desk: Desk) -> None:
    desk.case.write_text(CASE + "files: {f.txt: one}\nenvironment: {setup: exit 3}\n")
    built: list[Build] = []

    def make(build: Build) -> None:
        built.append(build)
        if "bash -eo pipefail" in build.dockerfile:
            step = build.dockerfile[build.dockerfile.rindex("RUN ") :].partition("USER repro")[0]
            raise BuildFailed("exit 3", step=" ".join(step.replace("\\\n", " ").split()))

    desk.engine.make = make
    status, said = desk.shell(desk.tasks("1")[0])
    assert status == 1
    assert "as it was before the step that failed" in said[1]
    assert len(built) == 2
    entered = desk.engine.trials[-1]
    assert "setup.sh" in entered.env["REPROKIT_STEP"]
    assert "--mount" not in entered.env["REPROKIT_STEP"]
    assert entered.files["f.txt"].text == "one"


def test_the_last_good_step_is_before_the_one_that_failed_however_it_is_broken_into_lines() -> None:
    text = "# first\nFROM base\nRUN one \\\n # why\n && two\n# third\nRUN three\n"
    rendered = Rendered(dockerfile=text, context={"a": b"b"})
    found = before(rendered, "RUN three", "/workspace")
    assert found is not None
    assert found.rendered.dockerfile.startswith("# first\nFROM base\nRUN one \\\n # why\n && two\nUSER root\n")
    assert found.rendered.context == rendered.context
    early = before(rendered, "RUN one  && two", "/workspace")
    assert early is not None
    assert early.rendered.dockerfile.startswith("# first\nFROM base\nUSER root\n")
    assert before(rendered, "RUN four", "/workspace") is None


def test_what_a_step_finds_in_the_context_is_there_in_its_shell() -> None:
    site = "--mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh"
    bound = "--mount=type=bind,source=reprokit/setup.sh,target=/run/reprokit/setup.sh --mount=type=secret,id=a"
    step = f"RUN {site} {bound} . /run/reprokit/site.sh && bash /run/reprokit/setup.sh"
    found = before(Rendered(dockerfile=f"FROM base\n{step}\n", context={}), step, "/workspace")
    assert found is not None
    assert found.rendered.dockerfile.startswith("FROM base\nCOPY reprokit/setup.sh /run/reprokit/setup.sh\nUSER root\n")
    assert found.command == "RUN bash /run/reprokit/setup.sh"
    mounted_otherwise = step.replace("source=reprokit/", "source=reprokit/0123-")
    assert before(Rendered(dockerfile=f"FROM base\n{step}\n", context={}), mounted_otherwise, "/workspace") == found


PIP = "pip install 'a b'==1"


@pytest.mark.parametrize(
    ("step", "kept", "command"),
    [
        ("pip install 'a b'==1", "step one\none\n", "pip install 'a b'==1"),
        ("environment.setup", "step one\none\nstep 'pip install '\"'\"'a b'\"'\"'==1'\n", "echo of the case\n"),
        ("one", "", "one"),
        ("two", None, ""),
    ],
)
def test_a_script_is_cut_before_the_step_that_failed(step: str, kept: str | None, command: str) -> None:
    head = "#!/usr/bin/env bash\nstep() { :; }\n"
    pip = f"step {shlex.quote(PIP)}\n{PIP}\n"
    setup = """step 'environment.setup'\nX=1 bash -eo pipefail "$CONTEXT/reprokit/setup.sh"\n"""
    context = {"reprokit/setup.sh": b"echo of the case\n"}
    rendered = Rendered(dockerfile=f"{head}step one\none\n{pip}{setup}", context=context)
    found = before(rendered, step, "/workspace")
    if kept is None:
        assert found is None
        return
    assert found is not None
    assert found.rendered.dockerfile.startswith(head + kept)
    assert found.command == command
    assert f"step {shlex.quote(step)}" not in found.rendered.dockerfile


@pytest.mark.parametrize(
    ("command", "text", "newest"),
    [
        ((*SHELL, "python 'a b.py'\n"), "python 'a b.py'", "python 'a b.py'"),
        ((*SHELL, "cd x\nmake\n"), "cd x\nmake", 'bash -eo pipefail -c "$REPROKIT_COMMAND"'),
        (("python", "a b.py"), "python 'a b.py'", "python 'a b.py'"),
    ],
)
def test_the_command_stands_ready_as_a_trial_runs_it(command: tuple[str, ...], text: str, newest: str) -> None:
    opened = with_shell(dataclasses.replace(trial("image", ""), command=command))
    assert opened.env["REPROKIT_COMMAND"] == text
    # What the shell does at its start, in one that reads commands from a pipe.
    done = subprocess.run(
        [*opened.command],
        env={**os.environ, "HOME": "/nonexistent", **opened.env},
        input="history; env; exit 4",
        capture_output=True,
        text=True,
        check=False,
    )
    history = done.stdout.partition("REPROKIT_COMMAND=")[0]
    assert done.returncode == 4
    assert text in history
    assert newest in history
    assert "\n" not in text or history.rindex(newest) > history.rindex(text)
    assert "REPROKIT_HISTORY" not in done.stdout
