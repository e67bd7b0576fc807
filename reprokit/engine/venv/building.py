"""Makes an environment: the rendered script runs shut off like a trial, but with the network and the site's settings."""

from __future__ import annotations

import collections
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from reprokit.engine import site as sites
from reprokit.engine import failure
from reprokit.engine.failure import LONGEST_LINE, TAIL
from reprokit.engine.leftovers import private_folder
from reprokit.engine.protocol import Build, ImageInfo, Progress
from reprokit.engine.venv import keeping, layout, sandbox
from reprokit.engine.venv.sandbox import SandboxMount, SandboxProgram
from reprokit.core.errors import Cancelled
from reprokit.engine.site import Served, Site

SECRETS = "/run/secrets"
"""Where builds of images have the site's secrets, as the settings that are made for them say."""

MARK = b"\x1e"
"""Begins a line of output that names the next step."""

_CA = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS")


def build(
    build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event, *, namespaces: bool
) -> ImageInfo:
    """Make the environment that ``build`` describes, unless another process just did.

    Raises BuildFailed, Cancelled, EngineError.
    """
    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    with keeping.making(build.tag, cancel) as folder:
        if (kept := keeping.find(build.tag)) is not None:
            return kept.info
        with site.serving() as served, private_folder("build") as scratch:
            for warning in served.warnings:
                on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
            steps = _Steps(build.dockerfile, on_progress, served.redact)
            description = json.loads(bytes(build.context["reprokit/venv.json"]))
            program = _program(build, folder, scratch, served, description, namespaces)
            ended = sandbox.run(program, steps.feed, cancel)
            if ended.code:
                message = f"did not complete successfully: exit code: {ended.code}"
                raise failure.of_build(message, step=steps.name, tail=(*steps.tail, *served.refused))
        _hand_over(folder)
        return keeping.complete(folder, build.tag, description).info


def _program(
    build: Build, folder: Path, scratch: Path, served: Served, description: Mapping[str, str], namespaces: bool
) -> SandboxProgram:
    layout.scratch_folders(scratch, "repro")
    context, secrets, work = scratch / "context", scratch / "secrets", folder / "workspace"
    _write(build, context)
    made = [folder, work, keeping.top() / "pip", keeping.pythons()]
    for place in made:
        place.mkdir(parents=True, exist_ok=True)
    environ = {
        **layout.variables(folder, namespaces=namespaces, home=scratch / "home"),
        **served.environ,
        **_secrets(served, secrets),
        **_uv(),
        "PIP_CACHE_DIR": str(keeping.top() / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "REPROKIT_PYTHON": sys.executable,
        "CONTEXT": str(context),
        "VENV": str(folder / "venv"),
        "CUDA": str(folder / "cuda"),
        "TOOLS": str(folder / "tools"),
        "WORK": description["workdir"] if namespaces else str(work),
    }
    shown = [*layout.interpreters(description), sys.prefix, sys.base_prefix, str(context), str(secrets)]
    if uv := shutil.which("uv"):
        environ["PATH"] += f":{Path(uv).parent}"
        shown.append(str(Path(uv).parent))
    user = layout.user_of("repro")
    if user is not None:
        for place in (*made, secrets, *secrets.glob("*")):
            os.chown(place, user, user)
    mounts = [
        *layout.mounts(scratch, user="repro", shown=shown),
        *(SandboxMount(source=str(place), target=str(place)) for place in made),
        SandboxMount(source=str(work), target=description["workdir"]),
    ]
    return SandboxProgram(
        command=("bash", str(context / "build.sh")),
        environ=environ,
        folder="/",
        namespaces=namespaces,
        root=scratch / "root",
        mounts=layout.parents_first({mount.target: mount for mount in mounts}.values()),  # type: ignore[arg-type]
        user=user,
    )


def _write(build: Build, context: Path) -> None:
    """The build context as files that every user can read."""
    for name, content in {**build.context, "build.sh": build.dockerfile.encode()}.items():
        target = context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copytree(content, target, symlinks=True)
        else:
            target.write_bytes(content)
            target.chmod(0o755 if name.startswith("executables/") else 0o644)


def _secrets(served: Served, folder: Path) -> dict[str, str]:
    """Write the site's secrets to a private folder; the variables that lead to them. Gone after the build."""
    folder.mkdir(mode=0o700)
    for name, content in served.secrets.items():
        (folder / name).write_bytes(content.replace(SECRETS.encode(), str(folder).encode()))
        (folder / name).chmod(0o400)
    found = {}
    if "pip_conf" in served.secrets:
        found["PIP_CONFIG_FILE"] = str(folder / "pip_conf")
    if "netrc" in served.secrets:
        found["NETRC"] = str(folder / "netrc")
    if "ca_bundle" in served.secrets:
        found |= dict.fromkeys(_CA, str(folder / "ca_bundle"))
    return found


def _uv() -> dict[str, str]:
    """Settings of the uv that makes virtual environments and, where asked to, installs an interpreter."""
    settings = sites.settings()
    found = {"UV_PYTHON_INSTALL_DIR": str(keeping.pythons()), "UV_NO_CONFIG": "1", "UV_NO_CACHE": "1"}
    if settings.uv_python_mirror:
        found["UV_PYTHON_INSTALL_MIRROR"] = settings.uv_python_mirror
    if settings.uv_python_downloads:
        found["UV_PYTHON_DOWNLOADS_JSON_URL"] = settings.uv_python_downloads
    return found


def _hand_over(folder: Path) -> None:
    """Give all but the work folder to our user, so that no trial can change it, wherever it can be reached."""
    if os.getuid() != 0:
        return
    os.lchown(folder, 0, 0)
    for part in ("venv", "cuda", "tools"):
        for place, folders, files in os.walk(folder / part):
            for name in (".", *folders, *files):
                os.lchown(Path(place, name), 0, 0)


class _Steps:
    """Takes a build's output apart into steps, and remembers the last lines of the current one."""

    def __init__(
        self, script: str, on_progress: Callable[[Progress], None], redact: Callable[[str], str]
    ) -> None:
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
                self._on_progress(
                    Progress(number=self._number, total=self._total, name=self.name, log=text + "\n")
                )
