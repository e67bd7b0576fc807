"""The case format: models, loading with exact positions, templates, axes -> cells, selection, filters, schema.

Takes text and gives valid cases and their cells, or every problem with its position. Never looks at the host, an
engine or a store; reads no file but the one that it is asked to load.

``load`` and ``CaseFile`` are imported on first use: much of reprokit needs :mod:`reprokit.case.cellspec` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile, load
    from reprokit.case.model import Case

__all__ = ["Case", "CaseFile", "load"]


def __getattr__(name: str) -> Any:
    if name in ("CaseFile", "load"):
        from reprokit.case import files

        return getattr(files, name)
    if name == "Case":
        from reprokit.case.model import Case

        return Case
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
