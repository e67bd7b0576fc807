"""``python -m tests.bench [NAME...]``: figures as ratios measured in one run; medians of several rounds.

Needs a container engine for ``warm``, ``cold``, ``many``, ``peers``, ``bugsinpy``, ``nulls`` and
``repeated``; the last two take hours, and ``peers`` installs tox and asv into a folder of its own. Nothing here is a
test: figures are to be read, not asserted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

REPOSITORY = Path(__file__).parents[2]
REPROKIT = [sys.executable, "-m", "reprokit"]
ROUNDS = 7
CELLS, ROUNDS_OF_CELLS = 250, 8
"""Cells of each run that ``many`` starts, and such runs."""


def seconds(argv: Sequence[str], *, folder: Path, shell_input: str | None = None) -> float:
    """Wall time of a command, in seconds. Its output is thrown away; a failure is reported."""
    started = time.perf_counter()
    done = subprocess.run(argv, cwd=folder, input=shell_input, capture_output=True, text=True, check=False)
    took = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return took


def children() -> float:
    """Seconds of processor time of the commands that ended so far."""
    times = os.times()
    return times.children_user + times.children_system


def against(name: str, ours: Callable[[], float], theirs: Callable[[], float], what: str) -> None:
    """Measure two things in turn and print the median of the ratios, pair by pair."""
    ours(), theirs()
    pairs = [(ours(), theirs()) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{name}: {a:.3f} s against {b:.3f} s of {what}: ratio {ratio:.2f} (median of {ROUNDS})")


def startup(folder: Path) -> None:
    """How long the command line takes to come up."""

    def of(*words: str) -> Callable[[], float]:
        return lambda: seconds([*REPROKIT, *words], folder=folder)

    case = str(REPOSITORY / "cases" / "ptxas_unknown_arch.yaml")
    python = "python -c pass"
    bare = lambda: seconds([sys.executable, "-c", "pass"], folder=folder)  # noqa: E731
    against("start-up, reprokit --help", of("--help"), bare, python)
    against("start-up, reprokit validate CASE", of("validate", case), bare, python)


def many(folder: Path) -> None:
    """Trivial cells against ``xargs -P2`` over as many containers, half of which are run before, and half after."""
    numbers = [str(number) for number in range(CELLS)]
    case = {
        "schema": "reprokit/v1",
        "id": "many",
        "title": "Trivial cells",
        "matrix": {"os": ["debian-12"], "n": numbers},
        "env": {"N": "{{ n }}"},
        "command": "exit $((N % 2))",
        "expect": {"failure": {"exit_code": 1}},
    }
    (folder / "many.yaml").write_text(json.dumps(case))
    store = ["--store", str(folder / "store")]
    run = [*REPROKIT, "run", "many.yaml", "--jobs", "2", "--confirm", "never", *store]
    seconds([*run, "--only", "n=0"], folder=folder)
    show = [*REPROKIT, "show", "last", *store, "--repeat", "1"]
    line = subprocess.run(show, cwd=folder, capture_output=True, text=True, check=True).stdout
    (folder / "one.sh").write_text("docker run --rm " + line[line.index("reprokit/img:") :])
    half = "\n".join(numbers[::2])
    xargs = ["xargs", "-P2", "-I", "{}", "sh", str(folder / "one.sh")]
    total_ours = total_theirs = 0.0
    for number in range(1, ROUNDS_OF_CELLS + 1):
        before = seconds(xargs, folder=folder, shell_input=half)
        used = children()
        ours = seconds(run, folder=folder)
        cpu = children() - used
        theirs = before + seconds(xargs, folder=folder, shell_input=half)
        total_ours, total_theirs = total_ours + ours, total_theirs + theirs
        ratio = f"{ours:.1f} s against {theirs:.1f} s of xargs -P2 docker run --rm: ratio {ours / theirs:.2f}"
        print(
            f"{CELLS} cells, round {number}: {ratio}; {1000 * cpu / CELLS:.0f} ms of processor time per cell",
            flush=True,
        )
    print(f"{ROUNDS_OF_CELLS * CELLS} cells: ratio {total_ours / total_theirs:.2f}")


def repositories() -> dict[str, Path]:
    return {name: Path(place).resolve() for name, _, place in (one.partition("=") for one in OPTIONS.repository)}


def bugsinpy(module: ModuleType, folder: Path) -> Iterable[str]:
    if OPTIONS.bugsinpy is None or not repositories():
        sys.exit("bugsinpy needs clones: --bugsinpy DIR --repository tqdm=DIR --repository thefuck=DIR")
    found: Iterable[str] = module.report(folder, OPTIONS.bugsinpy.resolve(), repositories(), OPTIONS.bug)
    return found


def nulls(module: ModuleType, folder: Path) -> Iterable[str]:
    return (line for name in module.nulls() for line in module.null(name, folder))


@dataclass(frozen=True)
class Part:
    """A part in a module beside this one, which is imported where it runs; ``lines`` measures, and yields figures."""

    module: str
    about: str
    lines: Callable[[Any, Path], Iterable[str]]

    def __call__(self, folder: Path) -> None:
        for line in self.lines(importlib.import_module(f"tests.bench.{self.module}"), folder):
            print(line, flush=True)


BENCHES: dict[str, Callable[[Path], None]] = {
    "throughput": Part(
        "throughput",
        "Files checked, Dockerfiles rendered, pages written and logs judged, in processor time and memory.",
        lambda module, folder: module.report(folder),
    ),
    "peers": Part(
        "peers",
        "The same twelve environments with tox and with asv, cold and warm.",
        lambda module, folder: module.report(folder, OPTIONS.rounds),
    ),
    "bugsinpy": Part(
        "bugs_in_py",
        "Bugs of BugsInPy, both sides, against its own programs: --bugsinpy DIR --repository tqdm=DIR.",
        bugsinpy,
    ),
    "histories": Part(
        "histories",
        "Whether bisect finds the commits that fixed imported bugs: --imported DIR --repository tqdm=DIR.",
        lambda module, folder: module.report(folder, OPTIONS.imported, repositories()),
    ),
    "startup": startup,
    "warm": Part(
        "matrices",
        "24 cells whose image is there against xargs -P2 over docker run with the limits of the trials.",
        lambda module, folder: module.warm(folder),
    ),
    "cold": Part(
        "matrices",
        "Twelve images that share layers, none of them built, against a loop of docker build.",
        lambda module, folder: module.cold(folder),
    ),
    "endless": Part(
        "matrices",
        "A log of 10 GB, judged as it streams, beside grep of the same stream.",
        lambda module, folder: module.endless(folder),
    ),
    "nights": Part(
        "gpu_nights",
        "How long GPUs are idle in a year of nights, on a simulated engine in virtual time.",
        lambda module, folder: module.report(),
    ),
    "many": many,
    "trials": Part(
        "trials",
        "Errors and numbers of trials of the sequential test, beside fixed numbers and ClusterFuzz's 5 of 10.",
        lambda module, folder: [module.table()],
    ),
    "audit": Part(
        "auditing",
        "What `reprokit audit` finds of 64 planted cases, in containers: an hour.",
        lambda module, folder: module.lines(folder),
    ),
    "servers": Part(
        "history",
        "What people ask of a store of a million trials, on SQLite and on PostgreSQL, in one process.",
        lambda module, folder: module.queries(folder, trials=1_000_000),
    ),
    "machines": Part(
        "machines",
        "Sixteen runs at once through one registry, one PostgreSQL and one bucket.",
        lambda module, folder: module.report(folder),
    ),
    "claims": Part(
        "claims",
        'How often "reproduces exactly when" is said of random failures, and what it costs to say it of others.',
        lambda module, folder: module.report(),
    ),
    "changes": Part(
        "changes",
        "How often nights at a constant rate hold a change, and after how many nights a real one counts.",
        lambda module, folder: module.report(),
    ),
    "engine": Part(
        "engine_claims",
        "Statements about cells with planted rates, in containers: 94 cases, an hour.",
        lambda module, folder: module.report(folder),
    ),
    "nulls": Part("oracles", "Measured verdicts of what there is nothing to be found in.", nulls),
    "repeated": Part(
        "oracles",
        "Verdicts of the library's slowdowns and leaks, again and again.",
        lambda module, folder: module.repeated(folder),
    ),
    "launching": Part(
        "launching",
        "Cells that wait, as jobs on three nodes of this machine and without a launcher: ten minutes for 500.",
        lambda module, folder: module.report(folder, OPTIONS.cells),
    ),
    "proof": Part(
        "proof",
        "Nothing false, lost, twice or left behind while reprokit, engines, stores and disks are harmed: one table.",
        lambda module, folder: module.report(folder, OPTIONS.part, OPTIONS.engine, OPTIONS.minutes, OPTIONS.seed),
    ),
}
_OF_FILES = ("peers", "bugsinpy", "histories")
LONG = ("proof", "engine", "nulls", "repeated", "nights", "servers", "machines", *_OF_FILES, "launching")
"""What takes long, some of it hours, or needs files, and is run only where it is named."""
OPTIONS = argparse.Namespace()


def main(words: Sequence[str] | None = None) -> None:
    """Run the benchmarks that are named, or all that need neither hours nor files of yours."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__.partition("\n\n")[2],
        epilog="\n".join(f"{name:12} {getattr(part, 'about', part.__doc__)}" for name, part in BENCHES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="benchmarks, see below; default: all but the long ones"
    )
    parser.add_argument("--cells", type=int, default=500, help="cells of launching (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of peers (%(default)s)")
    parser.add_argument("--bugsinpy", type=Path, metavar="DIR", help="a clone of https://github.com/soarsmu/BugsInPy")
    parser.add_argument(
        "--repository",
        action="append",
        default=[],
        metavar="PROJECT=DIR",
        help="of bugsinpy: a clone, maybe bare, of the project with its whole history (several)",
    )
    parser.add_argument(
        "--bug", action="append", default=[], metavar="PROJECT:NUMBER", help="of bugsinpy: only this bug (several)"
    )
    parser.add_argument("--imported", type=Path, metavar="DIR", help="of histories: cases that `new --data-set` wrote")
    parser.add_argument("--minutes", type=float, default=60, help="of proof: how long, about (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of proof: the first seed (%(default)s)")
    parser.add_argument(
        "--part", nargs="+", default=["kills", "harms", "disks", "damaged"], help="of proof: these, or upgrades"
    )
    parser.add_argument(
        "--engine",
        nargs="+",
        default=["docker", "podman"],
        help="of proof: docker, podman or a folder with another Docker's bin; of upgrades: first to last",
    )
    parser.parse_args(words, namespace=OPTIONS)
    for name in OPTIONS.names:
        if name not in BENCHES:
            parser.error(f"no benchmark {name!r}; there are: {', '.join(BENCHES)}")
    for name in OPTIONS.names or [name for name in BENCHES if name not in LONG]:
        with tempfile.TemporaryDirectory() as scratch:
            BENCHES[name](Path(scratch))


if __name__ == "__main__":
    main()
