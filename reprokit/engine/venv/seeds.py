"""What new environments start from: one that has pip alone is made once for each Python, and copied.

No code of a case runs where a seed is made, and no build sees one: reprokit itself copies it. It is kept as an
environment is, under a name of its own, and made again when this host or what is in it has changed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from reprokit.core.errors import EngineError
from reprokit.engine.protocol import Build
from reprokit.engine.venv import beneath, keeping, layout
from reprokit.engine.venv.keeping import KeptVenv

SCRIPT = "reprokit/seed.sh"
DESCRIPTION = "reprokit/venv.json"
_PREFIX = "reprokit/venv-seed:"
_SUPPORT = ("reprokit/keeping_pip.py", "reprokit/relay.py")


def of(build: Build) -> Build | None:
    """The build of what ``build`` starts from; None where it has no script for that.

    Builds for the same Python and pip have the same one, apart by trust: what serves a user's own cases was fetched
    for them. Its name is as long as the build's, and so are its paths, which pip writes otherwise when they are long.
    """
    if SCRIPT not in build.context:
        return None
    script = bytes(build.context[SCRIPT]).decode()
    asked = json.loads(bytes(build.context[DESCRIPTION]))
    description = {"workdir": "/workspace", **{key: asked[key] for key in ("prefix", "uv") if key in asked}}
    number = hashlib.sha256(json.dumps([script, description, build.trust]).encode()).hexdigest()
    return Build(
        tag=_PREFIX + number[: len(build.tag.rpartition(":")[2])],
        dockerfile=script,
        context={
            DESCRIPTION: json.dumps(description).encode(),
            **{name: build.context[name] for name in _SUPPORT},
        },
        trust=build.trust,
    )


def state() -> str:
    """What of this host goes into a seed beside its Python: pip of the system's packages, and what uv writes."""
    uv = shutil.which("uv")
    return f"{keeping.host_state()} {os.path.realpath(uv) if uv else ''} {Path(uv).stat().st_mtime_ns if uv else ''}"


def files(folder: Path) -> str:
    """A digest of the names, sizes, times and links in the environment below ``folder``, not of contents.

    Raises OSError.
    """
    rows, waiting = [], [str(folder / "venv")]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for one in entries:
                found = one.stat(follow_symlinks=False)
                if one.is_dir(follow_symlinks=False):
                    waiting.append(one.path)
                    rows.append([one.path])
                elif one.is_symlink():
                    rows.append([one.path, str(Path(one.path).readlink())])
                else:
                    rows.append([one.path, str(found.st_size), str(found.st_mtime_ns)])
    return hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()


def is_sound(seed: KeptVenv) -> bool:
    """Whether a seed is as it was made, on a host that is as it was."""
    with suppress(OSError):
        return (seed.description.get("state"), seed.description.get("files")) == (state(), files(seed.folder))
    return False


def copy(seed: KeptVenv, folder: Path) -> None:
    """Make the environment below ``folder`` one like the seed's, which finds itself there. Raises EngineError.

    Times stay, so that compiled modules count. Programs and settings that name the seed's folder name the new one, and
    their digests in the records of pip follow.
    """
    venv = folder / "venv"
    layout.copy_tree(seed.folder / "venv", venv)
    names = {os.fsencode(seed.folder / "venv"): os.fsencode(venv)}
    try:
        changed = _renamed([venv / "pyvenv.cfg", *(venv / "bin").iterdir()], folder, names)
        _renamed(venv.glob("lib/python*/site-packages/*.dist-info/RECORD"), folder, changed)
        os.utime(seed.folder / keeping.DESCRIPTION)  # when it was used last
    except OSError as error:
        raise EngineError(f"the environment {folder} cannot be written: {error}") from error


def _renamed(several: Iterable[Path], folder: Path, names: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Replace ``names`` in files below ``folder``; the digests of those that changed, before and after."""
    digests = {}
    for file in sorted(several):
        if file.is_symlink() or not file.is_file():
            continue
        content = changed = file.read_bytes()
        for old, new in names.items():
            changed = changed.replace(old, new)
        if changed != content:
            digests[_digest(content)] = _digest(changed)
            mode = file.stat().st_mode & 0o777
            beneath.write(folder, str(file.relative_to(folder)), changed, mode, owner=layout.owner())
    return digests


def _digest(content: bytes) -> bytes:
    """As records of pip have it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
