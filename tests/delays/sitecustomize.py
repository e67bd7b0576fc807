"""Random delays where threads and processes start and end, for `make delays`: a test that depends on a moment fails."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from typing import Any

_MOST = 0.3
"""Seconds for which a thread of a loaded machine may stand still."""


def _delay(owner: Any, name: str, *, before: bool = False) -> None:
    real = getattr(owner, name)

    def pause() -> None:
        if random.getrandbits(1):
            time.sleep(random.random() * _MOST)

    def delayed(*words: Any, **named: Any) -> Any:
        if before:
            pause()
        try:
            return real(*words, **named)
        finally:
            if not before:
                pause()

    setattr(owner, name, delayed)


_delay(threading.Thread, "run", before=True)
_delay(threading.Thread, "start")
_delay(subprocess.Popen, "__init__")
_delay(subprocess.Popen, "wait")
_delay(os, "kill")
_delay(os, "killpg")
