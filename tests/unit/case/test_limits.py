"""Limits that no host can hold are refused where they are written, not where they overflow."""

from __future__ import annotations

import pytest

from reprokit.case import units
from reprokit.case.render import render
from reprokit.core.errors import CaseError
from reprokit.environment.cases import load_text

HUGE, TINY = "9" * 400, "0" * 400 + "1"
CASE = "schema: reprokit/v1\nid: greedy\ntitle: Greedy\ncommand: 'true'\n"

SIZES = ["900t", "65t", "1p", "1e9g", HUGE, f"{HUGE}g", f"{HUGE}.9k", "0", "-1", "inf", "nan", "1_000"]
COUNTS = [HUGE, "1e6", "-1", "1.5", "0x10", "1_000", "inf", "٣"]
REFUSED = [
    *((f"resources: {{{key}: {value!r}}}", key) for key in ("shm_size", "memory", "gpu_memory") for value in SIZES),
    *((f"resources: {{pids: {value!r}}}", "pids") for value in ("1000000", "65537", "0", *COUNTS)),
    *((f"resources: {{gpus: {value!r}}}", "gpus") for value in COUNTS),
    *(
        (f"resources: {{timeout: {value!r}}}", "timeout")
        for value in (HUGE, f"{HUGE}d", f"1d{HUGE}h", "31d", "721h", f"0.{HUGE}d{HUGE}s", "0", "-5", "inf", "1w")
    ),
    *(
        (f"resources: {{cpus: {value!r}}}", "cpus")
        for value in (HUGE, "4097", "1e9", "0", "-1", "nan", f".{'0' * 400}1")
    ),
    *(
        (f"resources: {{ulimits: {{{name}: {value!r}}}}}", name)
        for name, value in (
            ("nofile", "1048577"),
            ("nofile", "-1"),
            ("nofile", "1k"),
            ("memlock", "-2"),
            ("memlock", HUGE),
            ("stack", "8m:4m"),
            ("stack", "unlimited:8m"),
            ("nproc", "1:2:3"),
            ("cpu", "a"),
            ("rtprio", "1"),
            ("core", "1"),
        )
    ),
    ("resources: {ipc: shareable}", "ipc"),
    ("resources: {ipc: host, shm_size: 1g}", "shm_size"),
    ("resources: {gpu_capabilities: [camera]}", "gpu_capabilities"),
    *((f"trials: {value!r}", "trials") for value in ("10001", "0", *COUNTS)),
    *((f"trials: {{max: {value!r}}}", "max") for value in ("10001", "0", *COUNTS)),
    *((f"trials: {{rate: {value!r}}}", "rate") for value in (HUGE, "1", "0", "nan")),
    *(
        (f"expect: {{failure: {{exit_code: {value!r}}}}}", "exit_code")
        for value in ("9" * 5000, HUGE, "256", "-1", "٣")
    ),
    *((f"datasets: {{d: {{path: d, layout: [{{glob: x, min: {value!r}}}]}}}}", "min") for value in (HUGE, "-1")),
    *(
        (f"matrix: {{n: ['{value}']}}\nresources: {{{key}: '{{{{ n }}}}'}}", key)
        for key, value in (
            ("shm_size", "900t"),
            ("memory", HUGE),
            ("pids", "1000000"),
            ("timeout", HUGE),
            ("cpus", HUGE),
            ("gpus", HUGE),
        )
    ),
]


def test_there_are_enough_probes() -> None:
    assert len(REFUSED) >= 90


@pytest.mark.parametrize(("text", "key"), REFUSED, ids=[text[:60] for text, _ in REFUSED])
def test_what_no_host_holds_is_refused_with_its_place(text: str, key: str) -> None:
    with pytest.raises(CaseError) as refused:
        load_text("greedy.yaml", f"{CASE}{text}\n")
    [problem] = refused.value.problems
    lines = f"{CASE}{text}".splitlines()
    assert (problem.path, 5 <= problem.line <= len(lines)) == ("greedy.yaml", True)
    assert 1 <= problem.column <= len(lines[problem.line - 1])
    assert key in problem.message
    assert "expected" in problem.message


@pytest.mark.parametrize("text", ["shm_size: 64t", "memory: 64t", "pids: 65536", "timeout: 30d", "cpus: 4096"])
def test_what_a_large_host_holds_is_valid(text: str) -> None:
    assert load_text("large.yaml", f"{CASE}resources: {{{text}}}\n").case.id == "greedy"


def test_the_units_of_the_configuration_are_bounded_as_well() -> None:
    for parse in (units.size, units.memory, units.duration, units.pids, units.cores, units.trials, units.count):
        with pytest.raises(ValueError, match="a "):
            parse(HUGE)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("memlock: unlimited", "memlock=-1:-1"),
        ("memlock: -1", "memlock=-1:-1"),
        ("stack: 64m", f"stack={64 << 20}:{64 << 20}"),
        ("nofile: 1024:4096", "nofile=1024:4096"),
        ("nofile: {soft: 1024, hard: 4096}", "nofile=1024:4096"),
        ("stack: '8m:unlimited'", f"stack={8 << 20}:-1"),
        ("nproc: '{{ n }}'", "nproc=7:7"),
    ],
)
def test_limits_of_processes_are_spelt_as_in_compose(text: str, found: str) -> None:
    file = load_text("case.yaml", f"{CASE}matrix: {{n: ['7']}}\nresources: {{ulimits: {{{text}}}}}\n")
    assert render(file.case, {"n": "7"}).limits.ulimits == (found,)
