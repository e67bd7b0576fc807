"""The kinds of engines that there are, and what engines can do. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprokit.environment.supply import Recipe


AUTO = "auto"
"""What stands for the engine that answers, where an engine's kind is asked for."""

KINDS = ("docker", "podman", "venv")
"""Each is the name of a package beside this module, whose ``ENTRY`` says what the engine is.

The first is the reference: reports name the engine of a verdict only where it is another one.
"""

CHOICES = (AUTO, *KINDS)
"""What ``--engine`` and the configuration take."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What every engine of a kind can do, wherever it runs; a limit that one host does not let it keep is measured.

    ``recipe``: what it makes an environment from, a Dockerfile or a shell script. A script runs on this host itself,
    and so the environment has this host's operating system and packages. ``images``: what it makes are images, which
    start from a base, carry labels, and can be imported, pulled and tagged. ``locks``: it can build what a lock holds.
    ``gpus``: it can give a trial GPUs. ``terminals``: it can put a user's terminal before a trial. ``archives``: it
    can save an image to a file, as ``docker save`` does, and load it. ``steps``: an image of a registry serves it as
    cache of the steps that it has in common with a build. ``docker_api``: it is a service that speaks
    Docker's API, into which ``doctor`` can look.
    """

    recipe: Recipe = "dockerfile"
    images: bool = True
    locks: bool = True
    gpus: bool = True
    terminals: bool = False
    archives: bool = False
    steps: bool = False
    docker_api: bool = False
