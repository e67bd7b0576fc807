"""The container of a trial, as an engine is asked for it."""

from __future__ import annotations

import io
import posixpath
import re
import tarfile
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from reprokit.case.cellspec import FileSpec, Limits
from reprokit.case.trust import ALLOWANCES
from reprokit.engine import devices, tracing

if TYPE_CHECKING:
    from reprokit.engine.protocol import Trial

HOSTNAME = "repro"
USER_ID = 1000
"""The user ``repro`` of every image of ours."""

MODIFIED = 315532800
"""Time stamp of the files of a case, 1980-01-01: the same in every container, and one that zip files can hold."""

PIDS = 4096
"""Processes and threads of a trial unless the case says otherwise: room for any framework, none for a fork bomb."""

_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The kernel's own upper limit (fs.nr_open), and what Podman's service leaves itself; PidsLimit bounds a trial anyway.
_ULIMITS = {"nofile": 1048576, "nproc": 32768}


def command(trial: Trial) -> tuple[str, ...]:
    """The argv of a trial's container.

    With one pipe for stdout and stderr the kernel keeps the order of what is written; the engine reads two side by
    side. The ``sh`` (every image of ours has one: the probe ran in it) is replaced by the command, which has its
    process id, signals and exit status.
    """
    gate = tracing.GATE if trial.traced else ""
    if trial.limits.output == "separate":
        return ("sh", "-c", f'{gate}exec "$@"', "sh", *trial.command) if gate else trial.command
    # dash leaves out what no variable of a shell can be named.
    odd = [f"{name}={value}" for name, value in trial.env.items() if not _SHELL_NAME.fullmatch(name)]
    return ("sh", "-c", f'{gate}exec "$@" 2>&1', "sh", *(["env", *odd] if odd else []), *trial.command)


def own_names(limits: Limits) -> list[str]:
    """``NAME:ADDRESS`` of a container's own names that its engine has to be given. A network brings them itself."""
    return [f"{HOSTNAME}:127.0.0.1"] if limits.network == "none" else []  # torch's gloo, for one, asks for it


def create_body(
    trial: Trial,
    owner: Mapping[str, str],
    *,
    cdi: list[str] | None = None,
    env: Mapping[str, str] | None = None,
    runtime: str = "",
) -> dict[str, Any]:
    """The Engine API's container description (``POST /containers/create``) of a trial. Pure.

    ``cdi``: the CDI names of its GPUs, where they come that way. ``env``: variables in place of the trial's own.
    ``runtime``: the engine's, '' = its default.
    """
    limits = trial.limits
    core = -1 if trial.core_dumps else 0
    by_files = trial.capabilities and ALLOWANCES[trial.trust].file_capabilities
    host: dict[str, Any] = {
        "Init": True,
        "NetworkMode": limits.network,
        "CapDrop": ["ALL"],
        "CapAdd": [*trial.capabilities],
        # What needs a capability has it by its file: with no-new-privileges it would start without.
        "SecurityOpt": [] if by_files else ["no-new-privileges"],
        "PidsLimit": limits.pids or PIDS,
        "LogConfig": {"Type": "none"},
        "Ulimits": [{"Name": "core", "Soft": core, "Hard": core}, *map(_ulimit, limits.ulimits)],
        "Mounts": [
            {"Type": "bind", "Source": str(mount.source), "Target": mount.target, "ReadOnly": mount.read_only}
            for mount in trial.mounts
        ],
    }
    if names := own_names(limits):
        host["ExtraHosts"] = names
    if limits.cpus is not None:
        host["NanoCpus"] = round(limits.cpus * 1e9)
    if limits.memory is not None:
        # The same sum for memory and swap: otherwise Docker grants as much swap again on top.
        host["Memory"] = host["MemorySwap"] = limits.memory
    if limits.shm_size is not None:
        host["ShmSize"] = limits.shm_size
    if limits.ipc == "host":
        host["IpcMode"] = limits.ipc
    if runtime:
        host["Runtime"] = runtime
    if wanted := devices.requests(trial, cdi or []):
        host["DeviceRequests"] = wanted
    return {
        "Image": trial.image,
        "Entrypoint": [],
        "Cmd": [*command(trial)],
        "Env": [f"{name}={value}" for name, value in {**trial.env, **(env or {})}.items()],
        "WorkingDir": trial.workdir,
        "User": limits.user,
        "Hostname": HOSTNAME,
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {**owner, **trial.labels},
        "AttachStdout": True,
        "AttachStderr": True,
        **dict.fromkeys(("Tty", "OpenStdin", "StdinOnce", "AttachStdin"), trial.terminal is not None),
        "HostConfig": host,
    }


def _ulimit(text: str) -> dict[str, Any]:
    name, soft, hard = re.split("[=:]", text)
    return {"Name": name, "Soft": int(soft), "Hard": int(hard)}


def hard_limit(name: str) -> float:
    """What this process may have at most of "nofile" or "nproc"."""
    import resource

    hard = resource.getrlimit({"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}[name])[1]
    return float("inf") if hard == resource.RLIM_INFINITY else hard


def podman_limits(at_most: Callable[[str], float] = hard_limit) -> dict[str, int]:
    """Limits for Podman's containers that this host grants.

    Docker's containers inherit their daemon's; Podman asks for limits of its own, which fails where less is granted.
    """
    return {name: int(min(most, at_most(name))) for name, most in _ULIMITS.items()}


def for_podman(body: Mapping[str, Any], limits: Mapping[str, int]) -> dict[str, Any]:
    """A container description with those limits, where the case sets none of its own. Pure."""
    host = body["HostConfig"]
    named = {one["Name"] for one in host["Ulimits"]}
    ulimits = [{"Name": name, "Soft": value, "Hard": value} for name, value in limits.items() if name not in named]
    return {**body, "HostConfig": {**host, "Ulimits": [*host["Ulimits"], *ulimits]}}


def packed(files: Mapping[str, FileSpec]) -> bytes:
    """A tar archive of text files and their folders, owned by the user ``repro``; the same files, the same bytes."""
    paths = {posixpath.normpath(path): file for path, file in files.items()}
    folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents} - {"."}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted({*paths, *folders}):
            file = paths.get(path)
            data = file.text.encode() if file else b""
            entry = tarfile.TarInfo(path)
            entry.type = tarfile.REGTYPE if file else tarfile.DIRTYPE
            entry.mode = file.permissions if file else 0o755
            entry.uid = entry.gid = USER_ID
            entry.mtime = MODIFIED
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        end = archive.offset
    # Without the zeros that fill tar's last record: Podman's reader is gone after the two blocks that end an archive,
    # and a program that still writes then gets "broken pipe".
    return stream.getvalue()[: end + 2 * tarfile.BLOCKSIZE]
