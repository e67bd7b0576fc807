"""The log file: whole while it is small, bounded when it floods, and always enough to judge by."""

from __future__ import annotations

import functools
import random
import re
import tempfile
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.case.model import Failure
from reprokit.evidence.judgement import judge
from reprokit.evidence.log_trimmer import BLOCK, LogTrimmer, Trimmed, Watch
from reprokit.evidence.model import Ending, Outcome
from reprokit.evidence.observation import observe
from reprokit.evidence.text import LineNumbers, clean, clean_bytes
from tests.unit.limits import examples

KIB = 1024
CUT = re.compile(rb"^\[reprokit: (\d+) bytes (?:\((\d+) lines\)|of a line) cut\]\n", re.MULTILINE)


def traceback_of(number: int) -> bytes:
    return (
        f'Traceback (most recent call last):\n  File "/app/train.py", line {number}, in step_{number}\n'
        f"    forward()\nValueError: bad value {number}\n  [Hint: number {number}]\n"
    ).encode()


@functools.cache
def noise(size: int, seed: int = 1) -> bytes:
    """Lines of random length that nothing matches."""
    chance = random.Random(seed)
    lines: list[bytes] = []
    length = 0
    while length < size:
        lines.append(b"step %d %s\n" % (chance.randrange(10**6), b"x" * chance.randrange(60)))
        length += len(lines[-1])
    return b"".join(lines)


def trimmed(path: Path, chunks: Iterable[bytes], output: str | None = None, **limits: int) -> tuple[bytes, Trimmed]:
    head = limits.get("head", 16 * KIB)
    trimmer = LogTrimmer(path.open("w+b", buffering=0), Failure(output=output), head=head, kept=64 * KIB, tail=16 * KIB)
    for chunk in chunks:
        trimmer.feed(chunk)
    result = trimmer.close()
    return path.read_bytes(), result


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**6), longest=st.sampled_from([90, 300 * KIB]))
def test_the_lines_of_a_cut_log_have_the_numbers_of_the_whole_output(seed: int, longest: int) -> None:
    chance = random.Random(seed)
    rest = (b"x" * chance.randrange(chance.choice((1, 90, longest))) for _ in range(chance.randrange(20, 4000)))
    lines, size = [], 0
    for number, text in enumerate(rest, 1):
        found = b'  File "x.py", line 1' if chance.random() < 0.01 else b""
        lines.append(b"L%d:" % number + text + found)
        size += len(lines[-1])
        if size > 1200 * KIB:
            break
    with tempfile.TemporaryDirectory() as folder:
        kept, result = trimmed(Path(folder, "log"), [b"\n".join(lines)])
    numbers = LineNumbers(kept.decode())
    assert bool(numbers.cuts) == bool(result.cut)
    begun = [(at, re.match(rb"L(\d+):", line)) for at, line in enumerate(kept.split(b"\n"), 1)]
    assert all(numbers.whole(at) == int(begin[1]) for at, begin in begun if begin)


def accounted(kept: bytes, result: Trimmed) -> bool:
    """Whether what is kept and what the cut lines say add up to what came."""
    marks = CUT.findall(kept)
    own = sum(len(mark[0]) for mark in CUT.finditer(kept))
    cut = sum(int(size) for size, _ in marks)
    return cut == result.cut and abs(len(kept) - own + cut - result.seen) <= len(marks)


@settings(max_examples=examples(40), deadline=None)
@given(st.binary(max_size=40_000), st.integers(0, 30_000))
def test_small_logs_are_kept_verbatim(tmp_path_factory: pytest.TempPathFactory, data: bytes, head: int) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    kept, result = trimmed(path, [data[:100], data[100:]], head=head)
    assert kept == data
    assert result == Trimmed(seen=len(data), cut=0, cut_lines=0)


BIG = (
    noise(700 * KIB)
    + traceback_of(1)
    + noise(400 * KIB, 2)
    + b"z" * (BLOCK + 5000)
    + traceback_of(2)
    + noise(90 * KIB, 3)
)
WHOLE: list[bytes] = []


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.integers(1, 300 * KIB), max_size=30))
def test_the_file_does_not_depend_on_how_the_stream_was_divided(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    if not WHOLE:
        WHOLE.append(trimmed(folder / "whole", [BIG], "/value 2$/")[0])
    chunks, at = [], 0
    for size in sizes:
        chunks.append(BIG[at : at + size])
        at += size
    kept, result = trimmed(folder / "log", [*chunks, BIG[at:]], "/value 2$/")
    assert kept == WHOLE[0]
    assert accounted(kept, result)
    assert [seen.message for seen in observe(kept.decode()).exceptions] == [
        f"bad value {n}\n  [Hint: number {n}]" for n in (1, 2)
    ]


@pytest.mark.parametrize("place", [0, 15, 16, 17, 255, 256, 300, 511, 640, 900, 2000])
def test_a_traceback_survives_wherever_it_falls(tmp_path: Path, place: int) -> None:
    flood = noise(2500 * KIB)
    at = flood.rfind(b"\n", 0, place * KIB + 60) + 1
    for shift in (0, 60):
        start = flood.find(b"\n", at + shift) + 1
        kept, result = trimmed(tmp_path / "log", [flood[:start] + traceback_of(7) + flood[start:]])
        seen = observe(kept.decode()).exceptions
        assert [(e.message, [f.function for f in e.frames]) for e in seen] == [
            ("bad value 7\n  [Hint: number 7]", ["step_7"])
        ]
        assert accounted(kept, result)
        assert len(kept) < 16 * KIB + 64 * KIB + 16 * KIB + 2 * BLOCK


@pytest.mark.system
@pytest.mark.parametrize("border", [16 * KIB, 16 * KIB + BLOCK])
def test_a_traceback_survives_a_border_at_any_of_its_lines(tmp_path: Path, border: int) -> None:
    line = b"%063d\n" % 1
    trace = b"Exception in thread Thread-1 (work):\n" + traceback_of(5)
    for start in range(border - len(trace) - 20, border + 20, 10):
        fill = b"f" * (start % 64 - 1) + b"\n" if start % 64 else b""
        flood = line * (start // 64) + fill + trace + line * 12_000
        kept, result = trimmed(tmp_path / "log", [flood])
        assert trace in kept
        assert accounted(kept, result)


def test_head_and_tail_are_whole_and_the_cut_is_said(tmp_path: Path) -> None:
    flood = noise(3000 * KIB)
    kept, result = trimmed(tmp_path / "log", [flood])
    head, mark, tail = re.split(rb"(\[reprokit: [^\n]*\n)", kept)
    assert flood.startswith(head)
    assert len(head) >= 16 * KIB
    assert flood.endswith(tail)
    assert len(tail) >= 16 * KIB
    assert flood[len(flood) - len(tail) - 1 : len(flood) - len(tail)] == b"\n"
    cut = flood[len(head) : len(flood) - len(tail)]
    assert mark == b"[reprokit: %d bytes (%d lines) cut]\n" % (len(cut), cut.count(b"\n"))
    assert result == Trimmed(seen=len(flood), cut=len(cut), cut_lines=cut.count(b"\n"))


@pytest.mark.nightly
def test_a_flood_of_tracebacks_keeps_the_first_and_the_last(tmp_path: Path) -> None:
    chunks = (traceback_of(n) + noise(300, n) for n in range(20_000))
    kept, result = trimmed(tmp_path / "log", chunks)
    messages = [seen.message for seen in observe(kept.decode()).exceptions]
    assert messages[0].startswith("bad value 0\n")
    assert messages[-1].startswith("bad value 19999\n")
    assert accounted(kept, result)
    assert len(kept) < 16 * KIB + 64 * KIB + 16 * KIB + 2 * BLOCK


OUTPUTS = [
    ("needle in the hay", b"a needle in the hay\n"),
    (r"/nvcc fatal .*compute_\d+/", b"nvcc fatal   : Unsupported gpu architecture 'compute_35'\n"),
    (r"/^ready: \w+$/", b"ready: yes\n"),
    (r"/one\s+two/", b"now one\ntwo more\n"),
    ("/colou?red/", b"\x1b[31mcolo\x1b[0mred\n"),
    (r"/(?i)LOUD/", b"very loud\n"),
    ("größe", "die größe stimmt nicht\n".encode()),
]


@pytest.mark.parametrize(("output", "line"), OUTPUTS)
@pytest.mark.parametrize("place", [10, 700, 1290])
def test_what_the_signature_asks_for_is_kept(tmp_path: Path, output: str, line: bytes, place: int) -> None:
    flood = noise(1300 * KIB)
    at = flood.rfind(b"\n", 0, place * KIB) + 1
    whole = flood[:at] + line + flood[at:]
    kept, result = trimmed(tmp_path / "log", [whole], output)
    for text in (whole, kept):
        assert judge(Failure(output=output), Ending(exit_code=0), text.decode()).outcome is Outcome.REPRODUCED
    assert accounted(kept, result)


@pytest.mark.parametrize("output", [output for output, _ in OUTPUTS])
def test_a_flood_without_what_the_signature_asks_for_does_not_match(tmp_path: Path, output: str) -> None:
    kept, _ = trimmed(tmp_path / "log", [noise(1300 * KIB)], output)
    assert judge(Failure(output=output), Ending(exit_code=0), kept.decode()).outcome is Outcome.PASSED


def test_many_matches_do_not_fill_the_disk(tmp_path: Path) -> None:
    kept, _ = trimmed(tmp_path / "log", [b"match %d\n" % n * 50 for n in range(20_000)], "match")
    assert len(kept) < 16 * KIB + 64 * KIB + 16 * KIB + 2 * BLOCK


def test_a_match_in_an_endless_line_is_kept(tmp_path: Path) -> None:
    line = b"z" * (600 * KIB) + b" value=17 " + b"z" * (900 * KIB)
    for output in ("value=17", r"/value=\d+/"):
        kept, _ = trimmed(tmp_path / "log", [line], output)
        assert judge(Failure(output=output), Ending(exit_code=0), kept.decode()).outcome is Outcome.REPRODUCED


@pytest.mark.system
@pytest.mark.parametrize("chunk", [b"y\n" * 50_000, b"x" * 100_000, noise(100_000)])
def test_memory_and_disk_stay_flat(tmp_path: Path, chunk: bytes) -> None:
    file = (tmp_path / "log").open("w+b", buffering=0)
    trimmer = LogTrimmer(file, Failure(output="/never .*seen/"), head=256 * KIB, kept=256 * KIB, tail=64 * KIB)
    for _ in range(10):
        trimmer.feed(chunk)
    tracemalloc.start()
    for _ in range(200):
        trimmer.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    result = trimmer.close()
    assert result.seen == 210 * len(chunk)
    assert peak < 12 * KIB * KIB
    assert (tmp_path / "log").stat().st_size < 256 * KIB * 2 + 64 * KIB + 2 * BLOCK


def test_output_can_be_followed_while_it_comes(tmp_path: Path) -> None:
    echoed: list[bytes] = []
    with LogTrimmer((tmp_path / "log").open("w+b", buffering=0), Failure(), echo=echoed.append) as trimmer:
        trimmer.feed(b"first ")
        assert (tmp_path / "log").read_bytes() == b"first "
        trimmer.feed(b"second\n")
        assert (tmp_path / "log").read_bytes() == b"first second\n"
    assert echoed == [b"first ", b"second\n"]
    assert trimmer.close() == Trimmed(seen=13, cut=0, cut_lines=0)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("BOOM 7", b"BO\x1b[31mOM\0 7"),
        ("/BOOM \\d/", b"\x1b]0;title\x07BO\x1b[1mOM 7"),
        ("/(?i)boom \\d/", b"bo\x1b[31mOM 7"),
        ("/(?i)kelvin/", "\u212aelvin".encode()),
        ("/one\\ntwo/", b"one\r\r\ntwo"),
        ("/[0-9]{9}/", b"123456789"),
    ],
)
def test_what_a_watch_may_skip_never_holds_a_match(pattern: str, line: bytes) -> None:
    watch = Watch(pattern)
    dull = b"0123 boo BOO Boom\n" * 5000
    assert [watch.look(dull) for _ in range(3)] == [[], [], []]
    assert watch.look(dull + line + b"\n" + dull)
    assert watch.look(dull) == [], "what was found is not found again in the same text as before"


def test_carriage_returns_are_read_in_linear_time() -> None:
    # 40,000 took half a minute, and the time grew with the square.
    assert clean("\r" * 1_000_000 + "x\r\r\n\x1b[0m\0y\r") == "\r" * 1_000_000 + "x\ny\r"


@given(st.text(alphabet="\r\n\x1b\0[]0;m\x07\\ab\u00e9"))
def test_bytes_are_cleaned_as_text_is(text: str) -> None:
    assert clean_bytes(text.encode()).decode() == clean(text)
