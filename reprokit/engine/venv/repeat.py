"""A trial as a plain shell line that repeats it by hand."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from reprokit.engine.protocol import Trial
from reprokit.engine.venv import keeping, layout


def shell_line(trial: Trial, files: Path | None = None) -> str:
    """What to type in a shell to run this trial without reprokit: the same environment, files, variables and command.

    Limits that a shell cannot set stand in its comment. ``files``: the folder of this host that holds a copy of the
    trial's files.
    """
    kept = keeping.get(trial.image)
    steps = [
        "here=$(mktemp -d)",
        "mkdir $here/work $here/home $here/tmp",
        f"cp -a {shlex.quote(str(kept.folder / 'workspace'))}/. $here/work",
    ]
    if files is not None and trial.files:
        steps.append(f"cp -a --remove-destination {shlex.quote(str(files))}/. $here/work")
    steps.append("cd $here/work")
    for mount in trial.mounts:
        place = shlex.quote(os.path.relpath(mount.target, trial.workdir))
        steps.append(f"mkdir -p {place} && rm -r {place} && ln -s {shlex.quote(str(mount.source))} {place}")
    own = {**layout.variables(kept.folder), **trial.env}
    environ = {**own, **layout.gpu_variables(trial.gpus, own)}
    words = ["env", "-i", *(f"{name}={value}" for name, value in environ.items())]
    private = "HOME=$here/home TMPDIR=$here/tmp"
    steps.append(f"{shlex.join(words)} {private} {shlex.join(trial.command)}")
    limit = trial.limits.memory
    return " && ".join(steps) + (f"  # not set here: memory={limit}" if limit else "")
