"""Whether cases may be built and run here: a stranger's only after a user has seen what it asks for and agreed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from reprokit.core.addresses import is_strangers
from reprokit.core.errors import UsageError
from reprokit.core.terminal import confirm, echo

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.case.matrix import Cell
    from reprokit.run.request import Request


def approve(
    files: Sequence[CaseFile],
    request: Request,
    cells: Mapping[str, Sequence[Cell]] | None = None,
    ask: Callable[[str], bool] | None = None,
    *,
    everyone: bool = False,
) -> None:
    """Return when the cases may be built and run. Nothing of theirs has happened before.

    Cases that came from this host are its user's own. ``cells``: those that are to run, by the digest of the case.
    ``everyone``: whatever they are said to be from. ``ask``: who answers, else the terminal.
    Raises UsageError when they may not.
    """
    if request.reviewed:
        _check(files, request.reviewed)
        return
    strangers = [file for file in files if everyone or is_strangers(file.path)]
    if request.yes or not strangers:
        return
    from reprokit.case import review
    from reprokit.engine import registry

    on_host = request.engine if registry.capabilities(request.engine).recipe == "script" else ""
    for file in strangers:
        echo(review.summary(file, (cells or {}).get(file.digest, ()), on_host=on_host), err=True, nl=False)
    one = len(strangers) == 1
    if ask is None and not (sys.stdin and sys.stdin.isatty()):
        raise UsageError(
            f"{strangers[0].path}: {'this case is' if one else 'these cases are'} a stranger's, and there is no "
            "terminal to ask at: "
            f"read {'it' if one else 'them'}, then give {' '.join(f'--reviewed {file.digest}' for file in strangers)} "
            f"to run exactly {'this text' if one else 'these texts'}, or --yes to run whatever is there"
        )
    if not (ask or _at_the_terminal)(f"Build and run {'it' if one else 'them'} here?"):
        raise UsageError("nothing was built or run")


def _check(files: Sequence[CaseFile], reviewed: Sequence[str]) -> None:
    for file in files:
        if file.digest not in reviewed:
            raise UsageError(
                f"{file.path}: its text is {file.digest}, and what was reviewed is {', '.join(reviewed)}: "
                "look at what changed since"
            )


def _at_the_terminal(question: str) -> bool:
    return confirm(question)
