"""A toy engine that follows ``docs/dev/new-engine.md``: folders for images, plain processes of this host for trials.

It keeps no limit but the time, and says so; all else behaves as the protocol has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path, PurePosixPath

from reprokit.case.trust import Trust
from reprokit.core import ownership
from reprokit.core.errors import BuildFailed, Cancelled, EngineError, ImageGone, Unsupported
from reprokit.core.files import newest, used_bytes
from reprokit.engine.entry import EngineEntry
from reprokit.engine.kinds import Capabilities
from reprokit.engine.protocol import ENVIRONMENT, Build, EngineInfo, ImageInfo, Kept, Progress, Slot, Trial
from reprokit.engine.site import Site
from reprokit.environment.host import Host
from reprokit.evidence.model import Ending

GRACE = 1.0
LABELS = b"TOY_ENGINE_LABELS="
"""The variable that holds the labels of a trial, in each of its processes."""
TOP = Path(tempfile.gettempdir(), f"toy-engine-{os.getuid()}")


def run_program(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    sink: Callable[[bytes], None],
    cancel: threading.Event,
    timeout: float | None = None,
    *,
    joined: bool = True,
) -> Ending:
    """Run a program to its end, time limit or cancellation, and end what it started."""
    started = time.monotonic()
    deadline = float("inf") if timeout is None else started + timeout
    timed_out = False
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if joined else subprocess.PIPE,
        env=environ,
        cwd=folder,
        start_new_session=True,
    )
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    reading = list(streams)
    try:
        while reading:
            if cancel.is_set():
                raise Cancelled("cancelled during the trial")
            if time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL if timed_out else signal.SIGTERM)
                timed_out, deadline = True, deadline + GRACE
            ready = select.select(reading, [], [], 0.05)[0]
            for stream in ready:
                data = os.read(stream.fileno(), 65536)
                sink(data) if data else reading.remove(stream)
            if not ready and process.poll() is not None:  # what it left running holds the pipe open
                break
        code = process.wait()
    finally:
        try:  # noqa: SIM105 - in suppress() a second interrupt would come first
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        for stream in streams:
            stream.close()
    seconds = time.monotonic() - started
    return Ending(exit_code=128 - code if code < 0 else code, timed_out=timed_out, seconds=seconds)


def run_trial(
    trial: Trial,
    workspace: Path | None,
    environ: Mapping[str, str],
    sink: Callable[[bytes], None],
    cancel: threading.Event,
) -> Ending:
    """Run a trial in a copy of ``workspace``, or in an empty folder."""
    with ownership.private_folder("toy") as scratch:
        work = scratch / "work"
        shutil.copytree(workspace, work, symlinks=True) if workspace else work.mkdir()
        for name, file in trial.files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(file.text)
            (work / name).chmod(file.permissions)
        for mount in trial.mounts:
            place = work / PurePosixPath(mount.target).relative_to(trial.workdir)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(mount.source)
        labels = {LABELS.decode().rstrip("="): json.dumps(dict(trial.labels))}
        own = {"PATH": os.defpath, "HOME": str(scratch), "LANG": "C.UTF-8", **labels}
        own |= {**environ, **trial.env}
        joined = trial.limits.output == "joined"
        ending = run_program(trial.command, own, work, sink, cancel, trial.limits.timeout, joined=joined)
        if trial.outputs is not None:
            trial.outputs.from_folder(work)
        return ending


class ToyEngine:
    """Keeps an image in a folder below ``top``: its workspace, its virtual environment and its description."""

    def __init__(self, top: Path | None = None) -> None:
        self._top = top or TOP

    def info(self) -> EngineInfo:
        lost = frozenset({"memory", "cpus", "pids", "network", "mounts", "disk", "build memory", "build pids"})
        return EngineInfo(
            kind=ENTRY.kind, capabilities=ENTRY.capabilities, name="Toy engine", version="1", unenforced=lost
        )

    def ping(self) -> None:
        pass  # there is no service that could be away

    def image(self, tag: str) -> ImageInfo | None:
        if tag.startswith("host:"):  # what a script starts from: this host
            return ImageInfo(tag=tag, id=f"sha256:{hashlib.sha256(tag.encode()).hexdigest()}")
        for description in self._top.glob("*/image.json"):
            found = ImageInfo(**json.loads(description.read_text()))
            if tag in (found.tag, found.id):
                return found
        return None

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        folder = self._folder(build.tag)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "workspace").mkdir(parents=True)
        step = ""
        lines: list[str] = []

        def feed(data: bytes) -> None:
            nonlocal step
            for text in data.decode(errors="replace").rstrip("\n").split("\n"):
                if begins := text.startswith("\x1e"):
                    step = text[1:]
                    lines.clear()
                else:
                    lines.append(text)
                on_progress(Progress(number=1, total=1, name=step, log="" if begins else text + "\n"))

        try:
            with site.serving() as served, ownership.private_folder("toy") as context:
                for name, content in {**build.context, "build.sh": build.dockerfile.encode()}.items():
                    (context / name).parent.mkdir(parents=True, exist_ok=True)
                    if isinstance(content, Path):
                        shutil.copytree(content, context / name, symlinks=True)
                    else:
                        (context / name).write_bytes(content)
                places = {name.upper(): str(folder / name) for name in ("venv", "cuda", "tools")}
                places |= {"CONTEXT": str(context), "WORK": str(folder / "workspace"), "UV": ""}
                places["SEEDS"] = str(self._top / "seeds")
                environ = {**self._environ(folder), **served.environ, **places, "REPROKIT_PYTHON": sys.executable}
                ending = run_program(("bash", str(context / "build.sh")), environ, folder, feed, cancel)
            if ending.exit_code:
                raise BuildFailed(f"exit code: {ending.exit_code}", step=step, tail=tuple(lines[-40:]))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        image = ImageInfo(tag=build.tag, id=f"sha256:{hashlib.sha256(build.tag.encode()).hexdigest()}")
        (folder / "image.json").write_text(json.dumps({"tag": image.tag, "id": image.id}))
        return image

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        return None

    def push(self, reference: str, cancel: threading.Event) -> str:
        raise Unsupported("the toy engine makes no images")

    def tag(self, image: str, name: str) -> ImageInfo:
        raise EngineError(f"an image of the toy engine has one name: {name}")

    def remove_image(self, tag: str) -> None:
        if found := self.image(tag):
            shutil.rmtree(self._folder(found.tag))

    def lease(self, image: str) -> Callable[[], None]:
        return lambda: None

    def save(self, image: str, target: Path, cancel: threading.Event) -> None:
        raise Unsupported("the toy engine makes no images that could be saved")

    def load(self, archive: Path, tag: str) -> ImageInfo:
        raise Unsupported("the toy engine loads no images")

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        raise EngineError("the toy engine starts from this host, not from an archive")

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        kept = self.image(trial.image)
        if kept is None:
            raise ImageGone(f"the image {trial.image} is gone: build it again")
        folder = self._folder(kept.tag)
        with slot or nullcontext():
            # The probe runs in no work folder.
            workspace = None if trial.workdir == "/" else folder / "workspace"
            return run_trial(trial, workspace, self._environ(folder), sink, cancel)

    def repeat(self, trial: Trial, files: Path) -> str:
        kept = self.image(trial.image)
        assert kept is not None
        workspace = self._folder(kept.tag) / "workspace"
        environ = [f"{name}={value}" for name, value in {**self._environ(workspace.parent), **trial.env}.items()]
        copies = [f"cp -a {shlex.quote(str(place))}/. $work" for place in (workspace, *([files] * bool(trial.files)))]
        return " && ".join(["work=$(mktemp -d)", *copies, "cd $work", shlex.join(["env", *environ, *trial.command])])

    def sweep(self) -> list[str]:
        removed = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError):
                variables = (process / "environ").read_bytes().split(b"\0")
                labels = next((one for one in variables if one.startswith(LABELS)), LABELS + b"{}")
                if ownership.is_orphan(json.loads(labels.removeprefix(LABELS))):
                    os.kill(int(process.name), signal.SIGKILL)
                    removed.append(f"process {process.name}")
        return removed + ownership.sweep_folders()

    def gpus_in_use(self) -> Mapping[str, str]:
        return {}

    def kept(self) -> list[Kept]:
        tags = [json.loads(place.read_text())["tag"] for place in self._top.glob("*/image.json")]
        return [
            Kept(kind=ENVIRONMENT, key=tag, name=tag, parts={tag: used_bytes(place)}, used=newest(place))
            for tag, place in ((tag, self._folder(tag)) for tag in tags)
        ]

    def discard(self, several: Sequence[Kept]) -> list[Kept]:
        for one in several:
            self.remove_image(one.key)
        return [one for one in several if self.image(one.key) is None]

    def _folder(self, tag: str) -> Path:
        return self._top / tag.rpartition(":")[2]

    @staticmethod
    def _environ(folder: Path) -> dict[str, str]:
        return {"PATH": f"{folder}/venv/bin:{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8"}


def _host() -> Host:
    from reprokit.engine.venv import host

    return host.measure_host()


ENTRY = EngineEntry(
    kind="toy",
    help="processes of this host, without limits",
    open=lambda environ: ToyEngine(),
    capabilities=Capabilities(recipe="script", images=False, locks=False, gpus=False),
    host=_host,
)
