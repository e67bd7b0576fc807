"""Environments: each a folder of the user's cache, made by the rendered script, complete once it is described."""

from __future__ import annotations

import collections
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprokit.core import cache, json_text
from reprokit.core.errors import Cancelled, EngineError, ImageGone
from reprokit.core.files import newest, used_bytes
from reprokit.core.ownership import label_image, locked, locked_if_free, private_folder, remove_tree
from reprokit.engine import failure
from reprokit.engine import site as sites
from reprokit.engine.failure import LONGEST_LINE, TAIL
from reprokit.engine.protocol import DOWNLOADS, ENVIRONMENT, INTERPRETER, Build, ImageInfo, Kept, Progress
from reprokit.engine.site import Served, Site
from reprokit.engine.venv import processes

DESCRIPTION = "environment.json"
PARTS = ("venv", "cuda", "tools")
"""Folders of an environment that its build fills, beside the work folder."""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Of the distribution: what else someone installed in /usr/local is in no image either."""
_STEP = b"\x1e"
"""Begins a line of a build's output that names the next step."""


def top() -> Path:
    """The folder of everything that this engine keeps: ``pythons`` that uv installed, ``pip``'s downloads, and
    ``seeds``, from which environments start: one with nothing but its pip for each Python.
    """
    return cache.folder("venv")


@dataclass(frozen=True, kw_only=True)
class KeptVenv:
    """A finished environment."""

    folder: Path
    description: Mapping[str, Any]
    """What was written down when it was made."""

    @property
    def info(self) -> ImageInfo:
        """As the engine's image. Its id changes with the host's packages, so that it is measured again."""
        number = hashlib.sha256(f"{self.description['made']} {_host_state()}".encode()).hexdigest()
        tag = self.description["tag"]
        return ImageInfo(tag=tag, id=f"sha256:{number}", size=self.description["size"], labels=label_image(tag))


def variables(folder: Path | None) -> dict[str, str]:
    """What an image's own variables are for containers. ``folder``: of the environment, None for the bare host.

    Nothing of reprokit's own environment is among them.
    """
    found = {"LANG": "C.UTF-8"}
    path = [SYSTEM_PATH]
    if folder is not None:
        path.insert(0, str(folder / "tools"))
        found["VIRTUAL_ENV"] = str(folder / "venv")
        if (cuda := folder / "cuda").is_dir():
            found |= {"CUDA_HOME": str(cuda), "LD_LIBRARY_PATH": f"{cuda}/lib64"}
            path.insert(0, f"{cuda}/bin")
        path.insert(0, str(folder / "venv" / "bin"))
    found["PATH"] = ":".join(path)
    return found


def find(reference: str) -> KeptVenv | None:
    """The environment of that tag or id, or None."""
    if not reference.startswith("sha256:"):
        return _read(_folder(reference))
    return next((kept for kept in _complete_ones() if kept.info.id == reference), None)


def get(reference: str) -> KeptVenv:
    """Like :func:`find`. Raises ImageGone when there is none."""
    kept = find(reference)
    if kept is None:
        raise ImageGone(f"the environment {reference} is gone: build it again (was {top()} emptied meanwhile?)")
    return kept


def remove(tag: str) -> None:
    """Remove the environment of that tag, if there is one."""
    kept = find(tag)
    if kept is not None:
        (kept.folder / DESCRIPTION).unlink(missing_ok=True)  # first, so that half of it never counts
        remove_tree(kept.folder)


def build(build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event) -> ImageInfo:
    """Make the environment that ``build`` describes, unless another process just did.

    Raises BuildFailed, Cancelled, EngineError.
    """
    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    with making(build.tag, cancel) as folder:
        if (kept := find(build.tag)) is not None:
            return kept.info
        _run_script(build, folder, site, on_progress, cancel)
        parts = [folder / name for name in PARTS if (folder / name).is_dir()]
        # As in an image, where another user owns them: what a trial installs would be in the next one, too.
        subprocess.run(["chmod", "-R", "a-w", "--", *parts], check=False, capture_output=True)
        return complete(folder, build.tag).info


@contextmanager
def making(tag: str, cancel: threading.Event) -> Iterator[Path]:
    """An empty folder in which to make the environment of that tag, locked against other processes.

    A virtual environment cannot be moved: it is made where it stays, and counts once :func:`complete` has described it.
    What fails before is removed. Raises Cancelled, EngineError.
    """
    folder = _folder(tag)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder.with_suffix(".lock"), cancel, "environment"))
        except OSError as error:
            raise EngineError(f"environments cannot be kept in {folder.parent}: {error.strerror}") from error
        if _read(folder) is None:
            remove_tree(folder)
            folder.mkdir()
        try:
            yield folder
        finally:
            if _read(folder) is None:
                remove_tree(folder)


def complete(folder: Path, tag: str) -> KeptVenv:
    """Describe what was made in ``folder``, which is complete from then on."""
    description = {"tag": tag, "made": uuid.uuid4().hex, "size": used_bytes(folder)}
    scratch = folder / f".{DESCRIPTION}"
    scratch.write_text(json.dumps(description))
    scratch.replace(folder / DESCRIPTION)
    return KeptVenv(folder=folder, description=description)


def sweep() -> list[str]:
    """Remove what builds that were killed left; returns what was removed, in words."""
    removed = []
    for lock in sorted((top() / "environments").glob("*.lock")):
        folder = lock.with_suffix("")
        if not folder.is_dir() or _read(folder) is not None:
            continue
        with suppress(OSError), locked_if_free(lock) as is_ours:
            if is_ours and _read(folder) is None and remove_tree(folder):
                removed.append(f"half-made environment {folder}")
    return removed


def list_kept() -> list[Kept]:
    """Environments, the interpreters that uv installed for them, and what pip downloaded."""
    pythons = [place for place in (top() / "pythons").glob("*") if place.is_dir() and not place.is_symlink()]
    found = []
    for one in _complete_ones():
        # Unlike resolve(), realpath() bears a link to itself.
        python = Path(os.path.realpath(one.folder / "venv" / "bin" / "python"))
        found.append(
            Kept(
                kind=ENVIRONMENT,
                key=one.description["tag"],
                name=one.description["tag"],
                parts={str(one.folder): one.description["size"]},
                used=(one.folder / DESCRIPTION).stat().st_mtime,
                needs=frozenset(str(place) for place in pythons if python.is_relative_to(os.path.realpath(place))),
            )
        )
    folders = [(INTERPRETER, place) for place in sorted(pythons)]
    folders += [(DOWNLOADS, place) for place in (top() / "pip", top() / "seeds") if place.is_dir()]
    for kind, place in folders:
        size = {str(place): used_bytes(place)}
        found.append(Kept(kind=kind, key=str(place), name=str(place), parts=size, used=newest(place)))
    return found


def discard(one: Kept) -> bool:
    """Remove what :func:`list_kept` listed; whether it is gone."""
    if one.kind != ENVIRONMENT:
        return remove_tree(Path(one.key))
    with locked_if_free(_folder(one.key).with_suffix(".lock")) as is_ours:  # not while another process makes it again
        if is_ours:
            remove(one.key)
    return is_ours and find(one.key) is None


def _host_state() -> str:
    """Changes whenever the host's packages do."""
    for database in ("/var/lib/dpkg/status", "/var/lib/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/rpmdb.sqlite"):
        with suppress(OSError):
            found = Path(database).stat()
            return f"{found.st_mtime_ns} {found.st_size}"
    return ""


def _complete_ones() -> Iterator[KeptVenv]:
    for path in (top() / "environments").glob(f"*/{DESCRIPTION}"):
        if (kept := _read(path.parent)) is not None:
            yield kept


def _read(folder: Path) -> KeptVenv | None:
    try:
        description = json_text.loads((folder / DESCRIPTION).read_text())
    except (OSError, ValueError):
        return None
    return KeptVenv(folder=folder, description=description)


def _folder(tag: str) -> Path:
    return top() / "environments" / tag.rpartition(":")[2]


def _run_script(
    build: Build, folder: Path, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> None:
    """Run the rendered script as the user who runs reprokit, with this site's settings."""
    with private_folder("build") as scratch:
        (scratch / "site").mkdir(mode=0o700)
        served = site.direct(scratch / "site")
        for warning in served.warnings:
            on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
        context = scratch / "context"
        _write(build, context)
        work = folder / "workspace"
        environ = _script_variables(folder, served)  # before there is a folder for CUDA
        for place in (work, *(folder / name for name in PARTS)):
            place.mkdir()
        steps = _Steps(build.dockerfile, on_progress, served.redact)
        program = processes.HostProcess(
            command=("bash", str(context / "build.sh")),
            environ={**environ, **processes.make_private_folders(scratch), "CONTEXT": str(context), "WORK": str(work)},
            folder=work,
        )
        ended = processes.run(program, steps.feed, cancel)
        if ended.code:
            message = f"did not complete successfully: exit code: {ended.code}"
            raise failure.of_build(message, step=steps.name, tail=steps.tail)
    for name in PARTS:
        with suppress(OSError):
            (folder / name).rmdir()  # what the build left empty


def _script_variables(folder: Path, served: Served) -> Mapping[str, str]:
    """What it downloads is kept, since it is all of one user's own cases."""
    settings = sites.settings()
    environ = {
        **variables(folder),
        **served.environ,
        "SEEDS": str(top() / "seeds"),
        "UV": shutil.which("uv") or "",
        "UV_PYTHON_INSTALL_DIR": str(top() / "pythons"),
        "UV_NO_CONFIG": "1",
        "UV_NO_CACHE": "1",
        "PIP_CACHE_DIR": str(top() / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "REPROKIT_PYTHON": sys.executable,
        **{name.upper(): str(folder / name) for name in PARTS},
    }
    if settings.uv_python_mirror:
        environ["UV_PYTHON_INSTALL_MIRROR"] = settings.uv_python_mirror
    if settings.uv_python_downloads:
        environ["UV_PYTHON_DOWNLOADS_JSON_URL"] = settings.uv_python_downloads
    return environ


def _write(build: Build, context: Path) -> None:
    """Write the build context as files."""
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
            if line.startswith(_STEP):
                self._number += 1
                self.name = text[1:]
                self._lines.clear()
                self._on_progress(Progress(number=self._number, total=self._total, name=self.name))
            else:
                self._lines.append(text)
                self._on_progress(Progress(number=self._number, total=self._total, name=self.name, log=text + "\n"))
