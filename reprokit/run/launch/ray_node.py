"""What a Ray task does. Travels to nodes as its own source, since a node may lack reprokit: imports the standard
library alone.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from typing import Any

STOPPING = 100.0
"""Seconds that a job has to leave its archive once it is cancelled."""


class Begun:
    """An actor that knows which jobs have begun, and on which node."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}

    def tell(self, job: str, node: str) -> None:
        """A job begins on a node."""
        self._nodes[job] = node

    def nodes(self) -> dict[str, str]:
        """The nodes of the jobs that have begun."""
        return self._nodes


def serve(job: str, begun: Any, packed: bytes, scripts: tuple[str, str], cpus: int) -> bytes:
    """Run a job; what its stream wrote. ``scripts``: the stream, and what ends it, as an interrupt of Ray's does."""
    import ray

    begun.tell.remote(job, ray.get_runtime_context().get_node_id())
    environ = {**os.environ, "REPROKIT_JOBS": str(cpus)}
    environ.setdefault("REPROKIT", f"{shlex.quote(sys.executable)} -m reprokit")
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as given:
        given.write(packed)
        given.seek(0)
        process = subprocess.Popen(
            ["sh", "-c", scripts[0]], stdin=given, stdout=output, env=environ, start_new_session=True
        )
        try:
            process.wait()
        except KeyboardInterrupt:
            subprocess.run(["sh", "-c", scripts[1]], check=False, capture_output=True)
            process.wait(STOPPING)
        output.seek(0)
        return output.read()
