"""A trial as the plain ``docker run`` line that repeats it by hand."""

from __future__ import annotations

import shlex
from pathlib import Path, PurePosixPath

from reprokit.engine.protocol import Trial


def docker_run_line(trial: Trial, files: Path | None = None) -> str:
    """What to type in a shell to run this trial without reprokit: the same image, limits, environment and command.

    ``files``: the folder of this host that holds a copy of the trial's files.
    """
    limits = trial.limits
    words = ["docker", "run", "--rm", "--init", f"--network={limits.network}", f"--user={limits.user}"]
    words += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--ulimit=core=0"]
    if trial.gpus:
        words.append(f'--gpus="device={",".join(trial.gpus)}"')
    if limits.cpus is not None:
        words.append(f"--cpus={limits.cpus:g}")
    if limits.memory is not None:
        # The swap limit equals the memory: a limit that swaps is no limit.
        words += [f"--memory={limits.memory}", f"--memory-swap={limits.memory}"]
    if limits.shm_size is not None:
        words.append(f"--shm-size={limits.shm_size}")
    if limits.pids is not None:
        words.append(f"--pids-limit={limits.pids}")
    for mount in trial.mounts:
        mode = ",readonly" if mount.read_only else ""
        words.append(f"--mount=type=bind,source={mount.source},target={mount.target}{mode}")
    if files is not None:
        for path in trial.files:
            target = PurePosixPath(trial.workdir, path)
            words.append(f"--mount=type=bind,source={files / path},target={target},readonly")
    for name, value in trial.env.items():
        words.append(f"--env={name}={value}")
    words += [f"--workdir={trial.workdir}", trial.image, *trial.command]
    return " ".join(shlex.quote(word) for word in words)
