"""Made-up stores with what pages have to bear: many cells, every verdict, long and hostile logs, Chinese, history."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from reprokit.environment.measured import Measured
from reprokit.evidence.details import BaseRecord, CellDetails, FailureRecord
from reprokit.evidence.model import Frame, Outcome, Verdict
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord, ExceptionRecord, ImageRecord, RunRecord, TrialRecord
from reprokit.store.database import Store
from reprokit.store.journal import line_of
from tests.stored import finish

FIRST = datetime(2026, 1, 1, 2)
HOSTILE = (
    "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>\u202egnp.exe"
)
"""What must come out as the letters that it is made of; its end would be shown backwards."""
CHINESE = "运行时错误：显存不足，批大小为 8 时复现"
SEED = 6
GOLDEN = Path(__file__).parent.parent / "golden" / "stacks"


@dataclass(frozen=True, kw_only=True)
class Made:
    """A cell to be recorded. ``logs``: of each trial, with the lines that the signature matched."""

    cell: Mapping[str, str]
    verdict: Verdict
    expected: Verdict | None = None
    variant: str = "case"
    reason: str = "as made up"
    logs: Sequence[tuple[str, tuple[int, ...]]] = (("it passed\n", ()),)
    exception: ExceptionRecord | None = None
    values: Mapping[str, Any] | None = None


class Maker:
    """Writes runs, one a night, to a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder)
        self.nights = 0

    def night(self, case: Mapping[str, Any], cells: Sequence[Made]) -> str:
        """Record a run of one case; the run's id."""
        at = FIRST + timedelta(days=self.nights)
        self.nights += 1
        text = yaml.safe_dump(dict(case), allow_unicode=True, sort_keys=False)
        digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        run = RunRecord(
            id=f"{at:%Y%m%d-%H%M%S}-{self.nights:04x}",
            started_at=f"{at:%Y-%m-%dT%H:%M:%S}.000Z",
            version="1",
            host=HostRecord(engine="Docker Engine 20.10.24", engine_kind="docker", kernel="6.1"),
        )
        records = [_record(number, case["id"], digest, made) for number, made in enumerate(cells, 1)]
        self.store.put(run, {digest: (case["id"], case["title"], text)})
        self._write(run.id, records, cells)
        finish(self.store, run.id, finished_at=run.started_at, exit_status=0, host=run.host)
        return run.id

    def _write(self, run_id: str, records: Sequence[CellRecord], cells: Sequence[Made]) -> None:
        """All cells at once: ten thousand decisions of their own would take minutes."""
        kept: dict[str, str] = {}
        whole = (
            replace(record, trials=tuple(self._trials(made, kept))) for record, made in zip(records, cells, strict=True)
        )
        self.store._write(run_id, [line_of("decide", cell=one) for one in whole])

    def _trials(self, made: Made, kept: dict[str, str]) -> Iterator[TrialRecord]:
        for number, (log, lines) in enumerate(made.logs, 1):
            name = kept.setdefault(log, f"runs/logs/{hashlib.sha256(log.encode()).hexdigest()[:16]}.log")
            path = self.folder / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(log, encoding="utf-8")
            yield TrialRecord(
                number=number,
                outcome=Outcome.REPRODUCED if lines else Outcome.PASSED,
                exit_code=1 if lines else 0,
                seconds=0.25,
                oom=False,
                timed_out=False,
                reason=made.reason,
                log=name,
                exception=made.exception if lines else None,
                lines=lines,
            )


def _record(number: int, case_id: str, digest: str, made: Made) -> CellRecord:
    failure = FailureRecord(version="1", id="abc123", title=made.reason, kind="ValueError")
    shows = made.verdict in (Verdict.REPRODUCED, Verdict.FLAKY)
    plain: dict[str, Any] = {
        "details": CellDetails(base=BaseRecord(digest="sha256:" + 64 * "a"), failure=failure if shows else None),
        "environment": environment(made.cell) if made.verdict.conclusive else None,
        "image": ImageRecord(tag="reprokit/img:" + 32 * "a", id="sha256:" + 64 * "b", size=2 * 10**8),
        "dockerfile": "FROM debian:12\nRUN pip install numpy\n" if made.verdict.conclusive else "",
        "repeat": f"docker run --rm reprokit/img:{32 * 'a'} python go.py" if made.verdict.conclusive else "",
    }
    return CellRecord(
        number=number,
        case_id=case_id,
        case_path=f"cases/{case_id}.yaml",
        case_digest=digest,
        cell=made.cell,
        variant=made.variant,
        verdict=made.verdict,
        expected=made.expected,
        reason=made.reason,
        rules="1",
        seconds=0.3,
        **{**plain, **(made.values or {})},
    )


def environment(cell: Mapping[str, str], packages: int = 60) -> Measured:
    """What was measured: the axes that name it, and packages, some of which follow an axis."""
    names = {f"lib-{number}": "1.2.3-4" for number in range(packages)}
    pip = {"numpy": cell.get("numpy", "1.26.4"), "six": "1.16.0"}
    return Measured(
        os="debian-12",
        python=cell.get("python", "3.11.2"),
        glibc="2.36",
        packages={"pip": pip, "apt": {**names, "libc6": f"2.36-{cell.get('python', '3.11')}"}},
    )


def case(case_id: str, title: str, axes: Mapping[str, Sequence[str]], **more: Any) -> dict[str, Any]:
    """A valid case."""
    return {
        "schema": "reprokit/v1",
        "id": case_id,
        "title": title,
        "matrix": {name: list(values) for name, values in axes.items()},
        "command": "python go.py",
        "expect": {"failure": {"exception": "ValueError"}, "reproduces": "all"},
        **more,
    }


CUT = "begins\n[reprokit: 900 bytes (100 lines) cut]\nwhat matched\nends\n"
"""The log file of a trial whose output had 103 lines."""


def traceback(before: int, after: int, word: str = "step") -> tuple[str, tuple[int, ...], ExceptionRecord]:
    """A log with a traceback in its middle, the lines of it, and the exception as recorded."""
    own = [
        "Traceback (most recent call last):",
        '  File "go.py", line 3, in main',
        "    fail()",
        "ValueError: no such thing",
    ]
    lines = [*(f"{word} {number}" for number in range(before)), *own, *(f"after {number}" for number in range(after))]
    first = before + 1
    seen = ExceptionRecord(
        type="ValueError",
        message="no such thing",
        frames=(Frame(file="go.py", line=3, function="main"),),
        line=first,
        end_line=first + 3,
    )
    return "\n".join(lines) + "\n", tuple(range(first, first + 4)), seen


def small(folder: Path) -> dict[str, str]:
    """Cases that are small and hard: their newest runs by case."""
    maker = Maker(folder)
    return {
        "grid": grid(maker),
        "hostile": hostile(maker),
        "chinese": chinese(maker),
        "odd": odd(maker),
        "one": one(maker),
    }


def grid(maker: Maker, nights: int = 6) -> str:
    """Three axes, every verdict among the cells, a fix, and a cell that changes after some nights."""
    axes = {"os": ["debian-12"], "python": ["3.9", "3.10", "3.11"], "numpy": ["1.26.4", "2.0.2"], "mode": ["a", "b"]}
    about = case(
        "grid",
        "A function of a package fails on new versions",
        axes,
        description="First words, with `code`.\n\n- an item\n- another item\n",
        report={"url": "https://example.org/issues/1"},
        tags=["numpy", "quick"],
        fix={"summary": "Call the other function", "command": "python fixed.py"},
    )
    log, lines, seen = traceback(100, 100)
    odd = {
        ("3.9", "1.26.4", "b"): Verdict.UNSUPPORTED,
        ("3.10", "1.26.4", "b"): Verdict.BUILD_FAILED,
        ("3.11", "1.26.4", "b"): Verdict.DIFFERENT_FAILURE,
        ("3.11", "2.0.2", "b"): Verdict.FLAKY,
    }
    last = ""
    for night in range(nights):
        cells = []
        for python, numpy, mode in itertools.product(*list(axes.values())[1:]):
            shows = numpy == "2.0.2" and not (mode == "b" and python == "3.9" and night < nights // 2)
            verdict = odd.get((python, numpy, mode), Verdict.REPRODUCED if shows else Verdict.NOT_REPRODUCED)
            expected = Verdict.REPRODUCED if numpy == "2.0.2" else Verdict.NOT_REPRODUCED
            cell = {"os": "debian-12", "python": python, "numpy": numpy, "mode": mode}
            failing = (log, lines)
            logs = {Verdict.REPRODUCED: [failing] * 3, Verdict.FLAKY: [failing, ("fine\n", ()), failing]}.get(
                verdict, [("it passed\n", ())] if verdict.conclusive else []
            )
            reason = "ValueError: no such thing" if logs and logs[0][1] else "all trials passed"
            made = Made(cell=cell, verdict=verdict, expected=expected, logs=logs, exception=seen, reason=reason)
            cells += [
                made,
                Made(cell=cell, variant="fix", verdict=Verdict.NOT_REPRODUCED, expected=Verdict.NOT_REPRODUCED),
            ]
        last = maker.night(about, cells)
    return last


def hostile(maker: Maker) -> str:
    """Texts that would run, reorder or end something where they are taken for anything but text."""
    values = [HOSTILE, "plain", "javascript:alert(1)", "a&b=c#d?e/f%20"]
    about = case(
        "hostile",
        f"Title {HOSTILE}"[:200],
        {"x": values},
        description=f"Words {HOSTILE}\n\n`{HOSTILE}`\n",
        report={"url": "javascript:document.title='hacked'"},
        tags=[HOSTILE],
    )
    long = "begin\n" + "L" * 1_000_000 + "\nend\n"
    odd = f"{HOSTILE}\n\x1b[31mred\x1b[0m\x07bell\n\x1b[8;30;40mconcealed\x1b[0m\n\u2066isolated\u2069\nok\n"
    logs = [(odd, (1,)), (long, (2,)), (CUT, (3,))]
    cells = [Made(cell={"x": value}, verdict=Verdict.REPRODUCED, reason=HOSTILE, logs=logs) for value in values]
    return maker.night(about, cells)


def odd(maker: Maker) -> str:
    """Axes that are named as what objects inherit, a log that is gone, a fix that was decided in part.

    After the first night a cell could not be decided any more, and another was not asked for.
    """
    axes: dict[str, list[Any]] = {"__proto__": ["1", "2"], "constructor": ["a", "b"]}
    axes["include"] = [{"__proto__": "1"}, {"__proto__": "2"}]
    about = case("odd", "What is seldom", axes, fix={"summary": "Another call", "command": "python fixed.py"})
    found = {"1": Verdict.REPRODUCED, "2": Verdict.NOT_REPRODUCED}
    lost = "a log that is removed\n"
    cells = [Made(cell={"__proto__": one}, verdict=found[one], expected=found[one], logs=[(lost, ())]) for one in found]
    cells += [
        Made(cell={"__proto__": one, "constructor": other}, verdict=found[one], expected=found[one])
        for one, other in (("1", "a"), ("1", "b"), ("2", "b"))
    ]
    fixed = [Verdict.NOT_REPRODUCED, *[Verdict.BUILD_FAILED] * 4]
    cells += [
        replace(one, variant="fix", verdict=verdict, expected=Verdict.NOT_REPRODUCED, logs=())
        for one, verdict in zip(cells, fixed, strict=True)
    ]
    night = maker.night(about, cells)
    (maker.folder / f"runs/logs/{hashlib.sha256(lost.encode()).hexdigest()[:16]}.log").unlink()
    maker.night(about, [replace(cells[2], verdict=Verdict.UNSUPPORTED, logs=())])
    return night


def one(maker: Maker) -> str:
    """A case without an axis: it has one cell, which crashed, and hung in its second trial."""
    about = case("one", "No axis", {})
    del about["matrix"]
    logs = [((GOLDEN / f"{name}.log").read_text(), (1,)) for name in ("c-extension", "hang-queue")]
    return maker.night(about, [Made(cell={}, verdict=Verdict.REPRODUCED, logs=logs)])


def chinese(maker: Maker) -> str:
    """A case whose title, axis and log are Chinese."""
    log = f"开始训练\n{CHINESE}\n结束\n"
    about = case("chinese", "显存不足时的错误信息", {"模式": ["训练", "推理"]}, description="第一段说明。")
    cells = [
        Made(
            cell={"模式": mode},
            verdict=verdict,
            reason=CHINESE,
            logs=[(log, (2,) if verdict is Verdict.REPRODUCED else ())],
        )
        for mode, verdict in (("训练", Verdict.REPRODUCED), ("推理", Verdict.NOT_REPRODUCED))
    ]
    return maker.night(about, cells)


def large(folder: Path, sizes: Mapping[str, int], nights: int = 3) -> str:
    """A case whose axes have so many values: what shows follows two of them, one cell in fifty is odd. The last run."""
    chance = random.Random(SEED)
    axes = {name: [f"{number}.0" for number in range(1, size + 1)] for name, size in sizes.items()}
    about = case("large", f"A case of {'x'.join(map(str, sizes.values()))} cells", axes)
    first, second, *_ = axes
    log, lines, seen = traceback(30, 10)
    odd = [Verdict.BUILD_FAILED, Verdict.UNSUPPORTED, Verdict.DIFFERENT_FAILURE, Verdict.FLAKY, Verdict.TIMED_OUT]
    cells = []
    for values in itertools.product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        shows = float(cell[first]) > sizes[first] / 2 and float(cell[second]) > sizes[second] / 3
        verdict = (
            chance.choice(odd) if chance.random() < 0.02 else Verdict.REPRODUCED if shows else Verdict.NOT_REPRODUCED
        )
        cells.append(
            Made(
                cell=cell,
                verdict=verdict,
                expected=Verdict.REPRODUCED if shows else Verdict.NOT_REPRODUCED,
                logs=[(log, lines)] if verdict is Verdict.REPRODUCED else [("it passed\n", ())],
                exception=seen,
                reason="exit status 1; ValueError: no such thing" if shows else "all trials passed",
            )
        )
    maker = Maker(folder)
    return [maker.night(about, cells) for _ in range(nights)][-1]
