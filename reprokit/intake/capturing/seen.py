"""What is looked at on this machine around a captured command."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.environment import probe
from reprokit.environment.measured import Measured, ProbeError
from reprokit.evidence.tracebacks import FRAME
from reprokit.intake import secrets
from reprokit.intake.capturing import checkout, environ, files, interpreter
from reprokit.intake.capturing.checkout import Checkout
from reprokit.intake.capturing.environ import Variables
from reprokit.intake.capturing.files import Gathered
from reprokit.intake.capturing.interpreter import Interpreter
from reprokit.intake.capturing.running import Ran

SECONDS = 60
_SERVED = re.compile(r"(?:python|gcc|g\+\+|cpp|libc6|binutils|lib).*|git|nvidia-.*|cuda-.*")
"""Packages of programs that the axes serve, or that every image has."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Everything that a case is drafted from.

    ``folder``: where the command ran. ``words``: of the command, and of a text for a shell in it.
    ``apt``: packages of the distribution that the command's own programs are of. ``known``: what is private on this
    machine -> what is put in its place.
    """

    command: tuple[str, ...]
    words: tuple[str, ...]
    folder: Path
    ran: Ran
    measured: Measured
    interpreter: Interpreter | None = None
    checkout: Checkout | None = None
    gathered: Gathered = field(default_factory=Gathered)
    variables: Variables = field(default_factory=Variables)
    apt: tuple[str, ...] = ()
    known: Mapping[str, str] = field(default_factory=dict)


def look(command: Sequence[str], ran: Ran, folder: Path, variables: Mapping[str, str]) -> Seen:
    """Look around after ``command`` ran in ``folder`` with these environment variables."""
    words = interpreter.words_of(command)
    program = interpreter.program_of(command)
    python = interpreter.ask(program) if program else None
    known = secrets.of_this_host(variables)
    traced = [Path(found["file"]) for line in ran.log.splitlines() if (found := FRAME.match(line.rstrip()))]
    start = [*files.named(words, folder), *(folder / path for path in traced), *files.in_log(ran.log, folder)]
    own = [path for path in start if not _below_any(path, python.prefixes if python else ())]
    return Seen(
        command=tuple(command),
        words=tuple(words),
        folder=folder,
        ran=ran,
        measured=measure(),
        interpreter=python,
        checkout=checkout.find(folder),
        gathered=files.gather(own, folder, since=ran.started),
        variables=environ.differing(variables, environ.of_login_shell(), str(folder), known=known),
        apt=tuple(_packages(words)),
        known=known,
    )


def measure() -> Measured:
    """This machine, by the probe that measures images; empty where it does not get to its end."""
    try:
        done = subprocess.run(probe.command(), capture_output=True, timeout=SECONDS, check=False, cwd="/")
        return Measured.parse(done.stdout.decode("utf-8", "replace"))
    except (OSError, subprocess.TimeoutExpired, ProbeError):
        return Measured()


def _below_any(path: Path, folders: Sequence[str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _packages(words: Sequence[str]) -> list[str]:
    """The distribution's packages, beyond what every installation has, that programs among ``words`` are of."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(words):
        path = shutil.which(word) if "/" not in word or word.startswith("/") else None
        if not path or not path.startswith(("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/")):
            continue
        name = _owner(path) or _owner("/usr" + path) or _owner(path.removeprefix("/usr"))
        told = _told(["dpkg-query", "-W", "-f", "${Essential} ${Priority}", name]) if name else ""
        if name and not _SERVED.fullmatch(name) and not re.search(r"yes|required|important", told):
            found[name] = None
    return list(found)


def _owner(path: str) -> str:
    return _told(["dpkg-query", "-S", path]).partition(":")[0].partition(",")[0]


def _told(words: list[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
