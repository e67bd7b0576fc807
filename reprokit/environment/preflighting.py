"""Whether this host can serve a cell at all, and what of its GPUs will fail, before anything is built. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from reprokit.case import units
from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import Unsupported
from reprokit.core.text import whole_number
from reprokit.environment import compatibility, frameworks, versions
from reprokit.environment.catalog import OURS, Catalog

if TYPE_CHECKING:
    from reprokit.environment.host import Gpu, HostFacts

_TEGRA = {"3.2", "5.3", "6.2", "7.2", "8.7", "10.1", "11.0"}
"""Capabilities of Jetson, Drive and Thor, whose machine code and that of other GPUs do not run on each other."""
_NAME = re.compile(r"(sm|compute)_([0-9]{1,9})([0-9])([af]?)")


def runs_on(architecture: str, compute: str) -> bool:
    """Whether code for an architecture (``sm_86``; PTX: ``compute_86``) runs on a GPU of a capability (``8.9``).

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/ ("Binary Compatibility", "PTX Compatibility", and
    "Family-Specific Features"): machine code runs on GPUs of its own major and its own or a later minor capability, PTX
    on every later one; what ends in ``a`` runs on its own alone, what ends in ``f`` on its family.
    """
    named = _NAME.fullmatch(architecture)
    major, _, minor = compute.partition(".")
    numbers = whole_number(major), whole_number(minor)
    if named is None or numbers[0] is None or numbers[1] is None:
        return False
    kind, variant = named[1], named[4]
    built, gpu = (int(named[2]), int(named[3])), (numbers[0], numbers[1])
    if variant == "a" or built == gpu:
        return built == gpu
    if kind == "compute" and not variant:
        return built <= gpu
    same = built[0] == gpu[0] and built[1] <= gpu[1]
    return same and not _TEGRA & {compute, f"{named[2]}.{named[3]}"}


def served(code: Mapping[str, int], compute: str) -> int:
    """In how many modules a build has code for a GPU, at least: most have it for one architecture or the other."""
    return max((count for architecture, count in code.items() if runs_on(architecture, compute)), default=0)


def why_not_built_for(code: Mapping[str, int], compute: str) -> str:
    """Why a build is not made for a GPU, in words; '' where it is.

    Builds have a few modules for the newest GPUs alone, and libraries of others inside: less than a third of the
    modules, where what was measured has at least 60 or at most 2 of 100, is not support.
    """
    most, here = max(code.values()), served(code, compute)
    if 3 * here >= most:
        return ""
    names = [name for name, count in code.items() if 3 * count >= most]
    names.sort(key=lambda name: (int(re.sub(r"\D", "", name)), name))
    return f"is built for {names[0]} to {names[-1]}, and has code for it in {here} of {most} modules"


GIB = 1024**3


def preflight(spec: CellSpec, facts: HostFacts, catalog: Catalog = OURS) -> tuple[str, ...]:
    """What the GPUs and the driver of the host cannot do for a cell, but the case wants it so, in words.

    Raises Unsupported, saying why, when the host lacks what a cell asks for. Checked for cells that ask for GPUs: that
    there are enough, with enough memory, a driver new enough for the CUDA version of the cell, and code for their
    architecture. The last two may be what the case is about (:func:`.compatibility.tolerated`). A cell without GPUs
    runs anywhere.
    """
    wanted = spec.limits.gpus
    if wanted <= 0:
        return ()
    why = f" ({facts.note})" if facts.note else ""
    if not facts.gpus:
        found = "this host leases no GPU" if facts.driver else "this host has no NVIDIA GPU"
        raise Unsupported(f"{found}{why}; the case asks for {wanted}")
    if len(usable := _together(spec, facts)) < wanted:
        mig = (
            ", and instances of GPUs in MIG mode, of which a program uses one" if len(usable) < len(facts.gpus) else ""
        )
        raise Unsupported(f"this host has {_count(len(usable))}{mig}{why}; the case asks for {wanted}")
    _model(spec, facts, wanted)
    _memory(spec, facts, wanted)
    large = _large(spec, facts)
    conflicts = [*_driver(spec, facts, large, catalog)]
    reasons = [_foreign(spec, gpu, catalog) for gpu in large]
    if sum(not reason for reason in reasons) < wanted:
        conflicts += dict.fromkeys(reason for reason in reasons if reason)
    why = compatibility.tolerated(spec)
    if conflicts and not why:
        raise Unsupported(f"{'; '.join(conflicts)} ({compatibility.ALL_THE_SAME})")
    return compatibility.tolerating(conflicts, why)


def able(spec: CellSpec, facts: HostFacts, catalog: Catalog = OURS) -> tuple[Gpu, ...]:
    """The GPUs of the host on which a cell can run: of its model, large enough, and with code for them.

    Where too few have code, and the case wants it so, those of its model that are large enough.
    """
    large = _large(spec, facts)
    fit = tuple(gpu for gpu in large if not _foreign(spec, gpu, catalog))
    return large if len(fit) < spec.limits.gpus and compatibility.tolerated(spec) else fit


def _count(gpus: int) -> str:
    return f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"


def _together(spec: CellSpec, facts: HostFacts) -> tuple[Gpu, ...]:
    """The GPUs that a cell can use as many of as it asks for."""
    return tuple(gpu for gpu in facts.gpus if spec.limits.gpus == 1 or not gpu.parent)


def _of_model(spec: CellSpec, facts: HostFacts) -> list[Gpu]:
    """The GPUs whose name has the words of the model that the case asks for, one after the other."""
    asked = units.words_of_model(spec.limits.gpu_model or "")

    def has(name: str) -> bool:
        words = units.words_of_model(name)
        return any(words[start : start + len(asked)] == asked for start in range(len(words)))

    return [gpu for gpu in _together(spec, facts) if not asked or has(gpu.name)]


def _model(spec: CellSpec, facts: HostFacts, wanted: int) -> None:
    if len(found := _of_model(spec, facts)) < wanted:
        names = ", ".join(dict.fromkeys(gpu.name for gpu in facts.gpus))
        raise Unsupported(
            f"the case asks for {_count(wanted)} of the model {spec.limits.gpu_model}; this host has {len(found)} of "
            f"it (its GPUs: {names})"
        )


def _large(spec: CellSpec, facts: HostFacts) -> tuple[Gpu, ...]:
    """Those of the model that have the memory. A GPU that does not tell its memory is not excluded by it."""
    least = spec.limits.gpu_memory or 0
    return tuple(gpu for gpu in _of_model(spec, facts) if gpu.memory == 0 or gpu.memory >= least)


def _memory(spec: CellSpec, facts: HostFacts, wanted: int) -> None:
    least = spec.limits.gpu_memory or 0
    if len(large := _large(spec, facts)) < wanted:
        most = max(gpu.memory for gpu in _of_model(spec, facts))
        model = f" of the model {spec.limits.gpu_model}" if spec.limits.gpu_model else ""
        raise Unsupported(
            f"the case asks for {_count(wanted)}{model} with {least / GIB:.1f} GiB of memory; this host has "
            f"{len(large)} such (the largest has {most / GIB:.1f} GiB)"
        )


def _driver(spec: CellSpec, facts: HostFacts, gpus: Iterable[Gpu], catalog: Catalog) -> Iterator[str]:
    """Why the driver does not run the CUDA version of the cell, which forward compatibility may change."""
    cuda, whose = frameworks.cuda_of(spec, catalog)
    needed = catalog.driver_needed(cuda)
    if not needed or not facts.driver or versions.order(facts.driver) >= versions.order(needed):
        return
    least = catalog.compat_driver(cuda)
    data_centre = not any(_FOR_DESKTOPS.search(gpu.name) for gpu in gpus)
    text = f"{whose} needs an NVIDIA driver >= {needed}; this host has {facts.driver}"
    if least and data_centre and versions.order(facts.driver) >= versions.order(least):
        if _may_have_compat(spec):
            return
        text += (
            f". Forward compatibility, which data-centre GPUs have from driver {least} on, needs NVIDIA's package "
            "cuda-compat in the image, which the images nvidia/cuda have"
        )
    yield text


_FOR_DESKTOPS = re.compile(r"GeForce|Quadro|RTX|TITAN", re.IGNORECASE)
"""Words of models that are not data-centre GPUs. Some cards of the RTX series are certified for forward compatibility,
too (NGC-ready servers), which a name does not tell."""


def _may_have_compat(spec: CellSpec) -> bool:
    """Whether the image may hold cuda-compat: NVIDIA's images do, which serve the CUDA of a cell on Ubuntu."""
    wanted, cuda = spec.environment, spec.cell.get("cuda", versions.NONE)
    named = any("cuda-compat" in text for text in (*wanted.apt, *wanted.dnf, wanted.setup))
    return named or bool(wanted.image) or (cuda != versions.NONE and spec.cell.get("os", "").startswith("ubuntu"))


def _foreign(spec: CellSpec, gpu: Gpu, catalog: Catalog) -> str:
    """Why programs of the cell have no code for a GPU, '' where they have or nothing is known about it.

    A framework's wheel that was measured decides; without one the CUDA version does, whose libraries are built for the
    architectures that it knows.
    """
    if not gpu.compute:
        return ""
    measured = list(frameworks.gpu_code(spec, catalog))
    for one, code in measured:
        if why := why_not_built_for(code, gpu.compute):
            return f"{_named(gpu)}: {one.of} {why}"
    cuda = spec.cell.get("cuda", versions.NONE)
    return "" if measured or cuda == versions.NONE else _unknown_to(cuda, gpu, catalog)


def _named(gpu: Gpu) -> str:
    return f"{gpu.name} (sm_{gpu.compute.replace('.', '')})"


def _unknown_to(cuda: str, gpu: Gpu, catalog: Catalog) -> str:
    """Why CUDA of that version has no code that runs on the GPU, '' when it has or nothing is known about it.

    What it compiles for an older architecture of the same generation runs as well: sm_86 on an sm_89.
    """
    rows = catalog.capabilities()
    row = rows.get(gpu.compute)
    if row is None:
        return ""
    # "12" stands for the newest 12.x when the question is whether it is new enough.
    newest = versions.order(versions.newest(cuda, catalog.cuda_wheels()) or cuda)
    known = [compute for compute, one in rows.items() if versions.order(one.since) <= newest]
    if not any(runs_on(f"sm_{compute.replace('.', '')}", gpu.compute) for compute in known):
        return f"{_named(gpu)} needs CUDA >= {row.since}; the cell asks for {cuda}"
    if row.until and versions.order(cuda) >= versions.order(row.until)[: len(versions.parts(cuda))]:
        return f"{_named(gpu)} is no longer known to CUDA >= {row.until}; the cell asks for {cuda}"
    return ""
