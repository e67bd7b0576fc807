"""What an engine without containers (``--engine venv``) can use on this host, and which limits it can enforce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from reprokit.cli.doctor.finding import Finding, Voice, install
from reprokit.cli.doctor.ground import Ground
from reprokit.engine import registry
from reprokit.engine.venv import host
from reprokit.environment import versions

say = Voice("venv")


def check(ground: Ground) -> Iterator[Finding]:
    """The sandbox, the Pythons of this host, uv, and which of a case's limits hold without a container engine."""
    own = ground.settings.engine
    chosen = registry.capabilities(own).recipe == "script"
    kind = own if chosen else next(one.kind for one in registry.entries() if one.host is not None)
    if why := host.refusal():
        text, _, fix = why.partition(": ")
        yield (say.fail if chosen else say.info)(text, fix)
        return
    pythons = sorted({".".join(one.version.split(".")[:2]) for one in host.pythons()}, key=versions.order)
    if not pythons:
        speak = say.fail if chosen else say.info
        yield speak(f"--engine {kind} found no Python on this host", install("python3 python3-venv"))
        return
    uv = host.uv_version()
    text = f"--engine {kind} offers Python {', '.join(pythons)}, from this host, in sandboxes of bubblewrap"
    if uv:
        yield say.ok(f"{text}, with uv {uv}")
    else:
        yield say.info(f"{text}; uv, which provides others, was not found", "pip install uv")
    powers = host.powers()
    refused = dict.fromkeys(why for one in fields(powers) if (why := getattr(powers, one.name)))
    for why in refused:
        yield (say.warn if chosen else say.info)(f"--engine {kind}: {why}; cells that need it are unsupported there")
