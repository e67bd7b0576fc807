"""How the time of each reader grows from 1 to 8 MB of text that is made to hold it, or less where it caps its input.

A ratio of 2 per doubling is linear, 4 is quadratic.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from reprokit.case.markdown import blocks
from reprokit.case.model import Failure
from reprokit.core.errors import ReprokitError
from reprokit.core.redaction import scrub
from reprokit.evidence.build_failure import explain
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending
from reprokit.evidence.text import clean
from reprokit.intake.drafting import draft
from reprokit.intake.reporting import MOST
from tests.unit.evidence.test_hostile_texts import PUMPS, pumped

FLOOR = 0.2
"""Seconds below which a ratio says nothing."""


def _draft(text: str) -> None:
    with contextlib.suppress(ReprokitError):
        draft(text)


READERS: dict[str, tuple[Callable[[str], object], int]] = {
    "clean": (clean, 8_000_000),
    "judge": (lambda text: judge(Failure(output="/(a+)+never$/"), Ending(exit_code=1), text), 8_000_000),
    "explain a failed build": (lambda text: explain("RUN pip install a", text.split("\n")), 8_000_000),
    "scrub": (scrub, 1_000_000),
    "blocks of Markdown": (blocks, 8_000_000),
    "draft": (_draft, MOST),
}


def growth() -> Iterator[tuple[str, str, float, float]]:
    """The reader, the text, seconds for the largest, and the largest ratio of a doubling above ``FLOOR``."""
    for reader, (read, largest) in READERS.items():
        for name in PUMPS:
            times = []
            for size in (largest // 8, largest // 4, largest // 2, largest):
                text = pumped(name, size)
                started = time.process_time()
                read(text)
                times.append(time.process_time() - started)
            ratios = [later / max(sooner, FLOOR / 2) for sooner, later in pairwise(times)]
            yield reader, name, times[-1], max(ratios)
