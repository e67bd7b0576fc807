"""Stacks of crashes and hangs in real containers, by the debuggers of a layer over the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_run import User

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


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


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
