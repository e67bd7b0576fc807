"""A trial as a plain shell line that repeats it by hand."""

from __future__ import annotations

import shlex
from pathlib import Path, PurePosixPath

from reprokit.engine.protocol import Trial
from reprokit.engine.venv import keeping, layout


def shell_line(trial: Trial, files: Path | None = None) -> str:
    """What to type in a shell to run this trial without reprokit: the same environment, files, variables and command.

    It runs as who types it, in a new folder instead of the workdir, and is not shut off from the host; limits that a
    shell cannot set stand in its comment. ``files``: the folder of this host that holds a copy of the trial's files.
    """
    kept = keeping.get(trial.image)
    steps = ["work=$(mktemp -d)", f"cp -a {shlex.quote(str(kept.folder / 'workspace'))}/. $work"]
    if files is not None and trial.files:
        steps.append(f"cp -a {shlex.quote(str(files))}/. $work")
    for mount in trial.mounts:
        below = str(PurePosixPath(mount.target).relative_to(trial.workdir))
        steps.append(f"ln -sfnT {shlex.quote(str(mount.source))} $work/{shlex.quote(below)}")
    own = layout.variables(kept.folder, namespaces=False, home=Path("home"))
    for name in ("HOME", "TMPDIR", "HOSTNAME"):
        own.pop(name)
    variables = {**own, **trial.env, **layout.visible(trial.gpus, trial.env)}
    values = [shlex.quote(f"{name}={value}") for name, value in variables.items()]
    words = ["env", "-i", "HOME=$work", *values, *(shlex.quote(word) for word in trial.command)]
    steps += ["cd $work", " ".join(words)]
    limits = trial.limits
    asked = {"memory": limits.memory, "cpus": limits.cpus, "shm_size": limits.shm_size, "pids": limits.pids}
    said = [f"{name}={value:g}" if name == "cpus" else f"{name}={value}" for name, value in asked.items() if value]
    return " && ".join(steps) + f"  # not set here: user={limits.user} network={limits.network} {' '.join(said)}".rstrip()
