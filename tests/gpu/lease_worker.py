"""Leases GPUs again and again until FOLDER/stop exists; a witness lock on each says in FOLDER/twice if two have one.

``python -m tests.gpu.lease_worker FOLDER pretend|cuda``: with ``cuda`` it has a context on the first GPU when it holds
its first lease, and may be killed with it.
"""

from __future__ import annotations

import fcntl
import os
import random
import sys
import time
from pathlib import Path

from reprokit.engine.gpus import discovery
from reprokit.engine.gpus.leases import Leases
from reprokit.environment.host import Gpu
from tests.gpu.hold import hold


def work(folder: Path, gpus: tuple[Gpu, ...]) -> None:
    """Mark each GPU as used for a moment."""
    files = []
    for gpu in gpus:
        file = os.open(folder / f"witness-{gpu.uuid}", os.O_RDWR | os.O_CREAT)
        files.append(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(folder / "twice", f"{gpu.uuid} {os.pread(file, 20, 0).decode()}")
        else:
            os.pwrite(file, str(os.getpid()).ljust(20).encode(), 0)
    time.sleep(random.uniform(0.005, 0.05))
    note(folder / "ran", ",".join(gpu.uuid for gpu in gpus))
    for file in files:
        os.close(file)


def note(path: Path, line: str) -> None:
    """Append a line, whole, however many do."""
    with path.open("a") as file:
        file.write(line + "\n")


def main() -> None:
    """The process."""
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    gpus = discovery.facts().gpus
    leases = Leases(folder / "leases", run=str(os.getpid()), in_use=lambda gpu, died: "")
    held = None
    while not (folder / "stop").exists():
        claim = leases.claim(gpus, random.randint(1, len(gpus)))
        try:
            while not claim.attempt():
                time.sleep(0.005)
                if (folder / "stop").exists():
                    return
            held = held or (hold() if kind == "cuda" else kind)
            work(folder, claim.gpus)
        finally:
            claim.close()


if __name__ == "__main__":
    main()
