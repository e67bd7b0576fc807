"""Whether cases may be built and run here: an untrusted one only after a user has seen what it asks for and agreed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core.errors import UsageError
from reprokit.core.terminal import confirm, echo

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.case.matrix import Cell
    from reprokit.run.request import Request


class Declined(UsageError):
    """The user at the terminal does not want a case to be built or run."""


def approve(
    files: Sequence[CaseFile],
    request: Request,
    cells: Mapping[str, Sequence[Cell]] | None = None,
    ask: Callable[[str], bool] | None = None,
    do: str = "Build and run",
) -> list[CaseFile]:
    """The cases, each as far trusted as it is now, when they may be built and run. Nothing of theirs happened before.

    What the user agrees to here, or named by its digest, is reviewed; ``--yes`` leaves an untrusted case untrusted.
    ``cells``: those that are to run, by the digest of the case. ``ask``: who answers, else the terminal.
    ``do``: what would happen.
    Raises UsageError when they may not, as no untrusted one may without a container.
    """
    untrusted = [file for file in files if ALLOWANCES[file.trust].asks]
    for file in files if request.reviewed else untrusted:
        _check_contained(file, request)
    if request.reviewed:
        _check(files, request.reviewed)
        return [replace(file, trust=Trust.REVIEWED) for file in files]
    if not untrusted:
        return list(files)
    from reprokit.case import review

    if request.yes:
        for file in untrusted:
            echo(f"{file.path}: runs unread, as an untrusted case: {file.digest}", err=True)
        return list(files)
    if request.ask:
        for file in untrusted:
            echo(review.summary(file, (cells or {}).get(file.digest, ())), err=True, nl=False)
    one = len(untrusted) == 1
    if ask is None and not (request.ask and sys.stdin and sys.stdin.isatty()):
        raise UsageError(
            f"{untrusted[0].path}: {'this case is' if one else 'these cases are'} untrusted, and there is no "
            "terminal to ask at: "
            f"read {'it' if one else 'them'}, then give {' '.join(f'--reviewed {file.digest}' for file in untrusted)} "
            f"to run exactly {'this text' if one else 'these texts'}, or --yes to run whatever is there"
        )
    if not (ask or confirm)(f"{do} {'it' if one else 'them'} here?"):
        raise Declined("nothing was built or run")
    return [replace(file, trust=Trust.REVIEWED) if ALLOWANCES[file.trust].asks else file for file in files]


def _check_contained(file: CaseFile, request: Request) -> None:
    """Raise UsageError where the engine would run another's case, read or not, as the user's own programs."""
    from reprokit.engine import registry

    if registry.capabilities(request.engine).recipe == "script":
        raise UsageError(
            f"{file.path}: an untrusted case, reviewed or not, needs a container engine: --engine {request.engine} "
            "runs its programs as your own, with all that you may read and write; choose another by --engine "
            "('reprokit doctor' says which one answers)"
        )


def _check(files: Sequence[CaseFile], reviewed: Sequence[str]) -> None:
    for file in files:
        if file.digest not in reviewed:
            raise UsageError(
                f"{file.path}: its text is {file.digest}, and what was reviewed is {', '.join(reviewed)}: "
                "look at what changed since"
            )
