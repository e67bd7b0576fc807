"""Which CUDA versions this host can run, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.cli.doctor.finding import Finding, Voice
from reprokit.cli.doctor.ground import Ground
from reprokit.core.errors import Unsupported
from reprokit.engine.gpus.discovery import leasable
from reprokit.environment import versions
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.compatibility import ALL_THE_SAME
from reprokit.environment.host import HostFacts
from reprokit.environment.preflighting import preflight

say = Voice("cuda")


def known(catalog: Catalog = OURS) -> tuple[str, ...]:
    """The CUDA versions (``11.8``) that reprokit can make environments with, oldest first."""
    packaged = [row.toolkit for row in catalog.releases().values() if row.toolkit]
    imaged = [release for name in catalog.releases() for release in catalog.cuda_images(name)]
    minors = {".".join(version.split(".")[:2]) for version in (*catalog.cuda_wheels(), *packaged, *imaged)}
    return tuple(sorted(minors, key=versions.order))


def check(ground: Ground) -> Iterator[Finding]:
    """With GPUs: the CUDA versions that run on them, and why the others do not. Without: what can still be built."""
    catalog = Catalog(ground.settings.compatibility)
    facts = leasable(ground.facts, ground.settings.gpus, ground.environ)
    if not facts.gpus:
        yield say.info(
            f"without a GPU: CUDA {ranges(known(catalog), catalog)} can be built and used for what needs no GPU "
            "(nvcc, ptxas, linking)"
        )
        return
    refused: dict[str, list[str]] = {}
    for cuda in known(catalog):
        refused.setdefault(_why_not(cuda, facts, catalog), []).append(cuda)
    if fitting := refused.pop("", []):
        yield say.ok(f"CUDA {ranges(fitting, catalog)} can run on this host")
        yield from _by_compatibility(fitting, facts, catalog)
    else:
        yield say.warn("no CUDA version that reprokit knows can run on this host")
    for why, those in refused.items():
        fix = "sudo apt-get install --only-upgrade nvidia-driver   # and reboot" if "driver" in why else ""
        yield say.info(f"not CUDA {ranges(those, catalog)}: {why}", fix)


def _by_compatibility(cudas: Sequence[str], facts: HostFacts, catalog: Catalog) -> Iterator[Finding]:
    """Those that are newer than the driver: it runs their programs, but without their new features."""
    newest = facts.cuda or _cuda_of(facts.driver or "", catalog)
    if newer := [cuda for cuda in cudas if newest and versions.order(cuda) > versions.order(newest)]:
        yield say.info(
            f"CUDA {ranges(newer, catalog)}: newer than the driver, which is for CUDA up to {newest}. Programs run, "
            "but not with features new in that version, nor with PTX made by it"
        )


def _cuda_of(driver: str, catalog: Catalog) -> str:
    """The newest CUDA version whose driver branch (``570`` of ``570.86.15``) is not newer, '' = none is known.

    Every update of a CUDA version comes with a driver of one branch.
    """
    branch = versions.order(driver)[:1]
    fitting = [
        cuda for cuda in known(catalog) if (of := catalog.toolkit_driver(cuda)) and versions.order(of)[:1] <= branch
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


def ranges(of: Sequence[str], catalog: Catalog = OURS) -> str:
    """Versions as ranges, such as ``11.7 to 12.4, 12.8``: consecutive among the known ones."""
    order = known(catalog)
    runs: list[list[str]] = []
    for version in of:
        if runs and version in order and order.index(version) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(
        run[0] if len(run) == 1 else f"{run[0]}{' to ' if len(run) > 2 else ', '}{run[-1]}" for run in runs
    )
