"""One command of reprokit as a child process, ended when its time is spent or its caller is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from reprokit.core.ownership import private_folder

GRACE = 90.0
"""Seconds that a command has after Ctrl-C, to remove its containers and to write its record."""
MOST_SAID = 4000
"""Characters of an error message that a tool passes on."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a command printed and how it ended; ``late``: it was interrupted because its time was spent."""

    status: int
    out: str
    err: str
    late: bool = False

    def data(self) -> Any:
        """Standard output as JSON. Raises CommandFailed where the command printed none."""
        try:
            return json.loads(self.out)
        except json.JSONDecodeError:
            raise CommandFailed(self.said()) from None

    def said(self) -> str:
        """Why there is no result, for the message of an error."""
        said = (self.err.strip() or self.out.strip() or f"exit status {self.status}")[-MOST_SAID:]
        return f"{said}\n(interrupted: its minutes were spent)" if self.late else said


class CommandFailed(Exception):
    """A command gave no result; the text is what it said."""


async def call(*words: str, minutes: float) -> Finished:
    """Run ``reprokit WORDS``. It cannot ask anything: what would be asked is refused, with what to pass instead."""
    with private_folder("mcp") as folder:
        out, err = folder / "out", folder / "err"
        with out.open("wb") as to, err.open("wb") as errors:
            process = await anyio.open_process(
                [sys.executable, "-m", "reprokit", *words],
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=errors,
                start_new_session=True,
            )
        late = False
        try:
            with anyio.move_on_after(60 * minutes) as limit:
                await process.wait()
            late = limit.cancelled_caught
        finally:
            await _end(process)
        status = process.returncode
        assert status is not None
        return Finished(status=status, out=_text(out), err=_text(err), late=late)


async def _end(process: anyio.abc.Process) -> None:
    """Interrupt it as Ctrl-C does, and kill it if that does not help; also where this task itself was cancelled."""
    if process.returncode is not None:
        return
    with anyio.CancelScope(shield=True):
        process.send_signal(signal.SIGINT)
        with anyio.move_on_after(GRACE):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
