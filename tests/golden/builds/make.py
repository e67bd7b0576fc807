"""Make the golden logs of failed builds again, on this machine's engine: ``python -m tests.golden.builds.make``."""

from __future__ import annotations

import io
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from reprokit.cli.display.screen import Screen
from reprokit.core.errors import BuildFailed, ReprokitError
from reprokit.engine import registry
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from tests.golden.builds import CASES, FOLDER

_PRINTS_INDEX = re.compile(
    r"^\s*(Looking in|\S+ from https|npm error 404 |Downloading|Obtaining|Using cached|Collecting|Link:)"
    r"|^(Get|Hit|Err|Ign):|^reprokit: environment\.pip_before: files of "
)
_ADDRESS = re.compile(r"(https?|file)://(?!127\.0\.0\.1|localhost|[a-z.]*\.invalid)[^/\s,]*(?P<path>[^\s,]*)")
_CGROUPS = Path("/sys/fs/cgroup/memory/docker/buildkit")
_SLEEP = b"sleep\x003.14159\x00"
MOST = 150
"""Lines kept of a log."""


class Recording:
    """An engine that keeps what it says of a build that fails."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.error: ReprokitError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def build(self, *given: Any, **named: Any) -> Any:
        try:
            return self.engine.build(*given, **named)
        except ReprokitError as error:
            self.error = error
            raise


def make(name: str, text: dict[str, Any], memory: int) -> str:
    """Write the log of one case; returns what to say of it."""
    case = {"schema": "reprokit/v1", "id": name, "title": name, "command": "true", **text}
    case["matrix"] = {"os": ["debian-12"], "python": ["3.11"], **case.get("matrix", {})}
    engine = Recording(registry.make("docker"))
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "case.yaml")
        path.write_text(yaml.safe_dump(case, sort_keys=False), encoding="utf-8")
        done = threading.Event()
        if memory:
            threading.Thread(target=_limit, args=(memory, done), daemon=True).start()
        output = io.StringIO()
        Session(Path(scratch, "store"), display=Screen(output), engine=lambda: engine).build(
            Request(cases=(str(path),))
        )
        done.set()
    if not isinstance(engine.error, BuildFailed):
        return f"{name}: NOT a failed build: {engine.error or output.getvalue()[-300:]}"
    tail = [_redacted(line) for line in engine.error.tail[-MOST:]]
    (FOLDER / f"{name}.log").write_text("\n".join([engine.error.step, *tail]) + "\n", encoding="utf-8")
    return f"{name}: {len(tail)} lines"


def _limit(memory: int, done: threading.Event) -> None:
    """Limit the memory of the build's step that runs ``_SLEEP``, as an engine with little memory would."""
    while not done.wait(0.2):
        for group in _CGROUPS.glob("*"):
            with suppress(OSError):
                pids = (group / "cgroup.procs").read_text().split()
                if any(Path("/proc", pid, "cmdline").read_bytes() == _SLEEP for pid in pids):
                    (group / "memory.limit_in_bytes").write_text(str(memory << 20))


def _redacted(line: str) -> str:
    if _PRINTS_INDEX.match(line):
        return _ADDRESS.sub(r"https://index.example\g<path>", line)
    return line


def main(names: list[str]) -> int:
    """Make the logs of these cases, of all for none."""
    chosen = {name: one for name, one in CASES.items() if not names or name in names}

    def one(name: str) -> str:
        started = time.monotonic()
        return f"{make(name, chosen[name]['case'], chosen[name].get('memory', 0))} ({time.monotonic() - started:.0f} s)"

    with ThreadPoolExecutor(3) as pool:
        for said in pool.map(one, chosen):
            print(said, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
