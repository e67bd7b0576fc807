"""Stacks of crashes and hangs in real containers, by the debuggers of a layer over the image."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from tests.integration.test_run import User
from tests.unit.debug_elf import debug_file
from tests.unit.run.test_debug_files import sends, serving

pytestmark = pytest.mark.integration

CASE = """
schema: reprokit/v1
id: stacks-of-{name}
title: A program for this test
matrix: {{os: [debian-12], python: ["3.11"]}}
files:
  program.py: |
    import os, queue, signal

    def inner():
        {statement}

    def outer():
        inner()

    outer()
command: python program.py
resources: {{timeout: {timeout}, backtrace: true}}
expect:
  failure: {failure}
"""


def case(name: str, statement: str, failure: str, timeout: str = "2m") -> str:
    return CASE.format(name=name, statement=statement, failure=failure, timeout=timeout)


def test_a_crash_and_a_hang_are_identified_by_their_stacks_and_what_passes_passes(user: User) -> None:
    frames = '["program.py:outer", "program.py:inner"]'
    # Python's frames and, of a library without symbols of its own, a native one.
    user.write("crash.yaml", case("crash", "os.abort()", f"{{signal: SIGABRT, frames: {frames}}}"))
    user.write("hang.yaml", case("hang", "queue.Queue().get()", f"{{timed_out: {{frames: {frames}}}}}", "20s"))
    user.write("pass.yaml", case("pass", "signal.signal(signal.SIGSEGV, print); os.kill(os.getpid(), 11)", "{}"))
    user.types("run", ".", "--jobs", "3")
    crash, hang, passed = user.cells()
    assert (crash["verdict"], hang["verdict"], passed["verdict"]) == ("reproduced", "reproduced", "not-reproduced")
    assert "inner (program.py:4)" in crash["reason"]
    assert "3 of 3: MainThread of python is in " in hang["reason"]
    stack = [frame["function"] for frame in crash["details"]["failure"]["stack"]]
    assert stack[-3:] == ["inner", "outer", "<module>"]
    assert any(name.endswith("abort") for name in stack[:-3])


def test_frames_of_files_without_symbols_get_names_from_a_server_and_are_open_without_it(
    user: User,
) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        build_id = request.path.split("/")[2]
        sends(debug_file(build_id, f"served_{build_id[:6]}"))(request)

    signature = '{signal: SIGSEGV, frames: ["program.py:outer", "_ctypes:served_.*", "libc:served_.*|.*str.*"]}'
    user.write("case.yaml", case("served", "__import__('ctypes').string_at(1)", signature))
    user.environment |= {"XDG_CACHE_HOME": str(user.folder / "cache"), "REPROKIT_DEBUGINFOD": "http://127.0.0.1:1"}
    user.types("run", "case.yaml", status=3)
    (gone,) = user.cells()
    assert gone["verdict"] == "inconclusive"
    assert "http://127.0.0.1:1 does not answer" in gone["reason"]
    with serving(answer) as (url, asked):
        user.environment["REPROKIT_DEBUGINFOD"] = url
        user.types("run", "case.yaml")
        (served,) = user.cells()
    assert served["verdict"] == "reproduced"
    assert len(asked) == len(set(asked)) > 1
    stack = served["details"]["failure"]["stack"]
    assert any(frame["function"].startswith("served_") for frame in stack)
