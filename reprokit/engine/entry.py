"""What an engine's package declares: the engine's kind, how it is opened, and what it can do. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reprokit.engine.kinds import Capabilities

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine
    from reprokit.environment.host import Host


@dataclass(frozen=True, kw_only=True)
class EngineEntry:
    """One kind of engine.

    ``kind``: what ``--engine`` takes and what is recorded. ``help``: what it is, in one line. ``open``: the engine, for
    the environment variables of a process; raises EngineError, with what to do, when none answers. ``host``: measures
    this host for engines whose recipe is a script, which need no service. ``start``: the command that makes the engine
    answer, '' where it is not installed; ``package``: what to install then.
    """

    kind: str
    help: str
    open: Callable[[Mapping[str, str]], Engine]
    capabilities: Capabilities = field(default_factory=Capabilities)
    host: Callable[[], Host] | None = None
    start: Callable[[Mapping[str, str]], str] | None = None
    package: str = ""
