"""Makes an environment: the rendered script runs shut off like a trial, but reaches this site's gateway.

It has no network of its own, whoever wrote the case: this host's network holds what listens on its loopback.
"""

from __future__ import annotations

import collections
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from reprokit.core.errors import Cancelled
from reprokit.core.leftovers import private_folder
from reprokit.engine import failure
from reprokit.engine import site as sites
from reprokit.engine.failure import LONGEST_LINE, TAIL
from reprokit.engine.named_hosts import named_hosts
from reprokit.engine.protocol import Build, ImageInfo, Progress, say_downloads
from reprokit.engine.site import Served, Site
from reprokit.engine.site.assembly import RELAYED
from reprokit.engine.site.gateway import RELAY_PORT
from reprokit.engine.venv import beneath, keeping, layout, sandbox, seeds
from reprokit.engine.venv.bubblewrap import SandboxMount, SandboxProgram, shown

SECRETS = "/run/secrets"
"""Where builds of images have the site's secrets, as the settings that are made for them say."""

UV_PLACE = "/opt/reprokit/uv"
"""Where builds find this host's uv, and nothing of the folder that it lies in."""

GATEWAY = "/run/reprokit/gateway"
"""Where builds find the folder of the gateway's socket."""

_RELAY = f'"$REPROKIT_PYTHON" "$CONTEXT/reprokit/relay.py" {GATEWAY}/gateway.sock {RELAY_PORT}'

MARK = b"\x1e"
"""Begins a line of output that names the next step."""

_CA = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS")


def build(build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event) -> ImageInfo:
    """Make the environment that ``build`` describes, unless another process just did.

    Raises BuildFailed, Cancelled, EngineError.
    """
    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    with keeping.making(build.tag, cancel) as folder:
        if (kept := keeping.find(build.tag)) is not None:
            return kept.info
        if (seed := seeds.of(build)) is not None:
            _sow(seed, folder, site, on_progress, cancel)
        description = _make(build, folder, site, on_progress, cancel)
        return keeping.complete(folder, build.tag, description).info


def _sow(
    seed: Build, folder: Path, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> None:
    """Copy the environment of a seed into ``folder``; it is made before, unless it is there and in order."""
    with keeping.making(seed.tag, cancel) as place:  # held until it is copied: nothing removes it meanwhile
        kept = keeping.find(seed.tag)
        if kept is not None and not seeds.is_sound(kept):
            keeping.remove(seed.tag)
            place.mkdir()
            kept = None
        if kept is None:
            state = seeds.state()  # as it was before: what changes meanwhile makes it again
            description = _make(seed, place, site, on_progress, cancel)
            kept = keeping.complete(place, seed.tag, {**description, "state": state, "files": seeds.files(place)})
        seeds.copy(kept, folder)


def _make(
    build: Build, folder: Path, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> Mapping[str, str]:
    """Run the programs of a build; what its context says of the environment."""
    hosts = named_hosts(build)
    with site.serving(build.trust, hosts=hosts, apart=True) as served, private_folder("build") as scratch:
        for warning in served.warnings:
            on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
        steps = _Steps(build.dockerfile, on_progress, served.redact)
        description: Mapping[str, str] = json.loads(bytes(build.context[seeds.DESCRIPTION]))
        for program in _programs(build, folder, scratch, served, description):
            ended = sandbox.run(program, steps.feed, cancel)
            if ended.code:
                message = f"did not complete successfully: exit code: {ended.code}"
                raise failure.of_build(message, step=steps.name, tail=(*steps.tail, *served.refused))
        say_downloads(served.fetched, on_progress)
    for name in layout.PARTS:
        with suppress(OSError):
            (folder / name).rmdir()  # what the build left empty
    return description


def _programs(
    build: Build, folder: Path, scratch: Path, served: Served, description: Mapping[str, str]
) -> Iterator[SandboxProgram]:
    """The programs of a build, in their order. No foreign code runs in the one that installs an interpreter.

    The script can write to the environment's own parts and to its scratch folder, and to nothing that another build
    reads: what pip downloads and builds is not kept either.
    """
    layout.scratch_folders(scratch, "repro")
    context, secrets, work = scratch / "context", scratch / "secrets", folder / "workspace"
    _write(build, context)
    variables = layout.variables(folder)  # before there is a folder for CUDA
    parts = [folder / name for name in layout.PARTS]
    for place in (work, *parts):
        place.mkdir(exist_ok=True)  # what the environment starts from is there
        layout.hand_over(place)
    environ = {
        **variables,
        **served.environ,
        **_secrets(served, secrets),
        "UV_PYTHON_INSTALL_DIR": str(keeping.pythons()),
        "UV_NO_CONFIG": "1",
        "UV_NO_CACHE": "1",
        "PIP_CACHE_DIR": f"{layout.HOME}/.cache/pip",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "REPROKIT_PYTHON": sys.executable,
        "CONTEXT": str(context),
        "VENV": str(folder / "venv"),
        "CUDA": str(folder / "cuda"),
        "TOOLS": str(folder / "tools"),
        "WORK": description["workdir"],
    }
    assert served.gateway is not None, "this host reaches its own gateway"
    seen = [sys.prefix, sys.base_prefix, sites.settings().uv_python_downloads]
    read = {str(context): str(context), str(secrets): str(secrets), str(served.gateway.parent): GATEWAY}
    common = [*layout.mounts(scratch, user="repro"), *shown(seen)]
    common += [SandboxMount(source=source, target=target, kind="read-only") for source, target in read.items()]
    if uv := shutil.which("uv"):
        environ["PATH"] += f":{Path(UV_PLACE).parent}"
        common.append(SandboxMount(source=os.path.realpath(uv), target=UV_PLACE, kind="read-only"))
    user = layout.user_of("repro")
    if version := description.get("uv"):
        keeping.pythons().mkdir(parents=True, exist_ok=True)
        layout.hand_over(keeping.pythons())
        mounts = [*common, SandboxMount(source=str(keeping.pythons()), target=str(keeping.pythons()))]
        command: tuple[str, ...] = ("bash", "-c", f'{_RELAY} && exec uv python install "$0"', version)
        yield SandboxProgram(command=command, environ=environ | _uv(), mounts=mounts, cut_off=True, user=user)
    mounts = [
        *common,
        *shown(layout.interpreters(description)),
        *(SandboxMount(source=str(place), target=str(place)) for place in parts),
        SandboxMount(source=str(work), target=description["workdir"]),
    ]
    command = ("bash", "-c", f'{_RELAY} && exec bash "$0"', str(context / "build.sh"))
    yield SandboxProgram(command=command, environ=environ, mounts=mounts, cut_off=True, user=user)


def _write(build: Build, context: Path) -> None:
    """The build context as files that every user can read."""
    context.mkdir()
    context.chmod(0o755)
    for name, content in {**build.context, "build.sh": build.dockerfile.encode()}.items():
        if isinstance(content, Path):
            target = context / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(content, target, symlinks=True)
        else:
            beneath.write(context, name, content, 0o755 if name.startswith("executables/") else 0o644)


def _secrets(served: Served, folder: Path) -> dict[str, str]:
    """Write the site's secrets to a private folder; the variables that lead to them. Gone after the build."""
    folder.mkdir(mode=0o700)
    kept = {name: served.secrets[name] for name in ("pip_conf", "ca_bundle") if name in served.secrets}
    for name, content in kept.items():
        (folder / name).write_bytes(content.replace(SECRETS.encode(), str(folder).encode()))
        (folder / name).chmod(0o400)
        layout.hand_over(folder / name)
    layout.hand_over(folder)
    found = {}
    if "pip_conf" in served.secrets:
        found["PIP_CONFIG_FILE"] = str(folder / "pip_conf")
    if "ca_bundle" in served.secrets:
        found |= dict.fromkeys(_CA, str(folder / "ca_bundle"))
    return found


def _uv() -> dict[str, str]:
    """Where uv has interpreters from: for the program that installs one, since an address may hold a login.

    That may be on this host: the gateway reaches it, the program does not.
    """
    settings = sites.settings()
    found = {"HTTP_PROXY": RELAYED, "HTTPS_PROXY": RELAYED, "NO_PROXY": "", "no_proxy": ""}
    if settings.uv_python_mirror:
        found["UV_PYTHON_INSTALL_MIRROR"] = settings.uv_python_mirror
    if settings.uv_python_downloads:
        found["UV_PYTHON_DOWNLOADS_JSON_URL"] = settings.uv_python_downloads
    return found


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
