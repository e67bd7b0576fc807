"""The container of a trial, as Docker and Podman are asked for it, and the line that repeats it by hand. Pure."""

from __future__ import annotations

import csv
import io
import posixpath
import re
import shlex
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from reprokit.case import limits
from reprokit.case.cellspec import FileSpec, Limits
from reprokit.case.trust import ALLOWANCES
from reprokit.core.errors import EngineError, EngineLost, Unsupported
from reprokit.engine import tracing
from reprokit.engine.gpus import cdi
from reprokit.engine.protocol import Trial
from reprokit.engine.site.config import load
from reprokit.engine.wire import EngineDetails

USER_ID = 1000
"""The user ``repro`` of every image of ours."""

MODIFIED = 315532800
"""Time stamp of the files of a case, 1980-01-01: the same in every container, and one that zip files can hold."""

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
    core = -1 if trial.core_dumps else 0
    # Podman gives what is added here to a program of any user, and Docker to those of root.
    capabilities = trial.capabilities if ALLOWANCES[trial.trust].file_capabilities else ()
    host: dict[str, Any] = {
        "Init": True,
        "CapDrop": ["ALL"],
        "CapAdd": [*capabilities],
        # What needs a capability has it by its file: with no-new-privileges it would start without.
        "SecurityOpt": [] if capabilities else ["no-new-privileges"],
        "LogConfig": {"Type": "none"},
        "Ulimits": [{"Name": "core", "Soft": core, "Hard": core}],
        "Mounts": [
            {"Type": "bind", "Source": str(mount.source), "Target": mount.target, "ReadOnly": mount.read_only}
            for mount in trial.mounts
        ],
    }
    if runtime:
        host["Runtime"] = runtime
    if wanted := device_requests(trial, cdi or []):
        host["DeviceRequests"] = wanted
    body = {
        "Image": trial.image,
        "Entrypoint": [],
        "Cmd": [*command(trial)],
        "Env": [f"{name}={value}" for name, value in {**trial.env, **(env or {})}.items()],
        "WorkingDir": trial.workdir,
        "Hostname": limits.HOSTNAME,
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {**owner, **trial.labels},
        "AttachStdout": True,
        "AttachStderr": True,
        **dict.fromkeys(("Tty", "OpenStdin", "StdinOnce", "AttachStdin"), trial.terminal is not None),
        "HostConfig": host,
    }
    return limits.merge([body, limits.docker_body(trial.limits)])


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


VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def name_cdi_devices(
    trial: Trial, about: EngineDetails, *, podman: bool, local: bool, folders: Iterable[Path] = cdi.FOLDERS
) -> list[str]:
    """The CDI names of a trial's GPUs, [] where the engine's own way of giving them is to be used.

    ``local``: whether the engine is on this host. Raises Unsupported where there is no way.
    """
    if not trial.gpus:
        return []
    if podman:
        names = cdi.described(folders) if local else frozenset(trial.gpus)
        if not names:
            raise Unsupported(f"Podman gives GPUs to containers by CDI, and nothing describes them: {cdi.INSTALL}")
        return cdi.devices(trial.gpus, trial.gpu_indices, names)
    names = frozenset(name.removeprefix(f"{cdi.KIND}=") for name in about.devices if name.startswith(f"{cdi.KIND}="))
    if not names and local:
        names = cdi.described(about.cdi_folders)
    return cdi.devices(trial.gpus, trial.gpu_indices, names) if names else []


def driver_capabilities(limits: Limits) -> tuple[str, ...]:
    """What a trial gets of the driver by NVIDIA's runtime. By CDI it gets all that is described."""
    return tuple(dict.fromkeys(("compute", "utility", *limits.gpu_capabilities)))


def device_requests(trial: Trial, names: list[str]) -> list[dict[str, Any]]:
    """The ``HostConfig.DeviceRequests`` of a trial (Engine API); ``names``: its :func:`cdi_names`."""
    if names:
        return [{"Driver": "cdi", "DeviceIDs": names}]
    if not trial.gpus and not trial.limits.gpus:
        return []
    wanted = ["gpu", *driver_capabilities(trial.limits)]
    request: dict[str, Any] = {"Driver": "", "Capabilities": [wanted], "Options": {}}
    return [request | ({"DeviceIDs": list(trial.gpus)} if trial.gpus else {"Count": trial.limits.gpus})]


def hide_other_gpus(trial: Trial, names: list[str], about: EngineDetails) -> dict[str, str]:
    """Environment that keeps NVIDIA's runtime from giving more GPUs than were leased.

    CUDA images say ``NVIDIA_VISIBLE_DEVICES=all``, which that runtime obeys where it is the engine's default, unless
    the GPUs come in its own way. So may a case, and Podman's hook obeys it with any runtime: what a case asks for is
    ``resources.gpus``, so that its own value counts only where it gives none.
    """
    if trial.gpus and not names:
        return {}
    own = trial.env.get(VISIBLE)
    if own is None:
        return {VISIBLE: "void"} if about.default_runtime == "nvidia" else {}
    return {} if own in ("", "none", "void") else {VISIBLE: "void"}


WITH_GPUS = ("runc", "crun", "nvidia")
"""Runtimes that give a container the host's GPUs as Docker's default does."""


def configured_runtime() -> str:
    """The runtime that the configuration names; '' = the engine's default. Raises UsageError for a wrong file."""
    return load().runtime


def refuse_runtime(engine: str) -> None:
    """Raises Unsupported where the configuration names a runtime: ``engine`` cannot choose one."""
    if runtime := configured_runtime():
        raise Unsupported(
            f"runtime = {runtime!r} is configured for trials, which {engine} does not choose: use --engine docker, "
            "or take runtime out of reprokit.toml (reprokit config runtime says where it is set)"
        )


def check_runtime_gpus(runtime: str, gpus: tuple[str, ...]) -> None:
    """Raises Unsupported for a trial with GPUs in a runtime that may not have them."""
    if gpus and runtime and runtime not in WITH_GPUS:
        raise Unsupported(f"the runtime {runtime}, which reprokit.toml names for trials, gives them no GPU")


@contextmanager
def starting_in_runtime(runtime: str) -> Iterator[None]:
    """Raises Unsupported for what the engine refuses in the block: with a ``runtime``, it does because of that."""
    try:
        yield
    except EngineLost:
        raise
    except EngineError as error:
        if not runtime:
            raise
        raise Unsupported(
            f"the engine does not start a trial in the runtime {runtime}, which reprokit.toml names: {error}; "
            "docker info lists the engine's runtimes"
        ) from error


def libpod_spec(name: str, body: Mapping[str, Any], asked: Limits) -> dict[str, Any]:
    """What ``POST /libpod/containers/create`` takes, from the description of a container for Docker's API. Pure.

    That API of Podman's forgets requests for devices without a word (podman issue 22645; from 5.4 on it takes CDI). The
    fields are those of ``SpecGenerator`` in Podman's API reference, as of 4.0.
    """
    host = body["HostConfig"]
    own = {text.partition("=")[0] for text in asked.ulimits}
    spec = {
        "name": name,
        "image": body["Image"],
        "entrypoint": body["Entrypoint"],
        "command": body["Cmd"],
        "env": dict(entry.split("=", 1) for entry in body["Env"]),
        "work_dir": body["WorkingDir"],
        "hostname": body["Hostname"],
        "labels": dict(body["Labels"]),
        "healthconfig": {"Test": body["Healthcheck"]["Test"]},
        "init": host["Init"],
        "terminal": body["Tty"],
        "stdin": body["OpenStdin"],
        "cap_drop": host["CapDrop"],
        "cap_add": host["CapAdd"],
        "no_new_privileges": "no-new-privileges" in host["SecurityOpt"],
        "log_configuration": {"driver": host["LogConfig"]["Type"]},
        "r_limits": [limits.libpod_ulimit(one) for one in host["Ulimits"] if one["Name"] not in own],
        "mounts": [
            {
                "type": mount["Type"],
                "source": mount["Source"],
                "destination": mount["Target"],
                "options": ["rbind", "ro" if mount["ReadOnly"] else "rw"],
            }
            for mount in host["Mounts"]
        ],
        "devices": [{"path": device} for request in host["DeviceRequests"] for device in request["DeviceIDs"]],
    }
    return limits.merge([spec, limits.libpod_spec(asked)])


def docker_run_line(
    trial: Trial, files: Path | None = None, program: str = "docker", cdi: Sequence[str] = (), runtime: str = ""
) -> str:
    """What to type in a shell to run this trial without reprokit: :func:`docker_run_words` in one line."""
    return shlex.join(docker_run_words(trial, files, program, cdi, runtime))


def docker_run_words(
    trial: Trial, files: Path | None = None, program: str = "docker", cdi: Sequence[str] = (), runtime: str = ""
) -> list[str]:
    """The words of a command that runs this trial without reprokit: the same image, limits, environment and command.

    ``files``: the folder of this host that holds a copy of the trial's files. ``program``: docker or podman, which
    take the same words. ``cdi``: the names of its GPUs, where they come that way.
    ``runtime``: of the engine's, '' = its default.
    """
    words = [program, "run", "--rm", "--init", *limits.option_words(trial.limits), f"--hostname={limits.HOSTNAME}"]
    words += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--ulimit=core=0"]
    words += [f"--runtime={runtime}"] if runtime else []
    words += [f"--device={name}" for name in cdi]
    if trial.gpus and not cdi:
        asked = driver_capabilities(trial.limits)
        more = f',"capabilities={",".join(asked)}"' if trial.limits.gpu_capabilities else ""
        words.append(f'--gpus="device={",".join(trial.gpus)}"{more}')
    for mount in trial.mounts:
        words.append(_bind(mount.source, mount.target, read_only=mount.read_only))
    if files is not None:
        for path in trial.files:
            words.append(_bind(files / path, str(PurePosixPath(trial.workdir, path)), read_only=True))
    for name, value in trial.env.items():
        words.append(f"--env={name}={value}")
    words += [f"--workdir={trial.workdir}", trial.image, *command(trial)]
    return words


def _bind(source: Path, target: str, *, read_only: bool) -> str:
    """The option that mounts ``source``. The client reads its value as a line of CSV: a path may hold what CSV uses."""
    line = io.StringIO()
    fields = ["type=bind", f"source={source}", f"target={target}", *["readonly"] * read_only]
    csv.writer(line, lineterminator="").writerow(fields)
    return f"--mount={line.getvalue()}"
