"""The container engine: whether one answers, what it is, whether it builds, and what it can limit."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress

from reprokit.cli.doctor.ground import Finding, Ground, Voice, install
from reprokit.core.errors import ReprokitError
from reprokit.core.ownership import IMAGE_LABELS
from reprokit.engine import registry
from reprokit.engine.protocol import Build
from reprokit.engine.site import Site
from reprokit.engine.wire import NEWEST_API, api_of

say = Voice("engine")


def check(ground: Ground) -> Iterator[Finding]:
    """Which engine answers, its version, API, storage driver, and whether it is rootless; or why none answers."""
    chosen = ground.settings.engine
    if ground.engine is None:
        text, _, _ = ground.unreachable.partition(": ")
        if '"' in text:  # the colon is within what a program said
            text = ground.unreachable
        if not registry.capabilities(chosen).docker_api:
            yield say.info(f"{text}; the configuration chooses the engine {chosen}, which does not need one")
        else:
            yield say.fail(text, _start(ground))
        return
    name = ground.engine.name
    version, api = ground.version.version, ground.version.api
    where = ground.engine.wire.endpoint
    by = f" ({where.source})" if where.source else ""
    yield say.ok(f"{name} {version}, API {api}, at {where.url}{by}")
    if where.is_remote:
        yield say.info("it is on another machine: what needs this host's GPUs, data sets and folders is unsupported")
    numbers = tuple(int(number) for number in re.findall("[0-9]{1,9}", version)[:2])
    if numbers and numbers < ground.engine.oldest:
        words = ".".join(map(str, ground.engine.oldest))
        yield say.fail(
            f"{name} {version} is older than {words}, the oldest that reprokit supports", ground.engine.upgrade
        )
    elif (newest := ground.engine.newest) and numbers > newest:
        yield say.info(f"{name} {version} is newer than {newest[0]}, the newest that reprokit was tested with")
    elif re.fullmatch(r"\d+\.\d+", api) and api_of(api) > NEWEST_API:
        words = ".".join(map(str, NEWEST_API))
        yield say.info(f"API {api} is newer than {words}, the newest that reprokit was tested with and asks for")
    info = ground.info
    rootless = ", rootless" if info.rootless else ""
    yield say.ok(f"storage driver {info.storage_driver}, cgroup v{info.cgroup_version}{rootless}")
    if info.storage_driver == "vfs":
        yield say.warn(
            "the storage driver vfs copies every layer: builds need many times the usual space and time",
            install("fuse-overlayfs"),
        )


def _start(ground: Ground) -> str:
    """The command that starts or gives access to an engine, as far as the reason for the failure shows."""
    if "may not talk" in ground.unreachable:
        return "sudo usermod -aG docker $USER   # then log in again"
    services = [one for one in registry.entries() if one.start is not None]
    services = [one for one in services if one.kind == ground.settings.engine] or services
    for one in services:
        if one.start is not None and (command := one.start(ground.environ)):
            return command
    *others, package = (one.package for one in services)
    hosts = [f"or: reprokit run --engine {one.kind} CASE" for one in registry.entries() if one.host is not None]
    return f"{install(package)}   # {'; '.join([*(f'or {other}' for other in others), *hosts])}"


def builds(ground: Ground) -> Iterator[Finding]:
    """Whether a build works, tried with one that needs no network and no space."""
    voice = Voice("buildkit")
    if ground.engine is None:
        return
    builder = ground.engine.builder
    tag = f"reprokit/doctor:{os.getpid()}"
    build = Build(tag=tag, dockerfile="FROM scratch\nLABEL org.reprokit.doctor=1\n", context={}, labels=IMAGE_LABELS)
    try:
        ground.engine.build(build, Site(), lambda _: None, threading.Event())
    except ReprokitError as error:
        yield voice.fail(f"{builder} does not build: {error}", f"sudo systemctl restart {ground.engine.program}")
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
    missing = [name for key, name in names.items() if ground.info.limits.get(key) is False]
    if not missing:
        yield voice.ok(f"the engine enforces {', '.join(names.values())} limits")
        return
    if ground.info.rootless:
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
