"""Gives names to the frames of a trial's stacks, once it has ended: nothing of it depends on a server of debug files.

The host fetches the files, and the debuggers of the trial's image read them in a container of their own, without a
network and with nothing else to see.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reprokit.core.errors import EngineError, EngineLost, Unsupported
from reprokit.core.text import one_line
from reprokit.engine.protocol import Engine, Mount, Trial
from reprokit.evidence.symbols import Module, Named, named, wanted, without_parameters
from reprokit.run.debug_files import FILE, DebugFiles, NoDebugFile

SECONDS = 300.0
"""For all files of a trial; the first look into one of a gigabyte takes gdb half a minute."""
_MEMORY = 4 * 2**30
_MOST = 4 * 2**20
_WHERE = "/opt/reprokit/debug-files"


@functools.cache
def _source() -> str:
    return (Path(__file__).parent / "symbols_inside.py").read_text(encoding="utf-8")


class Symboliser:
    """Names of frames, for all trials of a run. Safe for threads."""

    def __init__(self, files: DebugFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._names: dict[tuple[str, int], tuple[Named, ...]] = {}
        self._unread: dict[str, str] = {}

    def rewrite(self, log: Path, engine: Engine, trial: Trial, cancel: threading.Event) -> None:
        """Put names into the stacks at the end of a log of ``trial``, whose image has debuggers.

        Raises Cancelled, EngineLost.
        """
        if not self._files.urls or b"\n[reprokit: module 0x" not in (data := log.read_bytes()):
            return
        text = data.decode("utf-8", "surrogateescape")
        modules = wanted(text)
        with self._lock:
            missing = self._look_up(modules, engine, trial, cancel)
        changed = named(text, self._names, missing)
        if changed != text:
            log.write_bytes(changed.encode("utf-8", "surrogateescape"))

    def _look_up(
        self, modules: Sequence[Module], engine: Engine, trial: Trial, cancel: threading.Event
    ) -> Mapping[str, str]:
        """Learn the names of frames; path -> why they are not known, for files that a server may have."""
        missing: dict[str, str] = {}
        found: dict[str, tuple[Path, list[int]]] = {}
        for module in modules:
            new = [offset for offset in module.offsets if (module.build_id, offset) not in self._names]
            try:
                if new:
                    place = self._files.get(module.build_id, cancel)
                    found.setdefault(module.build_id, (place, []))[1].extend(new)
            except NoDebugFile as error:
                if not error.absent:
                    missing[module.path] = str(error)
        asked = {build_id: entry for build_id, entry in found.items() if build_id not in self._unread}
        if asked:
            self._ask(asked, engine, trial, cancel)
        return missing | {one.path: self._unread[one.build_id] for one in modules if one.build_id in self._unread}

    def _ask(
        self, asked: Mapping[str, tuple[Path, list[int]]], engine: Engine, trial: Trial, cancel: threading.Event
    ) -> None:
        said = bytearray()
        order = list(asked)
        looks = replace(
            trial,
            command=("gdb", "-q", "-batch", "-nx", "-ex", 'python import os; exec(os.environ["REPROKIT_SOURCE"])'),
            env={
                "HOME": "/tmp",
                "REPROKIT_SOURCE": _source(),
                "REPROKIT_ASKED": json.dumps([[f"{_WHERE}/{one}/{FILE}", sorted(set(asked[one][1]))] for one in order]),
            },
            workdir="/",
            limits=replace(
                trial.limits,
                gpus=0,
                gpu_memory=None,
                gpu_model=None,
                memory=max(trial.limits.memory, _MEMORY) if trial.limits.memory else None,
                timeout=SECONDS,
                network="none",
                output="joined",
            ),
            mounts=tuple(Mount(source=asked[one][0], target=f"{_WHERE}/{one}") for one in order),
            files={},
            gpus=(),
            gpu_indices=(),
            traced=False,
            outputs=None,
        )

        def sink(data: bytes) -> None:
            said.extend(data[: _MOST - len(said)])

        try:
            ending = engine.run(looks, sink, cancel)
            why = "" if ending.exit_code == 0 else f"gdb ended with status {ending.exit_code}"
            why = "gdb took too long" if ending.timed_out else "gdb ran out of memory" if ending.oom else why
        except EngineLost:
            raise  # the trial is done again
        except (EngineError, Unsupported) as error:
            why = one_line(str(error), 200)
        self._take(order, said.decode("utf-8", "replace"), why)

    def _take(self, order: Sequence[str], said: str, why: str) -> None:
        ended = False
        for line in said.split("\n"):
            if not line.startswith("@"):
                continue
            try:
                number, offset, functions = json.loads(line[1:])
                if number < 0:
                    ended = True
                elif offset < 0:
                    self._unread[order[number]] = f"gdb cannot read its debug file: {one_line(functions, 200)}"
                else:
                    self._names[order[number], offset] = tuple(
                        Named(function=without_parameters(function), file=file, line=line)
                        for function, file, line in functions
                    )
            except (ValueError, TypeError, AttributeError, LookupError):
                continue  # words of gdb itself, or a line that was cut off
        if not ended:
            for build_id in order:
                self._unread.setdefault(build_id, f"its debug file was not read: {why or 'gdb said nothing'}")
