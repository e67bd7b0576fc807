"""Fuzz targets for a while: ``python -m tests.fuzz [TARGET ...] --seconds 60``. What is found is in build/fuzz/."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import TARGETS

HERE = Path(__file__).parent
LIMITS = ("-timeout=20", "-rss_limit_mb=1500", "-max_len=20000", "-print_final_stats=1")
"""Seconds and megabytes of one input: an instrumented reader takes several times as long, a busy machine again."""


def fuzz(target: str, seconds: int, output: Path) -> bool:
    """Fuzz one target; True where nothing was found. Prints executions and coverage."""
    found, corpus = output / target / "found", output / target / "corpus"
    for folder in (found, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    log = output / target / "log"
    words = [sys.executable, "-m", "tests.fuzz.fuzzer", target, *LIMITS, f"-max_total_time={seconds}"]
    words += [f"-dict={HERE / 'words.dict'}", f"-artifact_prefix={found}/", str(corpus), str(HERE / "corpus" / target)]
    with log.open("wb") as stream:
        done = subprocess.run(words, cwd=HERE.parents[1], stdout=stream, stderr=subprocess.STDOUT, check=False)
    text = log.read_text(encoding="utf-8", errors="replace")
    covered = re.findall(r"cov: (\d+) ft: (\d+)", text)[-1:] or [("0", "0")]
    executions = re.findall(r"number_of_executed_units: (\d+)", text) or re.findall(r"^#(\d+)", text, re.MULTILINE)
    peak = re.findall(r"peak_rss_mb:\s+(\d+)", text)[-1:]
    print(
        f"{target}: {executions[-1] if executions else 0} executions, {covered[0][0]} edges, {covered[0][1]} features, "
        f"{peak[0] if peak else '?'} MB" + ("" if done.returncode == 0 else f"; FOUND, see {log}"),
        flush=True,
    )
    return done.returncode == 0


def minimise(target: str, output: Path) -> None:
    """Replace the corpus of the repository by the smallest files that reach all that is reached so far.

    What was once found, ``found-...``, stays.
    """
    kept, reached = HERE / "corpus" / target, output / target / "corpus"
    reached.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as small:
        words = [sys.executable, "-m", "tests.fuzz.fuzzer", target, "-merge=1", "-max_len=4000", small]
        subprocess.run([*words, str(kept), str(reached)], cwd=HERE.parents[1], check=True)
        chosen = {path.name[:12]: path.read_bytes() for path in Path(small).iterdir()}
    if not chosen:
        raise SystemExit(f"{target}: nothing is left, which cannot be: see the output above")
    for path in kept.iterdir():
        if not path.name.startswith("found-"):
            path.unlink()
    for name, content in chosen.items():
        (kept / name).write_bytes(content)


def main() -> int:
    """0: nothing was found; 1: something was."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "build" / "fuzz", help="default: build/fuzz")
    parser.add_argument("--minimise", action="store_true", help="make the repository's corpus again instead")
    given = parser.parse_args()
    unknown = [name for name in given.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    chosen = given.targets or list(TARGETS)
    output = given.output.resolve()
    if given.minimise:
        for name in chosen:
            minimise(name, output)
        return 0
    clean = [fuzz(name, given.seconds, output) for name in chosen]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
