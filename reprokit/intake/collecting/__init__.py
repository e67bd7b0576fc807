"""What a reporter runs before writing an issue: :mod:`.collect` is one file for any Python from 3.6 on."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from reprokit.intake.capturing.interpreter import program_of

PROGRAM = Path(__file__).with_name("collect.py")
"""The program; it imports nothing of reprokit, so that it also runs where reprokit is not installed."""


def interpreter_for(words: Sequence[str]) -> str:
    """The Python whose packages matter: the one that a command runs in, else the first on PATH, else ours."""
    of_command = program_of(words) if words else ""
    return of_command or shutil.which("python3") or shutil.which("python") or sys.executable
