"""The container engine: whether one answers, what it is, whether it builds, and what it can limit."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from reprokit.cli.doctor.finding import Finding, Voice, install
from reprokit.cli.doctor.ground import Ground
from reprokit.core.errors import ReprokitError
from reprokit.core.ownership import IMAGE_LABELS
from reprokit.engine.protocol import Build
from reprokit.engine.site import Site

OLDEST, NEWEST = (20, 10), (29, 999)
"""Versions of Docker Engine that reprokit supports."""
OLDEST_PODMAN = (4, 0)

say = Voice("engine")


def check(ground: Ground) -> Iterator[Finding]:
    """Which engine answers, its version, API, storage driver, and whether it is rootless; or why none answers."""
    chosen = ground.settings.engine
    if ground.engine is None:
        text, _, _ = ground.unreachable.partition(": ")
        if chosen == "venv":
            yield say.info(f"{text}; the configured engine venv does not need one")
        else:
            yield say.fail(text, _start(ground))
        return
    name = ground.engine.name
    version, api = str(ground.version.get("Version", "")), ground.version.get("ApiVersion", "?")
    where = ground.engine.wire.endpoint
    by = f" ({where.source})" if where.source else ""
    yield say.ok(f"{name} {version}, API {api}, at {where.url}{by}")
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    oldest = OLDEST_PODMAN if ground.engine.is_podman else OLDEST
    if numbers and numbers < oldest:
        words = ".".join(map(str, oldest))
        yield say.fail(f"{name} {version} is older than {words}, the oldest that reprokit supports", _upgrade(ground))
    elif numbers > NEWEST and not ground.engine.is_podman:
        yield say.info(f"{name} {version} is newer than {NEWEST[0]}, the newest that reprokit was tested with")
    rootless = any("rootless" in option for option in ground.info.get("SecurityOptions") or [])
    yield say.ok(
        f"storage driver {ground.info.get('Driver', '?')}, cgroup v{ground.info.get('CgroupVersion', '?')}"
        + (", rootless" if rootless else "")
    )
    if ground.info.get("Driver") == "vfs":
        yield say.warn(
            "the storage driver vfs copies every layer: builds need many times the usual space and time",
            install("fuse-overlayfs"),
        )


def _start(ground: Ground) -> str:
    """The command that starts or gives access to an engine, as far as the reason for the failure shows."""
    path = ground.environ.get("PATH")
    systemd = Path("/run/systemd/system").is_dir()
    podman = "systemctl --user start podman.socket" if os.getuid() else "systemctl start podman.socket"
    if not systemd:
        podman = "podman system service --time=0 &"
    if "may not talk" in ground.unreachable:
        return "sudo usermod -aG docker $USER   # then log in again"
    if ground.settings.engine == "podman":
        return podman if shutil.which("podman", path=path) else install("podman")
    if ground.environ.get("DOCKER_HOST"):
        return "unset DOCKER_HOST   # or name the address of an engine that runs"
    if shutil.which("dockerd", path=path):
        return "sudo systemctl start docker" if systemd else "sudo service docker start"
    if shutil.which("podman", path=path):
        return podman
    return f"{install('podman')}   # or docker.io; or: reprokit run --engine venv CASE"


def _upgrade(ground: Ground) -> str:
    if ground.engine is not None and ground.engine.is_podman:
        return "sudo apt-get install --only-upgrade podman"
    return "see https://docs.docker.com/engine/install/"


def builds(ground: Ground) -> Iterator[Finding]:
    """Whether a build works, tried with one that needs no network and no space."""
    voice = Voice("buildkit")
    if ground.engine is None:
        return
    builder = "buildah" if ground.engine.is_podman else "BuildKit"
    tag = f"reprokit/doctor:{os.getpid()}"
    build = Build(tag=tag, dockerfile="FROM scratch\nLABEL org.reprokit.doctor=1\n", context={}, labels=IMAGE_LABELS)
    try:
        ground.engine.build(build, Site(), lambda _: None, threading.Event())
    except ReprokitError as error:
        service = "podman" if ground.engine.is_podman else "docker"
        yield voice.fail(f"{builder} does not build: {error}", f"sudo systemctl restart {service}")
        return
    finally:
        with suppress(Exception):
            ground.engine.wire.client().remove_image(tag, force=True)
    yield voice.ok(f"{builder} builds")


def limits(ground: Ground) -> Iterator[Finding]:
    """Which limits of a case the engine can enforce."""
    voice = Voice("limits")
    if ground.engine is None:
        return
    names = {"MemoryLimit": "memory", "SwapLimit": "swap", "CpuCfsQuota": "CPU", "PidsLimit": "process"}
    supported = {name: ground.info.get(key) for key, name in names.items()}
    missing = [name for name, can in supported.items() if can is False]
    if not missing:
        yield voice.ok(f"the engine enforces {', '.join(names.values())} limits")
        return
    rootless = any("rootless" in option for option in ground.info.get("SecurityOptions") or [])
    if rootless:
        fix = (
            "sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu cpuset io memory "
            "pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload"
        )
    else:
        fix = "boot Linux with cgroup_enable=memory swapaccount=1 (GRUB_CMDLINE_LINUX; sudo update-grub)"
    yield voice.warn(
        f"the engine cannot enforce {' and '.join(missing)} limits: a case that needs them fails in another way here",
        fix,
    )
