"""reprokit itself and the programs beside engines: its Python and configuration, what makes base images, venv."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator

from reprokit.cli.doctor.ground import Finding, Ground, Voice, install
from reprokit.core.errors import UsageError
from reprokit.core.version import __version__
from reprokit.engine import registry
from reprokit.engine.bases import REGISTRY, answering
from reprokit.engine.site import config
from reprokit.engine.venv import host
from reprokit.engine.venv.engine import UNENFORCED
from reprokit.environment import tables, versions

_reprokit = Voice("reprokit")
_bases = Voice("base images")
_venv = Voice("venv")


def check_reprokit(ground: Ground) -> Iterator[Finding]:
    """Version, configuration, misspelt variables, git."""
    yield _reprokit.ok(f"reprokit {__version__}, Python {platform.python_version()} ({sys.executable})")
    if ground.misconfigured:
        yield _reprokit.fail(
            f"the configuration cannot be read: {ground.misconfigured}",
            "fix the line that it names; the other checks use the defaults until then",
        )
    else:
        files = config.config_files(ground.environ, ground.folder)
        names = ", ".join(map(str, files)) if files else "no reprokit.toml, defaults are used"
        yield _reprokit.ok(f"configuration: {names}")
    try:
        for name in tables.SHAPES:
            tables.table(name, ground.settings.compatibility)
    except UsageError as error:
        yield _reprokit.fail(f"the site's compatibility data cannot be read: {error}", "fix that line")
    for name, sentence in config.unknown_variables(ground.environ):
        yield _reprokit.warn(sentence, f"unset {name}")
    if shutil.which("git", path=ground.environ.get("PATH")) is None:
        yield _reprokit.warn("git was not found: cases with sources cannot be run", install("git"))


BASES_SECONDS = 5.0


def check_bases(ground: Ground) -> Iterator[Finding]:
    """Whether base images are available, by the means that the configuration allows."""
    own = ground.settings
    wanted, registry = own.base_images, own.registry or REGISTRY
    answers = wanted != "bootstrap" and answering(registry, BASES_SECONDS)
    maker, why, fix = _maker(ground)
    if answers:
        yield _bases.ok(f"the registry {registry} answers")
    elif wanted == "registry":
        yield _bases.fail(
            f"the registry {registry} does not answer, and base_images is set to registry",
            'set REPROKIT_REGISTRY=<mirror of Docker Hub>, or base_images = "auto" in reprokit.toml',
        )
        return
    elif wanted == "auto":
        if maker:
            yield _bases.info(f"the registry {registry} does not answer: base images are made from packages")
        else:
            yield _bases.fail(f"the registry {registry} does not answer, and nothing here can make base images", fix)
    if maker:
        yield _bases.ok(f"{maker} can make base images from the distribution's packages")
    elif wanted == "bootstrap":
        yield _bases.fail(f"base_images is set to bootstrap, but {why}", fix)
    elif answers:
        yield _bases.info(f"without the registry no base image could be made: {why}", fix)


def _maker(ground: Ground) -> tuple[str, str, str]:
    """The program that makes base images ('' = none), why there is none, and the fix."""
    path = ground.environ.get("PATH")
    if shutil.which("mmdebstrap", path=path):
        return "mmdebstrap", "", ""
    if shutil.which("debootstrap", path=path):
        if os.geteuid() == 0:
            return "debootstrap", "", ""
        return "", "debootstrap needs root", f"{install('mmdebstrap')}   # needs no root"
    return "", "neither mmdebstrap nor debootstrap was found", install("mmdebstrap")


def check_venv(ground: Ground) -> Iterator[Finding]:
    """The Pythons of this host, uv, and what does not hold without a container engine."""
    own = ground.settings.engine
    chosen = registry.capabilities(own).recipe == "script"
    kind = own if chosen else next(one.kind for one in registry.entries() if one.host is not None)
    pythons = sorted({".".join(one.version.split(".")[:2]) for one in host.pythons()}, key=versions.order)
    if not pythons:
        speak = _venv.fail if chosen else _venv.info
        yield speak(f"--engine {kind} found no Python on this host", install("python3 python3-venv"))
        return
    text = f"--engine {kind} offers Python {', '.join(pythons)}, from this host"
    if uv := host.uv_version():
        yield _venv.ok(f"{text}, with uv {uv}")
    else:
        yield _venv.info(f"{text}; uv, which provides others, was not found", "pip install uv")
    limits = f"resources that limit {', '.join(sorted(UNENFORCED & {'cpus', 'pids', 'network'}))} are unsupported there"
    yield (_venv.warn if chosen else _venv.info)(
        f"--engine {kind} runs your own cases alone, as your own programs: an untrusted one needs a container engine, "
        f"and {limits}"
    )
