"""Bugs of BugsInPy, both sides of each: ``run --fix`` of what ``new --try`` wrote, against BugsInPy's own programs."""

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
PEER, LABEL = "reprokit-bench-bugsinpy", "reprokit-bench=bugsinpy"
PACKAGES = "build-essential git dos2unix ca-certificates"
ALONE = """\
export PATH=/bugs/framework/bin:$PATH HOME=/work
mkdir -p /bugs && cp -r /data/framework /bugs/ && mkdir -p /bugs/projects && cp -r /data/projects/$1 /bugs/projects/
for side in 0 1; do (
  mkdir -p /work/$side && cd /work/$side && touch .bashrc && export HOME=/work/$side
  git config --global url.file:///repository.insteadOf "$2" && git config --global safe.directory '*'
  cp -r /bugs /work/$side/bugs && PATH=/work/$side/bugs/framework/bin:$PATH
  bugsinpy-checkout -p $1 -i $3 -v $side -w /work/$side/tree && cd tree/$1 && bugsinpy-compile
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
    """A bug, its case, its repository, and the address that BugsInPy clones from."""

    project: str
    number: str
    case: Path
    repository: Path
    address: str
    system: str
    python: str

    @property
    def peer(self) -> str:
        """The image for BugsInPy's programs: the system and the Python of the case."""
        return f"{PEER}:{self.system}-{self.python}"


def report(folder: Path, data: Path, repositories: Mapping[str, Path], wanted: Sequence[str]) -> Iterator[str]:
    """A line for each bug, and bugs an hour. ``wanted``: ``PROJECT:NUMBER``; none = all bugs of the repositories."""
    names = list(wanted) or [
        f"{project}:{number}"
        for project in repositories
        for number in sorted((one.name for one in (data / "projects" / project / "bugs").iterdir()), key=_number)
    ]
    took: dict[str, list[tuple[float, float]]] = {"cold": [], "warm": []}
    ours_right = theirs_right = 0
    for name in names:
        bug = _imported(folder, data, name, repositories)
        _make_peer(bug)
        work = folder / "work"
        work.mkdir()
        for kind, pairs in took.items():
            ours, verdicts = _ours(bug, folder / f"{bug.case.stem}-store")
            theirs, seen = _theirs(bug, data, work, prepare=kind == "cold", cache=folder / "pip")
            pairs.append((ours, theirs))
        right = verdicts == ["reproduced", "not-reproduced"]
        ours_right += right
        theirs_right += seen == ["failed", "passed"]
        shown = "; ".join(f"{kind} {pairs[-1][0]:.1f} s against {pairs[-1][1]:.1f} s" for kind, pairs in took.items())
        yield f"{name}: {shown}; ours {', '.join(verdicts)}; BugsInPy's {', '.join(seen)}"
        shutil.rmtree(work, ignore_errors=True)
    count = len(names)
    by = f"by BugsInPy's programs {theirs_right} of {count}"
    yield f"reproduced, and gone with the fix: {ours_right} of {count}; {by}"
    for kind, pairs in took.items():
        ours, theirs = (3600 * count / sum(column) for column in zip(*pairs, strict=True))
        ratio = median(one / other for one, other in pairs)
        yield f"{kind}: {ours:.0f} bugs an hour against {theirs:.0f}; ratio of times {ratio:.2f} (median of {count})"


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _said(words: Sequence[str], **more: object) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def _make_peer(bug: Bug) -> None:
    from reprokit.engine import registry, site
    from reprokit.engine.protocol import Build

    own = f"python{bug.python}"
    linked = f"ln -s /usr/bin/{own} /usr/local/bin/python3 && ln -s /usr/bin/{own} /usr/local/bin/python"
    text = (
        f"FROM reprokit/base:{bug.system}\n"
        f"RUN apt-get update && apt-get install -y {own} {own}-dev {own}-venv {PACKAGES} && {linked}\n"
    )
    build = Build(tag=bug.peer, dockerfile=text, context={}, labels=dict([LABEL.split("=")]))
    registry.make("docker").build(build, site.current(), lambda progress: None, threading.Event())


def _imported(folder: Path, data: Path, name: str, repositories: Mapping[str, Path]) -> Bug:
    """The bug as ``new --try`` writes it, which makes its system and packages of the system: they do not count."""
    project, _, number = name.partition(":")
    cases = folder / f"cases-{project}-{number}"
    settings = folder / "reprokit.toml"
    places = [(f"{one}{end}", place) for one, place in repositories.items() for end in ("", "-tests")]
    settings.write_text("[sources]\n" + "".join(f'"{one}" = "{place}"\n' for one, place in places), encoding="utf-8")
    words = [*REPROKIT, "new", "--data-set", "bugsinpy", str(data), name, "-o", str(cases), "--try"]
    by = {**os.environ, "REPROKIT_CONFIG": str(settings), "REPROKIT_STORE": str(folder / "tried")}
    subprocess.run(words, capture_output=True, check=False, env=by)
    described = (data / "projects" / project / "project.info").read_text(encoding="utf-8")
    address = re.search(r'github_url="([^"]+)"', described)
    assert address is not None, f"BugsInPy does not say where {project} is"
    [case] = cases.glob("*.yaml")
    found = yaml.load(case.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    # A line of the list of pip's options, so that no image and no layer of the try or of an earlier run serves.
    found["environment"]["pip_options"] = [f"--timeout {random.randrange(100, 10_000)}"]
    case.write_text(json.dumps(found), encoding="utf-8")
    [system], [python] = found["matrix"]["os"], found["matrix"]["python"]
    return Bug(
        project=project,
        number=number,
        case=case,
        repository=repositories[project],
        address=address[1],
        system=system,
        python=python,
    )


def _ours(bug: Bug, store: Path) -> tuple[float, list[str]]:
    result = store.with_suffix(".json")
    instead = [f"--source={one}={bug.repository}" for one in (bug.project, f"{bug.project}-tests")]
    words = ["run", str(bug.case), "--fix", "--engine", "docker", "--confirm", "never", *instead, "--store", str(store)]
    began = time.perf_counter()
    subprocess.run([*REPROKIT, *words, "--json", str(result)], capture_output=True, check=False)
    took = time.perf_counter() - began
    cells = json.loads(result.read_text(encoding="utf-8"))["cases"][0]["cells"]
    return took, [cell["verdict"] for cell in sorted(cells, key=lambda cell: str(cell["variant"]))]


def _theirs(bug: Bug, data: Path, work: Path, *, prepare: bool, cache: Path) -> tuple[float, list[str]]:
    """Seconds, and what the tests did at the buggy and at the fixed commit. ``prepare``: checks out and installs."""
    cache.mkdir(exist_ok=True)
    authorities = os.environ.get("PIP_CERT", "")
    settings = [f"{name}={value}" for name, value in os.environ.items() if re.match(r"PIP_(EXTRA_)?INDEX_URL$", name)]
    settings += ["PIP_CACHE_DIR=/pip", *(["PIP_CERT=/authorities.pem"] if authorities else [])]
    words = ["docker", "run", "--rm", "--label", LABEL, *(word for one in settings for word in ("-e", one))]
    places = {str(data): "/data:ro", str(bug.repository): "/repository:ro", str(work): "/work", str(cache): "/pip"}
    places |= {authorities: "/authorities.pem:ro"} if authorities else {}
    words += [word for host, inside in places.items() for word in ("-v", f"{host}:{inside}")]
    began = time.perf_counter()
    if prepare:
        _said([*words, bug.peer, "bash", "-c", ALONE, "-", bug.project, bug.address, bug.number])
    seen = _said([*words, bug.peer, "bash", "-c", TESTS, "-", bug.project]).split()
    return time.perf_counter() - began, seen
