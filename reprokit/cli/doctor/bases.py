"""Where base images come from: a registry that answers, or the distribution's packages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from reprokit.cli.doctor.finding import Finding, Voice, install
from reprokit.cli.doctor.ground import Ground
from reprokit.engine.bases import REGISTRY, answering

say = Voice("base images")
SECONDS = 5.0


def check(ground: Ground) -> Iterator[Finding]:
    """Whether base images are available, by the means that the configuration allows."""
    own = ground.settings
    wanted, registry = own.base_images, own.registry or REGISTRY
    answers = wanted != "bootstrap" and answering(registry, SECONDS)
    maker, why, fix = _maker(ground)
    if answers:
        yield say.ok(f"the registry {registry} answers")
    elif wanted == "registry":
        yield say.fail(
            f"the registry {registry} does not answer, and base_images is set to registry",
            'set REPROKIT_REGISTRY=<mirror of Docker Hub>, or base_images = "auto" in reprokit.toml',
        )
        return
    elif wanted == "auto":
        if maker:
            yield say.info(f"the registry {registry} does not answer: base images are made from packages")
        else:
            yield say.fail(f"the registry {registry} does not answer, and nothing here can make base images", fix)
    if maker:
        yield say.ok(f"{maker} can make base images from the distribution's packages")
    elif wanted == "bootstrap":
        yield say.fail(f"base_images is set to bootstrap, but {why}", fix)
    elif answers:
        yield say.info(f"without the registry no base image could be made: {why}", fix)


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
