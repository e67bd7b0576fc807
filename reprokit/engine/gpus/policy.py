"""Which GPUs of this host may be leased: the site's setting, and the variables that share a machine out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reprokit.environment.host import Gpu, HostFacts

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
    if name.isdecimal():
        return int(name) == gpu.index
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
    while known < len(names) and names[known].isdecimal() and int(names[known]) < gpus:
        known += 1
    missing = [name for name in names[known:] if name.isdecimal()]
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
