"""How often measured verdicts are wrong, on the engine: of equal things, and of the library's own cases."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reprokit.evidence.measuring import LOOKS
from reprokit.evidence.ratio import estimate

REPOSITORY = Path(__file__).parents[2]
REPROKIT = [sys.executable, "-m", "reprokit"]
COUNT = 200
"""Comparisons of the time of a cell with itself, and trials of what does not leak; half as many of the others."""
ROUNDS = 20
REPEATED: Mapping[str, tuple[str, ...]] = {
    "slow_url_authority": ("--only", "urllib3=1.26.4"),
    "slow_urlize": ("--only", "jinja2=2.11.2"),
    "slow_schema_references": ("--only", "jsonschema=4.18.0"),
    "slow_unique": ("--only", "numpy=2.3.0"),
    "memory_unique": ("--only", "numpy=2.3.0"),
    "leak_refcount": (),
    "leak_cached_method": (),
    "leak_multidict": (),
}
"""Cases of the library, with the cells of which the repetitions are."""

_WORK = "import time; sum(n % 7 for n in range(400_000)); print(f'reprokit: seconds={time.process_time():.6f}')"
_FILL = "text = b'x' * 30_000_000; import time; time.sleep(0.2)"
_RELEASES = """\
for iteration in range(40):
    chunks = [bytes(1000) for _ in range(2000)]
    print("reprokit: iteration", iteration, flush=True)
    del chunks
    time.sleep(0.05)
"""
_HANGS = """\
import os, queue, threading, time
lock = threading.Lock()
def transfer():
    with lock:
        pass
def produce():
    return queue.Queue().get()
def calculate():
    while True:
        sum(range(1000))
transfer()
calculate() if int(os.environ["N"]) % 2 else produce()
"""

_NOISE = """\
import json, os, random
spread = 1e-6 * float(os.environ["SPREAD"])
json.dump([1 + random.gauss(0, spread) for _ in range(5)], open("result.json", "w"))
"""
"""Equal cells with noise of a size about that of the tolerance, where it is taken for a difference most easily."""


def _case(name: str, count: int, program: str, expect: Mapping[str, Any], **more: Any) -> str:
    return json.dumps(
        {
            "schema": "reprokit/v1",
            "id": f"null-{name}",
            "title": "Nothing to be found",
            "matrix": {"os": ["debian-12"], "python": ["3.11"], "n": [str(n) for n in range(count)]},
            "files": {"work.py": program},
            "env": {"N": "{{ n }}"},
            "command": ["python", "work.py"],
            "expect": expect,
            **more,
        }
    )


def nulls() -> Mapping[str, str]:
    """A case for each kind of measurement, in which there is nothing to be found."""
    of = {"n": "-1"}
    slow, big = {"slower_than": {"ratio": 1.3, "of": of}}, {"more_memory_than": {"ratio": 1.3, "of": of}}
    hangs = {"failure": {"timed_out": {"frames": ["work.py:transfer"]}}}
    short = {"resources": {"timeout": "8s"}}
    compare = {"compare": {"outputs": ["result.json"], "reference": {"cell": of}, "rtol": 1e-6}}
    spreads = ["0.1", "0.2", "0.25", "0.3"]
    noisy = {"os": ["debian-12"], "spread": spreads, "n": [str(n) for n in range(COUNT // len(spreads))]}
    return {
        "slower": _case("slower", COUNT, _WORK, slow),
        "memory": _case("memory", COUNT // 2, _FILL, big),
        "leaks": _case("leaks", 10, f"import time\n{_RELEASES}", {"leaks": {"per_iteration": "100KiB"}}, trials=20),
        "hangs": _case("hangs", COUNT // 2, _HANGS, hangs, **short),
        "compare": _case("compare", 0, _NOISE, compare, matrix=noisy, env={"SPREAD": "{{ spread }}"}),
    }


def null(name: str, folder: Path) -> Iterator[str]:
    """The verdicts of a null experiment, and of their trials where these decide alone."""
    (folder / f"{name}.yaml").write_text(nulls()[name])
    cells = _cells(folder, f"{name}.yaml")
    yield f"null {name}: cells {_counted(cell['verdict'] for cell in cells)}"
    measured = [found["pairs"] for cell in cells if (found := cell["details"].get("ratio", {})).get("pairs")]
    if not measured:
        yield f"null {name}: trials {_counted(trial['outcome'] for cell in cells for trial in cell['trials'])}"
        return
    (first, error), *_ = LOOKS.items()
    above = [seen for pairs in measured if (seen := estimate(pairs[:first], 1)) and seen[0].low > 1]
    share = f"{len(above)} of {len(measured)}"
    yield f"null {name}: the {100 - 200 * error:g} % interval of the first {first} pairs is above 1 in {share}"


def repeated(folder: Path) -> Iterator[str]:
    """The verdicts of the library's cases and of their fixes, round by round."""
    right, open_, wrong = Counter[str](), Counter[str](), Counter[str]()
    for number in range(1, ROUNDS + 1):
        for name, words in REPEATED.items():
            for cell in _cells(folder, str(REPOSITORY / "cases" / f"{name}.yaml"), "--fix", *words):
                kind = right if cell["as_expected"] else open_ if cell["as_expected"] is None else wrong
                kind[f"{name} {cell['variant']}"] += 1
        for key in sorted({*right, *open_, *wrong}):
            yield f"round {number}: {key}: {right[key]} as expected, {open_[key]} inconclusive, {wrong[key]} wrong"


def _cells(folder: Path, *words: str) -> Sequence[Mapping[str, Any]]:
    argv = [*REPROKIT, "run", *words, "--confirm", "never", "--store", str(folder / "store")]
    subprocess.run([*argv, "--json", "result.json"], cwd=folder, capture_output=True, check=False)
    [case] = json.loads((folder / "result.json").read_text())["cases"]
    cells: Sequence[Mapping[str, Any]] = case["cells"]
    return cells


def _counted(words: Iterator[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(Counter(words).items()))
