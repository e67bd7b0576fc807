"""Large logs: showing them, as times of reading and splitting them, and patterns that are watched in a flood."""

from __future__ import annotations

import base64
import hashlib
import random
import time
from collections.abc import Callable
from pathlib import Path

from reprokit.case.model import Failure
from reprokit.evidence.log_trimmer import LogTrimmer
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, RequestRecord, RunRecord, TrialRecord
from reprokit.report.publishing import Scrubber
from reprokit.store.database import Store
from tests.stored import finish
from tests.unit.nights import CASE

MIB = 1024 * 1024
CUT = "[reprokit: 61234567 bytes (512345 lines) cut]\n"
FAILURE = (
    'Traceback (most recent call last):\n  File "/workspace/go.py", line 3, in <module>\n'
    '    raise ValueError("boom")\nValueError: boom\n'
)


def training(size: int, seed: int = 1) -> str:
    """So many characters of what a training prints, at least."""
    chance = random.Random(seed)
    lines: list[str] = []
    while size > 0:
        step = len(lines)
        lines.append(
            f"2026-11-22 14:{step // 60 % 60:02d}:{step % 60:02d},{step % 1000:03d} INFO trainer.py:{step % 400} "
            f"step={step} loss={chance.random():.6f} lr=1e-3 path=/workspace/data/img_{step:07d}.png\n"
        )
        size -= len(lines[-1])
    return "".join(lines)


def flood(seed: int) -> bytes:
    """A log that was cut to 9 MiB around its failure."""
    return f"{training(8 * MIB, seed)}{CUT}{FAILURE}{CUT}{training(MIB, seed)}".encode()


def fill(folder: Path, *, binary: bool = False) -> Store:
    """A store with a run of three cells that flooded, or of one that printed 9 MiB of ``binary`` data."""
    store = Store(folder)
    _record(store, "20260101-000000-0001", [random.Random(4).randbytes(9 * MIB)] if binary else [*map(flood, range(3))])
    return store


def _record(store: Store, run_id: str, logs: list[bytes]) -> None:
    digest = "sha256:" + hashlib.sha256(CASE.encode()).hexdigest()
    cells = []
    for number, log in enumerate(logs, 1):
        path = Path("runs") / run_id / f"{number}.log"
        (store.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (store.folder / path).write_bytes(log)
        at = log.find(FAILURE.encode())
        first = log.count(b"\n", 0, at) + 1
        trial = TrialRecord(
            number=1,
            outcome=Outcome.REPRODUCED,
            exit_code=1,
            seconds=0.1,
            oom=False,
            timed_out=False,
            reason="so",
            log=str(path),
            lines=(first + 3,) if at >= 0 else (),
        )
        cells.append(
            CellRecord(
                number=number,
                case_id="nightly",
                case_path="nightly.yaml",
                case_digest=digest,
                cell={"os": "debian-12", "numpy": str(number)},
                verdict=Verdict.REPRODUCED,
                expected=Verdict.REPRODUCED,
                reason="so",
                trials=(trial,),
            )
        )
    at = f"2026-01-0{run_id[7]}T00:00:00.000Z"
    run = RunRecord(id=run_id, started_at=at, version="1", request=RequestRecord(), cells=tuple(cells))
    store.put(run, {digest: ("nightly", "", CASE)})
    for cell in cells:
        store.decide(run_id, cell)
    finish(store, run_id, finished_at=at, exit_status=0, host=run.host)


def ratios(folder: Path) -> list[tuple[str, float, float]]:
    """What is done, its seconds of processor time, and that as a multiple of reading and splitting its logs."""
    from reprokit.intake import sharing
    from reprokit.report import detail
    from reprokit.report.formats.html import FORMAT as PAGES
    from reprokit.report.html.building import PagesRequest

    store, other = fill(folder / "text"), fill(folder / "binary", binary=True)
    flooded, binary = store.run("last"), other.run("last")
    digest = flooded.cells[0].case_digest
    subject = sharing.Subject(run=flooded, title="x", text=CASE, digest=digest)
    scrub = Scrubber([flooded])

    def pages() -> object:
        return PAGES.write(store, folder / "pages", PagesRequest(), scrub)

    def shared() -> object:
        return sharing.share(subject, store.folder, texts=store.case_text, scrub=scrub)

    def shown() -> object:
        return detail.cell(binary, binary.cells[0], other.folder, 1, colour=False)

    doing: dict[str, tuple[Callable[[], object], Store, tuple[CellRecord, ...]]] = {
        "report of 3 logs of 9 MiB": (pages, store, flooded.cells),
        "share of 1 log of 9 MiB, the failing cell's": (shared, store, flooded.cells[:1]),
        "show of 9 MiB of binary data": (shown, other, binary.cells),
    }
    found = []
    for name, (do, where, cells) in doing.items():
        plain = _took(lambda where=where, cells=cells: [_lines(where, cell) for cell in cells])  # type: ignore[misc]
        took = _took(do)
        found.append((name, took, took / plain))
    return found


def watching(folder: Path, size: int = 64 * MIB) -> list[tuple[str, float, float]]:
    """A pattern over one line of ``size`` bytes: its seconds of processor time, and those as times no pattern."""
    line = base64.b64encode(random.Random(1).randbytes(3 * MIB))
    coloured = line.replace(b"a", b"a\x1b[32m")  # one character in 64
    found = []
    for kind, text in {"text": line, "coloured text": coloured}.items():
        plain = _took(lambda text=text: _trim(folder, text, size, None))  # type: ignore[misc]
        for pattern in ("BOOM", r"/BOOM \d+/", "/(?i)out of memory/", "/a.*b.*BOOM/", "/[0-9]{15} /"):
            took = _took(lambda text=text, pattern=pattern: _trim(folder, text, size, pattern))  # type: ignore[misc]
            found.append((f"{pattern} in a line of {kind}", took, took / plain))
    return found


def _trim(folder: Path, text: bytes, size: int, pattern: str | None) -> None:
    with LogTrimmer(folder / "watched.log", Failure(output=pattern)) as trimmer:
        for at in range(0, size, 64 * 1024):
            trimmer.feed(text[at % len(text) :][: 64 * 1024])


def _lines(store: Store, cell: CellRecord) -> int:
    text = (store.folder / cell.trials[0].log).read_bytes().decode("utf-8", "replace")
    return len(text.split("\n"))


def _took(do: Callable[[], object]) -> float:
    started = time.process_time()
    do()
    return time.process_time() - started
