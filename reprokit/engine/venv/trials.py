"""One trial: a fresh copy of the work folder, private folders, variables, the limits that are held, and the program."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from reprokit.core.errors import Cancelled, EngineError, Unsupported
from reprokit.core.ownership import private_folder, remove_tree
from reprokit.core.text import whole_number
from reprokit.engine.container_spec import MODIFIED
from reprokit.engine.protocol import Slot, Trial
from reprokit.engine.venv import environments, processes
from reprokit.evidence.model import Ending
from reprokit.evidence.usage import Usage


def run(
    trial: Trial,
    kept: environments.KeptVenv | None,
    sink: Callable[[bytes], None],
    cancel: threading.Event,
    slot: Slot,
) -> Ending:
    """Run a trial in an environment, or on the bare host. Raises Cancelled, Unsupported, EngineError."""
    with private_folder("trial") as scratch:
        work = scratch / "work"
        own = environments.variables(kept.folder if kept else None)
        environ = {**own, **processes.make_private_folders(scratch), **trial.env}
        program = processes.HostProcess(
            command=trial.command,
            environ=environ | gpu_variables(trial.gpus, environ),
            folder=work,
            memory=trial.limits.memory,
            joined=trial.limits.output == "joined",
        )
        _fill(trial, kept, work)
        renamer = PathRenamer(sink, str(work).encode(), trial.workdir.encode())
        with slot:
            if cancel.is_set():
                raise Cancelled("cancelled before the trial started")
            ended = processes.run(program, renamer.feed, cancel, timeout=trial.limits.timeout)
            renamer.close()
        if trial.outputs is not None:
            trial.outputs.from_folder(work)
        usage = Usage(cpu_seconds=ended.cpu_seconds, peak_memory=ended.peak_memory)
        return Ending(
            exit_code=ended.code, oom=ended.oom, timed_out=ended.timed_out, seconds=ended.seconds, usage=usage
        )


def shell_line(trial: Trial, files: Path) -> str:
    """What to type in a shell to run this trial without reprokit: the same environment, files, variables and command.

    Limits that a shell cannot set stand in its comment. ``files``: the folder of this host that holds a copy of the
    trial's files.
    """
    kept = environments.get(trial.image)
    steps = [
        "here=$(mktemp -d)",
        "mkdir $here/work $here/home $here/tmp",
        f"cp -a {shlex.quote(str(kept.folder / 'workspace'))}/. $here/work",
    ]
    if trial.files:
        steps.append(f"cp -a --remove-destination {shlex.quote(str(files))}/. $here/work")
    steps.append("cd $here/work")
    for mount in trial.mounts:
        place = shlex.quote(os.path.relpath(mount.target, trial.workdir))
        steps.append(f"mkdir -p {place} && rm -r {place} && ln -s {shlex.quote(str(mount.source))} {place}")
    own = {**environments.variables(kept.folder), **trial.env}
    environ = {**own, **gpu_variables(trial.gpus, own)}
    words = ["env", "-i", *(f"{name}={value}" for name, value in environ.items())]
    private = "HOME=$here/home TMPDIR=$here/tmp"
    steps.append(f"{shlex.join(words)} {private} {shlex.join(trial.command)}")
    limit = trial.limits.memory
    return " && ".join(steps) + (f"  # not set here: memory={limit}" if limit else "")


def gpu_variables(leased: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """What a trial with GPUs (UUIDs) gets beside the variables ``env``: which it sees, and where the driver is.

    The case counts its leased GPUs from 0 in CUDA_VISIBLE_DEVICES: in a container they are all there are. A trial
    without any sees none.
    """
    if not leased:
        return {"CUDA_VISIBLE_DEVICES": ""}
    words = env.get("CUDA_VISIBLE_DEVICES", ",".join(leased)).split(",")
    known = [leased[at] if (at := whole_number(word)) is not None and at < len(leased) else word for word in words]
    found = {"CUDA_VISIBLE_DEVICES": ",".join(known)}
    # The driver's libraries, where the system's own list of libraries does not lead to them.
    folders = [one for one in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if Path(one).is_absolute()]
    if drivers := [folder for folder in folders if (Path(folder) / "libcuda.so.1").exists()]:
        found["LD_LIBRARY_PATH"] = os.pathsep.join([*filter(None, [env.get("LD_LIBRARY_PATH")]), *drivers])
    return found


def _fill(trial: Trial, kept: environments.KeptVenv | None, work: Path) -> None:
    """Make the trial's own work folder, with its files and what it has instead of mounts; empty for the probe."""
    work.mkdir()
    if kept is None or trial.workdir == "/":
        return
    source = kept.folder / "workspace"  # with modes and links, sharing blocks where the file system can
    done = subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(work)], check=False, capture_output=True)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise EngineError(f"the folder {source} of an environment cannot be copied: {why}")
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
        self._waiting = b""

    def feed(self, data: bytes) -> None:
        """Take some output; what may be the beginning of the name waits for the next."""
        data = (self._waiting + data).replace(self._name, self._known)
        begun = next((size for size in range(len(self._name) - 1, 0, -1) if data.endswith(self._name[:size])), 0)
        self._waiting = data[len(data) - begun :]
        if passed := data[: len(data) - begun]:
            self._sink(passed)

    def close(self) -> None:
        """Pass on what waits."""
        if self._waiting:
            self._sink(self._waiting)
