"""A trial as the plain ``docker run`` line that repeats it by hand."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from reprokit.engine import devices
from reprokit.engine.container_spec import HOSTNAME, command, own_names
from reprokit.engine.protocol import Trial


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
    limits = trial.limits
    words = [program, "run", "--rm", "--init", f"--network={limits.network}", f"--user={limits.user}"]
    words += [f"--hostname={HOSTNAME}", *(f"--add-host={name}" for name in own_names(limits))]
    words += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--ulimit=core=0"]
    words += [f"--runtime={runtime}"] if runtime else []
    words += [f"--device={name}" for name in cdi]
    if trial.gpus and not cdi:
        more = f',"capabilities={",".join(devices.capabilities(limits))}"' if limits.gpu_capabilities else ""
        words.append(f'--gpus="device={",".join(trial.gpus)}"{more}')
    if limits.cpus is not None:
        words.append(f"--cpus={limits.cpus:g}")
    if limits.memory is not None:
        # The swap limit equals the memory: a limit that swaps is not a limit.
        words += [f"--memory={limits.memory}", f"--memory-swap={limits.memory}"]
    if limits.shm_size is not None:
        words.append(f"--shm-size={limits.shm_size}")
    words += ["--ipc=host"] if limits.ipc == "host" else []
    words += [f"--ulimit={text}" for text in limits.ulimits]
    if limits.pids is not None:
        words.append(f"--pids-limit={limits.pids}")
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
