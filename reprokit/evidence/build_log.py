"""The step of a build that failed, and the part of its output that can be about the failure. Pure."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cached_property

_SCRIPT_LINE = re.compile(
    r"^reprokit: (?P<script>setup|generate)[-\d]*\.sh line (?P<line>[0-9]{1,9}), "
    r"exit status (?P<status>[0-9]{1,9}): (?P<command>.*)",
    re.M,
)
_BASH_LINE = re.compile(r"^\S*/(?P<script>setup|generate)[-\d]*\.sh: line (?P<line>[0-9]{1,9}): (?P<said>.*)", re.M)
_SUBJECTS = (
    re.compile(r"^ *ERROR: Failed building (?:wheel|editable) for (\S+)", re.M),
    re.compile(r"^(?:error|ERROR): [Ff]ailed to build '([^']+)'", re.M),
    re.compile(r"^(?:Collecting|Processing) (\S+)", re.M),
)
_BUILDING = re.compile(r"error: subprocess-exited-with-error|Failed building wheel|BackendUnavailable")
_OUTPUT = re.compile(r"^( *)╰─> .*\n(?P<output>(?:.*\n)*?) *\[end of output\]", re.M)
# pip goes on trying: only its last attempt says that a server does not answer.
_TRIED_AGAIN = re.compile(r"WARNING: Retrying \(Retry\(total=[1-9]")
_QUIET = ("test", "[", "[[", "grep", "diff", "cmp", "false", "exit")
_COMMAND = 100
_NEAR = 40
"""Lines above the end of a script's output that can be about the command that stopped it."""


@dataclass(frozen=True)
class ScriptLine:
    """The line of a script of the case that stopped the build. ``status``: its exit status, 0 where it is not known."""

    script: str
    number: int
    status: int
    command: str

    def __str__(self) -> str:
        return f"line {self.number} of {'environment.setup' if self.script == 'setup' else 'generate'}"


@dataclass(frozen=True)
class BuildLog:
    """The step that failed, as the engine names it, and the last lines of its output, cleaned.

    ``status``: its exit status, 0 where it is not known.
    """

    step: str
    lines: tuple[str, ...]
    status: int = 0

    @cached_property
    def at(self) -> ScriptLine | None:
        """The line of the case's own script that failed; None where the step runs none, or none is known."""
        if found := list(_SCRIPT_LINE.finditer(self._all)):
            last = found[-1]
            return ScriptLine(last["script"], int(last["line"]), int(last["status"]), last["command"].strip())
        if found := list(_BASH_LINE.finditer(self._all)):
            return ScriptLine(found[-1]["script"], int(found[-1]["line"]), 0, "")
        return None

    @cached_property
    def text(self) -> str:
        """The output that can be about the failure: of a script, the end alone, unless its last command says so."""
        if self.at is None or not self.at.command:
            return "\n".join(line for line in self.lines if not _TRIED_AGAIN.match(line))
        if self.at.command.split()[0] in _QUIET:
            return ""  # it prints nothing, so what is above it is about something else
        own = [line for line in self.lines if not line.startswith("reprokit: ") and not _TRIED_AGAIN.match(line)]
        long = re.search(r"\b(pip|uv|cmake|make|ninja|gcc|g\+\+|cargo|npm|python\S*|conda|mamba)\b", self.at.command)
        return "\n".join(own if long else own[-_NEAR:])

    @cached_property
    def inner(self) -> str:
        """What the first program that pip started and that failed printed; else all output."""
        found = _OUTPUT.search(self.text + "\n")
        return textwrap.dedent(found["output"]) if found else self.text

    @cached_property
    def subject(self) -> str:
        """The package that pip was building, '' where it built none."""
        failed = _BUILDING.search(self.text)
        if failed is None:
            return ""
        before = self.text[: failed.start()]
        for pattern in _SUBJECTS:
            if found := pattern.findall(before if pattern is _SUBJECTS[-1] else self.text):
                return str(found[-1 if pattern is _SUBJECTS[-1] else 0])
        return ""

    @property
    def building(self) -> str:
        """``the build of NAME``, or ``the build``."""
        return f"the build of {self.subject}" if self.subject else "the build"

    @property
    def who(self) -> str:
        """``setup.py of NAME``, or the program that stopped the script."""
        return f"setup.py of {self.subject}" if self.subject else self.program

    @property
    def program(self) -> str:
        """The command that stopped the case's script, in short; ``a program`` where it is not known."""
        command = self.at.command if self.at else ""
        return (command if len(command) <= _COMMAND else command[: _COMMAND - 4] + " ...") or "a program"

    @cached_property
    def _all(self) -> str:
        return "\n".join(self.lines)
