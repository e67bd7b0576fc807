"""The input of the checks, gathered once: configuration, engine and host; and what a check finds."""

from __future__ import annotations

import os
import platform
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from reprokit.core.errors import EngineError, UsageError
from reprokit.core.json_record import JsonDocument, JsonRecord
from reprokit.engine import kinds, registry
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.gpus import discovery
from reprokit.engine.site import Settings, settings
from reprokit.engine.wire import EngineDetails, EngineVersion
from reprokit.environment.host import HostFacts

T = TypeVar("T")
SECONDS = 15.0
"""How long the engine, and the GPU's driver, may take to answer."""


class CheckTimedOut(EngineError):
    """An answer takes too long."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What the checks examine. ``environ`` and ``folder``: of this process.

    ``misconfigured``: why the configuration cannot be read, or ''. ``engine``: a container engine that answers, with
    its ``version`` and ``info`` (``GET /version`` and ``GET /info``); without one, ``unreachable`` says why.
    ``facts``: the GPUs and their driver.
    """

    environ: Mapping[str, str]
    folder: Path
    settings: Settings = field(default_factory=Settings)
    misconfigured: str = ""
    engine: DockerEngine | None = None
    version: EngineVersion = field(default_factory=EngineVersion)
    info: EngineDetails = field(default_factory=EngineDetails)
    unreachable: str = ""
    facts: HostFacts = field(default_factory=HostFacts)

    @property
    def client(self) -> str:
        """The command-line client of the engine."""
        return DockerEngine.program if self.engine is None else self.engine.program

    @property
    def is_local(self) -> bool:
        """Whether the engine's files are this machine's."""
        if self.engine is None:
            return False
        return not self.engine.wire.endpoint.is_remote and self.info.host == platform.node()


def survey(environ: Mapping[str, str] | None = None, folder: Path | None = None) -> Ground:
    """Gather the facts about this host. Raises nothing; takes ``SECONDS`` at most."""
    environ = os.environ if environ is None else environ
    folder = folder or Path.cwd()
    own, misconfigured = Settings(), ""
    try:
        own = settings(environ, folder)
    except UsageError as error:
        misconfigured = str(error)
    asking = {"engine": later(lambda: _engine(own, environ)), "facts": later(discovery.facts)}
    answers: dict[str, Any] = {}
    for name, wait in asking.items():
        try:
            answers[name] = wait(SECONDS)
        except Exception as error:
            answers[name] = error
    found: dict[str, Any] = {"unreachable": str(answers["engine"])}
    if isinstance(answers["engine"], CheckTimedOut):
        found = {"unreachable": f"the container engine gives {answers['engine']}: it hangs, or the host is overloaded"}
    if isinstance(answers["engine"], tuple):
        engine, version, info = answers["engine"]
        found = {"engine": engine, "version": version, "info": info}
    facts = answers["facts"]
    if not isinstance(facts, HostFacts):
        facts = HostFacts(note=f"the GPU's driver does not answer: {facts}")
    return Ground(environ=environ, folder=folder, settings=own, misconfigured=misconfigured, facts=facts, **found)


def _engine(own: Settings, environ: Mapping[str, str]) -> tuple[DockerEngine, EngineVersion, EngineDetails]:
    named = registry.capabilities(own.engine).docker_api
    engine = registry.make(own.engine if named else kinds.AUTO, environ)
    assert isinstance(engine, DockerEngine)
    return engine, engine.wire.about(), engine.wire.details()


def later(ask: Callable[[], T]) -> Callable[[float], T]:
    """Start ``ask`` in a thread; returns a function that waits up to so many seconds and returns its result.

    That function raises what ``ask`` raised, or NoAnswer when it takes longer. The thread does not delay the exit.
    """
    outcome: list[T] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(ask())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def wait(seconds: float) -> T:
        thread.join(seconds)
        if raised:
            raise raised[0]
        if not outcome:
            raise CheckTimedOut(f"no answer within {seconds:g} s")
        return outcome[0]

    return wait


class Status(str, Enum):
    """``info`` is worth knowing; ``warn`` affects some cells, or may later; ``fail`` prevents runs here."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class Finding(JsonRecord):
    """A finding of a check."""

    check: str
    status: Status
    text: str
    fix: str = ""
    """the suggested fix: a command, a sentence, or empty"""


@dataclass(frozen=True)
class Findings(JsonDocument):
    """What `doctor` found."""

    FORMAT = "reprokit-doctor/v1"

    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Voice:
    """Makes the findings of one check: ``yield say.warn("text", "command")``."""

    check: str

    def ok(self, text: str) -> Finding:
        """A finding that needs no action."""
        return Finding(check=self.check, status=Status.OK, text=text)

    def info(self, text: str, fix: str = "") -> Finding:
        """A finding that is worth knowing."""
        return Finding(check=self.check, status=Status.INFO, text=text, fix=fix)

    def warn(self, text: str, fix: str = "") -> Finding:
        """A finding that affects some cells, or may later."""
        return Finding(check=self.check, status=Status.WARN, text=text, fix=fix)

    def fail(self, text: str, fix: str = "") -> Finding:
        """A finding that prevents runs."""
        return Finding(check=self.check, status=Status.FAIL, text=text, fix=fix)


def install(package: str, path: str | None = None) -> str:
    """The command that installs a package of this host's distribution; ``path``: the PATH to search for its manager."""
    for program, command in (("dnf", "dnf install"), ("zypper", "zypper install"), ("pacman", "pacman -S")):
        if shutil.which(program, path=path):
            return f"sudo {command} {package}"
    return f"sudo apt-get install {package}"
