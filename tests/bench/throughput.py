"""How much of a thing is done in how much processor time and memory: files checked, Dockerfiles, logs, pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FILES, DOCKERFILES, CELLS, MEGABYTES = 1_000, 10_000, 10_000, 1_000


def report(folder: Path) -> Iterator[str]:
    """A line of figures for each."""
    bare = _command([sys.executable, "-c", "pass"], folder)
    for words in (["--help"], ["validate", str(REPOSITORY / "cases" / "ptxas_unknown_arch.yaml")]):
        took, peak = _command([sys.executable, "-m", "reprokit", *words], folder)
        yield f"reprokit {words[0]}: {1000 * (took - bare[0]):.0f} ms above the interpreter, {peak:.0f} MB"
    _library(folder / "cases")
    took, peak = _command([sys.executable, "-m", "reprokit", "validate", "cases"], folder)
    yield f"validate of {FILES:,} files: {took:.1f} s, {peak:.0f} MB"
    yield f"{DOCKERFILES:,} different Dockerfiles: {_part('dockerfiles', folder)}"
    _part("store", folder)
    report_it = ["report", "large", "--store", str(folder / "store"), "-o", str(folder / "site")]
    (folder / "empty").mkdir()  # where no library of cases lies, which would be in the report
    took, peak = _command([sys.executable, "-m", "reprokit", *report_it], folder / "empty")
    files = [path for path in (folder / "site").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    yield f"pages of {CELLS:,} cells: {took:.1f} s, {size:.1f} MB in {len(files)} files, {peak:.0f} MB of memory"
    line = b"2026-11-22 14:00:00,123 INFO trainer.py:17 step=1 loss=0.123456 path=/workspace/data/img_0000001.png\n"
    log = folder / "log.txt"
    with log.open("wb") as stream:
        block = line * (1_000_000 // len(line))
        for _ in range(MEGABYTES):
            stream.write(block)
    size = log.stat().st_size / 1e6
    took, peak = _command(["grep", "-c", "-F", "ValueError: boom", str(log)], folder)
    yield f"grep of {size:,.0f} MB: {size / took:,.0f} MB/s, {peak:.0f} MB"
    yield f"judging of {size:,.0f} MB: {_part('judging', folder)} ({size:,.0f} MB)"


def _command(argv: Sequence[str], folder: Path) -> tuple[float, float]:
    """Processor seconds and the peak of memory in MB."""
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


def _part(name: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.throughput", name, str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().rpartition("\n")[2]


def _library(folder: Path) -> None:
    """The library's own cases several times over."""
    folder.mkdir()
    originals = sorted((REPOSITORY / "cases").glob("*.yaml"))
    for number in range(FILES):
        path = originals[number % len(originals)]
        text = path.read_text(encoding="utf-8").replace("\nid: ", f"\nid: x{number}-", 1)
        (folder / f"{path.stem}-{number}.yaml").write_text(text, encoding="utf-8")


def _dockerfiles(folder: Path) -> None:
    from reprokit.case.matrix import expand
    from reprokit.case.render import render
    from reprokit.environment import cases, dockerfile
    from reprokit.environment.resolving import resolve
    from reprokit.environment.supply import Supply

    case = {
        "schema": "reprokit/v1",
        "id": "rendered",
        "title": "Ten thousand environments",
        "matrix": {
            "os": ["debian-12"],
            "python": ["3.11", "3.12"],
            "gcc": ["11", "12"],
            "cuda": ["none", "11.8", "12.1", "12.4", "12.6"],
            "n": [str(number) for number in range(DOCKERFILES // 20)],
        },
        "environment": {"apt": ["libgl1"], "pip": ["six", "numpy<2"], "setup": "echo {{ n }}\n"},
        "command": "echo {{ n }}",
    }
    file = cases.load_text("rendered.yaml", json.dumps(case))
    matrix, supply = file.case.matrix, Supply(base_source="registry")
    began = time.process_time()
    found = set()
    for cell in expand(matrix.axes, matrix.exclude, matrix.include):
        spec = render(file.case, cell)
        rendered = dockerfile.render(resolve(spec, supply), spec, sources={}, given_datasets=set())
        found.add(rendered.tag("base"))
    assert len(found) == DOCKERFILES
    print(f"{time.process_time() - began:.1f} s, {_peak():.0f} MB")


def _judging(folder: Path) -> None:
    """As of a trial: the stream is trimmed to a log file, by what its signature looks for, and that file is judged."""
    from reprokit.case.model import Failure
    from reprokit.evidence.judgement import judge
    from reprokit.evidence.log_trimmer import LogTrimmer
    from reprokit.evidence.model import Ending

    failure = Failure(exception="ValueError", message="boom")
    before, began = _peak(), time.process_time()
    log = (folder / "trial.log").open("w+b", buffering=0)
    with (folder / "log.txt").open("rb") as stream, LogTrimmer(log, failure) as trimmer:
        while block := stream.read(64 * 1024):
            trimmer.feed(block)
    text = (folder / "trial.log").read_bytes().decode("utf-8", "replace")
    judge(failure, Ending(exit_code=1, oom=False, timed_out=False, seconds=1.0), text, ())
    took = time.process_time() - began
    size = (folder / "log.txt").stat().st_size / 1e6
    print(f"{size / took:,.0f} MB/s, {_peak():.0f} MB ({_peak() - before:.0f} MB more than before)")


def _store(folder: Path) -> None:
    from tests.browser import made

    made.large(folder / "store", {"first": 10, "second": 10, "third": 10, "fourth": 5, "fifth": 2}, nights=1)


def _peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    {"dockerfiles": _dockerfiles, "judging": _judging, "store": _store}[sys.argv[1]](Path(sys.argv[2]))
