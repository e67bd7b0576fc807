"""Gathers the facts about a captured command and this machine."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.core import redaction
from reprokit.environment import probe
from reprokit.environment.measured import Measured, ProbeError
from reprokit.evidence.parsers.python_traceback import FRAME
from reprokit.intake.capturing import checkout, environ, files, interpreter
from reprokit.intake.capturing.checkout import Checkout
from reprokit.intake.capturing.environ import Variables
from reprokit.intake.capturing.files import Gathered
from reprokit.intake.capturing.interpreter import CapturedPython
from reprokit.intake.capturing.running import Ran

SECONDS = 60
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys", "/run")


@dataclass(frozen=True, kw_only=True)
class CapturedRun:
    """Everything that a case is drafted from.

    ``folder``: where the command ran. ``words``: of the command, and of a shell script in it. ``outside``: files that
    it names outside of ``folder``.
    ``stdin``: whether its input was a file or a pipe. ``known``: private text of this machine -> its replacement.
    """

    command: tuple[str, ...]
    words: tuple[str, ...]
    folder: Path
    ran: Ran
    measured: Measured
    interpreter: CapturedPython | None = None
    checkout: Checkout | None = None
    gathered: Gathered = field(default_factory=Gathered)
    variables: Variables = field(default_factory=Variables)
    outside: tuple[str, ...] = ()
    stdin: bool = False
    known: Mapping[str, str] = field(default_factory=dict)


def look(command: Sequence[str], ran: Ran, folder: Path, variables: Mapping[str, str]) -> CapturedRun:
    """Gather the facts after ``command`` ran in ``folder`` with these environment variables."""
    words = interpreter.words_of(command)
    program = interpreter.program_of(command)
    python = interpreter.ask(program) if program else None
    known = redaction.of_this_host(variables)
    traced = [Path(found["file"]) for line in ran.log.splitlines() if (found := FRAME.match(line.rstrip()))]
    start = [*files.named(words, folder), *(folder / path for path in traced), *files.in_log(ran.log, folder)]
    gathered = files.gather(
        [path for path in start if not _below_any(path, python.prefixes if python else ())], folder, since=ran.started
    )
    for number, word in enumerate(words):
        if python and number > 1 and words[number - 1] == "-c" and interpreter.is_python(words[number - 2]):
            gathered.modules.update(module.partition(".")[0] for module in files.imports(word))
    return CapturedRun(
        command=tuple(command),
        words=tuple(words),
        folder=folder,
        ran=ran,
        measured=measure(),
        interpreter=python,
        checkout=checkout.find(folder),
        gathered=gathered,
        variables=environ.differing(variables, environ.of_login_shell(), str(folder), known=known),
        outside=tuple(_outside(words, folder, python.prefixes if python else ())),
        stdin=_given_input(),
        known=known,
    )


def measure() -> Measured:
    """This machine, measured by the same probe as images; empty where the probe fails."""
    try:
        done = subprocess.run(probe.command(), capture_output=True, timeout=SECONDS, check=False, cwd="/")
        return Measured.parse(done.stdout.decode("utf-8", "replace"))
    except (OSError, subprocess.TimeoutExpired, ProbeError):
        return Measured()


def _below_any(path: Path, folders: Sequence[str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _outside(words: Sequence[str], folder: Path, prefixes: Sequence[str]) -> Iterator[str]:
    """The words that name files outside of ``folder`` that do not belong to the system."""
    for word in words[1:]:
        path = (folder / word).resolve()
        if "/" in word and path.is_file() and not _below_any(path, (*prefixes, *_SYSTEM, str(folder.resolve()))):
            yield word


def _given_input() -> bool:
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)
