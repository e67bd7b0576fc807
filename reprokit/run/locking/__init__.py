"""Locks: the environments of a case down to every version and hash, which a locked run builds from and nothing else.

:mod:`~reprokit.environment.lock` and :mod:`~reprokit.run.locking.file` are pure; what asks an engine lies in
:mod:`~reprokit.run.locking.collect` and :mod:`~reprokit.run.locking.bases`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprokit.run.locking.standing import Stale, stale

__all__ = ["Stale", "stale"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # on first use: planning a run imports much
        from reprokit.run.locking import standing

        return getattr(standing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
