"""One trial: a fresh copy of the work folder, the limits that were asked for, and the program in its sandbox."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from reprokit.engine.containers import MODIFIED
from reprokit.engine.leftovers import private_folder
from reprokit.engine.protocol import Slot, Trial
from reprokit.engine.venv import cgroups, keeping, layout, sandbox
from reprokit.engine.venv.sandbox import SandboxMount, SandboxProgram
from reprokit.environment.host import HostCapabilities
from reprokit.core.errors import Cancelled, EngineError
from reprokit.evidence.model import Ending


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
    user, namespaces = trial.limits.user, not powers.namespaces
    with private_folder("trial") as scratch, _limited(trial, powers) as group:
        layout.scratch_folders(scratch, user)
        work = _work(trial, kept, scratch)
        if work is not None and not namespaces:
            _link_mounts(trial, work)
        own = layout.variables(kept.folder if kept else None, namespaces=namespaces, home=scratch / "home", user=user)
        program = SandboxProgram(
            command=trial.command,
            environ={**own, **trial.env, **layout.visible(trial.gpus, trial.env), **_unleased(trial, powers)},
            folder=trial.workdir if namespaces or work is None else str(work),
            namespaces=namespaces,
            root=scratch / "root",
            mounts=_mounts(trial, kept, scratch, work),
            cut_off=trial.limits.network == "none" and not powers.network,
            user=layout.user_of(user),
            joins=group.joins,
            joined=trial.limits.output == "joined",
        )
        with slot:
            if cancel.is_set():
                raise Cancelled("cancelled before the trial started")
            ended = sandbox.run(program, sink, cancel, timeout=trial.limits.timeout)
        return Ending(exit_code=ended.code, oom=group.saw_oom(), timed_out=ended.timed_out, seconds=ended.seconds)


def _work(trial: Trial, kept: keeping.KeptVenv | None, scratch: Path) -> Path | None:
    """The trial's own work folder; None where it has none, as the probe."""
    if kept is None or trial.workdir == "/":
        return None
    work = scratch / "work"
    layout.copy_tree(kept.folder / "workspace", work)
    number = layout.user_of(trial.limits.user)
    for path, file in trial.files.items():
        target = work / path
        missing = [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_text(file.text, encoding="utf-8")
        target.chmod(file.permissions)
        os.utime(target, (MODIFIED, MODIFIED))
        if number is not None:
            for place in (target, *missing):
                os.chown(place, number, number)
    return work


def _link_mounts(trial: Trial, work: Path) -> None:
    """Links in the work folder instead of mounts, where none can be made. Not read-only, but for the files' own modes."""
    for mount in trial.mounts:
        place = work / PurePosixPath(mount.target).relative_to(trial.workdir)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            place.rmdir()  # the empty folder that an image has where something is to be mounted
        place.symlink_to(mount.source)


def _mounts(trial: Trial, kept: keeping.KeptVenv | None, scratch: Path, work: Path | None) -> list[SandboxMount]:
    shown = [str(kept.folder), *layout.interpreters(kept.description)] if kept else []
    cuda = kept.folder / "cuda" if kept else None
    limits = trial.limits
    found = layout.mounts(scratch, user=limits.user, shm_size=limits.shm_size, shown=shown, cuda=cuda)
    if work is not None:
        found.append(SandboxMount(source=str(work), target=trial.workdir))
    found += [
        SandboxMount(source=str(mount.source), target=mount.target, kind="read-only" if mount.read_only else "bind")
        for mount in trial.mounts
    ]
    if not trial.gpus:
        found += [SandboxMount(source=os.devnull, target=str(device)) for device in sorted(Path("/dev").glob("nvidia*[0-9]"))]
    return layout.parents_first(found)


def _unleased(trial: Trial, powers: HostCapabilities) -> dict[str, str]:
    """Keeps a trial away from GPUs that it was not leased, where their devices cannot be hidden from it."""
    there = powers.namespaces and not trial.gpus and Path("/dev/nvidia0").exists()
    return {"CUDA_VISIBLE_DEVICES": ""} if there else {}


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
