"""An engine whose containers are processes of this host that pretend to have GPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

from reprokit.core import ownership
from reprokit.core.errors import Cancelled
from reprokit.engine.protocol import Slot, Trial
from reprokit.evidence.model import Ending
from tests.unit.fakes import FakeEngine

CONTAINER = Path(__file__).with_name("container.py")


class ProcessEngine(FakeEngine):
    """``folder`` holds a file for each container, as an engine of the host would know them, and what they wrote."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.containers = folder / "containers"
        self.containers.mkdir(parents=True, exist_ok=True)

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        """Run the trial as a process; it is gone when this returns."""
        if "org.reprokit.probe" in trial.labels:
            return super().run(trial, sink, cancel, slot)
        record = self.containers / uuid.uuid4().hex
        # The record comes first, as a container is created before it starts.
        with slot or nullcontext():
            about = {"labels": {**ownership.ownership(), **trial.labels}, "gpus": trial.gpus}
            part = self.folder / f"{record.name}.part"
            part.write_text(json.dumps(about))
            part.replace(record)
            process = subprocess.Popen(
                [sys.executable, CONTAINER, self.folder, record, trial.env["SECONDS"], *trial.gpus],
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                while process.poll() is None:
                    if cancel.wait(0.01):
                        raise Cancelled("stopped")
            finally:
                self.remove(record)
                process.wait()
        return Ending(exit_code=process.returncode, seconds=0.1)

    def remove(self, record: Path) -> None:
        """Kill a container and wait until it is gone; until then it is known."""
        leaving = record.with_suffix(".leaving")
        with suppress(FileNotFoundError):
            record.replace(leaving)
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            number = int(record.with_suffix(".pid").read_text())
            os.kill(number, signal.SIGKILL)
            while ownership.started(number) is not None:
                time.sleep(0.005)
        for path in (record.with_suffix(".pid"), leaving):
            path.unlink(missing_ok=True)

    def _records(self) -> list[tuple[Path, dict[str, dict[str, str]]]]:
        found = []
        for path in self.containers.iterdir():
            with suppress(FileNotFoundError, ValueError):
                if path.suffix in ("", ".leaving"):
                    found.append((path, json.loads(path.read_text())))
        return found

    def sweep(self) -> list[str]:
        """Remove containers whose process is gone."""
        removed = []
        for path, about in self._records():
            if ownership.is_orphan(about["labels"]):
                self.remove(path.with_suffix(""))
                removed.append(f"container {path.name[:12]}")
        return removed

    def gpus_in_use(self) -> dict[str, str]:
        """Which container has which GPU."""
        return {gpu: f"container {path.name[:12]}" for path, about in self._records() for gpu in about["gpus"]}
