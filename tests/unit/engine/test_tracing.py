"""The tracer beside a trial's command: what its container gets for it, and how much it prints."""

from __future__ import annotations

import dataclasses

import pytest

from reprokit.case.cellspec import Limits
from reprokit.case.trust import Trust
from reprokit.engine import container_spec, tracer_inside
from reprokit.engine.protocol import Trial

TRIAL = Trial(
    image="i", command=("true",), env={}, workdir="/w", limits=Limits(), traced=True, capabilities=("SYS_PTRACE",)
)


def test_only_a_traced_trial_gets_the_capability_and_waits() -> None:
    body = container_spec.create_body(TRIAL, {})
    assert body["HostConfig"]["CapDrop"] == ["ALL"]
    assert body["HostConfig"]["CapAdd"] == ["SYS_PTRACE"]
    assert body["Cmd"] == ["sh", "-c", 'kill -STOP $$; exec "$@" 2>&1', "sh", "true"]
    plain = container_spec.create_body(dataclasses.replace(TRIAL, traced=False, capabilities=()), {})
    assert not plain["HostConfig"].get("CapAdd")
    assert plain["Cmd"] == ["sh", "-c", 'exec "$@" 2>&1', "sh", "true"]
    apart = dataclasses.replace(TRIAL, limits=Limits(output="separate"))
    assert container_spec.create_body(apart, {})["Cmd"] == ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", "true"]


def test_no_program_of_an_untrusted_case_gets_privileges_by_being_started() -> None:
    for user in ("repro", "root", "0:0"):  # root has what is added, and in Podman every user
        strange = dataclasses.replace(TRIAL, trust=Trust.STRANGER, limits=Limits(user=user))
        host = container_spec.create_body(strange, {})["HostConfig"]
        assert (host["CapAdd"], host["SecurityOpt"]) == ([], ["no-new-privileges"])
    assert container_spec.create_body(TRIAL, {})["HostConfig"]["SecurityOpt"] == []


def gdb_output(threads: int, frames: int) -> str:
    return "".join(
        f'Thread {number} (Thread 0x7f (LWP {number}) "many"):\n'
        + "".join(f"#{frame}  0x0 in work (n=...) at many.c:{frame}\n" for frame in range(frames))
        for number in range(threads, 0, -1)
    )


@pytest.mark.parametrize(("threads", "frames"), [(500, 20), (2, 100_000)])
def test_stacks_are_bounded_and_begin_with_the_thread_that_crashed(threads: int, frames: int) -> None:
    text = tracer_inside.bounded(gdb_output(threads, frames), 1)
    assert text.startswith('Thread 1 (Thread 0x7f (LWP 1) "many"):\n#0')
    assert len(text) < 2 * tracer_inside.MOST_BYTES
    assert (f"({threads} threads, some are left out)" in text) is (threads == 500)


def test_what_debuggers_say_beside_stacks_is_left_out() -> None:
    said = "[New LWP 9]\nwarning: x\nThread 1 (LWP 7):\n#0  main () at a.c:1\n[Inferior 1 (process 7) detached]\n"
    assert tracer_inside.bounded(said, 7) == "Thread 1 (LWP 7):\n#0  main () at a.c:1"
