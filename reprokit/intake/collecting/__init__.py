"""What a reporter runs before writing an issue: :mod:`.collect` is one file for any Python from 3.6 on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

from reprokit.intake.capturing.interpreter import PROGRAM, SECONDS, program_of

__all__ = ["PROGRAM", "collects", "interpreter_for"]


def collects(python: str) -> bool:
    """Whether a program is a Python in which :data:`PROGRAM` runs."""
    try:
        done = subprocess.run(
            [python, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.match(rb"Python (\d{1,4})\.(\d{1,4})", done.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= (3, 6)


def interpreter_for(words: Sequence[str]) -> str:
    """The Python whose packages matter: the one that a command runs in, else the first on PATH, else ours.

    One that is older than the program is passed over; the program then says which one the command runs in.
    """
    of_command = program_of(words) if words else ""
    found = (of_command, shutil.which("python3"), shutil.which("python"))
    return next((one for one in found if one and collects(one)), sys.executable)
