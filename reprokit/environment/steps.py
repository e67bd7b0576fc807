"""The steps of builds, and what they are called in short. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from reprokit.case.units import fold_path
from reprokit.core.errors import UsageError

SHORT_STEP = 80
"""Characters of a step in short, at most."""
_SCRIPTS = {"/run/reprokit/setup.sh": "environment.setup", "/run/reprokit/generate.sh": "generate"}
_BESIDE = (". /run/reprokit/site.sh", "apt-get update", "export REPROKIT_", "pip() {")
"""How parts of steps begin that only prepare what follows."""
_ENGINES_OWN = ("dockerfile", ".dockerignore", "dockerfile.dockerignore", ".containerignore", "containerfile")
"""What engines read of a context's root beside what its steps name; never an entry."""


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


def context_of(entries: Iterable[tuple[str, bytes | Path]]) -> dict[str, bytes | Path]:
    """The build context of entries, by path. The only way from the names of a case to paths that an engine reads.

    Raises UsageError for two entries of what is one path on some file system, one below another, one outside of the
    context, and one in the place of what engines read of it unasked: a Dockerfile is sent beside it.
    """
    context: dict[str, bytes | Path] = {}
    taken: set[str] = set()
    for path, content in entries:
        same = fold_path(path)
        if same in taken or same.partition("/")[0] in {"", *_ENGINES_OWN} or posixpath.normpath(path) != path:
            raise UsageError(f"{path!r} would be outside of the build context, or in the place of another entry")
        context[path] = content
        taken.add(same)
    for path in context:
        if inside := next((one for one in PurePosixPath(path).parents if fold_path(str(one)) in taken), None):
            raise UsageError(f"{path!r} would be in the place of {str(inside)!r} in the build context")
    return dict(sorted(context.items()))
