"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def unused(name: str, suffix: str) -> Path:
    """A file of that name in the current folder that is not there yet: ``x.yaml``, ``x-2.yaml`` ..."""
    number = 1
    while (path := Path(f"{name}{f'-{number}' if number > 1 else ''}{suffix}")).exists():
        number += 1
    return path


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all; a target that is not a regular file (a device, a pipe) is written directly."""
    path = path.resolve()  # a symbolic link stays one
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(scratch).chmod(0o666 & ~umask)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
