"""``reprokit audit`` on the real engine: planted cases, each with a program that is what it says. The bench has 60."""

from __future__ import annotations

import json

import pytest

from tests.documents import as_published
from tests.integration.test_run import User

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: {name}
title: {name}
matrix: {{os: [debian-12], python: ["3.11"]}}
env: {{FIXED: ""}}
resources: {{network: bridge}}
files:
  test_it.py: |
    import os, pathlib, socket, unittest
    class Test(unittest.TestCase):
        def test_a(self):
            {first}
        def test_b(self):
            assert os.environ["FIXED"]
        def test_c(self):
            {last}
command: {command}
expect: {{failure: {{exit_code: 1}}}}
fix: {{env: {{FIXED: "1"}}}}
"""
LEFT = "pathlib.Path('/tmp/left')"
SOCKET = "socket.socket(type=socket.SOCK_DGRAM).connect(('10.9.8.7', 9))"
PLANTED = {
    "sound": ("pass", "pass", "sound"),
    "order": (f"{LEFT}.touch()", f"assert {LEFT}.exists()", "order"),
    "network": (SOCKET, "pass", "network"),
    "cores": ("pass", "assert len(os.sched_getaffinity(0)) > 1", "flaky test"),
    "breaks": ("pass", "assert not os.environ['FIXED']", "fix fails"),
}


def findings(user: User, *words: str, status: int) -> tuple[dict[str, str], str]:
    """What each case is found to be, and the screen."""
    said = user.types("audit", ".", "--json", "out.json", *words, status=status)
    done = as_published("audit", json.loads((user.folder / "out.json").read_text()))
    return {one["case"]["id"]: one["answer"]["finding"] for one in done["cases"]}, said


def test_planted_cases_are_found_and_a_sound_one_is_not(user: User) -> None:
    for name, (first, last, _) in PLANTED.items():
        text = CASE.format(name=name, first=first, last=last, command="python -m unittest test_it")
        user.write(f"{name}.yaml", text)
    without = ("--without", "date", "--without", "rebuilt")
    found, said = findings(user, "--trials", "4", *without, status=1)
    assert found == {name: finding for name, (*_, finding) in PLANTED.items()}
    assert "with the fix it passes in 0 of " in said
    # Each is one search, which is recorded, and taken over.
    assert found == findings(user, "--trials", "4", *without, "--resume", status=1)[0]
    assert len(user.types("history").splitlines()) == len(PLANTED)


@pytest.mark.nightly
def test_another_day_and_an_image_that_differs_when_it_is_built_again(user: User) -> None:
    plain = CASE.format(name="drift", first="pass", last="pass", command="cat /opt/built")
    plain += "environment: {setup: date +%s%N > /opt/built}\n"
    user.write("drift.yaml", plain)
    user.types("run", "drift.yaml", "--trials", "1")
    built = user.types("show", "last", "1", "--log").split()[-1]
    assert built.isdigit()
    # In the image that exists, which no variable and no command changes.
    command = f"test $(cat /opt/built) = {built} && python -m unittest test_it"
    user.write("drift.yaml", plain.replace("cat /opt/built\n", f"{command}\n"))
    command = "python -m unittest test_it && test $(date +%Y) -lt 2035"
    user.write("bomb.yaml", CASE.format(name="bomb", first="pass", last="pass", command=command))
    found, said = findings(user, "--trials", "5", "--without", "order", "--without", "core", status=1)
    assert found == {"bomb": "time bomb", "drift": "drift"}
    assert "rebuilt from nothing" in said
