"""The steps of builds, and what they are called in short. Pure."""

from __future__ import annotations

import re

SHORT_STEP = 80
"""Characters of a step in short, at most."""
_SCRIPTS = {"/run/reprokit/setup.sh": "environment.setup", "/run/reprokit/generate.sh": "generate"}
_BESIDE = (". /run/reprokit/site.sh", "apt-get update", "export REPROKIT_", "pip() {")
"""How parts of steps begin that only prepare what follows."""


def short_step(step: str) -> str:
    """A build step in short: ``pip install torch``, without mounts, site setup, line breaks, and what it does beside.

    A step that runs a script of the case is named by its key, such as ``environment.setup``.
    """
    words = [word for word in step.split() if not word.startswith("--mount=") and word != "\\"]
    for script, key in _SCRIPTS.items():
        if script in words:
            return key
    parts = " ".join(words).removeprefix("RUN ").split(" && ")
    main = [part for part in parts if not part.startswith(_BESIDE)] or parts
    text = main[0].replace("apt-get install -y", "apt-get install")
    text = text.replace("sh /run/reprokit/rpm-install.sh", "dnf install").strip()
    return text if len(text) <= SHORT_STEP else text[: SHORT_STEP - 4].rpartition(" ")[0] + " ..."


def instructions(dockerfile: str) -> list[str]:
    """The instructions of a Dockerfile, each with its line breaks."""
    return re.findall(r"(?:.*\\\n)*.*\n?", dockerfile)
