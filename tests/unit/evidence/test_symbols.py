"""Names from debug files in the stacks behind a log: what is asked for, what the log becomes, and what is judged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.model import Failure
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending, Outcome
from reprokit.evidence.native import split
from reprokit.evidence.symbols import Module, Named, modules_to_name, name_frames, strip_parameters

ID = "1429c7a04833681cf6913a89ad2a17b57748ca4d"
LOG = f"""\
before

[reprokit: stacks of process 7 (prog) at SIGSEGV in thread 7, by gdb]
Thread 1 (Thread 0x7f (LWP 7) "prog"):
#0  0x00007f0000001100 in ?? () from /opt/libext.so
#1  <signal handler called>
#2  0x00007f0000001200 in ?? () from /opt/libext.so
#3  0x00007f0000001300 in entry () from /opt/libext.so
#4  0x0000000000001142 in work (x=...) at main.c:3 from /opt/prog
#5  0x00007f0000009999 in ?? () from /opt/other.so
[reprokit: module 0x7f0000000000 {ID} /opt/libext.so]
[reprokit: end of stacks]
"""
NAMES = {
    (ID, 0x1100): [Named(function="inner", file="ext.c", line=1)],
    (ID, 0x1200): [Named(function="mid", file="ext.c", line=2), Named(function="outer", file="ext.c")],
}
CRASH = Ending(exit_code=139)
SIGNATURE = Failure(signal="SIGSEGV", frames=("prog:work", "libext.so:entry", "ext.c:outer", "libext.so:inner"))
WHY = "http://127.0.0.1:1 does not answer: connection refused"


def test_a_frame_is_asked_for_where_it_stood_and_a_caller_before_its_return() -> None:
    assert modules_to_name(LOG) == (Module(path="/opt/libext.so", build_id=ID, offsets=(0x1100, 0x1200, 0x12FF)),)
    assert modules_to_name("no stacks\n") == ()


def test_names_come_with_source_and_library_and_a_signature_may_name_either() -> None:
    crash = split(name_frames(LOG, NAMES, {}))[1].crash
    assert crash is not None
    assert [(one.function, one.file, one.line, one.library) for one in crash.frames] == [
        ("inner", "ext.c", 1, "/opt/libext.so"),
        ("<signal handler called>", "", 0, ""),
        ("mid", "ext.c", 2, "/opt/libext.so"),
        ("outer", "ext.c", 0, "/opt/libext.so"),
        ("entry", "/opt/libext.so", 0, ""),
        ("work", "main.c", 3, "/opt/prog"),
        ("??", "/opt/other.so", 0, ""),
    ]
    judged = judge(SIGNATURE, CRASH, name_frames(LOG, NAMES, {}))
    assert judged.outcome is Outcome.REPRODUCED
    assert judged.fingerprint is not None
    assert "inner" in judged.fingerprint.frames[0]


def test_without_an_answer_of_a_server_frames_are_open_and_not_another_failure() -> None:
    log = name_frames(LOG, {}, {"/opt/libext.so": WHY})
    assert f"[reprokit: no symbols of /opt/libext.so: {WHY}]\n[reprokit: end of stacks]\n" in log
    judged = judge(SIGNATURE, CRASH, log)
    assert judged.outcome is Outcome.INCONCLUSIVE
    assert judged.reason.endswith(f"not all of its frames have names: no symbols of /opt/libext.so: {WHY}")
    assert "with a crash in entry (libext.so) from work (main.c:3)" in judged.reason
    # What does not hang on names is decided as without any server.
    assert judge(Failure(signal="SIGSEGV"), CRASH, log).outcome is Outcome.REPRODUCED
    assert judge(Failure(signal="SIGABRT", frames=("x.c:y",)), CRASH, log).outcome is Outcome.DIFFERENT_FAILURE
    assert judge(Failure(signal="SIGSEGV", frames=("libext.so:entry",)), CRASH, log).outcome is Outcome.REPRODUCED


def test_where_servers_know_no_file_the_log_stays_and_decides() -> None:
    assert name_frames(LOG, {}, {}) == LOG
    assert judge(SIGNATURE, CRASH, LOG).outcome is Outcome.DIFFERENT_FAILURE


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("boom", "boom"),
        ("ns::f<int>(std::vector<int>) const", "ns::f<int>"),
        ("Box::operator()(int)", "Box::operator()"),
        ("(anonymous namespace)::crash(char const*)", "(anonymous namespace)::crash"),
        ("call<void (*)(int)>(void (*)(int)) [clone .part.0]", "call<void (*)(int)>"),
        ("(anonymous namespace)::table", "(anonymous namespace)::table"),
        (")(", ")("),
    ],
)
def test_functions_are_named_as_debuggers_name_frames(name: str, plain: str) -> None:
    assert strip_parameters(name) == plain


PIECES = st.sampled_from([*LOG.splitlines(keepends=True), "\n", "\n[reprokit: no stacks: x]\n", "]\n"])


@given(st.lists(PIECES | st.text(max_size=40), max_size=30).map("".join))
def test_any_text_keeps_all_lines_that_it_had(text: str) -> None:
    assert name_frames(text, {}, {}) == text
    for module in modules_to_name(text):
        assert module.build_id == ID
    changed = name_frames(text, NAMES, {"/opt/libext.so": WHY})
    assert changed.startswith(text.partition("[reprokit: stacks of process ")[0])
    split(changed)
