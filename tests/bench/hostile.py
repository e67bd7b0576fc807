"""What it costs to refuse hostile input, or to confine it: processor time and memory of each probe of the tests.

Each probe runs in a child that is forked once all modules are loaded, so that neither the interpreter's start nor
imports count; programs that it starts itself, as the one that renders templates, do.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reprokit.case import confined, emit
from reprokit.cli import invoke
from reprokit.core.errors import ReprokitError
from tests.fuzz import targets
from tests.unit import nights
from tests.unit.case import test_hostile, test_hostile_templates
from tests.unit.core import test_patterns
from tests.unit.environment import test_dockerfile_values as values
from tests.unit.evidence.test_hostile_texts import PUMPS, pumped
from tests.unit.store import test_archive, test_foreign

Probe = Callable[[Path], object]
SECONDS, MEGABYTES = 1.0, 200
LATE = 60
"""Seconds after which a probe is ended."""
SIZE = 1_000_000
CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"


class Cost(NamedTuple):
    """Of one probe: processor time in seconds, memory in MB beyond what it began with, and whether it went wrong."""

    seconds: float
    megabytes: int
    defect: bool


def measured(probe: Probe) -> Cost:
    """Run a probe in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as told:
        child = os.fork()
        if not child:
            signal.alarm(LATE)
            os.chdir(place)
            os._exit(_child(probe, Path(place), told.fileno()))
        _, status, usage = os.wait4(child, 0)
        told.seek(0)
        said = told.read()
    grown = json.loads(said[said.rindex(b"\n@@") + 3 :]) if b"\n@@" in said else 9999
    defect = b"a defect of reprokit" in said or b"Traceback (most" in said or status != 0
    return Cost(usage.ru_utime + usage.ru_stime, grown, defect)


def _child(probe: Probe, place: Path, told: int) -> int:
    def most(who: int) -> int:
        return resource.getrusage(who).ru_maxrss // 1024

    before = most(resource.RUSAGE_SELF)
    os.dup2(told, 1)
    os.dup2(told, 2)
    with contextlib.suppress(ReprokitError):
        probe(place)
    confined._child.stop()
    os.write(1, b"\n@@%d" % (most(resource.RUSAGE_SELF) - before + most(resource.RUSAGE_CHILDREN)))
    return 0


def _typed(*words: str, **files: str) -> Probe:
    """Write the files and run a command line."""

    def probe(place: Path) -> None:
        for name, text in files.items():
            (place / name.replace("_", ".")).write_text(text, encoding="utf-8", errors="surrogatepass")
        invoke(list(words))

    return probe


def _validated(case: str | Mapping[str, Any]) -> Probe:
    text = case if isinstance(case, str) else emit.document({**json.loads(json.dumps(_CASE)), **case})
    return _typed("validate", "x.yaml", x_yaml=text)


_CASE: dict[str, Any] = {"schema": "reprokit/v1", "id": "x", "title": "t", "command": "true"}


def _texts() -> Iterator[tuple[str, Probe]]:
    for name, text in test_hostile.REFUSED.items():
        yield name, _validated(test_hostile.HEAD + text + "\n")
    bomb = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    many = SIZE // 8
    for name, text in {
        "aliases": "a0: &a0 x\n" + bomb,
        "keys": "".join(f"k{n}: v\n" for n in range(many)),
        "keys-twice": "env: a\n" * many,
        "list": "tags:\n" + "- a\n" * (many * 2),
        "axes": "matrix: {" + ", ".join(f"a{n}: ['1']" for n in range(many // 2)) + "}\n",
        "values": "matrix: {a: [" + ", ".join(map(str, range(many))) + "]}\n",
        "excludes": "matrix:\n  a: ['1', '2']\n  exclude:\n" + "  - {a: '1'}\n" * (many // 2),
        "templates": "env:\n" + "".join(f"  A{n}: '{{{{ x }}}}'\n" for n in range(many // 4)),
        "templates-within-limits": "env:\n" + "".join(f"  A{n}: '{{{{ x{n} }}}}'\n" for n in range(999)),
        "valid-templates": "matrix: {x: ['1']}\nenv:\n" + "".join(f"  A{n}: '{{{{ x }}}}{n}'\n" for n in range(999)),
        "template-of-a-megabyte": "env: {A: '" + "{{ x }}" * (SIZE // 7) + "'}\n",
        "expression-of-a-megabyte": "env: {A: '{{ [" + "x, " * (SIZE // 3) + "x] }}'}\n",
        "names-and-axes": "matrix: {"
        + ", ".join(f"alongname{n}: ['1']" for n in range(499))
        + "}\nenv: {A: '"
        + "".join(f"{{{{alangnome{n}}}}}" for n in range(999))
        + "'}\n",
        "includes-and-templates": "matrix:\n  a: ['1']\n  include:\n"
        + "  - {b: '1'}\n" * 9000
        + "env:\n"
        + "".join(f"  A{n}: '{{{{ c if c is defined else d|default(1) }}}}{n}'\n" for n in range(400)),
        "aliases-of-a-text": "env:\n  A: &a '"
        + "x" * (SIZE // 8)
        + "{{ x }}'\n"
        + "".join(f"  A{n}: *a\n" for n in range(9000)),
        "excludes-and-values": "matrix:\n  a: ["
        + ", ".join(map(str, range(9999)))
        + "]\n  b: ['1', '2']\n  exclude:\n"
        + "".join(f"  - {{a: '{n}'}}\n" for n in range(9000)),
    }.items():
        yield name, _validated(test_hostile.HEAD + text)
    for name in PUMPS:
        text = pumped(name, SIZE)
        yield f"megabyte-of-{name}", _validated(text)
        block = "".join(f"  {line}\n" for line in text.splitlines())
        yield f"description-of-{name}", _validated(f"{test_hostile.HEAD}description: |\n{block}")
        yield f"markdown-of-{name}", _typed("validate", "x.md", x_md=text)


def _templates() -> Iterator[tuple[str, Probe]]:
    for name, text in test_hostile_templates.HOSTILE.items():
        yield name, _validated({"matrix": {"a": ["1"], "n": list("123456789")}, "env": {"A": text}})


def _patterns() -> Iterator[tuple[str, Probe]]:
    several = {name: one for name, (one, _) in {**test_patterns.REFUSED, **test_patterns.EXPLODING}.items()}
    for name, pattern in several.items():
        for key in ("output", "message"):
            yield f"{name}-{key}", _validated({"expect": {"failure": {key: f"/{pattern}/"}}})


def _values() -> Iterator[tuple[str, Probe]]:
    for field, part in values.FIELDS.items():
        for name, value in values.HOSTILE.items():
            yield f"{field}-{name}", lambda _, part=part, value=value: values.meaning(part(value))
            if field in values.TEMPLATED:
                yield (
                    f"{field}-{name}-axis",
                    lambda _, part=part, value=value: values.meaning(part("{{ free }}"), {"free": value}),
                )


def _stores(place: Path) -> Iterator[tuple[str, Probe]]:
    made = nights.Nights(place / "template")
    for _ in range(2):
        made.run({"1": "N", "2": "R"})
    (made.store.folder / "runs" / "none.log").write_text("boom\n")
    made.store.close()

    def merged(spoil: Callable[[Path], None]) -> Probe:
        def probe(folder: Path) -> None:
            test_foreign.shutil.copytree(place / "template", folder / "a" / "store")
            spoil(folder / "a" / "store")
            invoke(["merge", "a/store", "--store", "own", "--keep", "1"])

        return probe

    for spoil in test_foreign.FOLDERS:
        yield spoil.__name__, merged(spoil)
    for column, statements in test_foreign.COLUMNS.items():
        for name, to in test_foreign.NAMES.items():

            def plant(store: Path, statements: str = statements, to: object = to) -> None:
                with contextlib.suppress(test_foreign.sqlite3.IntegrityError):
                    test_foreign.plant(store / "reprokit.db", statements, to)

            yield f"{column}-{name}", merged(plant)
    for number, change in enumerate(test_archive.HOSTILE):

        def imported(folder: Path, change: Callable[[dict[str, Any]], Any] = change) -> None:
            lines = [{"format": test_archive.FORMAT}, test_archive.hostile(change)]
            test_archive.packed(folder / "e.tar", lines)
            invoke(["store", "import", "e.tar", "--store", "own"])

        yield f"export-{number}", imported


def _corpus() -> Iterator[tuple[str, Probe]]:
    targets.warm()
    for name, target in targets.TARGETS.items():
        for path in sorted((CORPUS / name).iterdir()):
            yield f"{name}/{path.name}", lambda place, target=target, path=path: target(path.read_bytes(), place)


def report() -> Iterator[str]:
    """A line for each class of probes, and one for each probe that costs too much or goes wrong."""
    usual = measured(_validated(_CASE))
    yield f"a valid case: {usual.seconds:.2f} s, {usual.megabytes} MB"
    with tempfile.TemporaryDirectory() as place:
        classes = {
            "texts of cases": _texts(),
            "templates": _templates(),
            "patterns": _patterns(),
            "values in Dockerfiles": _values(),
            "stores and exports": _stores(Path(place)),
            "corpus of the fuzzers": _corpus(),
        }
        for kind, probes in classes.items():
            costs = {name: measured(probe) for name, probe in probes}
            for name, cost in costs.items():
                if cost.seconds > SECONDS or cost.megabytes > MEGABYTES or cost.defect:
                    wrong = ", GOES WRONG" if cost.defect else ""
                    yield f"  {kind}, {name}: {cost.seconds:.2f} s, {cost.megabytes} MB{wrong}"
            times = sorted(cost.seconds for cost in costs.values())
            memory = sorted(cost.megabytes for cost in costs.values())
            last = len(costs) * 99 // 100
            yield (
                f"{kind}: {len(costs)} probes; median {statistics.median(times):.2f} s, "
                f"{statistics.median(memory):.0f} MB; 99 of 100 {times[last]:.2f} s, {memory[last]} MB; "
                f"most {times[-1]:.2f} s, {memory[-1]} MB"
            )
