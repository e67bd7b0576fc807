"""Stacks behind the output of real trials (tests/golden/stacks): how they are read, and what verdicts make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprokit.case.model import Expect, Failure
from reprokit.evidence.judgement import judge
from reprokit.evidence.judging import judge_trial
from reprokit.evidence.model import Ending, Frame, Outcome
from reprokit.evidence.native import frame_matches, merge_frames, split, stack_matches

FOLDER = Path(__file__).parents[2] / "golden" / "stacks"
SEGV, ABRT = Ending(exit_code=139), Ending(exit_code=134)
STOPPED = Ending(exit_code=143, timed_out=True, seconds=20.0)


def log(name: str) -> str:
    return (FOLDER / f"{name}.log").read_text(encoding="utf-8")


def outcome(name: str, ending: Ending, **signature: Any) -> Outcome:
    return judge(Failure(**signature), ending, log(name)).outcome


def test_the_output_is_what_stands_before_the_stacks() -> None:
    text, stacks = split(log("hang-queue"))
    assert text.endswith("ZeroDivisionError: division by zero\n")
    assert [len(sample) for sample in stacks.samples] == [1, 1, 1]
    assert split("no stacks here\n") == ("no stacks here\n", stacks.__class__())
    assert split(log("c-extension"))[0] == ""


def test_native_frames_and_pythons_are_one_stack() -> None:
    crash = split(log("c-extension"))[1].crash
    assert crash is not None
    assert [(frame.file.rpartition("/")[2], frame.function) for frame in crash.frames] == [
        ("", "PyObject_Size"),
        ("borrowed.c", "length"),
        ("rows.py", "read"),
        ("rows.py", "<module>"),
    ]
    assert (crash.signal, crash.program, crash.thread) == ("SIGSEGV", "python", 6)


def test_what_no_interpreter_frame_divides_is_divided_at_code_without_a_name() -> None:
    native = [Frame(file="a.c", line=1, function="boom"), Frame(file="", line=0, function="??")]
    python = [Frame(file="a.py", line=3, function="call")]
    assert merge_frames(native, python) == (native[0], python[0])
    assert merge_frames(native, []) == tuple(native)
    assert merge_frames([], python) == tuple(python)


@pytest.mark.parametrize(
    ("frames", "matches"),
    [
        (["rows.py:read", "borrowed.c:length"], True),
        (["borrowed.c:leng.*"], True),
        (["borrowed.c:len"], False),
        (["borrowed.c:length", "rows.py:read"], False),
    ],
)
def test_a_signature_names_frames_of_the_crash_in_the_order_of_calls(frames: list[str], matches: bool) -> None:
    assert (outcome("c-extension", SEGV, frames=frames) is Outcome.REPRODUCED) is matches
    # An exit that was not a crash of that kind is not the failure, whatever the frames are.
    assert outcome("c-extension", SEGV, signal="SIGABRT", frames=frames) is Outcome.DIFFERENT_FAILURE


def test_libraries_match_without_their_version_and_functions_by_pattern() -> None:
    frame = Frame(file="/lib/libtorch_cpu.so.2", line=0, function="at::native::add<float>(at::Tensor const&)")
    assert frame_matches("libtorch_cpu.so:at::native::.*", frame)
    assert frame_matches("libtorch_cpu.so.2:at::native::.*", frame)
    assert not frame_matches("libtorch.so:at::native::.*", frame)
    assert not frame_matches("libtorch_cpu.so:native::.*", frame)
    assert frame_matches("queue.py:get", Frame(file="/usr/lib/queue.py", line=1, function="Queue.get"))
    assert not stack_matches(["a.c:f", "a.c:f"], [Frame(file="a.c", line=1, function="f")])


def test_a_crash_is_identified_by_its_own_frames() -> None:
    found = judge(Failure(), ABRT, log("double-free"))
    assert "close_reader (reader.c:14)" in found.reason
    assert found.fingerprint is not None
    assert found.fingerprint.frames == ("close_reader", "main")
    native = judge(Failure(), SEGV, log("c-extension")).fingerprint
    assert native is not None
    assert native.frames == ("length", "rows.py:read", "rows.py:<module>")
    assert native.title == "SIGSEGV at length"


def test_the_message_of_the_program_stays_what_a_crash_is_about() -> None:
    found = judge(Failure(), ABRT, log("noexcept"))
    assert found.fingerprint is not None
    assert found.fingerprint.title == "terminate: std::invalid_argument: empty number at parse_number"
    assert outcome("noexcept", ABRT, output="main (") is Outcome.DIFFERENT_FAILURE  # the stacks are not output


def test_a_hang_is_the_failure_where_all_looks_saw_it() -> None:
    asked = {"timed_out": {"frames": ["loader.py:consume", "queue.py:get"]}}
    found = judge(Failure.model_validate(asked), STOPPED, log("hang-queue"))
    assert found.outcome is Outcome.REPRODUCED
    assert "3 of 3: MainThread of python is in Condition.wait (threading.py:320) from consume" in found.reason
    assert found.fingerprint is not None
    assert (found.fingerprint.kind, found.fingerprint.title) == ("hang", "hangs at loader.py:consume")
    # By a worker, as well: any thread of any process.
    assert outcome("hang-fork", STOPPED, timed_out={"frames": ["workers.py:worker", "workers.py:log"]}) is (
        Outcome.REPRODUCED
    )


def test_a_hang_elsewhere_is_inconclusive() -> None:
    elsewhere = {"frames": ["loader.py:produce"]}
    assert outcome("hang-queue", STOPPED, timed_out=elsewhere) is Outcome.TIMED_OUT
    once = log("hang-queue").replace("consume (", "prepare (", 1)
    there = Failure.model_validate({"timed_out": {"frames": ["loader.py:consume"]}})
    assert judge(there, STOPPED, once).outcome is Outcome.TIMED_OUT
    assert judge(there, Ending(exit_code=0), log("hang-queue")).outcome is Outcome.PASSED


def test_a_time_limit_that_the_signature_does_not_ask_for_says_where_it_stood() -> None:
    found = judge(Failure(exception="ValueError"), STOPPED, log("hang-fork"))
    assert found.outcome is Outcome.TIMED_OUT
    assert found.reason.startswith(
        "stopped at its time limit after 20.0 s; 3 of 3: MainThread of python is in Popen.poll"
    )
    assert found.fingerprint is None


def test_why_there_are_no_stacks_is_said() -> None:
    text = "working\n\n[reprokit: no stacks: this image has no gdb]\n"
    found = judge(Failure.model_validate({"timed_out": {"frames": ["a.py:f"]}}), STOPPED, text)
    assert found.outcome is Outcome.TIMED_OUT
    assert "this image has no gdb" in found.reason
    assert split(text)[0] == "working\n"


def test_a_block_that_was_cut_is_output() -> None:
    half = log("double-free").rpartition("[reprokit: end")[0]
    assert split(half)[1].threads == ()


def test_the_record_has_the_frames() -> None:
    record = judge_trial(Expect(), 1, SEGV, log("c-extension"), "trial-1.log")
    assert record.failure is not None
    assert [frame.function for frame in record.failure.stack][:2] == ["PyObject_Size", "length"]
    assert record.failure.from_json(record.failure.to_json()) == record.failure


@pytest.mark.system
def test_a_stack_of_a_hundred_thousand_frames_is_kept_short() -> None:
    head = "\n[reprokit: stacks of process 7 (deep) at SIGSEGV in thread 7, by gdb]\nThread 1 (LWP 7):\n"
    frames = "".join(f"#{n}  0x0000 in recurse (n=...) at deep.c:3\n" for n in range(100_000))
    crash = split(head + frames + "[reprokit: end of stacks]\n")[1].crash
    assert crash is not None
    assert len(crash.frames) == 40
