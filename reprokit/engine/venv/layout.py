"""What a program of an environment sees: its folders, where they appear, its variables and its user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprokit.core.errors import EngineError
from reprokit.engine.venv import keeping
from reprokit.engine.venv.bubblewrap import CUDA_PLACE, NOBODY, SandboxMount, shown
from reprokit.environment.on_host import SHM

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME = "/home/repro"
PARTS = ("venv", "cuda", "tools")
"""Folders of an environment that its build fills, beside the work folder."""


def owner() -> int | None:
    """The id that programs take on where we are root; None: ours."""
    return NOBODY if os.getuid() == 0 else None


def user_of(name: str) -> int:
    """The id as which a program of the user ``name`` (repro or root) sees itself: root is so in its sandbox alone."""
    if name == "root":
        return 0
    return owner() or os.getuid()


def variables(folder: Path | None, *, user: str = "repro") -> dict[str, str]:
    """What an image's own variables are for containers. ``folder``: of the environment, None for the bare host.

    Nothing of reprokit's own environment is among them.
    """
    found = {"LANG": "C.UTF-8", "HOSTNAME": "repro", "HOME": home_of(user)}
    path = [SYSTEM_PATH]
    if folder is not None:
        path.insert(0, str(folder / "tools"))
        found["VIRTUAL_ENV"] = str(folder / "venv")
        if (folder / "cuda").is_dir():
            found |= {"CUDA_HOME": CUDA_PLACE, "LD_LIBRARY_PATH": f"{CUDA_PLACE}/lib64"}
            path.insert(0, f"{CUDA_PLACE}/bin")
        path.insert(0, str(folder / "venv" / "bin"))
    found["PATH"] = ":".join(path)
    return found


def home_of(user: str) -> str:
    """The home folder of a user."""
    return "/root" if user == "root" else HOME


def visible(leased: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES for a trial that was leased GPUs (UUIDs), where the case may say which of those it sees.

    In a container the leased ones are all there are, and the case counts them from 0.
    """
    if not leased:
        return {}
    words = env.get("CUDA_VISIBLE_DEVICES", ",".join(leased)).split(",")
    known = [leased[int(word)] if word.isdecimal() and int(word) < len(leased) else word for word in words]
    return {"CUDA_VISIBLE_DEVICES": ",".join(known)}


def driver_folders(environ: Mapping[str, str]) -> list[str]:
    """Where the NVIDIA driver's libraries lie, if the system's own list of libraries does not lead to them."""
    folders = environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [folder for folder in folders if Path(folder).is_absolute() and (Path(folder) / "libcuda.so.1").exists()]


def gpu_variables(leased: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """What a trial with GPUs gets beside the variables ``env``: which it sees, and where the driver is."""
    folders = driver_folders(os.environ) if leased else []
    libraries = os.pathsep.join([*filter(None, [env.get("LD_LIBRARY_PATH")]), *folders])
    return visible(leased, env) | ({"LD_LIBRARY_PATH": libraries} if folders else {})


def gpu_mounts(leased: Sequence[str]) -> list[SandboxMount]:
    """The driver's devices and libraries, for a trial that was leased GPUs."""
    if not leased:
        return []
    devices = sorted(str(device) for device in Path("/dev").glob("nvidia*"))
    found = [SandboxMount(source=device, target=device, kind="device") for device in devices]
    return [*found, *shown(driver_folders(os.environ))]


def scratch_folders(scratch: Path, user: str) -> None:
    """Make the private folders of a program below ``scratch``: its home, temporary folders and user database."""
    for name, mode in (("home", 0o700), ("tmp", 0o1777), ("vartmp", 0o1777)):
        (scratch / name).mkdir()
        (scratch / name).chmod(mode)
    hand_over(scratch / "home")
    number, name = user_of(user), "root" if user == "root" else "repro"
    others = "".join(f"{one}:x:{uid}:{uid}::/:/usr/sbin/nologin\n" for one, uid in (("root", 0), ("nobody", NOBODY)))
    texts = {
        "passwd": f"{name}:x:{number}:{number}::{home_of(user)}:/bin/bash\n{others}",
        "group": f"{name}:x:{number}:\nroot:x:0:\nnogroup:x:{NOBODY}:\n",
    }
    for file, text in texts.items():
        (scratch / file).write_text(text)
        (scratch / file).chmod(0o644)


def hand_over(place: Path) -> None:
    """Give a new file or folder of ours to the user that programs run as."""
    if (number := owner()) is not None:
        os.chown(place, number, number, follow_symlinks=False)


def mounts(scratch: Path, *, user: str, shm_size: int | None = None) -> list[SandboxMount]:
    """Where the private folders of a program appear."""
    read_only = [
        SandboxMount(source=str(scratch / name), target=f"/etc/{name}", kind="read-only")
        for name in ("passwd", "group")
    ]
    return [
        SandboxMount(source=str(scratch / "tmp"), target="/tmp"),
        SandboxMount(source=str(scratch / "vartmp"), target="/var/tmp"),
        SandboxMount(source=str(scratch / "home"), target=home_of(user)),
        SandboxMount(target="/dev/shm", kind="tmpfs", size=shm_size or SHM),
        *read_only,
    ]


def environment(folder: Path, description: Mapping[str, str]) -> list[SandboxMount]:
    """What trials see of an environment, for reading: what its build made, and the Python that it is linked to."""
    parts = [folder / name for name in PARTS if (folder / name).is_dir()]
    found = [SandboxMount(source=str(part), target=str(part), kind="read-only") for part in parts]
    if (folder / "cuda").is_dir():
        found.append(SandboxMount(source=str(folder / "cuda"), target=CUDA_PLACE, kind="read-only"))
    return [*found, *shown(interpreters(description))]


def interpreters(description: Mapping[str, str]) -> list[str]:
    """What of the host a virtual environment is linked to: its Python, and packages that it takes from the host."""
    return [description.get("prefix", ""), str(keeping.pythons()), *description.get("packages", "").splitlines()]


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder's content with owners, modes and links, sharing blocks where the file system can.

    Raises EngineError.
    """
    done = subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(target)], check=False, capture_output=True)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise EngineError(f"the folder {source} of an environment cannot be copied: {why}")
