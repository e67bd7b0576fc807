"""Sixteen machines with one registry, one PostgreSQL and one bucket, on this host's Docker Engine."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.integration.test_store_servers import s3fs
from tests.integration.test_two_machines import BUCKET, Team
from tests.registry_server import registry_server
from tests.servers import postgres_programs, postgres_server, s3_server

MACHINES, TRIALS = 16, 10


def report(folder: Path) -> Iterator[str]:
    """One machine builds; then all others begin at the same moment, on an engine without the image."""
    programs = postgres_programs()
    if programs is None:
        yield "Debian's package postgresql is not installed"
        return
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with registry_server(folder / "registry") as registry, postgres_server(programs) as server, s3_server() as s3:
        team = Team(folder, registry.address, server.makes("machines"), s3)
        os.environ |= {**team.servers, "XDG_STATE_HOME": str(folder / "reader")}
        s3fs().mkdir(BUCKET)
        try:
            yield from _run(team)
        finally:
            team.recorded()
            team.forget()


def _run(team: Team) -> Iterator[str]:
    words = ("run", "case.yaml", "--trials", str(TRIALS))
    team.machine("first").types(*words)
    team.recorded()
    team.forget()
    others = [team.machine(f"machine-{number}") for number in range(MACHINES)]
    began = time.monotonic()
    for process in [one.starts(*words) for one in others]:
        team.ends(process)
    yield f"{MACHINES} runs of 2 cells with {TRIALS} trials each at once: {time.monotonic() - began:.0f} s"
    first, *runs = team.recorded()
    images = Counter(
        "built" if cell.image.built else "fetched" if cell.image.fetched else "there"
        for run in runs
        for cell in run.cells
        if cell.image
    )
    verdicts = Counter(str(cell.verdict) for run in runs for cell in run.cells)
    trials = sum(len(cell.trials) for run in runs for cell in run.cells)
    wrote = {team.made(run) for run in (first, *runs)}
    yield f"{len(runs)} runs, {trials} trials, {len(wrote)} build; cells: {dict(verdicts)}; images: {dict(images)}"
