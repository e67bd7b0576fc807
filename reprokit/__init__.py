"""reprokit: reproducible bug repros on containers, from a YAML case to a recorded verdict.

From Python: :func:`reprokit.run`, :func:`reprokit.load`, :func:`reprokit.validate`, see ``docs/api.md``.
"""

from __future__ import annotations

import sys
from types import ModuleType

from reprokit.core.version import __version__ as __version__

TYPE_CHECKING = False  # the module typing takes a third of the start
if TYPE_CHECKING:
    from typing import Any

    from reprokit.api import CaseFile, CellRecord, Outcome, Problem, Run, TrialRecord, Verdict, load, run, validate
    from reprokit.core.errors import CaseError, EngineError, RecordError, ReprokitError, UsageError

__all__ = [
    "CaseError",
    "CaseFile",
    "CellRecord",
    "EngineError",
    "Outcome",
    "Problem",
    "RecordError",
    "ReprokitError",
    "Run",
    "TrialRecord",
    "UsageError",
    "Verdict",
    "load",
    "run",
    "validate",
]


class _Run(ModuleType):
    """The room ``reprokit.run``, which is called as ``reprokit.run(case)`` too: see :func:`reprokit.api.run`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from reprokit import api

        return api.run(*args, **kwargs)


class _Package(ModuleType):
    """Finds what the package offers when it is asked for: the command line starts without it."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'reprokit' has no attribute {name!r}")
        from reprokit import api
        from reprokit.core import errors

        return getattr(self, name) if name == "run" else getattr(errors if hasattr(errors, name) else api, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *__all__]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "run":  # the import of the room sets it
            value.__class__ = _Run
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
