"""NVIDIA GPUs, their driver, and how containers access them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

from reprokit.cli.doctor.finding import Finding, Voice
from reprokit.cli.doctor.ground import Ground
from reprokit.engine.gpus import cdi
from reprokit.engine.gpus.discovery import leasable
from reprokit.engine.gpus.leases import Leases, default_folder
from reprokit.environment.host import Gpu

_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
_CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"

say = Voice("gpu")


def check(ground: Ground) -> Iterator[Finding]:
    """Driver and GPUs; with any, the container toolkit, the CDI specifications and the engine's runtime."""
    facts = ground.facts
    if not facts.gpus and facts.driver is None and not facts.asked:
        yield say.info(f"no NVIDIA GPU: cells that ask for one are unsupported here ({facts.note})")
        return
    if facts.note:
        yield say.warn(facts.note, "nvidia-smi; sudo dmesg | grep -i -e nvrm -e xid   # what the driver says")
    if facts.driver:
        yield say.ok(f"NVIDIA driver {facts.driver}" + (f", for CUDA up to {facts.cuda}" if facts.cuda else ""))
    for gpu in facts.gpus:
        memory = f", {gpu.memory / 1024**3:.0f} GiB" if gpu.memory else ""
        text = f"GPU {gpu.place}: {gpu.name}{memory}, compute capability {gpu.compute or '?'} ({gpu.uuid})"
        if gpu.mig:
            split = any(one.parent == gpu.uuid for one in facts.gpus)
            words = "is in MIG mode: its instances are leased" if split else "is in MIG mode, and has no instance"
            fix = (
                ""
                if split
                else f"sudo nvidia-smi mig -lgip; sudo nvidia-smi -i {gpu.index} -mig 0   # make some, or none"
            )
            yield (say.info if split else say.warn)(f"{text} {words}", fix)
        elif held := _lease(ground, gpu):
            yield say.info(f"{text} {held}")
        elif gpu.processes:
            yield say.warn(f"{text} is in use by process {', '.join(map(str, gpu.processes))}", "nvidia-smi")
        else:
            yield say.ok(text)
    whole = tuple(gpu for gpu in facts.gpus if not gpu.mig)
    leased = leasable(replace(facts, note="", gpus=whole), ground.settings.gpus, ground.environ)
    if leased.note:
        yield say.info(leased.note, "" if leased.gpus else "reprokit config gpus   # and CUDA_VISIBLE_DEVICES")
    if facts.gpus and ground.engine is not None:
        yield from _reached(ground)


def _lease(ground: Ground, gpu: Gpu) -> str:
    """Who holds its lease, in words; '' when no one does."""
    leases = Leases(ground.settings.gpu_leases or default_folder(), run="", in_use=lambda *_: "")
    holder = leases.holder(gpu)
    if holder is None:
        return ""
    free = leases.lock(gpu.uuid)
    if free is None:
        return f"is leased to {holder}"
    os.close(free)
    return f"was leased to {holder}; the lease holder exited, and it is leased again once nothing computes on it"


def _reached(ground: Ground) -> Iterator[Finding]:
    """How containers of this engine access the GPUs."""
    path = ground.environ.get("PATH")
    specifications = cdi.descriptions(cdi.FOLDERS)
    toolkit = [name for name in ("nvidia-ctk", "nvidia-container-cli") if shutil.which(name, path=path)]
    runtime = "nvidia" in ground.info.runtimes
    for one in specifications:
        if stale := one.stale(ground.facts.driver or ""):
            yield say.warn(
                f"containers with GPUs do not start: {stale}", cdi.GENERATE.replace(cdi.DEFAULT, str(one.path))
            )
        else:
            yield say.ok(f"CDI describes the GPUs: {one.path}")
    if toolkit:
        yield say.ok("the NVIDIA Container Toolkit is installed")
    if runtime:
        yield say.ok("the engine has the runtime nvidia")
    assert ground.engine is not None
    if ground.engine.gpus_by_cdi_alone:
        if not specifications:
            yield say.warn(
                f"{ground.engine.name} needs CDI for GPUs, and there is no CDI specification",
                cdi.GENERATE if toolkit else f"see {_TOOLKIT}",
            )
    elif not toolkit and not specifications and ground.is_local:
        yield say.warn(
            "containers cannot access the GPUs: the NVIDIA Container Toolkit is not installed", f"see {_TOOLKIT}"
        )
    elif not runtime and not specifications:
        yield say.warn("the engine has no runtime nvidia, and there is no CDI specification", _CONFIGURE)
