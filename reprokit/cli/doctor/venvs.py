"""What an engine without containers (``--engine venv``) can use on this host, and for whose cases."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.cli.doctor.finding import Finding, Voice, install
from reprokit.cli.doctor.ground import Ground
from reprokit.engine import registry
from reprokit.engine.venv import host
from reprokit.engine.venv.engine import UNENFORCED
from reprokit.environment import versions

say = Voice("venv")


def check(ground: Ground) -> Iterator[Finding]:
    """The Pythons of this host, uv, and what does not hold without a container engine."""
    own = ground.settings.engine
    chosen = registry.capabilities(own).recipe == "script"
    kind = own if chosen else next(one.kind for one in registry.entries() if one.host is not None)
    pythons = sorted({".".join(one.version.split(".")[:2]) for one in host.pythons()}, key=versions.order)
    if not pythons:
        speak = say.fail if chosen else say.info
        yield speak(f"--engine {kind} found no Python on this host", install("python3 python3-venv"))
        return
    text = f"--engine {kind} offers Python {', '.join(pythons)}, from this host"
    if uv := host.uv_version():
        yield say.ok(f"{text}, with uv {uv}")
    else:
        yield say.info(f"{text}; uv, which provides others, was not found", "pip install uv")
    limits = f"resources that limit {', '.join(sorted(UNENFORCED & {'cpus', 'pids', 'network'}))} are unsupported there"
    yield (say.warn if chosen else say.info)(
        f"--engine {kind} runs your own cases alone, as your own programs: an untrusted one needs a container engine, "
        f"and {limits}"
    )
