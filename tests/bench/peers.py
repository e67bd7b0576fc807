"""Twelve environments, ours, tox's and asv's: four versions of one package by three of another, and a small program."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

MATRIX: Mapping[str, Sequence[str]] = {
    "packaging": ("21.3", "22.0", "23.2", "24.2"),
    "six": ("1.14.0", "1.15.0", "1.16.0"),
}
PROGRAM = """\
import six, sys
from packaging.version import Version
assert six.__version__ == sys.argv[2], six.__version__
assert Version(sys.argv[1]) >= Version("20")
"""
TOX = """\
[tox]
envlist = {envs}
[testenv]
skip_install = true
deps =
{deps}
commands = python {program} {{env:P}} {{env:S}}
setenv =
{values}
"""
ASV = """\
from importlib.metadata import version
import subprocess, sys

def track_program():
    subprocess.run([sys.executable, {program!r}, version("packaging"), version("six")], check=True)
    return 0
"""
Run = Callable[[], tuple[float, float]]
REPROKIT = [sys.executable, "-m", "reprokit"]
JOBS = "2"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def report(folder: Path, rounds: int) -> Iterator[str]:
    """A line for each kind, peer and engine: the medians, and the median of the ratios of the rounds."""
    programs = _installed(folder / "peers")
    for name in ("tox", "asv"):
        said = subprocess.run([programs / name, "--version"], capture_output=True, text=True, check=True)
        yield f"{name} {next(word for word in said.stdout.split() if word[0].isdigit())}"
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    took: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(rounds + 1):
        place = folder / f"round-{number}"
        place.mkdir()
        runs: dict[str, Run] = {
            "docker": _ours(place, "docker"),
            "venv": _ours(place, "venv"),
            "tox": _tox(place, programs / "tox", folder / "program.py"),
            "asv": _asv(place, programs / "asv", folder / "program.py"),
        }
        for kind in ("cold", "warm"):
            for name, run in runs.items():
                figures = run()
                if number:  # the first round fills the caches of downloads, and Debian's layers
                    took.setdefault((kind, name), []).append(figures)
    for kind in ("cold", "warm"):
        for peer in ("tox", "asv"):
            for name in ("docker", "venv"):
                for column, what in enumerate(("s", "s of processor time")):
                    if column and name == "docker":  # its containers are not our children
                        continue
                    ours = [figures[column] for figures in took[kind, name]]
                    theirs = [figures[column] for figures in took[kind, peer]]
                    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
                    both = f"{median(ours):.1f} against {median(theirs):.1f} {what}"
                    yield f"{kind}, engine {name} against {peer}: {both}, ratio {ratio:.2f} (median of {rounds})"


def _installed(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    packages = ["tox", "asv", "virtualenv"]
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", *packages], check=True)
    return folder / "bin"


def _timed(words: Sequence[object], folder: Path, **more: str) -> tuple[float, float]:
    """Seconds, and seconds of processor time of the command and what it started here."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    after, ended = os.times(), time.perf_counter()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return ended - began, used


def _ours(folder: Path, engine: str) -> Run:
    """A case with an option of pip that no case had before, so that nothing of earlier rounds serves."""
    python = "3.11" if engine == "docker" else PYTHON
    case = {
        "schema": "reprokit/v1",
        "id": f"twelve-{engine}",
        "title": "Twelve environments",
        "matrix": {**({"os": ["debian-12"]} if engine == "docker" else {}), "python": [python], **MATRIX},
        "environment": {
            "pip": ["packaging=={{ packaging }}", "six=={{ six }}"],
            "pip_options": [f"--timeout {random.randrange(100, 100_000)}"],
        },
        "files": {"program.py": PROGRAM},
        "command": "python program.py {{ packaging }} {{ six }}",
        "expect": {"reproduces": "none"},
    }
    path = folder / f"twelve-{engine}.yaml"
    path.write_text(json.dumps(case), encoding="utf-8")
    words = [*REPROKIT, "run", path, "--engine", engine, "--jobs", JOBS, "--confirm", "never"]
    return lambda: _timed([*words, "--store", folder / f"store-{engine}"], folder)


def _tox(folder: Path, tox: Path, program: Path) -> Run:
    names = {
        package: {f"{package[0]}{version.replace('.', '')}": version for version in versions}
        for package, versions in MATRIX.items()
    }
    envs = ", ".join(f"{p}-{s}" for p in names["packaging"] for s in names["six"])
    each = [(factor, package, version) for package, some in names.items() for factor, version in some.items()]
    text = TOX.format(
        envs=envs,
        program=program,
        deps="\n".join(f"    {factor}: {package}=={version}" for factor, package, version in each),
        values="\n".join(f"    {factor}: {package[0].upper()} = {version}" for factor, package, version in each),
    )
    place = folder / "tox"
    place.mkdir()
    (place / "tox.ini").write_text(text, encoding="utf-8")
    return lambda: _timed([tox, "run-parallel", "-p", JOBS], place)


def _asv(folder: Path, asv: Path, program: Path) -> Run:
    place = folder / "asv"
    (place / "benchmarks").mkdir(parents=True)
    (place / "benchmarks/__init__.py").touch()
    (place / "benchmarks/program.py").write_text(ASV.format(program=str(program)), encoding="utf-8")
    config = {
        "version": 1,
        "project": "twelve",
        "project_url": "https://example.com/",
        "repo": ".",
        "branches": ["HEAD"],
        "environment_type": "virtualenv",
        "pythons": [PYTHON],
        "matrix": {"req": {package: list(versions) for package, versions in MATRIX.items()}},
        "build_command": [],
        "install_command": ["python -c pass"],
        "uninstall_command": ["python -c pass"],
    }
    (place / "asv.conf.json").write_text(json.dumps(config), encoding="utf-8")
    author = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "Twelve environments"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    _timed([asv, "machine", "--yes"], place, HOME=str(folder))
    return lambda: _timed(
        [asv, "run", "--parallel", JOBS, "--quick", "--show-stderr", "HEAD^!"], place, HOME=str(folder)
    )
