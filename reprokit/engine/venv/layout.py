"""What a program of an environment sees: its folders, where they appear, its variables and its user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprokit.engine.venv import keeping
from reprokit.engine.venv.sandbox import CUDA_PLACE, NOBODY, SandboxMount, is_hidden, placed
from reprokit.environment.on_host import SHM
from reprokit.core.errors import EngineError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME = "/home/repro"


def user_of(name: str) -> int | None:
    """The id that a program for the user ``name`` (repro or root) takes on; None: ours."""
    return NOBODY if os.getuid() == 0 and name != "root" else None


def variables(folder: Path | None, *, namespaces: bool, home: Path, user: str = "repro") -> dict[str, str]:
    """What an image's own variables are for containers. ``folder``: of the environment, None for the bare host.

    Nothing of reprokit's own environment is among them. ``home``: the private folder that is the user's home.
    """
    found = {"LANG": "C.UTF-8", "HOSTNAME": "repro"}
    path = [SYSTEM_PATH]
    if folder is not None:
        path.insert(0, str(folder / "tools"))
        found["VIRTUAL_ENV"] = str(folder / "venv")
        if (folder / "cuda").is_dir():
            cuda = CUDA_PLACE if namespaces else str(folder / "cuda")
            found |= {"CUDA_HOME": cuda, "LD_LIBRARY_PATH": f"{cuda}/lib64"}
            path.insert(0, f"{cuda}/bin")
        path.insert(0, str(folder / "venv" / "bin"))
    found["PATH"] = ":".join(path)
    if namespaces:
        found["HOME"] = "/root" if user == "root" else HOME
    else:
        found |= {"HOME": str(home), "TMPDIR": str(home.parent / "tmp")}
    return found


def visible(leased: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES for a trial that was leased GPUs (UUIDs), where the case may say which of those it sees.

    In a container the leased ones are all there are, and the case counts them from 0.
    """
    if not leased:
        return {}
    words = env.get("CUDA_VISIBLE_DEVICES", ",".join(leased)).split(",")
    known = [leased[int(word)] if word.isdecimal() and int(word) < len(leased) else word for word in words]
    return {"CUDA_VISIBLE_DEVICES": ",".join(known)}


def scratch_folders(scratch: Path, user: str) -> None:
    """Make the private folders of a program below ``scratch``: its root, home, temporary folders and user database."""
    scratch.chmod(0o711)  # another user than ours may have to pass
    for name, mode in (("root", 0o755), ("home", 0o700), ("tmp", 0o1777), ("vartmp", 0o1777)):
        (scratch / name).mkdir()
        (scratch / name).chmod(mode)
    number = user_of(user)
    if number is not None:
        os.chown(scratch / "home", number, number)
    uid, gid = (os.getuid(), os.getgid()) if number is None else (number, number)
    if user != "root":
        _with_line("/etc/passwd", f"repro:x:{uid}:{gid}::{HOME}:/bin/bash", scratch / "passwd")
        _with_line("/etc/group", f"repro:x:{gid}:", scratch / "group")


def _with_line(database: str, line: str, copy: Path) -> None:
    """A copy of a user database that begins with ``line``: the first that fits an id names it."""
    text = Path(database).read_text(errors="replace") if Path(database).exists() else ""
    copy.write_text(f"{line}\n{text}")
    copy.chmod(0o644)


def mounts(
    scratch: Path, *, user: str, shm_size: int | None = None, shown: Sequence[str] = (), cuda: Path | None = None
) -> list[SandboxMount]:
    """Where the private folders appear, with ``shown`` folders of the host that would be hidden otherwise."""
    found = [
        SandboxMount(source=str(scratch / "tmp"), target="/tmp"),
        SandboxMount(source=str(scratch / "vartmp"), target="/var/tmp"),
        SandboxMount(source=str(scratch / "home"), target="/root" if user == "root" else HOME),
        SandboxMount(target="/dev/shm", kind="tmpfs", size=shm_size or SHM),
    ]
    for name in ("passwd", "group"):
        if (scratch / name).exists():
            found.append(SandboxMount(source=str(scratch / name), target=f"/etc/{name}", kind="read-only"))
    for place in dict.fromkeys(os.path.realpath(path) for path in shown if path):
        if is_hidden(place) and Path(place).exists():
            found.append(SandboxMount(source=place, target=place, kind="read-only"))
    if cuda is not None and cuda.is_dir():
        found.append(SandboxMount(source=str(cuda), target=CUDA_PLACE, kind="read-only"))
    return found


def interpreters(description: Mapping[str, str]) -> list[str]:
    """What of the host a virtual environment's Python is linked to."""
    return [description.get("prefix", ""), str(keeping.pythons())]


def parents_first(several: Sequence[SandboxMount]) -> list[SandboxMount]:
    """In an order in which none covers another."""
    return sorted(several, key=lambda mount: Path(placed(mount.target)).parts)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder's content with owners, modes and links, sharing blocks where the file system can.

    Raises EngineError.
    """
    done = subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(target)], check=False, capture_output=True)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise EngineError(f"the work folder of the environment cannot be copied: {why}")
