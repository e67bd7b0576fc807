"""The arguments of bubblewrap: what of this host a program sees. Nothing, but for what is named here."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from reprokit.core.errors import EngineError
from reprokit.engine.container_spec import HOSTNAME

OLDEST = (0, 8)
"""The first version that can forbid a sandbox to make user namespaces."""

NOBODY = 65534
"""The user id of programs of ours where reprokit runs as root: nobody's, everywhere."""

STAGE = "/tmp"
"""Where what root shows a program lies for the moment in which the user ``nobody`` makes the sandbox, for it alone."""

CUDA_PLACE = "/usr/local/cuda"

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
EMPTY = ("/usr/local",)
"""Folders of the system in which the distribution has nothing, and so no image either."""

ETC = (
    "alternatives",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "host.conf",
    "java*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "lsb-release",
    "mime.types",
    "OpenCL",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls",
    "protocols",
    "python3*",
    "redhat-release",
    "rpc",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
    "vulkan",
)
NETWORK_ETC = ("gai.conf", "hosts", "nsswitch.conf", "resolv.conf")
PACKAGES = ("/var/lib/dpkg", "/var/lib/rpm")
"""Databases of the system's packages, which are measured."""

HARDWARE = ("/sys/devices/system/cpu", "/sys/devices/system/node")

_ABOVE = ("/etc/ssl/certs", "/etc/pki/tls", *PACKAGES, *HARDWARE)
_PLACES = 1 << 20  # bytes of a folder in memory that holds nothing but places to mount on
_RUN = "import sys; exec(open(int(sys.argv[2]), encoding='utf-8').read())"


@dataclass(frozen=True, kw_only=True)
class SandboxMount:
    """What a program sees at ``target``: ``source``, or a file system in memory of ``size`` bytes."""

    target: str
    source: str = ""
    kind: Literal["bind", "read-only", "device", "tmpfs"] = "bind"
    size: int = 0
    """0: for places to mount on alone, and read-only."""


@dataclass(frozen=True, kw_only=True)
class SandboxProgram:
    """What is to be run. ``user``: the id that it sees itself as. ``joins``: files of control groups.

    ``cut_off``: it has no network but a loopback of its own. ``joined``: stdout and stderr are one pipe.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: str = "/"
    mounts: Sequence[SandboxMount] = ()
    cut_off: bool = False
    user: int = NOBODY
    joins: Sequence[str] = ()
    joined: bool = True


def refusal() -> str:
    """Why this host cannot make a sandbox as far as its programs tell, with what to do; '' where it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "--engine venv needs bubblewrap (bwrap), which was not found: apt-get install bubblewrap"
    version = _version(program)
    if version < OLDEST:
        shown, oldest = (".".join(map(str, one)) for one in (version, OLDEST))
        return f"--engine venv needs bubblewrap {oldest} or newer; {program} is {shown or 'of no known version'}"
    return ""


@functools.cache
def _version(program: str) -> tuple[int, ...]:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else ()


def arguments(program: SandboxProgram, stage: str) -> tuple[list[str], list[str]]:
    """The command that runs ``inside.py`` in the sandbox of a program, and the sources that are shown at ``stage``.

    ``stage``: '' where sources are shown from their own places. Raises EngineError.
    """
    if why := refusal():
        raise EngineError(why)
    user = str(program.user)
    staged: list[str] = []
    words = [
        *(str(shutil.which("bwrap")), "--unshare-user", "--uid", user, "--gid", user, "--disable-userns"),
        *("--cap-drop", "ALL", "--as-pid-1"),
    ]
    interpreter = os.path.realpath(str(getattr(sys, "_base_executable", "") or sys.executable))
    mounts = _with_places([*shown([sys.base_prefix]), *program.mounts])
    if stage:
        staged = [mount.source for mount in mounts if mount.source]
        numbers = iter(range(len(staged)))
        mounts = [replace(one, source=f"{stage}/{next(numbers)}") if one.source else one for one in mounts]
    return [*words, *_seen(mounts, cut_off=program.cut_off), "--", interpreter, "-I", "-S", "-c", _RUN], staged


def by_hand(program: SandboxProgram) -> list[str]:
    """The command that runs a program in such a sandbox from a shell. Root becomes the user ``nobody`` in it."""
    words = ["bwrap", "--unshare-user", "--uid", str(program.user), "--gid", str(program.user), "--disable-userns"]
    become: list[str] = []
    if os.getuid() == 0:
        words = ["bwrap", "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        become = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    words += [*_seen(_with_places(program.mounts), cut_off=program.cut_off), "--", *become]
    return [
        *words,
        "env",
        "-C",
        program.folder,
        "-i",
        *(f"{name}={value}" for name, value in program.environ.items()),
        *program.command,
    ]


def _seen(mounts: Sequence[SandboxMount], *, cut_off: bool) -> list[str]:
    """Options for what a program sees, and for its bond to who starts it."""
    apart = ["ipc", "pid", "uts", "cgroup", *(["net"] if cut_off else [])]
    words = [*(f"--unshare-{name}" for name in apart), "--hostname", HOSTNAME, "--new-session", "--die-with-parent"]
    words += [word for place in _ABOVE for word in _folders(place, {})] + _system(cut_off=cut_off)
    options = {"bind": "--bind", "read-only": "--ro-bind", "device": "--dev-bind"}
    kinds = {mount.target: mount.kind for mount in mounts}
    for mount in mounts:
        words += _folders(mount.target, kinds)
        if mount.kind == "tmpfs":
            words += ["--perms", "1777", "--size", str(mount.size or _PLACES), "--tmpfs", mount.target]
        else:
            words += [options[mount.kind], mount.source, mount.target]
    for place in ("/", "/dev", *(mount.target for mount in mounts if mount.kind == "tmpfs" and not mount.size)):
        words += ["--remount-ro", place]
    return [*words, "--chdir", "/"]


def _folders(target: str, kinds: Mapping[str, str]) -> list[str]:
    """Makes the folders above a place, which bubblewrap would shut to all but their owner.

    ``kinds``: of the mounts, by their targets. What is not a folder in memory has its own folders.
    """
    words: list[str] = []
    for folder in list(Path(target).parents)[-2::-1]:
        covering = next((kinds[str(one)] for one in (folder, *folder.parents) if str(one) in kinds), "")
        if covering == "tmpfs" or not (covering or _is_below(str(folder), SYSTEM)):
            words += ["--perms", "0755", "--dir", str(folder)]
    return words


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(place) for place in places)


def _system(*, cut_off: bool) -> list[str]:
    """What every program sees, for reading."""
    words: list[str] = []
    for place in SYSTEM:
        if Path(place).is_symlink():
            words += ["--symlink", str(Path(place).readlink()), place]
        elif Path(place).is_dir():
            words += ["--ro-bind", place, place]
    names = [*ETC, *([] if cut_off else NETWORK_ETC)]
    files = [str(path) for name in names for path in sorted(Path("/etc").glob(name)) if path.exists()]
    for place in (*files, *(place for place in (*PACKAGES, *HARDWARE) if Path(place).is_dir())):
        words += ["--ro-bind", place, place]
    return [*words, "--proc", "/proc", "--dev", "/dev"]


def shown(places: Iterable[str]) -> list[SandboxMount]:
    """Those of several places of this host that programs would not see otherwise, for reading."""
    real = dict.fromkeys(os.path.realpath(place) for place in places if place)
    return [
        SandboxMount(source=place, target=place, kind="read-only")
        for place in real
        if not is_seen(place) and Path(place).exists()
    ]


def is_seen(path: str) -> bool:
    """Whether every program sees what this host has at that path."""
    return _is_below(path, SYSTEM) and not _is_below(path, EMPTY)


def _with_places(several: Sequence[SandboxMount]) -> list[SandboxMount]:
    """All mounts beyond the system itself, in order: a place in a read-only folder is made in a copy of that folder.

    The copy is a folder in memory in which all that the folder has is shown again.
    """
    found = {place: SandboxMount(target=place, kind="tmpfs") for place in EMPTY if Path(place).is_dir()}
    for mount in parents_first(several):
        above = next(folder for folder in Path(mount.target).parents if str(folder) in found or folder.exists())
        covering = next((found[str(folder)] for folder in (above, *above.parents) if str(folder) in found), None)
        solid = covering.kind == "read-only" if covering else is_seen(str(above))
        if solid and not Path(mount.target).exists():
            entries = [str(entry) for entry in above.iterdir() if entry.exists()]
            again = {one: SandboxMount(source=one, target=one, kind="read-only") for one in entries}
            found = {**again, **found, str(above): SandboxMount(target=str(above), kind="tmpfs")}
        found[mount.target] = mount
    return parents_first(found.values())


def parents_first(several: Iterable[SandboxMount]) -> list[SandboxMount]:
    """In an order in which none covers another; of several for one place, the last."""
    unique = {os.path.normpath(mount.target): mount for mount in several}
    return [unique[place] for place in sorted(unique, key=lambda place: Path(place).parts)]
