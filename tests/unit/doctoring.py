"""Hosts for the tests of the doctor."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reprokit.cli.doctor.ground import Finding, Ground
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.podman.engine import PodmanEngine
from reprokit.engine.wire import Endpoint, EngineDetails, EngineVersion

LOCAL = "unix:///run/docker.sock"
INFO = {
    "Driver": "overlay2",
    "CgroupVersion": "2",
    "Name": platform.node(),
    "SecurityOptions": [],
    "Runtimes": {"runc": {}},
}


def engine(
    version: str = "28.1.0", info: Mapping[str, Any] | None = None, *, podman: bool = False, url: str = LOCAL
) -> dict[str, Any]:
    """The fields of a Ground for an engine of this version and info."""
    found = {**INFO, **(info or {})}
    wire = SimpleNamespace(endpoint=Endpoint(url=url, source="default socket"))
    kind = PodmanEngine if podman else DockerEngine
    return {
        "engine": kind(wire=wire),
        "version": EngineVersion(version=version, api="1.49"),
        "info": EngineDetails.read(found),
    }


def ground(tmp_path: Path, **values: Any) -> Ground:
    return Ground(**{"environ": {"PATH": str(tmp_path)}, "folder": tmp_path, **values})


def rows(findings: Iterator[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.status.value, finding.text, finding.fix) for finding in findings]


def program(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
