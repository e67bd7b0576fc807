"""What the checks look at, gathered once: configuration, engine and host."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reprokit.core.errors import EngineError, UsageError
from reprokit.engine.gpus import discovery
from reprokit.engine.site import Settings, settings
from reprokit.environment.host import HostFacts

if TYPE_CHECKING:
    from reprokit.engine.docker import DockerEngine

T = TypeVar("T")
SECONDS = 15.0
"""How long the engine, and the GPU's driver, may take to say what they are."""


class NoAnswer(EngineError):
    """What was asked takes too long."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """``environ`` and ``folder`` of the process that asks. ``misconfigured``: why the configuration cannot be read.

    ``engine``: a container engine that answers, with what it says of itself (``GET /version`` and ``GET /info``);
    without one, ``unreachable`` says why. ``ports``: what else the checks look at.
    """

    environ: Mapping[str, str]
    folder: Path
    settings: Settings = field(default_factory=Settings)
    misconfigured: str = ""
    engine: DockerEngine | None = None
    version: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    unreachable: str = ""
    facts: HostFacts = field(default_factory=HostFacts)

    @property
    def client(self) -> str:
        """The program with which people speak to the engine."""
        return "podman" if self.engine is not None and self.engine.is_podman else "docker"

    @property
    def is_local(self) -> bool:
        """Whether the engine's files are this machine's."""
        if self.engine is None:
            return False
        import platform

        return self.engine.wire.endpoint.url.startswith("unix://") and self.info.get("Name") == platform.node()


def survey(environ: Mapping[str, str] | None = None, folder: Path | None = None) -> Ground:
    """Look at this host. Raises nothing; takes ``SECONDS`` at most."""
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
    if isinstance(answers["engine"], NoAnswer):
        found = {"unreachable": f"the container engine gives {answers['engine']}: it hangs, or the host is overloaded"}
    if isinstance(answers["engine"], tuple):
        engine, version, info = answers["engine"]
        found = {"engine": engine, "version": version, "info": info}
    facts = answers["facts"]
    if not isinstance(facts, HostFacts):
        facts = HostFacts(note=f"the GPU's driver cannot be asked: {facts}")
    return Ground(environ=environ, folder=folder, settings=own, misconfigured=misconfigured, facts=facts, **found)


def _engine(own: Settings, environ: Mapping[str, str]) -> tuple[DockerEngine, Mapping[str, Any], Mapping[str, Any]]:
    from reprokit.engine.select import container_engine

    engine = container_engine(own.engine if own.engine != "venv" else "auto", environ)
    version = engine.wire.about()
    client = engine.wire.client()
    with engine.wire.errors():
        return engine, version, client.info()


def later(ask: Callable[[], T]) -> Callable[[float], T]:
    """Start ``ask`` in a thread; the answer is waited for by calling what is returned with a number of seconds.

    That raises what ``ask`` raised, or NoAnswer when it did not end in time. The thread is not waited for at exit.
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
            raise NoAnswer(f"no answer within {seconds:g} s")
        return outcome[0]

    return wait
