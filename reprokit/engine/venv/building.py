"""Makes an environment: the rendered script runs as the user who runs reprokit, with this site's settings."""

from __future__ import annotations

import collections
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from reprokit.core.errors import Cancelled
from reprokit.core.ownership import private_folder
from reprokit.engine import failure
from reprokit.engine import site as sites
from reprokit.engine.failure import LONGEST_LINE, TAIL
from reprokit.engine.protocol import Build, ImageInfo, Progress
from reprokit.engine.site import Served, Site
from reprokit.engine.venv import keeping, layout, processes

MARK = b"\x1e"
"""Begins a line of output that names the next step."""


def build(build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event) -> ImageInfo:
    """Make the environment that ``build`` describes, unless another process just did.

    Raises BuildFailed, Cancelled, EngineError.
    """
    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    with keeping.making(build.tag, cancel) as folder:
        if (kept := keeping.find(build.tag)) is not None:
            return kept.info
        _make(build, folder, site, on_progress, cancel)
        parts = [folder / name for name in layout.PARTS if (folder / name).is_dir()]
        # As in an image, where another user owns them: what a trial installs would be in the next one, too.
        subprocess.run(["chmod", "-R", "a-w", "--", *parts], check=False, capture_output=True)
        return keeping.complete(folder, build.tag).info


def _make(
    build: Build, folder: Path, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> None:
    with private_folder("build") as scratch:
        (scratch / "site").mkdir(mode=0o700)
        served = site.direct(scratch / "site")
        for warning in served.warnings:
            on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
        context = scratch / "context"
        _write(build, context)
        work = folder / "workspace"
        environ = _environ(folder, served)  # before there is a folder for CUDA
        for place in (work, *(folder / name for name in layout.PARTS)):
            place.mkdir()
        steps = _Steps(build.dockerfile, on_progress, served.redact)
        program = processes.HostProcess(
            command=("bash", str(context / "build.sh")),
            environ={**environ, **processes.scratch_folders(scratch), "CONTEXT": str(context), "WORK": str(work)},
            folder=work,
            scratch=scratch,
        )
        ended = processes.run(program, steps.feed, cancel)
        if ended.code:
            message = f"did not complete successfully: exit code: {ended.code}"
            raise failure.of_build(message, step=steps.name, tail=steps.tail)
    for name in layout.PARTS:
        with suppress(OSError):
            (folder / name).rmdir()  # what the build left empty


def _environ(folder: Path, served: Served) -> Mapping[str, str]:
    """The variables of the script. What it downloads is kept, since it is all of one user's own cases."""
    settings = sites.settings()
    environ = {
        **layout.variables(folder),
        **served.environ,
        "SEEDS": str(keeping.seeds()),
        "UV": shutil.which("uv") or "",
        "UV_PYTHON_INSTALL_DIR": str(keeping.pythons()),
        "UV_NO_CONFIG": "1",
        "UV_NO_CACHE": "1",
        "PIP_CACHE_DIR": str(keeping.downloads()),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "REPROKIT_PYTHON": sys.executable,
        **{name.upper(): str(folder / name) for name in layout.PARTS},
    }
    if settings.uv_python_mirror:
        environ["UV_PYTHON_INSTALL_MIRROR"] = settings.uv_python_mirror
    if settings.uv_python_downloads:
        environ["UV_PYTHON_DOWNLOADS_JSON_URL"] = settings.uv_python_downloads
    return environ


def _write(build: Build, context: Path) -> None:
    """The build context as files."""
    for name, content in {**build.context, "build.sh": build.dockerfile.encode()}.items():
        target = context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copytree(content, target, symlinks=True)
        else:
            target.write_bytes(content)
            target.chmod(0o755 if name.startswith("executables/") else 0o644)


class _Steps:
    """Takes a build's output apart into steps, and remembers the last lines of the current one."""

    def __init__(self, script: str, on_progress: Callable[[Progress], None], redact: Callable[[str], str]) -> None:
        self._total = sum(line.startswith("step ") for line in script.splitlines())
        self._number = 0
        self._on_progress = on_progress
        self._redact = redact
        self._lines: collections.deque[str] = collections.deque(maxlen=TAIL)
        self._rest = b""
        self.name = ""

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of the current step."""
        return (*self._lines, *([self._redact(self._rest.decode(errors="replace"))] if self._rest else []))

    def feed(self, data: bytes) -> None:
        """Take some output, as it comes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            text = self._redact(line.decode(errors="replace"))
            if line.startswith(MARK):
                self._number += 1
                self.name = text[1:]
                self._lines.clear()
                self._on_progress(Progress(number=self._number, total=self._total, name=self.name))
            else:
                self._lines.append(text)
                self._on_progress(Progress(number=self._number, total=self._total, name=self.name, log=text + "\n"))
