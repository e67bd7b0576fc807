"""Bugs of BugsInPy, both sides of each: ``new --data-set`` and ``run --fix``, against that project's own programs."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import yaml

REPROKIT = [sys.executable, "-m", "reprokit"]
BASE, PEER, LABEL = "reprokit/base:debian-11", "reprokit-bench-bugsinpy", "reprokit-bench=bugsinpy"
SEEN = ("--os", "debian-11", "--python", "3.9", "--base", "bootstrap", "--engine", "docker", "--confirm", "never")
PACKAGES = "python3 python3-venv python3-dev build-essential git dos2unix ca-certificates"
PINNED = {"tqdm": ("pytest==8.3.5", "pluggy==1.5.0", "packaging==24.2", "iniconfig==2.0.0")}
"""What has to be newer for Python 3.9, whose ``sys`` lacks what pytest 5 calls: for ours as for theirs."""
ALONE = """\
export PATH=/bugs/framework/bin:$PATH HOME=/work
mkdir -p /bugs && cp -r /data/framework /bugs/ && mkdir -p /bugs/projects && cp -r /data/projects/$1 /bugs/projects/
for side in 0 1; do (
  mkdir -p /work/$side && cd /work/$side && touch .bashrc && export HOME=/work/$side
  git config --global url.file:///repository.insteadOf "$2" && git config --global safe.directory '*'
  cp -r /bugs /work/$side/bugs && PATH=/work/$side/bugs/framework/bin:$PATH
  bugsinpy-checkout -p $1 -i $3 -v $side -w /work/$side/tree && cd tree/$1 && bugsinpy-compile
  shift 3 && if [ $# -gt 0 ]; then env/bin/pip install "$@"; fi
) > /work/$side.log 2>&1 & done; wait
"""
TESTS = """\
export HOME=/work
for side in 0 1; do (
  cd /work/$side/tree/$1 && PYTHONPATH=$PWD HOME=/work/$side /data/framework/bin/bugsinpy-test
  if [ -e bugsinpy_fail.txt ]; then echo failed > ../verdict; else echo passed > ../verdict; fi
) > /work/$side.test.log 2>&1 & done; wait
cat /work/0/tree/verdict /work/1/tree/verdict
"""


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A bug, the folder with its case, and the address that BugsInPy clones from."""

    project: str
    number: str
    cases: Path
    address: str

    @property
    def name(self) -> str:
        """As its case is called."""
        return f"{self.project}-{self.number}"


def report(folder: Path, data: Path, repositories: Mapping[str, Path], wanted: Sequence[str]) -> Iterator[str]:
    """A line for each bug, and the medians. ``wanted``: ``PROJECT:NUMBER``; none = all bugs of the repositories."""
    names = list(wanted) or [
        f"{project}:{number}"
        for project in repositories
        for number in sorted((one.name for one in (data / "projects" / project / "bugs").iterdir()), key=_number)
    ]
    _make_peer()
    ratios: dict[str, list[float]] = {"cold": [], "warm": []}
    ours_right = theirs_right = 0
    for name in names:
        bug = _imported(folder, data, name)
        source = repositories[bug.project]
        work, store = folder / bug.name, folder / f"{bug.name}-store"
        work.mkdir()
        _layers_of_debian(bug, source, folder)
        took: dict[str, list[float]] = {}
        for kind in ("cold", "warm"):
            ours, verdicts = _ours(bug, source, store)
            theirs, seen = _theirs(bug, source, data, work, prepare=kind == "cold", cache=folder / "pip")
            took[kind] = [ours, theirs]
            ratios[kind].append(ours / theirs)
        right = verdicts == ["reproduced", "not-reproduced"]
        ours_right += right
        theirs_right += seen == ["failed", "passed"]
        shown = "; ".join(
            f"{kind} {ours:.1f} s against {theirs:.1f} s, ratio {ours / theirs:.2f}"
            for kind, (ours, theirs) in took.items()
        )
        yield f"{bug.name}: {shown}; ours {', '.join(verdicts)}; BugsInPy's {', '.join(seen)}"
        shutil.rmtree(work, ignore_errors=True)
    count = len(names)
    by = f"by BugsInPy's programs {theirs_right} of {count}"
    yield f"reproduced, and gone with the fix: {ours_right} of {count}; {by}"
    for kind, all_of_them in ratios.items():
        yield f"{kind}: ratio {median(all_of_them):.2f} (median of {count} bugs)"


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _said(words: Sequence[str], **more: object) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def _make_peer() -> None:
    from reprokit.engine import registry, site
    from reprokit.engine.protocol import Build

    engine = registry.make("docker")
    if engine.image(BASE) is None:
        sys.exit(f"the engine has no {BASE}: 'reprokit run --build-only CASE --os debian-11 --base bootstrap' makes it")
    text = f"FROM {BASE}\nRUN apt-get update && apt-get install -y {PACKAGES}\n"
    build = Build(tag=PEER, dockerfile=text, context={}, labels=dict([LABEL.split("=")]))
    engine.build(build, site.current(), lambda progress: None, threading.Event())


def _imported(folder: Path, data: Path, name: str) -> Bug:
    project, _, number = name.partition(":")
    cases = folder / f"cases-{project}-{number}"
    _said([*REPROKIT, "new", "--data-set", "bugsinpy", str(data), name, "-o", str(cases)])
    described = (data / "projects" / project / "project.info").read_text(encoding="utf-8")
    address = re.search(r'github_url="([^"]+)"', described)
    assert address is not None, f"BugsInPy does not say where {project} is"
    # A line of each list of pip's options, so that no image and no layer of an earlier run serves.
    for case in cases.glob("*.yaml"):
        found = yaml.load(case.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
        found["environment"]["pip_options"] = [f"--timeout {random.randrange(100, 10_000)}"]
        if newer := PINNED.get(project):
            found["environment"]["pip"] = [*found["environment"].get("pip", ()), list(newer)]
        case.write_text(json.dumps(found), encoding="utf-8")
    return Bug(project=project, number=number, cases=cases, address=address[1])


def _layers_of_debian(bug: Bug, source: Path, folder: Path) -> None:
    """Build the case up to its packages of Debian, which do not count: the same case without packages of Python."""
    for case in bug.cases.glob("*.yaml"):
        found = yaml.load(case.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
        found["environment"].pop("pip", None)
        found["environment"].pop("setup", None)
        target = folder / f"debian-{bug.name}"
        target.mkdir()
        (target / case.name).write_text(json.dumps(found), encoding="utf-8")
        words = ["run", "--build-only", str(target), *(word for word in SEEN if word not in ("--confirm", "never"))]
        subprocess.run([*REPROKIT, *words, *_stand_ins(bug, source)], capture_output=True, check=False)


def _stand_ins(bug: Bug, source: Path) -> list[str]:
    return ["--source", f"{bug.project}={source}", "--source", f"{bug.project}-tests={source}"]


def _ours(bug: Bug, source: Path, store: Path) -> tuple[float, list[str]]:
    result = store.with_suffix(".json")
    words = ["run", str(bug.cases), "--fix", *SEEN, *_stand_ins(bug, source), "--store", str(store)]
    began = time.perf_counter()
    subprocess.run([*REPROKIT, *words, "--json", str(result)], capture_output=True, check=False)
    took = time.perf_counter() - began
    cells = json.loads(result.read_text(encoding="utf-8"))["cases"][0]["cells"]
    return took, [cell["verdict"] for cell in sorted(cells, key=lambda cell: str(cell["variant"]))]


def _theirs(bug: Bug, source: Path, data: Path, work: Path, *, prepare: bool, cache: Path) -> tuple[float, list[str]]:
    """Seconds, and what the tests did at the buggy and at the fixed commit. ``prepare``: checks out and installs."""
    cache.mkdir(exist_ok=True)
    authorities = os.environ.get("PIP_CERT", "")
    settings = [f"{name}={value}" for name, value in os.environ.items() if re.match(r"PIP_(EXTRA_)?INDEX_URL$", name)]
    settings += ["PIP_CACHE_DIR=/pip", *(["PIP_CERT=/authorities.pem"] if authorities else [])]
    words = ["docker", "run", "--rm", "--label", LABEL, *(word for one in settings for word in ("-e", one))]
    places = {str(data): "/data:ro", str(source): "/repository:ro", str(work): "/work", str(cache): "/pip"}
    places |= {authorities: "/authorities.pem:ro"} if authorities else {}
    words += [word for host, inside in places.items() for word in ("-v", f"{host}:{inside}")]
    newer = PINNED.get(bug.project, ())
    began = time.perf_counter()
    if prepare:
        _said([*words, PEER, "bash", "-c", ALONE, "-", bug.project, bug.address, bug.number, *newer])
    seen = _said([*words, PEER, "bash", "-c", TESTS, "-", bug.project]).split()
    return time.perf_counter() - began, seen
