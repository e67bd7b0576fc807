"""Whether this host can serve a cell at all, decided before anything is built. Pure."""

from __future__ import annotations

from reprokit.case import units
from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import Unsupported
from reprokit.environment import versions
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.host import Gpu, HostFacts

GIB = 1024**3


def preflight(spec: CellSpec, facts: HostFacts, catalog: Catalog = OURS) -> None:
    """Raise Unsupported, saying why, when the host lacks what a cell asks for.

    Checked for cells that ask for GPUs: that there are enough, with enough memory, a driver new enough for the CUDA
    version of the cell, and an architecture that this CUDA version knows. A cell without GPUs runs anywhere.
    """
    wanted = spec.limits.gpus
    if wanted <= 0:
        return
    why = f" ({facts.note})" if facts.note else ""
    if not facts.gpus:
        found = "this host leases no GPU" if facts.driver else "this host has no NVIDIA GPU"
        raise Unsupported(f"{found}{why}; the case asks for {wanted}")
    if len(facts.gpus) < wanted:
        raise Unsupported(f"this host has {_count(len(facts.gpus))}{why}; the case asks for {wanted}")
    _model(spec, facts, wanted)
    _memory(spec, facts, wanted)
    cuda = spec.cell.get("cuda")
    if cuda is not None and cuda != versions.NONE:
        _driver(cuda, facts, catalog)
        _architecture(cuda, facts, wanted, catalog)
    if len(fit := able(spec, facts, catalog)) < wanted:
        raise Unsupported(
            f"the case asks for {_count(wanted)}; this host has {_count(len(fit))} with enough memory whose "
            f"architecture CUDA {cuda} knows"
        )


def able(spec: CellSpec, facts: HostFacts, catalog: Catalog = OURS) -> tuple[Gpu, ...]:
    """The GPUs of the host on which a cell can run: of its model, large enough, and known to its CUDA version."""
    least, cuda = spec.limits.gpu_memory or 0, spec.cell.get("cuda", versions.NONE)
    # A GPU that does not tell its memory is not excluded by it.
    large = (gpu for gpu in _of_model(spec, facts) if gpu.memory == 0 or gpu.memory >= least)
    return tuple(gpu for gpu in large if cuda == versions.NONE or not _unknown_to(cuda, gpu, catalog))


def _count(gpus: int) -> str:
    return f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"


def _of_model(spec: CellSpec, facts: HostFacts) -> list[Gpu]:
    """The GPUs whose name has the words of the model that the case asks for, one after the other."""
    asked = units.words_of_model(spec.limits.gpu_model or "")

    def has(name: str) -> bool:
        words = units.words_of_model(name)
        return any(words[start : start + len(asked)] == asked for start in range(len(words)))

    return [gpu for gpu in facts.gpus if not asked or has(gpu.name)]


def _model(spec: CellSpec, facts: HostFacts, wanted: int) -> None:
    if len(found := _of_model(spec, facts)) < wanted:
        names = ", ".join(dict.fromkeys(gpu.name for gpu in facts.gpus))
        raise Unsupported(
            f"the case asks for {_count(wanted)} of the model {spec.limits.gpu_model}; this host has {len(found)} of "
            f"it (its GPUs: {names})"
        )


def _memory(spec: CellSpec, facts: HostFacts, wanted: int) -> None:
    least = spec.limits.gpu_memory
    if least is None:
        return
    # A GPU that does not tell its memory is not excluded by it.
    fit = _of_model(spec, facts)
    large = [gpu for gpu in fit if gpu.memory == 0 or gpu.memory >= least]
    if len(large) < wanted:
        most = max(gpu.memory for gpu in fit)
        model = f" of the model {spec.limits.gpu_model}" if spec.limits.gpu_model else ""
        raise Unsupported(
            f"the case asks for {_count(wanted)}{model} with {least / GIB:.1f} GiB of memory; this host has "
            f"{len(large)} such (the largest has {most / GIB:.1f} GiB)"
        )


def _driver(cuda: str, facts: HostFacts, catalog: Catalog) -> None:
    needed = catalog.driver_needed(cuda)
    if needed and facts.driver and versions.order(facts.driver) < versions.order(needed):
        raise Unsupported(f"CUDA {cuda} needs an NVIDIA driver >= {needed}; this host has {facts.driver}")


def _architecture(cuda: str, facts: HostFacts, wanted: int, catalog: Catalog) -> None:
    reasons = {gpu.uuid: _unknown_to(cuda, gpu, catalog) for gpu in facts.gpus}
    if sum(not reason for reason in reasons.values()) < wanted:
        raise Unsupported("; ".join(dict.fromkeys(reason for reason in reasons.values() if reason)))


def _unknown_to(cuda: str, gpu: Gpu, catalog: Catalog) -> str:
    """Why CUDA of that version cannot compile for the GPU, '' when it can or nothing is known about it."""
    row = catalog.capability(gpu.compute)
    if row is None:
        return ""
    architecture = f"{gpu.name} (sm_{gpu.compute.replace('.', '')})"
    # "12" stands for the newest 12.x when the question is whether it is new enough.
    newest = versions.newest(cuda, catalog.cuda_wheels()) or cuda
    if versions.order(newest) < versions.order(row.since):
        return f"{architecture} needs CUDA >= {row.since}; the cell asks for {cuda}"
    if row.until and versions.order(cuda) >= versions.order(row.until)[: len(versions.parts(cuda))]:
        return f"{architecture} is no longer known to CUDA >= {row.until}; the cell asks for {cuda}"
    return ""
