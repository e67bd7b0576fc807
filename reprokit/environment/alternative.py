"""What would serve a cell without a registry or downloads: said where one does not answer, never taken. Pure."""

from __future__ import annotations

from dataclasses import replace

from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import Unsupported
from reprokit.environment.model import Environment
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply

WORDS = {"distribution": "its packages", "uv": "uv", "conda": "conda-forge", "wheels": "NVIDIA's wheels"}


def without_registry(spec: CellSpec, supply: Supply, chosen: Environment) -> str:
    """What ``--base bootstrap`` would make of the cell instead; '' where the case names its own image."""
    if chosen.base.source != "registry":
        return ""
    try:
        other = resolve(spec, replace(supply, base_source="bootstrap"))
    except Unsupported as error:
        return f"and nothing serves the cell without a registry: {error}"
    parts = [
        f"{name} {part.version} from {WORDS[part.source]}"
        for name, part, before in (
            ("Python", other.python, chosen.python),
            ("GCC", other.gcc, chosen.gcc),
            ("CUDA", other.cuda, chosen.cuda),
        )
        if part is not None and part != before
    ]
    return f"--base bootstrap makes {other.os} from the distribution's packages instead" + (
        f", with {' and '.join(parts)}" if parts else ""
    )


def downloading(chosen: Environment) -> tuple[str, ...]:
    """The providers whose downloads a build of the environment needs: uv, conda."""
    uv = chosen.python is not None and chosen.python.source == "uv"
    return ("uv",) * uv + ("conda",) * (chosen.conda is not None)


def without_downloads(spec: CellSpec, supply: Supply, chosen: Environment) -> str:
    """Why a cell is not available where the downloads of uv or conda-forge do not answer; '' where it needs none."""
    if not (silent := downloading(chosen)):
        return ""
    try:
        resolve(spec, replace(supply, silent=silent))
    except Unsupported as error:
        return str(error)
    return (
        f"the downloads of {' and '.join(silent)} are not available here, and another provider is asked only after it"
    )
