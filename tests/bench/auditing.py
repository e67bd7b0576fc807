"""Cases that are planted to be what ``reprokit audit`` finds: the first half by its classes, the others as bugs come.

Every case is a Python program in one image, whose variable FIXED is its fix. Drift is planted by the moment of a build.
"""

# ruff: noqa: E501 - a planted case is a line

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import yaml

REPROKIT = [sys.executable, "-m", "reprokit"]
IMAGE = "reprokit-bench-audit:1"
UNITTEST, PYTEST, PLAIN = "python -m unittest test_it", "python -m pytest -q test_it.py", "python test_it.py"
BEGIN = """\
import datetime, glob, os, pathlib, random, socket, struct, subprocess, sys, tempfile, threading, time, unittest
FIXED = bool(os.environ["FIXED"])
"""
BUG = "assert FIXED"


@dataclass(frozen=True)
class Planted:
    """A case of that ``finding``, of one ``test``; ``before``: what runs ahead of it, ``after``: behind it."""

    finding: str
    name: str
    test: str = BUG
    before: str = "pass"
    after: str = "pass"
    head: str = ""
    command: str = UNITTEST
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, Any]:
        """The case."""
        names = {"test_a": self.before, "test_b": self.test, "test_c": self.after}
        if self.command == PLAIN:
            text = self.head + self.test
        elif self.command == PYTEST:
            text = self.head + "".join(f"\ndef {name}():\n" + _indent(body, 4) for name, body in names.items())
        else:
            tests = "".join(f"    def {name}(self):\n" + _indent(body, 8) for name, body in names.items())
            text = f"{self.head}\nclass Test(unittest.TestCase):\n{tests}"
        return {
            "schema": "reprokit/v1",
            "id": self.name,
            "title": self.name,
            "environment": {"image": IMAGE},
            "env": {"FIXED": ""},
            "files": {"test_it.py": BEGIN + text},
            "command": self.command,
            "expect": {"failure": {"exit_code": "nonzero"}},
            "fix": {"env": {"FIXED": "1"}},
            **self.more,
        }


def _indent(text: str, by: int) -> str:
    return "".join(" " * by + line + "\n" for line in text.splitlines())


NET = {"resources": {"network": "bridge"}}
REACH = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('10.9.8.7', 9))"
FLAKE = "assert FIXED and random.random() < .7"
LEFT = "pathlib.Path('/tmp/left')"
FIRST = [
    Planted("sound", "sound-unittest"),
    Planted("sound", "sound-pytest", command=PYTEST),
    Planted("sound", "sound-plain", command=PLAIN),
    Planted("sound", "sound-network-unused", more=NET),
    Planted("sound", "sound-today", "assert datetime.date.today() > datetime.date(2020, 1, 1) and FIXED"),
    Planted("sound", "sound-tomorrow", "assert datetime.timedelta(days=1) + datetime.datetime.now() and FIXED"),
    Planted("sound", "sound-own-files", "with tempfile.TemporaryDirectory() as name:\n    os.mkdir(name + '/a')\n" + BUG),
    Planted("sound", "sound-list", more={"command": ["python", "-m", "unittest", "test_it"]}),
    Planted("sound", "sound-abort", "FIXED or os.abort()", more={"expect": {"failure": {"signal": "SIGABRT"}}}),
    Planted("sound", "sound-exception", "if not FIXED: raise KeyError(1)", command=PLAIN,
            more={"expect": {"failure": {"exception": "KeyError"}}}),
    Planted("flaky test", "flaky-before", "assert FIXED or random.random() < .3"),
    Planted("flaky test", "flaky-after", FLAKE),
    Planted("flaky test", "flaky-both", "assert random.random() < .5"),
    Planted("flaky test", "flaky-other-way", "if not FIXED and random.random() < .4: sys.exit(0)\n" + BUG, command=PLAIN),
    Planted("order", "order-file", BUG, f"{LEFT}.touch()", f"assert {LEFT}.exists()"),
    Planted("order", "order-global", BUG, "SEEN.append(1)", "assert SEEN", "SEEN = []\n", PYTEST),
    Planted("order", "order-environment", BUG, "assert 'X' not in os.environ", "os.environ['X'] = '1'"),
    Planted("time bomb", "bomb-fixed", "assert FIXED and datetime.date.today() < datetime.date(2027, 6, 1)"),
    Planted("time bomb", "bomb-gone-off", "assert FIXED and time.time() < 1735689600"),
    Planted("time bomb", "bomb-32-bit", "struct.pack('i', int(time.time()) + 2 * 365 * 86400)\n" + BUG),
    Planted("network", "network-socket", f"{REACH}\n{BUG}", more=NET),
    Planted("network", "network-interface", f"assert len(socket.if_nameindex()) > 1\n{BUG}", more=NET),
    Planted("fix fails", "fix-empty", "assert False"),
    Planted("fix fails", "fix-breaks", "assert FIXED; undefined", command=PLAIN),
    Planted("never failed", "never-passes", "pass"),
    Planted("never failed", "never-otherwise", "import absent", command=PLAIN,
            more={"expect": {"failure": {"exception": "KeyError"}}, "fix": {"command": "true"}}),
]  # fmt: skip
OTHERS = [
    Planted("sound", "sound-threads", "t = [threading.Thread(target=time.sleep, args=(.01,)) for _ in range(9)]\n"
            "for one in t: one.start()\nfor one in t: one.join()\n" + BUG),
    Planted("sound", "sound-fixture", "assert FIXED", head="import pytest\n@pytest.fixture(scope='module', autouse=True)\n"
            "def once():\n    yield 1\n", command=PYTEST),
    Planted("sound", "sound-children", "assert subprocess.run([sys.executable, '-c', 'import time; time.time()']).returncode == 0\n" + BUG),
    Planted("sound", "sound-mtime", "a = tempfile.NamedTemporaryFile(); a.write(b'1'); a.flush()\n"
            "assert abs(os.stat(a.name).st_mtime - time.time()) < 60\n" + BUG),
    Planted("sound", "sound-sleep", "a = time.monotonic(); time.sleep(.2); assert .1 < time.monotonic() - a < 5\n" + BUG),
    Planted("sound", "sound-condition", "c = threading.Condition()\nwith c: c.wait(.2)\n" + BUG),
    Planted("sound", "sound-leap", "d = datetime.date.today(); d + datetime.timedelta(days=366)\n" + BUG),
    Planted("sound", "sound-set", "assert sorted({'a', 'b', 'c'}) == ['a', 'b', 'c'] and FIXED"),
    Planted("sound", "sound-output", "print('wrong' if not FIXED else 'right')", command=PLAIN,
            more={"expect": {"failure": {"output": "wrong"}}}),
    Planted("sound", "sound-one", command="python -m unittest test_it.Test.test_b"),
    Planted("sound", "sound-shell", more={"command": "set -u\ncat <<E\nhi\nE\n" + UNITTEST}),
    Planted("sound", "sound-setup-class", BUG, "assert self.x == 1", "assert self.x == 1",
            head="class Base(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        cls.x = 1\n"
            "unittest.TestCase = Base\n"),
    Planted("sound", "sound-loopback", "s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())\n" + BUG),
    Planted("sound", "sound-xfail", BUG, "import pytest; pytest.skip('no')", "pass", command=PYTEST),
    Planted("flaky test", "flaky-hash", "assert FIXED and next(iter({'a', 'b'})) == 'a'"),
    Planted("flaky test", "flaky-clock", "assert FIXED and time.time_ns() // 1000 % 3"),
    Planted("flaky test", "flaky-memory", "assert FIXED and (id(object()) >> 24) % 4"),
    Planted("flaky test", "flaky-cores", "assert FIXED and len(os.sched_getaffinity(0)) > 1"),
    Planted("flaky test", "flaky-race", "n = []\ndef f():\n    time.sleep(random.random() / 50); n.append(threading.get_ident())\n"
            "t = [threading.Thread(target=f) for _ in range(2)]\nfor one in t: one.start()\nfor one in t: one.join()\n"
            "assert FIXED and n[0] == t[0].ident"),
    Planted("flaky test", "flaky-fix", "assert FIXED and os.urandom(1)[0] % 5", command=PYTEST),
    Planted("order", "order-folder", BUG, "os.chdir('/tmp')", "assert os.path.exists('test_it.py') is False"),
    Planted("order", "order-module", BUG, "import json; json.loads = None", "import json\nassert json.loads is None"),
    Planted("order", "order-of-bug", "assert FIXED or 'X' not in os.environ", "os.environ['X'] = '1'", command=PYTEST),
    Planted("order", "order-cache", "assert FIXED", "import functools; random.seed(1)", "assert random.random() < .2",
            head="random.seed(2)\n", command=PYTEST),
    Planted("time bomb", "bomb-leap", "d = datetime.date.today(); d.replace(year=d.year + 1)\n" + BUG),
    Planted("time bomb", "bomb-shell", more={"command": f"test $(date +%Y) -lt 2028\n{UNITTEST}"}),
    Planted("time bomb", "bomb-year-end", "assert FIXED and (datetime.date.today() + datetime.timedelta(days=1)).year == datetime.date.today().year"),
    Planted("time bomb", "bomb-old", "assert FIXED or datetime.date.today() > datetime.date(2025, 5, 1)"),
    Planted("time bomb", "bomb-far", "assert FIXED and time.localtime().tm_year < 2035", command=PYTEST),
    Planted("network", "network-route", f"assert pathlib.Path('/proc/net/route').read_text().count('eth0')\n{BUG}", more=NET),
    Planted("network", "network-lacking", f"{REACH}\n{BUG}"),
    Planted("fix fails", "fix-other-failure", "assert FIXED; os.kill(os.getpid(), 9)", command=PLAIN),
    Planted("never failed", "never-typo", more={"command": "python -m unitest test_it",
            "expect": {"failure": {"exception": "AssertionError"}}, "fix": {"command": UNITTEST, "env": {"FIXED": "1"}}}),
]  # fmt: skip
SOON = 25
"""Seconds after which what is built differs."""


def drifting(now: float) -> list[Planted]:
    """Cases whose image, if it is built after some seconds, makes another result or is not built."""
    late = f"test $(date +%s) -lt {now + SOON:.0f}"

    def setup(text: str) -> dict[str, Any]:
        return {"environment": {"image": IMAGE, "setup": text}}

    return [
        Planted("drift", "drift-fix", "assert FIXED and not os.path.exists('/opt/new')", more=setup(f"{late} || touch /opt/new")),
        Planted("drift", "drift-bug", "assert FIXED or os.path.exists('/opt/new')", more=setup(f"{late} || touch /opt/new")),
        Planted("drift", "drift-build", more=setup(late)),
        Planted("drift", "drift-otherwise", "open('/opt/old')\n" + BUG, more=setup(f"! {late} || touch /opt/old")),
        Planted("sound", "drift-none", more=setup("date > /opt/built")),
    ]  # fmt: skip


def make_image(folder: Path) -> None:
    """The image of all cases: with Python, pytest and libfaketime, so that no case waits for them."""
    case = {
        "schema": "reprokit/v1",
        "id": "image",
        "title": "The image",
        "matrix": {"os": ["debian-12"], "python": ["3.11"]},
        "environment": {"apt": ["libfaketime"], "pip": ["pytest"]},
        "command": "true",
    }
    (folder / "image.yaml").write_text(yaml.safe_dump(case))
    words = [*REPROKIT, "run", "image.yaml", "--build-only", "--json", "image.json"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    [built] = json.loads((folder / "image.json").read_text())["images"]
    repository, _, tag = IMAGE.partition(":")
    docker.from_env().images.get(built["tag"]).tag(repository, tag)
    (folder / "image.yaml").unlink()


def lines(folder: Path, only: Sequence[str] = ()) -> Iterator[str]:
    """Plant the cases, audit them, and say how many were found, and how many sound ones were not."""
    make_image(folder)
    planted = [*FIRST, *OTHERS, *drifting(began := time.time())]
    chosen = [one for one in planted if not only or one.name in only]
    for one in chosen:
        (folder / f"{one.name}.yaml").write_text(yaml.safe_dump(one.data, sort_keys=False))
    drifts = [f"{one.name}.yaml" for one in chosen if one.name.startswith("drift")]
    if drifts:
        subprocess.run(
            [*REPROKIT, "run", *drifts, "--fix", "--build-only"], cwd=folder, check=False, capture_output=True
        )
        time.sleep(max(0.0, began + SOON + 1 - time.time()))
    words = [*REPROKIT, "audit", ".", "--json", "audit.json"]
    subprocess.run(words, cwd=folder, check=False, stdout=(folder / "log").open("w"), stderr=subprocess.STDOUT)
    done = json.loads((folder / "audit.json").read_text())
    found = {one["case"]["id"]: one["answer"]["finding"] for one in done["cases"] if one["answer"]}
    for one in chosen:
        if found.get(one.name) != one.finding:
            yield f"{one.name}: planted {one.finding}, found {found.get(one.name)}"
    wrong = [one for one in chosen if one.finding != "sound"]
    hits = sum(found.get(one.name) == one.finding for one in wrong)
    noticed = sum(found.get(one.name) not in ("sound", None) for one in wrong)
    alarms = sum(found.get(one.name) != "sound" for one in chosen if one.finding == "sound")
    yield f"recall {noticed} of {len(wrong)}, {hits} of them by class; {alarms} of {len(chosen) - len(wrong)} sound ones not"
    yield f"{len(chosen)} cases in {(time.time() - began) / 60:.1f} min"
