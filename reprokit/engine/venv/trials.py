"""One trial: a fresh copy of the work folder, the limits that were asked for, and the program in its sandbox."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from reprokit.core.errors import Cancelled, EngineError
from reprokit.core.leftovers import private_folder
from reprokit.engine.container_spec import MODIFIED
from reprokit.engine.protocol import Slot, Trial
from reprokit.engine.usage import Meter
from reprokit.engine.venv import beneath, cgroups, keeping, layout, sandbox
from reprokit.engine.venv.bubblewrap import SandboxMount, SandboxProgram
from reprokit.environment.host import HostCapabilities
from reprokit.evidence.model import Ending
from reprokit.evidence.usage import Usage


def run(
    trial: Trial,
    kept: keeping.KeptVenv | None,
    powers: HostCapabilities,
    sink: Callable[[bytes], None],
    cancel: threading.Event,
    slot: Slot,
) -> Ending:
    """Run a trial in an environment, or on the bare host. Raises Cancelled, EngineError."""
    if cancel.is_set():
        raise Cancelled("cancelled before the trial started")
    user = trial.limits.user
    with private_folder("trial") as scratch, _limited(trial, powers) as group:
        layout.scratch_folders(scratch, user)
        work = _work(trial, kept, scratch)
        own = layout.variables(kept.folder if kept else None, user=user)
        program = SandboxProgram(
            command=trial.command,
            environ={**own, **trial.env, **layout.gpu_variables(trial.gpus, {**own, **trial.env})},
            folder=trial.workdir,
            mounts=_mounts(trial, kept, scratch, work),
            cut_off=trial.limits.network == "none",
            user=layout.user_of(user),
            joins=group.joins,
            joined=trial.limits.output == "joined",
        )
        with slot:
            if cancel.is_set():
                raise Cancelled("cancelled before the trial started")
            meter = Meter(group.folders)
            limit = math.inf if trial.terminal else trial.limits.timeout
            ended = sandbox.run(program, meter.taking(sink), cancel, timeout=limit, terminal=trial.terminal)
        meter.look(last=True)
        if trial.outputs is not None and work is not None:
            trial.outputs.from_folder(work)
        seen = meter.usage or Usage()
        usage = replace(seen, cpu_seconds=ended.cpu_seconds, peak_memory=seen.peak_memory or ended.peak_memory)
        oom = group.saw_oom()
        return Ending(exit_code=ended.code, oom=oom, timed_out=ended.timed_out, seconds=ended.seconds, usage=usage)


def _work(trial: Trial, kept: keeping.KeptVenv | None, scratch: Path) -> Path | None:
    """The trial's own work folder, with its files and places to mount on; None where it has none, as the probe."""
    if kept is None or trial.workdir == "/":
        return None
    work, owner = scratch / "work", layout.owner()
    layout.copy_tree(kept.folder / "workspace", work)
    for path, file in trial.files.items():
        content = file.text.encode("utf-8")
        beneath.write(work, path, content, file.permissions, owner=owner, modified=MODIFIED)
    for mount in trial.mounts:
        target = PurePosixPath(mount.target)
        if target.is_relative_to(trial.workdir):
            make = beneath.make_folder if mount.source.is_dir() else beneath.make_file
            make(work, str(target.relative_to(trial.workdir)), owner=owner)
    return work


def _mounts(trial: Trial, kept: keeping.KeptVenv | None, scratch: Path, work: Path | None) -> list[SandboxMount]:
    found = layout.mounts(scratch, user=trial.limits.user, shm_size=trial.limits.shm_size)
    if kept is not None:
        found += layout.environment(kept.folder, kept.description)
    if work is not None:
        found.append(SandboxMount(source=str(work), target=trial.workdir))
    found += [
        SandboxMount(source=str(mount.source), target=mount.target, kind="read-only" if mount.read_only else "bind")
        for mount in trial.mounts
    ]
    return [*found, *layout.gpu_mounts(trial.gpus)]


@contextmanager
def _limited(trial: Trial, powers: HostCapabilities) -> Iterator[cgroups.TrialGroups]:
    permitted = {"memory": not powers.memory, "cpu": not powers.cpu, "pids": not powers.pids}
    here = {name: place for name, place in cgroups.places().items() if permitted[name]}
    with ExitStack() as stack:
        try:
            group = stack.enter_context(cgroups.held(here, trial.limits))
        except OSError as error:  # not what the trial itself raises, such as a full disk under its log
            raise EngineError(f"the limits of the trial cannot be set: {error}") from error
        yield group
