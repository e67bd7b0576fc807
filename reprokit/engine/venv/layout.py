"""What a program of an environment finds: its folders and its variables."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprokit.core.errors import EngineError

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Of the distribution: what else someone installed in /usr/local is in no image either."""

PARTS = ("venv", "cuda", "tools")
"""Folders of an environment that its build fills, beside the work folder."""


def variables(folder: Path | None) -> dict[str, str]:
    """What an image's own variables are for containers. ``folder``: of the environment, None for the bare host.

    Nothing of reprokit's own environment is among them.
    """
    found = {"LANG": "C.UTF-8"}
    path = [SYSTEM_PATH]
    if folder is not None:
        path.insert(0, str(folder / "tools"))
        found["VIRTUAL_ENV"] = str(folder / "venv")
        if (cuda := folder / "cuda").is_dir():
            found |= {"CUDA_HOME": str(cuda), "LD_LIBRARY_PATH": f"{cuda}/lib64"}
            path.insert(0, f"{cuda}/bin")
        path.insert(0, str(folder / "venv" / "bin"))
    found["PATH"] = ":".join(path)
    return found


def gpu_variables(leased: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """What a trial with GPUs (UUIDs) gets beside the variables ``env``: which it sees, and where the driver is."""
    folders = driver_folders(os.environ) if leased else []
    libraries = os.pathsep.join([*filter(None, [env.get("LD_LIBRARY_PATH")]), *folders])
    return visible(leased, env) | ({"LD_LIBRARY_PATH": libraries} if folders else {})


def visible(leased: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES for a trial, where the case may say which of its leased GPUs (UUIDs) it sees.

    In a container the leased ones are all there are, and the case counts them from 0. A trial without any sees none.
    """
    words = env.get("CUDA_VISIBLE_DEVICES", ",".join(leased)).split(",")
    known = [leased[int(word)] if word.isdecimal() and int(word) < len(leased) else word for word in words]
    return {"CUDA_VISIBLE_DEVICES": ",".join(known) if leased else ""}


def driver_folders(environ: Mapping[str, str]) -> list[str]:
    """Where the NVIDIA driver's libraries lie, if the system's own list of libraries does not lead to them."""
    folders = environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [folder for folder in folders if Path(folder).is_absolute() and (Path(folder) / "libcuda.so.1").exists()]


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder's content with modes and links, sharing blocks where the file system can. Raises EngineError."""
    done = subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(target)], check=False, capture_output=True)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise EngineError(f"the folder {source} of an environment cannot be copied: {why}")
