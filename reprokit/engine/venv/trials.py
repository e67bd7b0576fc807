"""One trial: a fresh copy of the work folder, private folders, the limits that are held, and the program."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from reprokit.core.errors import Cancelled, Unsupported
from reprokit.core.ownership import private_folder, remove_tree
from reprokit.engine.container_spec import MODIFIED
from reprokit.engine.protocol import Slot, Trial
from reprokit.engine.venv import keeping, layout, processes
from reprokit.evidence.model import Ending
from reprokit.evidence.usage import Usage


def run(
    trial: Trial,
    kept: keeping.KeptVenv | None,
    sink: Callable[[bytes], None],
    cancel: threading.Event,
    slot: Slot,
) -> Ending:
    """Run a trial in an environment, or on the bare host. Raises Cancelled, Unsupported, EngineError."""
    with private_folder("trial") as scratch:
        work = scratch / "work"
        own = {**layout.variables(kept.folder if kept else None), **processes.scratch_folders(scratch)}
        environ = {**own, **trial.env}
        program = processes.HostProcess(
            command=trial.command,
            environ=environ | layout.gpu_variables(trial.gpus, environ),
            folder=work,
            scratch=scratch,
            memory=trial.limits.memory,
            joined=trial.limits.output == "joined",
        )
        _fill(trial, kept, work)
        renamed = PathRenamer(sink, str(work).encode(), trial.workdir.encode())
        with slot:
            if cancel.is_set():
                raise Cancelled("cancelled before the trial started")
            limit = math.inf if trial.terminal else trial.limits.timeout
            ended = processes.run(program, renamed.feed, cancel, timeout=limit, terminal=trial.terminal)
            renamed.close()
        if trial.outputs is not None:
            trial.outputs.from_folder(work)
        usage = Usage(cpu_seconds=ended.cpu_seconds, peak_memory=ended.peak_memory)
        return Ending(
            exit_code=ended.code, oom=ended.oom, timed_out=ended.timed_out, seconds=ended.seconds, usage=usage
        )


def _fill(trial: Trial, kept: keeping.KeptVenv | None, work: Path) -> None:
    """Make the trial's own work folder, with its files and what it has instead of mounts; empty for the probe."""
    work.mkdir()
    if kept is None or trial.workdir == "/":
        return
    layout.copy_tree(kept.folder / "workspace", work)
    for path, file in trial.files.items():
        target = _place(work, path)
        target.unlink(missing_ok=True)
        target.write_text(file.text, encoding="utf-8", newline="")
        target.chmod(file.permissions)
        os.utime(target, (MODIFIED, MODIFIED))
    for mount in trial.mounts:
        if not PurePosixPath(mount.target).is_relative_to(trial.workdir):
            raise Unsupported(f"{mount.target} is not below the work folder, where --engine venv can show a folder")
        target = _place(work, os.path.relpath(mount.target, trial.workdir))
        remove_tree(target)  # the place that the build made
        target.unlink(missing_ok=True)
        target.symlink_to(mount.source)


def _place(work: Path, path: str) -> Path:
    """Where a file goes. Raises Unsupported where a link leads out of the work folder: it may lead to the user's."""
    target = work / path
    if not target.parent.resolve().is_relative_to(work.resolve()):
        raise Unsupported(f"{path} of the work folder lies behind a link that a build left, which leads out of it")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


class PathRenamer:
    """Passes output on with the work folder's name as the case knows it, so that trials and engines can be compared."""

    def __init__(self, sink: Callable[[bytes], None], name: bytes, known: bytes) -> None:
        self._sink = sink
        self._name = name
        self._known = known
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Take some output; what may be the beginning of the name waits for the next."""
        data = (self._held + data).replace(self._name, self._known)
        begun = next((size for size in range(len(self._name) - 1, 0, -1) if data.endswith(self._name[:size])), 0)
        self._held = data[len(data) - begun :]
        if passed := data[: len(data) - begun]:
            self._sink(passed)

    def close(self) -> None:
        """Pass on what waits."""
        if self._held:
            self._sink(self._held)
