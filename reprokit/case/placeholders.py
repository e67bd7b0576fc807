"""What a draft holds in the place of what its report does not say: with one, it is not a case yet. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.case.model import Case
from reprokit.case.tree import Loc

MARK = "TODO(reprokit)"
COMMAND = f"{MARK}: write the command that fails"
OUTPUT = f"{MARK}: write how it fails"

_COMMAND = "write the command that fails, such as: python repro.py"
_FAILURE = (
    "write how it fails, such as {exception: ValueError, message: the text}, {signal: SIGSEGV}, {timed_out: true}, or "
    "{output: a line that it prints only then}; for what is slow or leaks, see docs/compare.md"
)
_VALUE = "write a value that the axis has, or remove the axis"


def find(case: Case) -> Iterator[tuple[Loc, str]]:
    """The place of each placeholder in what decides a verdict, and what to write there."""
    command = case.command if isinstance(case.command, str) else "\n".join(case.command)
    if MARK in command:
        yield ("command",), _COMMAND
    for key, value in case.expect.failure:
        if MARK in str(value):
            yield ("expect", "failure", key), _FAILURE
    for axis, values in case.matrix.axes.items():
        if any(MARK in value for value in values):
            yield ("matrix", axis), _VALUE
    for number, cell in enumerate(case.matrix.include):
        yield from ((("matrix", "include", number, axis), _VALUE) for axis, value in cell.items() if MARK in str(value))
