"""A trial as a plain shell line that repeats it by hand."""

from __future__ import annotations

import os
import shlex
from pathlib import Path, PurePosixPath

from reprokit.engine.protocol import Trial
from reprokit.engine.venv import bubblewrap, keeping, layout
from reprokit.engine.venv.bubblewrap import NOBODY, SandboxMount, SandboxProgram

_WORK = "/the-work-folder"
_SIZE = 1 << 30  # bytes of the temporary folders


def shell_line(trial: Trial, files: Path | None = None) -> str:
    """What to type in a shell to run this trial without reprokit: the same environment, files, variables and command.

    It runs in a sandbox of bubblewrap as a trial does; limits that a shell cannot set stand in its comment.
    ``files``: the folder of this host that holds a copy of the trial's files.
    """
    kept = keeping.get(trial.image)
    steps = ["work=$(mktemp -d)", f"cp -a {shlex.quote(str(kept.folder / 'workspace'))}/. $work"]
    if files is not None and trial.files:
        steps.append(f"cp -a --remove-destination {shlex.quote(str(files))}/. $work")
    below = [PurePosixPath(mount.target).relative_to(trial.workdir) for mount in trial.mounts if mount.source.is_dir()]
    steps += [f"mkdir -p $work/{shlex.quote(str(place))}" for place in below]
    if os.getuid() == 0:
        steps.append(f"chown -Rh {NOBODY}:{NOBODY} $work")
    memory = ("/tmp", "/var/tmp", layout.HOME, "/dev/shm")
    variables = {**layout.variables(kept.folder), **trial.env}
    program = SandboxProgram(
        command=trial.command,
        environ={**variables, **layout.gpu_variables(trial.gpus, variables)},
        folder=trial.workdir,
        mounts=[
            *(SandboxMount(target=place, kind="tmpfs", size=_SIZE) for place in memory),
            *layout.environment(kept.folder, kept.description),
            SandboxMount(source=_WORK, target=trial.workdir),
            *(SandboxMount(source=str(one.source), target=one.target, kind="read-only") for one in trial.mounts),
            *layout.gpu_mounts(trial.gpus),
        ],
        cut_off=trial.limits.network == "none",
        user=layout.user_of("repro"),
    )
    words = [shlex.quote(word) for word in bubblewrap.by_hand(program)]
    steps.append(" ".join("$work" if word == _WORK else word for word in words))
    limits = trial.limits
    asked = {"memory": limits.memory, "cpus": limits.cpus, "shm_size": limits.shm_size, "pids": limits.pids}
    said = [f"{name}={value:g}" if name == "cpus" else f"{name}={value}" for name, value in asked.items() if value]
    said += ["user=root"] if limits.user == "root" else []
    return " && ".join(steps) + (f"  # not set here: {' '.join(said)}" if said else "")
