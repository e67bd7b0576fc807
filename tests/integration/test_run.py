"""``reprokit run`` as a user types it, on the real engine: verdicts, evidence, limits, floods, kills and neighbours."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.documents import as_published
from tests.servers import wait_until

pytestmark = pytest.mark.integration
REPOSITORY = Path(__file__).parents[2]
REPROKIT = [sys.executable, "-m", "reprokit"]


class User:
    """Someone in a folder of their own, with a store of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "REPROKIT_STORE": str(folder / "store"), "PYTHONPATH": str(REPOSITORY)}

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        if name == "reprokit.toml":
            self.environment["REPROKIT_CONFIG"] = str(self.folder / name)

    def types(self, *words: str, status: int = 0, stdin: str = "") -> str:
        """What the screen says, which must come with that exit status."""
        done = subprocess.run(
            [*REPROKIT, *words],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, f"exit {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def starts(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*REPROKIT, *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def result(self) -> dict[str, Any]:
        data: dict[str, Any] = as_published("result", json.loads(self.types("show", "--json")))
        return data

    def cells(self) -> list[dict[str, Any]]:
        return [cell for case in self.result()["cases"] for cell in case["cells"]]


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


def containers_of(engine: docker.DockerClient, case_id: str) -> list[Any]:
    # The plain listing: the SDK's objects are inspected one by one, and one may be gone by then.
    return list(engine.api.containers(all=True, filters={"label": f"org.reprokit.case={case_id}"}))


def test_the_first_case_reproduces_exactly_where_it_should_and_then_builds_nothing(user: User) -> None:
    case = str(REPOSITORY / "cases" / "ptxas_unknown_arch.yaml")
    user.types("run", case, "--json", "out.json", "--junit", "out.xml")
    verdicts = {(cell["cell"]["cuda"], cell["cell"]["arch"]): cell["verdict"] for cell in user.cells()}
    assert {cell for cell, verdict in verdicts.items() if verdict == "reproduced"} == {
        ("11.7", "sm_90"),
        ("12.0", "sm_35"),
    }
    assert len(verdicts) == 6
    assert {cell["cell"]["cuda"]: cell["environment"]["cuda"][:4] for cell in user.cells()} == {
        "11.7": "11.7",
        "11.8": "11.8",
        "12.0": "12.0",
    }
    assert "all as expected" in user.types("run", case)
    assert not any(cell["image"]["built"] for cell in user.cells())
    assert json.loads((user.folder / "out.json").read_text())["format"] == "reprokit-result/v1"


TRACEBACK = """\
schema: reprokit/v1
id: traceback
title: A traceback, seen in show
matrix: {os: [debian-12], how: [good, bad]}
files:
  go.py: |
    import sys
    def inner(how):
        if how == "bad":
            raise ValueError("singular U")
    def outer(how):
        inner(how)
    print("hello from the container")
    outer(sys.argv[1])
command: python go.py {{ how }}
expect:
  failure: {exception: ValueError, message: singular, frames: ["go.py:outer", "go.py:inner"]}
  reproduces: [{how: bad}]
"""


def test_show_has_the_log_the_environment_the_dockerfile_and_a_line_that_repeats_it(user: User) -> None:
    user.write("case.yaml", TRACEBACK)
    user.types("run", "case.yaml")
    shown = user.types("show", "last", "2")
    for text in ("ValueError: singular U", "hello from the container", "Python: 3.11.2"):
        assert text in shown
    assert "FROM " in user.types("show", "last", "2", "--dockerfile")
    marked = [line for line in shown.splitlines() if line.startswith(">")]
    assert any("ValueError: singular U" in line for line in marked)
    line = user.types("show", "last", "2", "--repeat").strip()
    again = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "ValueError: singular U" in again.stdout  # one pipe for both streams, as in the trial
    assert "reproduced" in user.types("history", "traceback")


HANDED = """\
schema: reprokit/v1
id: handed
title: Files of a case belong to the user that runs
matrix: {os: [debian-12], text: [one, two]}
files:
  deep/er/go.sh: |
    #!/bin/bash
    grep -q {{ text }} data.txt && echo more >> data.txt && touch deep/er/new
    [ "$(stat -c %U:%a deep deep/er deep/er/go.sh data.txt | tr '\\n' ' ')" = \
      "repro:755 repro:755 repro:755 repro:644 " ]
  data.txt: "{{ text }}\\n"
command: deep/er/go.sh
expect: {reproduces: none}
"""


def test_files_of_a_case_come_with_each_container_and_are_the_users(user: User) -> None:
    user.write("case.yaml", HANDED)
    user.types("run", "case.yaml", "--trials", "2")
    assert [cell["verdict"] for cell in user.cells()] == ["not-reproduced"] * 2
    assert len({cell["image"]["tag"] for cell in user.cells()}) == 1


RELEASES = """\
schema: reprokit/v1
id: releases
title: Three Debian releases, each with its own Python and GCC
matrix:
  include:
    - {os: debian-11, python: "3.9", gcc: "10"}
    - {os: debian-12, python: "3.11", gcc: "12.2"}
    - {os: debian-13, python: "3.13", gcc: "14"}
command: |
  python --version
  echo 'int main() { return 0; }' > /tmp/a.c && gcc /tmp/a.c -o /tmp/a && /tmp/a
expect: {reproduces: none}
"""


@pytest.mark.nightly
def test_three_debian_releases_measure_as_asked(user: User) -> None:
    user.write("case.yaml", RELEASES)
    user.types("run", "case.yaml")
    measured = [(cell["environment"]["python"][:4], cell["environment"]["gcc"][:2]) for cell in user.cells()]
    assert measured == [("3.9.", "10"), ("3.11", "12"), ("3.13", "14")]


ENDINGS = """\
schema: reprokit/v1
id: endings
title: Ends that say nothing about the bug
matrix: {os: [debian-12], how: [hang, eat, segv, other, good]}
files:
  go.py: |
    import os, signal, sys, time
    how = sys.argv[1]
    if how == "hang": time.sleep(60)
    if how == "eat": hoard = [bytearray(b"x" * (1 << 20)) for _ in range(4000)]
    if how == "segv": os.kill(os.getpid(), signal.SIGSEGV)
    if how == "other": raise KeyError("another")
command: exec python go.py {{ how }}
resources: {memory: 128m, timeout: 4s}
expect:
  failure: {signal: SIGSEGV}
  reproduces: [{how: segv}]
"""


def test_every_kind_of_end_gets_its_own_verdict(user: User, engine: docker.DockerClient) -> None:
    user.write("case.yaml", ENDINGS)
    user.types("run", "case.yaml", status=1)
    assert {cell["cell"]["how"]: cell["verdict"] for cell in user.cells()} == {
        "hang": "timed-out",
        "eat": "out-of-memory",
        "segv": "reproduced",
        "other": "different-failure",
        "good": "not-reproduced",
    }
    assert not containers_of(engine, "endings")


FLOOD = """\
schema: reprokit/v1
id: flood
title: Much output, and the failure at its end
matrix: {os: [debian-12]}
command: |
  python -c 'raise KeyError("early")' || true
  (yes 'nothing to see here' || true) | head -c 60000000
  python -c 'raise ValueError("late")' || true
  (yes 'nothing to see here' || true) | head -c 20000000
  exit 1
expect:
  failure: {exception: ValueError, message: late}
  reproduces: all
"""


def test_a_flood_fills_neither_disk_nor_hides_the_failure(user: User) -> None:
    user.write("case.yaml", FLOOD)
    user.types("run", "case.yaml")
    log = next((user.folder / "store" / "runs").rglob("*.log"))
    assert log.stat().st_size < 30_000_000
    text = log.read_text()
    assert "KeyError: 'early'" in text
    assert "cut" in text


def test_an_image_that_was_tagged_over_ours_is_not_taken_for_it(user: User, engine: docker.DockerClient) -> None:
    user.write(
        "case.yaml",
        "schema: reprokit/v1\nid: retagged\ntitle: Its image says which cell it is\n"
        f'matrix: {{os: [debian-12], n: ["1-{os.getpid()}", "2-{os.getpid()}"]}}\n'
        'environment: {setup: "echo {{ n }} > /n"}\ncommand: grep -q ^1 /n\n'
        f'expect: {{reproduces: [{{n: "2-{os.getpid()}"}}]}}\n',
    )
    user.types("run", "case.yaml")
    first = user.cells()
    assert [cell["verdict"] for cell in first] == ["not-reproduced", "reproduced"]
    one, two = (cell["image"]["tag"] for cell in first)
    engine.images.get(one).tag(*two.split(":"))
    user.types("run", "case.yaml")
    assert [cell["verdict"] for cell in user.cells()] == ["not-reproduced", "reproduced"]
    assert [cell["image"]["built"] for cell in user.cells()] == [False, True]


SLOW_ID = f"slow-{os.getpid()}"  # of this worker alone: others run these tests at the same time
SLOW = f"""\
schema: reprokit/v1
id: {SLOW_ID}
title: Slow enough to be killed in the middle
matrix: {{os: [debian-12], n: ["1", "2", "3", "4"]}}
command: "sleep {{{{ 0 if n == '1' else 6 }}}}"
expect: {{reproduces: none}}
"""


def wait_for(text: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"the run ended without saying {text!r}")


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
)
def test_a_run_that_is_stopped_leaves_nothing_and_goes_on(
    user: User, engine: docker.DockerClient, how: signal.Signals
) -> None:
    user.write("case.yaml", SLOW)
    found = re.search(r"reprokit/img:\w+", user.types("run", "--build-only", "case.yaml"))
    assert found
    neighbour = engine.containers.run(
        found[0],
        ["sleep", "300"],
        detach=True,
        labels={"neighbour": "1"},
    )
    try:
        process = user.starts("run", "case.yaml", "--jobs", "2")
        wait_for("/4] ", process)
        wait_until(lambda: len(containers_of(engine, SLOW_ID)) >= 2)
        process.send_signal(how)
        assert process.wait(60) == (-how if how is signal.SIGKILL else 130)
        left = [name for one in containers_of(engine, SLOW_ID) for name in one["Names"]]
        if how is not signal.SIGKILL:
            assert process.stdout is not None
            named = process.stdout.read()  # what an engine that is too busy does not remove in time
            assert [name for name in left if name.lstrip("/") not in named] == []
        said = user.types("run", "--resume")
        assert "resuming run" in said
        assert left or f"case {SLOW_ID}" not in said  # what a run of a test beside this one left may be removed here
        assert {cell["verdict"] for cell in user.cells()} == {"not-reproduced"}
        assert not containers_of(engine, SLOW_ID)
        neighbour.reload()
        assert neighbour.status == "running"
    finally:
        neighbour.remove(force=True, v=True)


def test_the_flagship_without_a_gpu_is_unsupported_at_once_and_renders(user: User) -> None:
    case = str(REPOSITORY / "cases" / "cityscapes_rmi.yaml")
    said = user.types("run", case, "--cuda", "11.8,12.0", status=3)
    assert {cell["verdict"] for cell in user.cells()} == {"unsupported"}
    assert "GPU" in said
    assert all(cell["image"] is None for cell in user.cells())
    rendered = user.types("render", case, "--cuda", "11.8,12.0", "--base", "registry")
    assert rendered.count("FROM ") >= 2
    assert re.search(r"paddlepaddle-gpu==2\.6\.2\.post120\b", rendered)
    assert "https://www.paddlepaddle.org.cn/packages/stable/cu120/" in rendered


@pytest.mark.parametrize("words", [("render",), ("render", "--devcontainer", "--only", "how=bad")])
def test_a_written_folder_builds_with_plain_docker_build(user: User, words: tuple[str, ...]) -> None:
    user.write("case.yaml", TRACEBACK)
    user.types("run", "--build-only", "case.yaml")
    user.types(*words, "case.yaml", "-o", "out")
    folders = list((user.folder / "out").iterdir())
    assert len(folders) == 1
    done = subprocess.run(
        ["docker", "build", "-q", "-t", "reprokit-test/rendered", str(folders[0])],
        env={**os.environ, "DOCKER_BUILDKIT": "1", "PATH": f"/usr/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    subprocess.run(["docker", "rmi", "reprokit-test/rendered"], capture_output=True, check=False)


def test_a_failed_build_is_named_by_its_cause_the_line_and_what_to_put_into_the_case(user: User) -> None:
    user.write(
        "case.yaml",
        """\
schema: reprokit/v1
id: failed-builds
title: Builds that fail
matrix: {os: [debian-12], python: ["3.11"], how: [missing, line, pip]}
environment:
  pip: ["{% if how == 'pip' %}six==1.16.0{% else %}six==1.17.0{% endif %}", "six==1.17.0"]
  setup: |
    echo one
    {% if how == "missing" %}unzip data.zip{% else %}test -d /absent{% endif %}
command: "true"
""",
    )
    shown = user.types("run", "case.yaml", status=3)
    reasons = {cell["cell"]["how"]: cell["reason"] for cell in user.cells()}
    assert reasons == {
        "missing": "the program unzip is not installed; put into the case: environment.apt: [unzip] "
        "(step: line 2 of environment.setup)",
        "line": "test -d /absent failed with exit status 1 (step: line 2 of environment.setup)",
        "pip": "the requirements conflict: the case asks for six==1.16.0 and the case asks for six==1.17.0 "
        "(step: pip install six==1.16.0 six==1.17.0)",
    }
    assert shown.count("build failed after ") == 3
    assert all(cell["details"]["build"]["cause"] for cell in user.cells())


def test_without_an_engine_a_run_says_it_once_and_records_nothing(user: User) -> None:
    user.environment["DOCKER_HOST"] = f"unix://{user.folder}/none.sock"
    shown = user.types("run", str(REPOSITORY / "cases" / "ptxas_unknown_arch.yaml"), status=3)
    assert shown.count("no container engine listens") == 1
    assert not (user.folder / "store").exists()


def test_a_cell_whose_pin_the_command_finds_otherwise_is_not_what_it_is_called(user: User) -> None:
    case = """\
schema: reprokit/v1
id: pins
title: Pins
matrix:
  os: [debian-12]
  python: ["3.11"]
  how:
    - "true"
    - pip install six==1.17.0
    - pip install --target /opt/lib six==1.16.0
    - pip install --target /opt/lib six==1.15.0 && pip install six==1.17.0
environment: {pip: ["six==1.15.0"], setup: "{{ how }}"}
env: {PYTHONPATH: /opt/lib}
command: python -c "import six; assert six.__version__ != '1.15.0'"
expect: {failure: {exception: AssertionError}}
"""
    user.write("pins.yaml", case)
    user.types("run", "pins.yaml", status=3)
    cells = user.cells()
    mismatch = "environment-mismatch"
    assert [cell["verdict"] for cell in cells] == ["reproduced", mismatch, mismatch, "reproduced"]
    assert [cell["environment"]["packages"]["pip"]["six"] for cell in cells] == ["1.15.0", "1.17.0", "1.16.0", "1.15.0"]
    assert "six==1.15.0" in cells[1]["reason"]
