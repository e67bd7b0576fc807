"""NVIDIA GPUs, their driver, how containers access them, and which CUDA versions run on them, or why not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.cli.doctor.ground import Finding, Ground, Voice
from reprokit.core.errors import Unsupported
from reprokit.engine.gpus import cdi
from reprokit.engine.gpus.discovery import leasable
from reprokit.engine.gpus.leases import Leases, default_folder
from reprokit.environment import versions
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.compatibility import ALL_THE_SAME
from reprokit.environment.host import Gpu, HostFacts
from reprokit.environment.preflighting import preflight

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


about_cuda = Voice("cuda")


def list_cuda(catalog: Catalog = OURS) -> tuple[str, ...]:
    """The CUDA versions (``11.8``) that reprokit can make environments with, oldest first."""
    packaged = [row.toolkit for row in catalog.releases().values() if row.toolkit]
    imaged = [release for name in catalog.releases() for release in catalog.cuda_images(name)]
    minors = {".".join(version.split(".")[:2]) for version in (*catalog.cuda_wheels(), *packaged, *imaged)}
    return tuple(sorted(minors, key=versions.order))


def check_cuda(ground: Ground) -> Iterator[Finding]:
    """With GPUs: the CUDA versions that run on them, and why the others do not. Without: what can still be built."""
    catalog = Catalog(ground.settings.compatibility)
    facts = leasable(ground.facts, ground.settings.gpus, ground.environ)
    if not facts.gpus:
        yield about_cuda.info(
            f"without a GPU: CUDA {join_runs(list_cuda(catalog), catalog)} can be built and used for what needs no GPU "
            "(nvcc, ptxas, linking)"
        )
        return
    refused: dict[str, list[str]] = {}
    for cuda in list_cuda(catalog):
        refused.setdefault(_why_not(cuda, facts, catalog), []).append(cuda)
    if fitting := refused.pop("", []):
        yield about_cuda.ok(f"CUDA {join_runs(fitting, catalog)} can run on this host")
        yield from _by_compatibility(fitting, facts, catalog)
    else:
        yield about_cuda.warn("no CUDA version that reprokit knows can run on this host")
    for why, those in refused.items():
        fix = "sudo apt-get install --only-upgrade nvidia-driver   # and reboot" if "driver" in why else ""
        yield about_cuda.info(f"not CUDA {join_runs(those, catalog)}: {why}", fix)


def _by_compatibility(cudas: Sequence[str], facts: HostFacts, catalog: Catalog) -> Iterator[Finding]:
    """Those that are newer than the driver: it runs their programs, but without their new features."""
    newest = facts.cuda or _cuda_of(facts.driver or "", catalog)
    if newer := [cuda for cuda in cudas if newest and versions.order(cuda) > versions.order(newest)]:
        yield about_cuda.info(
            f"CUDA {join_runs(newer, catalog)}: newer than the driver, which is for CUDA up to {newest}. Programs run, "
            "but not with features new in that version, nor with PTX made by it"
        )


def _cuda_of(driver: str, catalog: Catalog) -> str:
    """The newest CUDA version whose driver branch (``570`` of ``570.86.15``) is not newer, '' = none is known.

    Every update of a CUDA version comes with a driver of one branch.
    """
    branch = versions.order(driver)[:1]
    fitting = [
        cuda for cuda in list_cuda(catalog) if (of := catalog.toolkit_driver(cuda)) and versions.order(of)[:1] <= branch
    ]
    return max(fitting, key=versions.order, default="")


def _why_not(cuda: str, facts: HostFacts, catalog: Catalog) -> str:
    spec = CellSpec(
        cell={"cuda": cuda},
        environment=EnvironmentSpec(),
        sources={},
        files={},
        datasets={},
        env={},
        workdir="/workspace",
        command=("true",),
        limits=Limits(gpus=1),
    )
    try:
        preflight(spec, facts, catalog)
    except Unsupported as error:
        # Removes the version from the message, so that equal reasons are grouped.
        text = str(error).replace(f"CUDA {cuda} needs", "needs").replace(f"; the cell asks for {cuda}", "")
        return text.removesuffix(f" ({ALL_THE_SAME})")
    return ""


def join_runs(of: Sequence[str], catalog: Catalog = OURS) -> str:
    """Versions as ranges, such as ``11.7 to 12.4, 12.8``: consecutive among the known ones."""
    order = list_cuda(catalog)
    runs: list[list[str]] = []
    for version in of:
        if runs and version in order and order.index(version) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(
        run[0] if len(run) == 1 else f"{run[0]}{' to ' if len(run) > 2 else ', '}{run[-1]}" for run in runs
    )
