"""The runtime in which trials run: the engine's default, or one that the site's configuration names (gVisor's runsc).

A site that names one wants no trial outside of it. What it cannot serve is ``unsupported``, never a finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reprokit.core.errors import EngineError, EngineLost, Unsupported
from reprokit.engine.site.config import load

WITH_GPUS = ("runc", "crun", "nvidia")
"""Runtimes that give a container the host's GPUs as Docker's default does."""


def configured() -> str:
    """The runtime that the configuration names; '' = the engine's default. Raises UsageError for a wrong file."""
    return load().runtime


def refuse(engine: str) -> None:
    """Raises Unsupported where the configuration names a runtime: ``engine`` cannot choose one."""
    if runtime := configured():
        raise Unsupported(
            f"runtime = {runtime!r} is configured for trials, which {engine} does not choose: use --engine docker, "
            "or take runtime out of reprokit.toml (reprokit config runtime says where it is set)"
        )


def check_gpus(runtime: str, gpus: tuple[str, ...]) -> None:
    """Raises Unsupported for a trial with GPUs in a runtime that may not have them."""
    if gpus and runtime and runtime not in WITH_GPUS:
        raise Unsupported(f"the runtime {runtime}, which reprokit.toml names for trials, gives them no GPU")


@contextmanager
def starting(runtime: str) -> Iterator[None]:
    """Raises Unsupported for what the engine refuses in the block: with a ``runtime``, it does because of that."""
    try:
        yield
    except EngineLost:
        raise
    except EngineError as error:
        if not runtime:
            raise
        raise Unsupported(
            f"the engine does not start a trial in the runtime {runtime}, which reprokit.toml names: {error}; "
            "docker info lists the engine's runtimes"
        ) from error
