"""Plays a workflow, or a composite action, on this machine as GitHub's runner would."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.unit.github.expressions import condition, template, to_text
from tests.unit.github.stand_ins import STAND_INS, Call, Failed, StandIn

REPOSITORY = Path(__file__).parents[3]
SHELLS = {  # as the runner starts them; a step that names no shell gets bash without pipefail
    "": ["bash", "-e"],
    "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"],
    "sh": ["sh", "-e"],
}
_COMMAND = re.compile(r"^\s*::([\w-]+)(?: ([^:]*))?::(.*)$")
_OLD_COMMAND = re.compile(r"##\[([\w-]+)\b([^\]]*)\](.*)$")


def load(path: Path) -> dict[str, Any]:
    """A workflow's or an action's YAML; ``on`` is a key, not YAML 1.1's true."""
    data = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    if True in data:
        data["on"] = data.pop(True)
    return dict(data)


@dataclass
class Step:
    """One step that was reached. ``outcome``: success, failure or skipped. ``log``: stdout and stderr together."""

    name: str
    outcome: str = "skipped"
    conclusion: str = "skipped"
    log: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass
class Job:
    """One job, of one matrix cell. ``commands``: the workflow commands that the runner would have obeyed."""

    name: str
    matrix: dict[str, Any]
    runs_on: Any = ""
    result: str = "skipped"
    steps: list[Step] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    commands: list[tuple[str, str, str]] = field(default_factory=list)
    summary: str = ""
    workspace: Path = Path()

    @property
    def log(self) -> str:
        """Everything that the job printed."""
        return "".join(step.log for step in self.steps)

    def step(self, name: str) -> Step:
        """The step of that name or id."""
        return next(step for step in self.steps if step.name == name)


class Replay:
    """One run of a workflow.

    ``environment``: what the runner sets (such as the address of the test server); ``secrets``: ``secrets.NAME``;
    ``variables``: ``vars.NAME``; ``stand_ins``: more of them, or others; ``source``: the checked out repository.
    ``installed``: folders below RUNNER_TEMP that hold this reprokit already, so that .ci/install has nothing to do.
    """

    def __init__(
        self,
        workflow: Path,
        folder: Path,
        *,
        event: str = "push",
        payload: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        token: str = "",
        secrets: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        stand_ins: Mapping[str, StandIn] | None = None,
        installed: Sequence[str] = (),
        repository: str = "owner/repo",
        source: Path = REPOSITORY,
    ) -> None:
        self.data = load(workflow)
        self.folder = folder.resolve()
        self.source = source
        self.artifacts = self.folder / "artifacts"
        self.jobs: dict[str, list[Job]] = {}
        self.environment = dict(environment or {})
        self.stand_ins = {**STAND_INS, **(stand_ins or {})}
        self.installed = tuple(installed)
        self.steps_run: list[str] = []
        for path in (self.artifacts, self.folder / "temp"):
            path.mkdir(parents=True, exist_ok=True)
        event_file = self.folder / "event.json"
        event_file.write_text(json.dumps(payload or {}), encoding="utf-8")
        self.github = {
            "event_name": event,
            "event": json.loads(event_file.read_text(encoding="utf-8")),
            "event_path": str(event_file),
            "repository": repository,
            "repository_owner": repository.split("/")[0],
            "ref": "refs/heads/main",
            "ref_name": "main",
            "sha": "0" * 40,
            "run_id": "7",
            "run_attempt": "1",
            "run_number": "3",
            "workflow": self.data.get("name", workflow.stem),
            "server_url": "https://github.example",
            "api_url": self.environment.get("GITHUB_API_URL", ""),
            "token": token,
            "actor": (payload or {}).get("sender", {}).get("login", "someone"),
        }
        self.contexts = {
            "github": self.github,
            "inputs": dict(inputs or {}),
            "secrets": {"GITHUB_TOKEN": token, **(secrets or {})},
            "vars": dict(variables or {}),
            "runner": {"os": "Linux", "arch": "X64", "temp": str(self.folder / "temp")},
        }

    def run(self) -> Replay:
        """Play every job in the order of its needs; returns self."""
        waiting = dict(self.data["jobs"])
        while waiting:
            ready = [
                name for name, job in waiting.items() if all(need in self.jobs for need in _list(job.get("needs")))
            ]
            assert ready, f"jobs wait for each other: {list(waiting)}"
            for name in ready:
                self.play(name, waiting.pop(name))
        return self

    def job(self, name: str) -> Job:
        """The one run of a job without a matrix."""
        (job,) = self.jobs[name]
        return job

    def play(self, name: str, data: Mapping[str, Any]) -> None:
        """One job, for every cell of its matrix."""
        needs = {
            need: {"result": _result(self.jobs[need]), "outputs": _merged(self.jobs[need])}
            for need in _list(data.get("needs"))
        }
        contexts = {**self.contexts, "needs": needs}
        results = [need["result"] for need in needs.values()]
        status = {
            "always": lambda: True,
            "success": lambda: all(result == "success" for result in results),
            "failure": lambda: any(result == "failure" for result in results),
            "cancelled": lambda: False,
        }
        if not condition(to_text(data.get("if", "")), contexts, status):
            self.jobs[name] = [Job(name=name, matrix={})]
            return
        matrices = _matrices(data.get("strategy", {}).get("matrix"), contexts)
        self.jobs[name] = [self._play_one(name, data, contexts, matrix, index) for index, matrix in enumerate(matrices)]

    def _play_one(
        self, name: str, data: Mapping[str, Any], contexts: dict[str, Any], matrix: dict[str, Any], index: int
    ) -> Job:
        home = self.folder / f"{name}-{index}"
        workspace, temp = home / "workspace", home / "temp"
        for path in (workspace, temp):
            path.mkdir(parents=True, exist_ok=True)
        for folder in self.installed:
            _install(temp / folder)
        job = Job(name=name, matrix=matrix, workspace=workspace, result="success")
        contexts = {**contexts, "matrix": matrix, "job": {"status": "success"}, "steps": {}, "strategy": {}}
        contexts["runner"] = {**self.contexts["runner"], "temp": str(temp)}
        contexts["github"] = {**self.github, "job": name, "workspace": str(workspace)}
        functions = {"hashfiles": lambda *patterns: "hash"}
        job.runs_on = _filled(data.get("runs-on", ""), contexts, functions)
        environment = self._base(contexts, home)
        for level in (self.data.get("env"), data.get("env")):
            contexts["env"] = {**contexts.get("env", {}), **_texts(level, contexts, functions)}
        default = {**self.data.get("defaults", {}).get("run", {}), **data.get("defaults", {}).get("run", {})}
        player = _Player(self, job, contexts, functions, environment, home, default)
        player.steps(data["steps"])
        job.outputs = _texts(data.get("outputs"), contexts, functions)
        job.summary = player.summary
        return job

    def _base(self, contexts: Mapping[str, Any], home: Path) -> dict[str, str]:
        """The runner's own variables, over those of a bare machine: nothing of this process but where programs are."""
        github = contexts["github"]
        kept = ("LANG", "LC_ALL", "DOCKER_HOST", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            **{name: os.environ[name] for name in kept if name in os.environ},
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(github["workspace"]),
            "RUNNER_TEMP": str(home / "temp"),
            "RUNNER_OS": "Linux",
            "RUNNER_ENVIRONMENT": "github-hosted",
            **{
                f"GITHUB_{name.upper()}": str(github[name])
                for name in github
                if name not in ("event", "token", "workspace")
            },
            **self.environment,
        }


class _Player:
    """Plays the steps of one job, or of one composite action in it."""

    def __init__(
        self,
        replay: Replay,
        job: Job,
        contexts: dict[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        environment: dict[str, str],
        home: Path,
        default: Mapping[str, str],
        prefix: str = "",
    ) -> None:
        self.replay, self.job, self.contexts, self.home = replay, job, contexts, home
        self.environment, self.default, self.prefix = environment, default, prefix
        self.failed = False
        self.summary = ""
        self.functions = {
            **functions,
            "always": lambda: True,
            "success": lambda: not self.failed,
            "failure": lambda: self.failed,
            "cancelled": lambda: False,
        }

    def steps(self, steps: list[Mapping[str, Any]]) -> None:
        """All of them; after a failure only those that ask for it."""
        for number, data in enumerate(steps):
            name = str(data.get("id") or data.get("name") or data.get("uses") or f"run-{number}")
            step = Step(name=self.prefix + name)
            self.job.steps.append(step)
            contexts = self.contexts
            if condition(to_text(data.get("if", "")), contexts, self.functions):
                self._one(step, data)
            if data.get("id"):
                contexts["steps"][data["id"]] = {
                    "outputs": step.outputs,
                    "outcome": step.outcome,
                    "conclusion": step.conclusion,
                }

    def _one(self, step: Step, data: Mapping[str, Any]) -> None:
        own = _texts(data.get("env"), self.contexts, self.functions)
        contexts = {**self.contexts, "env": {**self.contexts.get("env", {}), **own}}
        try:
            if "uses" in data:
                self._use(step, data, contexts)
            else:
                self._bash(step, data, contexts)
            step.outcome = "success"
        except Failed as error:
            step.outcome, step.log = "failure", step.log + f"\n{error}\n"
        tolerated = to_text(_filled(data.get("continue-on-error", False), contexts, self.functions)) == "true"
        step.conclusion = "success" if tolerated else step.outcome
        if step.conclusion == "failure":
            self.failed = True
            self.job.result = "failure"
            self.contexts["job"]["status"] = "failure"

    def _bash(self, step: Step, data: Mapping[str, Any], contexts: Mapping[str, Any]) -> None:
        script = to_text(_filled(data["run"], contexts, self.functions))
        self.replay.steps_run.append(f"{self.job.name}: {step.name}")
        shell = data.get("shell") or self.default.get("shell", "")
        where = _filled(data.get("working-directory") or self.default.get("working-directory", ""), contexts, {})
        file = self.home / "temp" / f"step-{len(self.replay.steps_run)}.sh"
        file.write_text(script, encoding="utf-8")
        names = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "GITHUB_STATE")
        files = {name: self.home / "temp" / f"{name}-{len(self.replay.steps_run)}" for name in names}
        for path in files.values():
            path.touch()
        step.environment = {**self.environment, **contexts.get("env", {}), **{k: str(v) for k, v in files.items()}}
        done = subprocess.run(
            [*SHELLS[shell], str(file)],
            cwd=self.job.workspace / to_text(where),
            env=step.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        step.log = done.stdout.decode("utf-8", "replace")
        self.job.commands += obeyed(step.log)
        step.outputs.update(entries(files["GITHUB_OUTPUT"].read_text(encoding="utf-8")))
        self.environment.update(entries(files["GITHUB_ENV"].read_text(encoding="utf-8")))
        for line in files["GITHUB_PATH"].read_text(encoding="utf-8").splitlines():
            self.environment["PATH"] = f"{line}:{self.environment['PATH']}"
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        if done.returncode:
            raise Failed(f"Error: Process completed with exit code {done.returncode}.")

    def _use(self, step: Step, data: Mapping[str, Any], contexts: Mapping[str, Any]) -> None:
        name = str(data["uses"]).partition("@")[0]
        inputs = _texts(data.get("with"), contexts, self.functions)
        if name.startswith(("./", "$/")):
            self._composite(step, self.replay.source / name[2:] / "action.yml", inputs)
            return
        if name not in self.replay.stand_ins:
            raise AssertionError(f"there is no stand-in for {name}")
        call = Call(self.replay, self.job, inputs, step.outputs, [], self.environment)
        self.replay.stand_ins[name](call)
        for path in call.paths:
            self.environment["PATH"] = f"{path}:{self.environment['PATH']}"

    def _composite(self, step: Step, file: Path, given: Mapping[str, str]) -> None:
        data = load(file)
        inputs = {}
        for name, about in data.get("inputs", {}).items():
            inputs[name] = given.get(name, to_text(_filled(about.get("default", ""), self.contexts, self.functions)))
            if about.get("required") and not inputs[name]:
                raise Failed(f"Input required and not supplied: {name}")
        unknown = set(given) - set(inputs)
        assert not unknown, f"{file.parent.name} has no input {unknown}"
        contexts = {**self.contexts, "inputs": inputs, "steps": {}}
        contexts["github"] = {**self.contexts["github"], "action_path": str(file.parent)}
        environment = {**self.environment, "GITHUB_ACTION_PATH": str(file.parent)}
        inner = _Player(self.replay, self.job, contexts, self.functions, environment, self.home, {}, f"{step.name}/")
        inner.steps(data["runs"]["steps"])
        self.environment["PATH"] = inner.environment["PATH"]
        self.summary += inner.summary
        for name, about in data.get("outputs", {}).items():
            step.outputs[name] = to_text(_filled(about["value"], contexts, inner.functions))
        if inner.failed:
            raise Failed(f"a step of {file.parent.name} failed")


def _install(folder: Path) -> None:
    """What .ci/install would leave: this reprokit, with the interpreter and the packages of the tests."""
    (folder / "bin").mkdir(parents=True)
    for name, words in (("python", ""), ("reprokit", " -m reprokit")):
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{REPOSITORY}" exec "{sys.executable}"{words} "$@"\n')
        program.chmod(0o755)


def play_action(
    action: str, folder: Path, inputs: Mapping[str, str], *, files: Mapping[str, str] | None = None, **given: Any
) -> Job:
    """One composite action of this repository, as a job of one step; its ``outputs`` are the action's.

    ``files``: the files in the workspace, as after the checkout of a repository.
    """
    steps: list[dict[str, Any]] = [{"id": "action", "uses": f"$/{action}", "with": dict(inputs)}]
    workspace = folder / "job-0" / "workspace"
    for name, text in (files or {"README.md": ""}).items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text, encoding="utf-8")
    workflow = folder / "workflow.yml"
    workflow.write_text(yaml.safe_dump({"name": "t", "on": "push", "jobs": {"job": {"runs-on": "x", "steps": steps}}}))
    replay = Replay(workflow, folder, **given)
    replay.run()
    job = replay.job("job")
    job.outputs = next(step for step in job.steps if step.name == "action").outputs
    return job


def entries(text: str) -> dict[str, str]:
    """GITHUB_OUTPUT and GITHUB_ENV as the runner reads them; a line that is neither form fails the step."""
    found = {}
    lines = iter(re.split(r"\r?\n", text))
    for line in lines:
        if not line:
            continue
        name, mark, value = re.match(r"([^=<]*)(<<|=)?(.*)", line).groups()  # type: ignore[union-attr]
        if mark == "<<":
            body = list(itertools.takewhile(lambda one, end=value: one != end, lines))  # type: ignore[misc]
            found[name] = "\n".join(body)
        elif mark == "=":
            found[name] = value
        else:
            raise Failed(f"Error: Invalid format '{line}'")
    return found


def obeyed(log: str) -> list[tuple[str, str, str]]:
    """The workflow commands in a log that the runner would carry out: (name, properties, message)."""
    commands = []
    resume = ""
    for line in re.split(r"\r\n|\r|\n", log):  # as .NET reads lines
        found = _COMMAND.match(line) or _OLD_COMMAND.search(line)
        if not found:
            continue
        name, properties, message = found[1], found[2] or "", found[3]
        if resume:
            resume = "" if name == resume else resume
        elif name == "stop-commands":
            resume = message
        else:
            commands.append((name, properties.strip(), message))
    return commands


def _filled(value: Any, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    if isinstance(value, str):
        return template(value, contexts, functions) if "${{" in value else value
    if isinstance(value, list):
        return [_filled(entry, contexts, functions) for entry in value]
    if isinstance(value, dict):
        return {key: _filled(entry, contexts, functions) for key, entry in value.items()}
    return value


def _texts(value: Any, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> dict[str, str]:
    filled = _filled(value or {}, contexts, functions)
    return {str(key): to_text(entry) for key, entry in filled.items()}


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _result(jobs: list[Job]) -> str:
    results = {job.result for job in jobs}
    return next((word for word in ("failure", "cancelled", "skipped") if word in results), "success")


def _merged(jobs: list[Job]) -> dict[str, str]:
    return {key: value for job in jobs for key, value in job.outputs.items()}


def _matrices(matrix: Any, contexts: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not matrix:
        return [{}]
    filled = _filled(matrix, contexts, {})
    axes = {key: _filled(values, contexts, {}) for key, values in filled.items() if key not in ("include", "exclude")}
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())] if axes else []
    cells = [cell for cell in cells if not any(part.items() <= cell.items() for part in filled.get("exclude") or ())]
    own = list(cells)  # an include does not extend cells that another include added
    for extra in filled.get("include") or ():
        fitting = [cell for cell in own if all(cell.get(axis) == extra[axis] for axis in axes if axis in extra)]
        for cell in fitting:
            cell.update(extra)
        if not fitting:
            cells.append(dict(extra))
    assert len(cells) <= 256, "GitHub refuses a matrix of more than 256 jobs"
    return cells
