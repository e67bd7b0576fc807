"""Whole matrices on an engine against what people would write by hand: warm ones, cold ones, and logs without end.

Needs a container engine, and where it says so, Debian's archive.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

REPROKIT = [sys.executable, "-m", "reprokit"]
JOBS = "2"
CELLS, ROUNDS = 24, 5
PACKAGES = ("bc", "dc", "ed", "file", "jq", "less", "m4", "patch", "pv", "rsync", "tree", "xxd")
"""One for each cold image: small packages of Debian, each with something to download and to unpack."""
COLD_ROUNDS = 3
LABEL = "reprokit-bench-cold"
"""On every image of a cold matrix, and the name of a file in it: a label alone would leave layers to be found."""
GIGABYTES = 10


def timed(argv: Sequence[str], folder: Path, *, fails: Sequence[int] = (0,), shell_input: str | None = None) -> float:
    """Wall seconds of a command; what it prints is shown where it fails."""
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=folder, input=shell_input, capture_output=True, text=True, check=False)
    if done.returncode not in fails:
        sys.exit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - began


def against(name: str, ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> Iterator[str]:
    """Both in turn, the first of each round in turn as well: a line for each round, and the median of the ratios."""
    ratios = []
    for number in range(rounds):
        pair = {one: one() for one in ((ours, theirs) if number % 2 else (theirs, ours))}
        ratios.append(pair[ours] / pair[theirs])
        yield f"{name}: {pair[ours]:.1f} s against {pair[theirs]:.1f} s: ratio {ratios[-1]:.2f}"
    yield f"{name}: ratio {statistics.median(ratios):.2f} (median of {rounds})"


def warm(folder: Path) -> Iterator[str]:
    """24 cells whose image is there against ``xargs -P2`` over ``docker run --rm`` with the limits of the trials."""
    case = {
        "schema": "reprokit/v1",
        "id": "warm",
        "title": "Short programs",
        "matrix": {"os": ["debian-12"], "python": ["3.11"], "n": [str(number) for number in range(CELLS)]},
        "env": {"N": "{{ n }}"},
        "command": "python -c 'import email, json, os, sys; sys.exit(int(os.environ[\"N\"]) % 2)'",
        "expect": {"failure": {"exit_code": 1}},
    }
    (folder / "warm.yaml").write_text(json.dumps(case))
    store = ["--store", str(folder / "store")]
    run = [*REPROKIT, "run", "warm.yaml", "--jobs", JOBS, "--confirm", "never", *store]
    timed(run, folder)
    scripts = []
    for number in range(1, CELLS + 1):
        show = [*REPROKIT, "show", "last", *store, "--repeat", str(number)]
        line = subprocess.run(show, cwd=folder, capture_output=True, text=True, check=True).stdout
        (folder / f"{number}.sh").write_text(line)
        scripts.append(f"{number}.sh")
    xargs = ["xargs", "-P", JOBS, "-I", "{}", "sh", "-c", "sh {} > {}.log 2>&1 || true"]
    yield from against(
        f"{CELLS} warm cells against xargs -P{JOBS} docker run --rm with the same limits",
        lambda: timed(run, folder),
        lambda: timed(xargs, folder, shell_input="\n".join(scripts)),
        ROUNDS,
    )


def cold(folder: Path) -> Iterator[str]:
    """Twelve images that share layers, none of them built, against a loop of ``docker build`` over the same folders.

    Each side and round has a base image with a file of its own, so that no layer is there before.
    """
    names: list[str] = []

    def matrix() -> Path:
        """A case on a new base image, which the engine has."""
        name = f"reprokit-bench-cold:{uuid.uuid4().hex[:12]}"
        recipe = f"FROM reprokit/base:debian-12\nLABEL {LABEL}={name}\nRUN echo {name} > /etc/{LABEL}\n"
        subprocess.run(
            ["docker", "build", "-q", "-t", name, "-"], input=recipe.encode(), check=True, capture_output=True
        )
        names.append(name)
        case = {
            "schema": "reprokit/v1",
            "id": "cold",
            "title": "Twelve images that share layers",
            "matrix": {"package": list(PACKAGES)},
            "environment": {
                "image": name,
                "apt": ["zip"],
                "setup": "apt-get update -q && apt-get install -q -y {{ package }} && seq 3000000 | sha256sum\n",
            },
            "command": "true",
        }
        place = folder / name.partition(":")[2]
        place.mkdir()
        (place / "cold.yaml").write_text(json.dumps(case))
        return place

    def ours() -> float:
        place = matrix()
        return timed([*REPROKIT, "build", "cold.yaml", "--jobs", JOBS, "--store", "store"], place)

    def loop() -> float:
        place = matrix()
        subprocess.run([*REPROKIT, "render", "cold.yaml", "-o", "out"], cwd=place, check=True, capture_output=True)
        build = 'docker build -q -t "reprokit-bench-cold:$(basename "$d")" "$d"'
        script = f"export DOCKER_BUILDKIT=1; for d in out/*/; do {build} || exit 1; done"
        try:
            return timed(["sh", "-c", script], place)
        finally:
            names.extend(f"reprokit-bench-cold:{one.name}" for one in (place / "out").iterdir())

    try:
        yield from against(f"{len(PACKAGES)} cold images against a loop of docker build", ours, loop, COLD_ROUNDS)
    finally:
        mine = subprocess.run(
            ["docker", "images", "-q", "--filter", f"label={LABEL}"], capture_output=True, text=True
        ).stdout.split()
        subprocess.run(["docker", "rmi", "-f", *names, *mine], capture_output=True, check=False)


def endless(folder: Path) -> Iterator[str]:
    """A stream of 10 GB, trimmed and judged as a trial's is, and counted by grep: nothing of it is on the disk."""
    line = "2026-11-22 14:00:00,123 INFO trainer.py:17 step=1 loss=0.123456 path=/workspace/data/img_0000001.png"
    bytes_ = GIGABYTES * 10**9
    stream = f"yes '{line}' | head -c {bytes_}"
    for name, reads in (
        ("grep -c -F", "grep -c -F 'ValueError: boom'"),
        ("judging", f"{sys.executable} -m tests.bench.matrices judge {folder}"),
    ):
        child = subprocess.Popen(
            ["sh", "-c", f"{stream} | {{ {reads}; true; }}"], cwd=Path(__file__).parents[2], stdout=-1
        )
        assert child.stdout is not None
        said = child.stdout.read().decode().strip()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        yield f"{name} of a stream of {GIGABYTES} GB: {usage.ru_maxrss / 1e3:.0f} MB at most; {said}"


def _judge(folder: Path) -> None:
    from reprokit.case.model import Failure
    from reprokit.evidence.judgement import judge
    from reprokit.evidence.log_trimmer import LogTrimmer
    from reprokit.evidence.model import Ending

    failure, size, began = Failure(exception="ValueError", message="boom"), 0, time.process_time()
    with LogTrimmer((folder / "endless.log").open("w+b", buffering=0), failure) as trimmer:
        while block := sys.stdin.buffer.read1(64 * 1024):
            size += len(block)
            trimmer.feed(block)
    text = (folder / "endless.log").read_bytes().decode("utf-8", "replace")
    judge(failure, Ending(exit_code=1, oom=False, timed_out=False, seconds=1.0), text, ())
    took = time.process_time() - began
    print(f"{size / 1e9:.1f} GB in {took:.1f} s of processor time, {size / 1e6 / took:,.0f} MB/s, {len(text):,} kept")


if __name__ == "__main__":
    _judge(Path(sys.argv[2]))
