"""Writes a run's record from a process of its own, so that no container waits for the database.

The process reads pickled calls of :class:`reprokit.store.database.Store` from its standard input, in the order in which
things were decided, each cell at once and whole. A run that is killed leaves it the end of its input: what had been
decided by then is written. A thread would be plainer, but imports the database in the program's own time: a run that
needs no engine then takes 0.73 s of CPU instead of 0.52 s before it ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from reprokit.core.errors import ReprokitError

WRITTEN = "written"
START = "import sys; sys.path[0] = sys.argv.pop(1); from reprokit.store.recorder import main; main()"


class RecordError(ReprokitError):
    """The database does not take what it is given: a full disk, say."""

    exit_status = 3


class Recorder:
    """Sends calls to the writing process, from any thread; ``close`` waits until all are written."""

    def __init__(self, folder: Path) -> None:
        """Start the process for the store in ``folder``. The sooner, the more of its start-up overlaps with other
        work."""
        package = str(Path(__file__).parents[2])
        self._lock = Lock()
        self._process = subprocess.Popen(
            # Not "-m", which would import from the user's folder whatever there has the name of a library.
            [sys.executable, "-c", START, package, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the run, not for its record
        )

    def call(self, method: str, *arguments: Any, **named: Any) -> None:
        """Queue ``Store.method(*arguments, **named)``. Errors come with :meth:`close`."""
        assert self._process.stdin is not None
        # A broken pipe: it has failed, and says why when it is closed.
        with self._lock, contextlib.suppress(BrokenPipeError):
            pickle.dump((method, arguments, named), self._process.stdin)
            self._process.stdin.flush()

    def close(self) -> None:
        """Wait for the last write. Raises RecordError with what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        # All is written when it says so; that it then tidies up its database need not be waited for.
        said = self._process.stdout.readline().decode(errors="replace").strip()
        if said != WRITTEN:
            raise RecordError(f"the run cannot be recorded: {said or 'the process that writes the record died'}")


def work(folder: Path, calls: BinaryIO, say: Callable[[str], None]) -> None:
    """Make the calls until the input ends, then say WRITTEN; or say what went wrong, in one line."""
    try:
        from reprokit.store.database import Store

        store: Store | None = None  # opened by the first call: a run that is refused makes no store
        while True:
            try:
                method, arguments, named = pickle.load(calls)
            except (EOFError, pickle.UnpicklingError):  # the end, or the half message of a run that was killed
                say(WRITTEN)
                if store is not None:
                    store.close()
                return
            store = store or Store(folder)
            getattr(store, method)(*arguments, **named)
    except Exception as error:
        say(" ".join(str(error).split()) or type(error).__name__)


def main() -> None:
    """The process: its argument is the store's folder."""

    def say(text: str) -> None:
        # Straight to the pipe: its reader may be gone, and nothing may be left to flush at the end.
        with contextlib.suppress(OSError):
            os.write(1, (text + "\n").encode(errors="replace"))

    work(Path(sys.argv[1]), sys.stdin.buffer, say)
