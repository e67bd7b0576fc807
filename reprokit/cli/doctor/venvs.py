"""What engines that make environments of this host have to work with, and what this host lets them enforce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from reprokit.cli.doctor.finding import Finding, Voice, install
from reprokit.cli.doctor.ground import Ground
from reprokit.engine import registry
from reprokit.environment import versions

say = Voice("venv")


def check(ground: Ground) -> Iterator[Finding]:
    """The Pythons of this host, uv, and which of a case's limits can be kept without a container engine."""
    from reprokit.engine.venv import host

    own = ground.settings.engine
    chosen = registry.capabilities(own).recipe == "script"
    kind = own if chosen else next(one.kind for one in registry.entries() if one.host is not None)
    pythons = sorted({".".join(one.version.split(".")[:2]) for one in host.pythons()}, key=versions.order)
    if not pythons:
        speak = say.fail if chosen else say.info
        yield speak(f"--engine {kind} has no Python of this host to work with", install("python3 python3-venv"))
        return
    uv = host.uv_version()
    text = f"--engine {kind} serves Python {', '.join(pythons)}, of this host"
    if uv:
        yield say.ok(f"{text}, with uv {uv}")
    else:
        yield say.info(f"{text}; uv, which brings others, was not found", "pip install uv")
    powers = host.powers()
    refused = dict.fromkeys(why for one in fields(powers) if (why := getattr(powers, one.name)))
    for why in refused:
        yield (say.warn if chosen else say.info)(f"--engine {kind}: {why}; cells that need it are unsupported there")
