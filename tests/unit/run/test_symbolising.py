"""The container in which debuggers read debug files: what it gets, and what becomes of a log whatever it says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.case.cellspec import Limits
from reprokit.core.errors import EngineError, EngineLost
from reprokit.engine.protocol import Mount, Trial
from reprokit.evidence.model import Ending
from reprokit.run.debuggers import FILE, DebugFiles, Symboliser
from tests.unit.debug_elf import debug_file
from tests.unit.evidence.test_symbols import ID, LOG
from tests.unit.fakes import FakeEngine

TRIAL = Trial(
    image="reprokit/debug:1",
    command=("prog",),
    env={"LD_PRELOAD": "x"},
    workdir="/w",
    limits=Limits(gpus=1, network="bridge", memory=1, timeout=1.0, backtrace=True),
    mounts=(Mount(source=Path("/data"), target="/w/data"),),
    gpus=("GPU-1",),
    traced=True,
    capabilities=("SYS_PTRACE",),
)
Behave = Callable[[Trial, Callable[[bytes], None]], Ending]


def says(*lines: object, code: int = 0, **ending: bool) -> Behave:
    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        sink(b"warning: something\n" + b"".join(b"@" + json.dumps(line).encode() + b"\n" for line in lines))
        return Ending(exit_code=code, **ending)

    return behave


@pytest.fixture
def log(tmp_path: Path) -> Path:
    place = tmp_path / "cache" / ID
    place.mkdir(parents=True)
    (place / FILE).write_bytes(debug_file(ID, "f"))
    path = tmp_path / "trial-1.log"
    path.write_bytes(b"\xff raw " + LOG.encode())
    return path


def symboliser(log: Path) -> Symboliser:
    return Symboliser(DebugFiles(["http://127.0.0.1:1"], log.parent / "cache"))


def rewritten(log: Path, engine: FakeEngine, by: Symboliser | None = None) -> str:
    (by or symboliser(log)).rewrite(log, engine, TRIAL, threading.Event())
    return log.read_bytes().decode("utf-8", "replace")


NAMED = says([0, 0x1100, [["inner(int)", "ext.c", 1]]], [0, 0x1200, []], [0, 0x12FF, [["entry", "", 0]]], [-1, -1, ""])


def test_a_container_sees_the_files_and_nothing_else_and_frames_get_their_names(log: Path) -> None:
    engine, by = FakeEngine(NAMED), symboliser(log)
    text = rewritten(log, engine, by)
    assert text.startswith("� raw before")
    assert "#0  0x00007f0000001100 in inner () at ext.c:1 from /opt/libext.so\n" in text
    assert "no symbols of" not in text
    (looks,) = engine.trials
    assert (looks.gpus, looks.limits.gpus, looks.limits.network, looks.traced) == ((), 0, "none", False)
    assert looks.mounts == (Mount(source=log.parent / "cache" / ID, target=f"/opt/reprokit/debug-files/{ID}"),)
    assert looks.limits.memory == 4 * 2**30
    assert "LD_PRELOAD" not in looks.env
    assert json.loads(looks.env["REPROKIT_ASKED"]) == [
        [f"/opt/reprokit/debug-files/{ID}/{FILE}", [0x1100, 0x1200, 0x12FF]]
    ]
    log.write_text(LOG)  # the next trial of the run stands at the same places
    assert "in inner () at ext.c:1" in rewritten(log, engine, by)
    assert len(engine.trials) == 1


def test_lines_of_gdb_itself_and_one_that_was_cut_off_are_skipped(log: Path) -> None:
    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        sink(b"@plt: no section\n@[1]\n@[9, 16, []]\n@[0, 4352, [7]]\n@null\n")
        NAMED(trial, sink)
        sink(b'@[0, 4608, [["inn')
        return Ending(exit_code=0)

    assert "#0  0x00007f0000001100 in inner () at ext.c:1 from /opt/libext.so\n" in rewritten(log, FakeEngine(behave))


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (says([0, -1, "not in executable format"], [-1, -1, ""]), "gdb cannot read its debug file: not in executable"),
        (says(code=139), "its debug file was not read: gdb ended with status 139"),
        (says(code=137, oom=True), "its debug file was not read: gdb ran out of memory"),
        (says(timed_out=True), "its debug file was not read: gdb took too long"),
        (says(), "its debug file was not read: gdb said nothing"),
    ],
)
def test_where_names_cannot_be_read_one_line_says_so(log: Path, behave: Behave, why: str) -> None:
    text = rewritten(log, FakeEngine(behave))
    assert text.count("[reprokit: no symbols of /opt/libext.so: ") == 1
    assert why in text


def test_an_engine_that_fails_is_said_and_one_that_is_lost_has_the_trial_done_again(log: Path) -> None:
    def fails(error: Exception) -> Behave:
        def behave(trial: Trial, sink: object) -> Ending:
            raise error

        return behave

    assert "no symbols of /opt/libext.so: its debug file was not read: no such folder" in rewritten(
        log, FakeEngine(fails(EngineError("no such folder")))
    )
    with pytest.raises(EngineLost):
        rewritten(log, FakeEngine(fails(EngineLost("gone"))))


def test_a_file_that_no_server_sends_is_said_once(log: Path) -> None:
    by = Symboliser(DebugFiles(["http://127.0.0.1:1"], log.parent / "empty"))
    text = rewritten(log, FakeEngine(NAMED), by)
    assert "[reprokit: no symbols of /opt/libext.so: http://127.0.0.1:1 does not answer: " in text
    assert rewritten(log, FakeEngine(NAMED), Symboliser(DebugFiles((), log.parent / "cache"))) == text
