"""What the embedded engine (``--engine venv``) has to work with."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from reprokit.doctor.finding import Finding, Voice
from reprokit.doctor.ground import Ground

say = Voice("venv")
_INSTALL = "pip install uv"


def check(ground: Ground) -> Iterator[Finding]:
    """uv and the Pythons of this host."""
    uv = shutil.which("uv", path=ground.environ.get("PATH")) or (
        importlib.util.find_spec("uv") and "uv (its Python package)"
    )
    chosen = ground.settings.engine == "venv"
    found = pythons(ground.environ)
    said = ", ".join(found) or "none"
    if uv:
        yield say.ok(f"--engine venv: {uv}; Pythons of this host: {said}")
    else:
        speak = say.fail if chosen else say.info
        yield speak(f"--engine venv is out of reach: uv was not found (Pythons of this host: {said})", _INSTALL)


def pythons(environ: Mapping[str, str]) -> list[str]:
    """The versions (``3.11``) of the CPythons on PATH, by their names."""
    names = set()
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        with suppress(OSError):  # one that is not there, or that this user may not look into
            for file in Path(folder).iterdir():
                match = re.fullmatch(r"python(3\.\d+)", file.name)
                if match and os.access(file, os.X_OK) and not _is_script(file):
                    names.add(match[1])
    return sorted(names, key=lambda name: int(name.partition(".")[2]))


def _is_script(file: Path) -> bool:
    """Whether it is a version manager's shim, which may have no Python behind it."""
    try:
        with file.open("rb") as stream:
            return stream.read(2) == b"#!"
    except OSError:
        return True
