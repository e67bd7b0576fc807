"""Bisections of real histories: imported bugs name the commits of their fixes, and ``bisect`` has to find these."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprokit.run.loading import load

REPROKIT = [sys.executable, "-m", "reprokit"]
AROUND = 15
"""Commits of the first parents before the bug and behind the fix, so that the fix is one of about 32 places."""


def report(folder: Path, cases: Path, repositories: Mapping[str, Path]) -> Iterator[str]:
    """A line for each case in ``cases`` whose fix is another commit of one of ``repositories`` (source -> a clone);
    then how many were decided, and how many of these right.
    """
    decided, right, count = 0, 0, 0
    for place in sorted(cases.rglob("*.yaml")):
        (file,) = load(str(place))
        fixes = file.fixed.sources if file.fixed else {}
        name = next((one for one in repositories if one in fixes), None)
        if name is None:
            continue
        repository, buggy, fixed = repositories[name], file.case.sources[name].ref, fixes[name].ref
        later = _git(repository, "rev-list", "--first-parent", "--reverse", f"{fixed}..HEAD").split()[:AROUND]
        earlier = _git(repository, "rev-list", "--first-parent", "-n", str(AROUND + 1), buggy).split()
        began, written = time.monotonic(), folder / f"{place.stem}.json"
        words = [*REPROKIT, "bisect", str(place), "--store", str(folder / "store"), "--json", str(written)]
        words += ["--source", f"{name}={earlier[-1]}..{[fixed, *later][-1]}"]
        for source in file.case.sources:
            words += ["--source", f"{source}={repository}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        took = time.monotonic() - began
        answer = json.loads(written.read_text(encoding="utf-8"))["answer"] if written.exists() else {}
        found = (answer.get("commit") or {}).get("hash", "") if done.returncode == 0 else ""
        decided, right, count = decided + bool(found), right + (found == fixed), count + 1
        shown = (
            f"{'right' if found == fixed else 'WRONG'}, {found[:12]}" if found else f"not decided ({done.returncode})"
        )
        run, places = len(answer.get("readings", ())), len(answer.get("values", ()))
        yield f"{file.case.id}: {shown}; {run} of {places} commits, {took:.0f} s"
        if not found:
            yield f"  {(answer.get('words') or done.stderr.strip().splitlines() or ['nothing'])[0][:300]}"
    yield f"{decided} of {count} decided; {right} of these named the commit of the fix"


def _git(repository: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(repository), *words], capture_output=True, text=True, check=True).stdout
