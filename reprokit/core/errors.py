"""The errors that reprokit raises on purpose, each with the exit status it leads to."""

from __future__ import annotations

from dataclasses import dataclass


class ReprokitError(Exception):
    """Base of every error whose text is meant for the user; ``exit_status`` is the process's."""

    exit_status = 2


class UsageError(ReprokitError):
    """The command line, or what it names, cannot be used. Nothing was run."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong in a case file.

    ``line`` and ``column`` count from 1. ``hint`` says what to do, or names a near match; may be empty.
    """

    path: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.path}:{self.line}:{self.column}: {self.message}{hint}"


class CaseError(ReprokitError):
    """A case file breaks the format; ``problems`` holds every breach, in file order."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.path, p.line, p.column, p.message)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Unsupported(ReprokitError):
    """This host, engine or distribution cannot serve a cell; the text is the verdict's reason."""

    exit_status = 3


class EngineError(ReprokitError):
    """The container engine failed or went away: theirs, never a finding about the case."""

    exit_status = 3


class EngineLost(EngineError):
    """What the engine did was cut short by something other than the case: worth doing again once the engine answers.

    It stopped, was restarted, lost a connection or its last disk space, or another process stopped a container of ours.
    """


class ImageGone(EngineError):
    """The engine has the image no more: it can be built again."""


class ImageDamaged(ImageGone):
    """The engine has the image, but not all that it consists of: its steps have to run again."""


class BuildFailed(ReprokitError):
    """An image could not be built. ``step`` is the failing instruction, ``tail`` its last output lines.

    ``reason`` is reported instead of the step's own output, where it explains more.
    """

    exit_status = 3

    def __init__(self, message: str, *, step: str = "", tail: tuple[str, ...] = (), reason: str = "") -> None:
        super().__init__(message)
        self.step = step
        self.tail = tail
        self.reason = reason


class RecordError(ReprokitError):
    """What a run or a report has to say cannot be written: a full disk, say."""

    exit_status = 3


class Cancelled(ReprokitError):
    """Stopped on request before it was decided."""

    exit_status = 130
