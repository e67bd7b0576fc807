"""The engines that the conformance tests run on, each with what the tests need to know beside the protocol."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprokit.core import ownership
from reprokit.core.errors import BuildFailed
from reprokit.engine import registry
from reprokit.engine.entry import EngineEntry
from reprokit.engine.protocol import Build, Engine, Trial
from reprokit.engine.site import Site
from reprokit.environment.dockerfile import render
from reprokit.environment.on_host import resolve_on
from reprokit.evidence.model import Ending
from tests.conformance import toy_engine
from tests.conftest import build_of, import_tiny, never, own_cache, trial
from tests.unit.environment.builders import cell
from tests.unit.fakes import FakeEngine


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An engine under test.

    ``base``: what a Dockerfile starts from. ``left``: what is left of a trial that carries that word. ``opened``: the
    Python expression that opens the engine in another process, with what that imports (``CHILD`` of test_engines.py):
    ``registry.make('KIND')``, or '' where that process cannot see what this one does.
    ``repeats``: whether the line that repeats a trial works in a shell of this host. ``lingers``: ``left`` shows what
    was killed for the moment that the kernel of a busy host takes to end it.
    """

    entry: EngineEntry
    engine: Engine
    left: Callable[[str], list[str]]
    base: str = ""
    opened: str = ""
    repeats: bool = True
    lingers: bool = False

    @property
    def unenforced(self) -> dict[str, str]:
        """What the engine says that it does not keep here -> why."""
        return dict.fromkeys(self.engine.info().unenforced, "the engine says that it does not hold it")

    def needs(self, what: str) -> None:
        """Skip a test of what this engine says that it does not keep."""
        if why := self.unenforced.get(what):
            pytest.skip(f"{what}: {why}")

    def build(self, setup: str, tag: str = "") -> Build:
        """The build of an environment in which a shell script ran."""
        tag = tag or f"reprokit/img:{uuid.uuid4().hex}"
        if self.entry.capabilities.recipe == "dockerfile":
            return build_of(tag, f"FROM {self.base}\nRUN {setup}\n")
        assert self.entry.host is not None
        spec = cell({}, setup=setup)
        environment = resolve_on(self.entry.host(), spec)
        rendered = render(environment, spec, sources={}, given_datasets=())
        return Build(tag=tag, dockerfile=rendered.dockerfile, context=rendered.context)

    def run(self, image: str, script: str, **changes: object) -> tuple[Ending, str]:
        """How a script ended, and what it printed."""
        output: list[bytes] = []
        ending = self.engine.run(trial(image, script, **changes), output.append, never())
        return ending, b"".join(output).decode()


def _containers(*client: str) -> Callable[[str], list[str]]:
    """Containers that carry the label of a run."""

    def left(word: str) -> list[str]:
        words = [*client, "ps", "-aq", "--filter", f"label={ownership.RUN}={word}"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()

    return left


def _processes(word: str) -> list[str]:
    """Processes of this host with that word in their command line, and folders that trials of this process made."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    mine = Path(tempfile.gettempdir()).glob(f"reprokit-*-{os.getpid()}-*")
    # Of an engine behind a program, which another test of this process may have open: no trial made it.
    return found + [str(path) for path in mine if "-engine-" not in path.name]


def _docker(request: pytest.FixtureRequest) -> Iterator[Subject]:
    yield Subject(
        entry=registry.entry("docker"),
        engine=request.getfixturevalue("engine"),
        base=request.getfixturevalue("tiny"),
        left=_containers("docker"),
        opened="registry.make('docker')",
    )


def _podman(request: pytest.FixtureRequest, service: str = "podman_service") -> Iterator[Subject]:
    service = request.getfixturevalue(service)
    entry = registry.entry("podman")
    engine = entry.open({"CONTAINER_HOST": service})
    folder = request.getfixturevalue("tmp_path_factory").mktemp("tiny")
    yield Subject(
        entry=entry,
        engine=engine,
        base=import_tiny(engine, folder),
        left=_containers("docker", "--host", service),
        opened=f"registry.make('podman', {{'CONTAINER_HOST': {service!r}}})",
        repeats=False,  # the podman program of this host knows nothing of the service's storage
    )


def _podman5(request: pytest.FixtureRequest) -> Iterator[Subject]:
    yield from _podman(request, "podman5_service")


def _venv(request: pytest.FixtureRequest) -> Iterator[Subject]:
    entry = registry.entry("venv")
    with own_cache():
        yield Subject(entry=entry, engine=entry.open({}), left=_processes, lingers=True, opened="registry.make('venv')")


def _toy(request: pytest.FixtureRequest) -> Iterator[Subject]:
    top = request.getfixturevalue("tmp_path_factory").mktemp("toy")
    opened = f"toy_engine.ToyEngine(Path({str(top)!r}))"
    yield Subject(
        entry=toy_engine.ENTRY, engine=toy_engine.ToyEngine(top), left=_processes, lingers=True, opened=opened
    )


def _fake(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """The fake of the unit tests, with a behaviour that runs the trial's command on this host."""
    top = request.getfixturevalue("tmp_path_factory").mktemp("fake")

    def behave(asked: Trial, sink: Callable[[bytes], None]) -> Ending:
        return toy_engine.run_trial(asked, None, {"PATH": os.environ["PATH"]}, sink, fake.cancel)

    def make(build: Build) -> None:
        for step in build.dockerfile.splitlines():
            if step.startswith("RUN "):
                done = subprocess.run(["sh", "-c", step[4:]], cwd=top, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise BuildFailed(f"exit code: {done.returncode}", step=step, tail=tuple(done.stdout.splitlines()))

    fake = FakeEngine(behave, make, frozenset({"memory", "cpus", "pids", "network", "mounts"}))
    entry = EngineEntry(kind="fake", help="the fake of the unit tests", open=lambda environ: fake)
    yield Subject(entry=entry, engine=fake, left=_processes, lingers=True, base="debian:12", repeats=False)


real = pytest.mark.integration
SUBJECTS = [
    pytest.param(_docker, id="docker", marks=[real, pytest.mark.engines]),
    pytest.param(_podman, id="podman", marks=real),
    pytest.param(_podman5, id="podman5", marks=real),
    pytest.param(_venv, id="venv", marks=real),
    pytest.param(_toy, id="toy", marks=real),
    pytest.param(_fake, id="fake"),
]


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """Each engine in turn."""
    yield from request.param(request)


@pytest.fixture(scope="module")
def image(subject: Subject) -> Iterator[str]:
    """The tag of an environment in which nothing is installed."""
    built = subject.engine.build(subject.build("true"), Site(), lambda _: None, threading.Event())
    yield built.tag
    subject.engine.remove_image(built.tag)
