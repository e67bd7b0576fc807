"""Cells, hosts and measurements for the tests of single axes."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.environment import dockerfile, probe
from reprokit.environment.host import Host
from reprokit.environment.lock import Artefact, LockedBase, Pins
from reprokit.environment.measured import Measured
from reprokit.environment.model import Environment, Interpreter
from reprokit.environment.on_host import resolve_on
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply

HERE = Supply(base_source="bootstrap")
HOST = Host(
    os="debian-12", glibc="2.36", pythons=(Interpreter(version="3.11.2", path="/usr/bin/python3.11", prefix="/usr"),)
)


def cell(axes: dict[str, str], **environment: Any) -> CellSpec:
    return CellSpec(
        cell=axes,
        environment=EnvironmentSpec(**environment),
        sources={},
        files={},
        datasets={},
        env={},
        workdir="/workspace",
        command=("true",),
        limits=Limits(),
    )


def resolved(axes: dict[str, str], **environment: Any) -> Environment:
    return resolve(cell(axes, **environment), HERE)


def on_host(axes: dict[str, str], **host: Any) -> Environment:
    return resolve_on(replace(HOST, **host), cell(axes))


def rendered(axes: dict[str, str], pins: Pins | None = None, **environment: Any) -> dockerfile.Rendered:
    spec = cell(axes, **environment)
    return dockerfile.render(resolve(spec, HERE), spec, sources={}, given_datasets=set(), pins=pins)


def script(axes: dict[str, str], **host: Any) -> str:
    """The script that makes a virtual environment of a host."""
    spec = cell(axes)
    return dockerfile.render(on_host(axes, **host), spec, sources={}, given_datasets=set()).dockerfile


def artefact(name: str, version: str) -> Artefact:
    return Artefact(name=name, version=version, file=f"{name}.whl", sha256=name[0] * 64, size=10)


def pins(**groups: Any) -> Pins:
    base = LockedBase(name="debian-12", source="bootstrap", reference="reprokit/base:debian-12", recipe="1")
    return Pins(base=base, date="2026-11-21T12:00:00Z", **groups)


def measured(folder: Path, **programs: str) -> Measured:
    """What the probe measures on this host where ``programs``, name -> text that they print, come first."""
    for name, text in programs.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "CUDA_HOME": str(folder / "cuda")}
    done = subprocess.run(probe.command(), capture_output=True, text=True, check=True, timeout=120, env=environ)
    return Measured.parse(done.stdout)
