"""The GPUs of this host as NVML or nvidia-smi tells them, which of them may be leased, and which were lost."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reprokit.core.text import whole_number
from reprokit.engine.gpus import nvml
from reprokit.environment.host import QUERY, Gpu, HostFacts, parse


def facts() -> HostFacts:
    """Measure this host. A host without GPU answers at once; an NVML that hangs is given up after 10 s."""
    return replace(_nvidia(), kernel=platform.release(), architecture=platform.machine())


def _nvidia() -> HostFacts:
    if nvml.library():
        return _by_nvml()
    if program := shutil.which("nvidia-smi"):
        return _by_program(program)
    return HostFacts(note=f"neither {nvml.LIBRARY} nor nvidia-smi was found")


def _by_nvml() -> HostFacts:
    try:
        return nvml.ask()
    except OSError as error:
        return HostFacts(asked="NVML", note=f"NVML failed: {error}")


def _query(program: str, query: Sequence[str]) -> tuple[int, str]:
    return nvml.answer([program, f"--query-gpu={','.join(query)}", "--format=csv,noheader,nounits"], nvml.SECONDS)


def _by_program(program: str) -> HostFacts:
    failed = "nvidia-smi failed"
    query = QUERY
    try:
        code, said = _query(program, query)
        if code and 'Field "compute_cap" is not a valid field' in said:  # drivers before 510
            query = tuple(field for field in QUERY if field != "compute_cap")
            code, said = _query(program, query)
    except OSError as error:
        return HostFacts(asked="nvidia-smi", note=f"{failed}: {error}")
    gpus, driver = parse(said, query)
    if code:
        # With one GPU lost it still lists the others, and says so in between.
        words = [line for line in said.splitlines() if line.count(",") != len(query) - 1]
        note = f"{failed}: {words[0].strip() if words else f'exit status {code}'}"
        return HostFacts(gpus=gpus, driver=driver, asked="nvidia-smi", note=note)
    return HostFacts(gpus=gpus, driver=driver, asked="nvidia-smi", note="" if gpus else "nvidia-smi lists no GPU")


NONE = "none"
_HIDDEN = {"", "-1", NONE, "NoDevFiles"}
"""Values of CUDA_VISIBLE_DEVICES that leave no GPU; the last one is what Slurm sets for a job without one."""


def leasable(facts: HostFacts, allowed: Sequence[str], environ: Mapping[str, str]) -> HostFacts:
    """The facts of the host with only the GPUs that may be leased; ``note`` then tells what is left out, and why.

    ``allowed``: UUIDs, indices, or the place of an instance (``1:0``), empty for all, ("none",) for none.
    CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES of ``environ`` are how batch systems and container runtimes hand
    GPUs out, so they hold for us too; indices are NVML's, in the order of the PCI bus.
    """
    gpus, notes = list(facts.gpus), [facts.note] * bool(facts.note)

    def keep(left: Sequence[Gpu], why: str) -> None:
        out = [gpu.place for gpu in gpus if gpu not in left]
        if out:
            notes.append(f"GPU {', '.join(out)} not leased: {why}")
        gpus[:] = left

    keep([gpu for gpu in gpus if not gpu.mig], "in MIG mode, where its instances are leased")
    keep(
        [gpu for gpu in gpus if gpu.state.compute_mode != "prohibited"],
        "its compute mode is prohibited, so that no program can use it ('nvidia-smi -c DEFAULT' as root permits it)",
    )
    if allowed:
        keep([gpu for gpu in gpus if any(_is(gpu, name) for name in allowed)], f"gpus = {list(allowed)} in the config")
    cuda = environ.get("CUDA_VISIBLE_DEVICES")
    if cuda is not None:
        keep(_visible(gpus, cuda, facts.gpus), f"CUDA_VISIBLE_DEVICES={cuda} in the environment")
    nvidia = environ.get("NVIDIA_VISIBLE_DEVICES", "all")
    # "void" is what CDI leaves in a container that it has given devices.
    if nvidia not in ("all", "void", ""):
        keep(_visible(gpus, nvidia, facts.gpus), f"NVIDIA_VISIBLE_DEVICES={nvidia} in the environment")
    return replace(facts, gpus=tuple(gpus), note="; ".join(notes))


def _visible(gpus: Sequence[Gpu], value: str, all_gpus: Sequence[Gpu]) -> list[Gpu]:
    """As CUDA reads the list: what follows a name that is not a GPU does not count."""
    names = []
    for name in (word.strip() for word in value.split(",")):
        if name in _HIDDEN or not any(_is(gpu, name) for gpu in all_gpus):
            break
        names.append(name)
    return [gpu for gpu in gpus if any(_is(gpu, name) for name in names)]


def _is(gpu: Gpu, name: str) -> bool:
    """Whether ``name`` is the GPU's index, place or UUID, or the beginning of that, as CUDA allows."""
    if (index := whole_number(name)) is not None:
        return index == gpu.index
    return name == gpu.place or (name.startswith(("GPU-", "MIG-")) and gpu.uuid.startswith(name))


def odd_request(value: str | None, gpus: int) -> str:
    """What a case should know whose CUDA_VISIBLE_DEVICES does not fit the ``gpus`` it asks for; '' if it does.

    The program gets the value as it is written. Inside a container GPUs are counted from 0, whichever of the host's
    they are, and CUDA stops reading the list at the first one that is not there.
    """
    if value is None:
        return ""
    names = [word.strip() for word in value.split(",")]
    known = 0
    while known < len(names) and names[known] in map(str, range(gpus)):
        known += 1
    missing = [name for name in names[known:] if whole_number(name) is not None]
    uuids = [name for name in names if name.startswith(("GPU-", "MIG-"))]
    if uuids and gpus:
        return f"CUDA_VISIBLE_DEVICES={value} names a GPU of some host; which one a trial gets is not known before"
    if not missing:
        return ""
    seen = f"it sees {'only ' + ','.join(names[:known]) if known else 'none'}"
    return (
        f"CUDA_VISIBLE_DEVICES={value} names GPU {missing[0]}, resources.gpus is {gpus}: inside the container GPUs are "
        f"counted from 0, so {seen}"
    )


XIDS = (48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120)
"""Xid errors of a GPU that failed: docs.nvidia.com/deploy/xid-errors. A program's own error gives 13, 31, 43 or 45."""

_WORDS = re.compile(
    # NVML's and nvidia-smi's words for NVML_ERROR_GPU_IS_LOST.
    r"GPU is lost|GPU has fallen off the bus"
    # The kernel's.
    rf"|NVRM: Xid \(PCI:[^)]*\): (?:{'|'.join(map(str, XIDS))})\b"
    # A container that lost its devices while it ran: NVIDIA/nvidia-container-toolkit issue 48.
    r"|Failed to initialize NVML: Unknown Error"
    # cudaErrorECCUncorrectable: the memory of the GPU is broken.
    r"|uncorrectable ECC error encountered"
)
"""Text that only a GPU that is gone gives. A CUDA error that a program can cause (an illegal address, an assertion,
no memory, "unspecified launch failure") is a finding and must never be here.
"""


def missing_gpus(used: Sequence[Gpu], now: HostFacts) -> list[Gpu]:
    """Which of ``used`` the driver no longer knows."""
    there = {gpu.uuid for gpu in now.gpus}
    return [gpu for gpu in used if gpu.uuid not in there]


def lost_gpu_words(text: str) -> str:
    """The first words of a log, or of the engine, that only a lost GPU gives; '' when there are none."""
    found = _WORDS.search(text)
    return found.group() if found else ""
