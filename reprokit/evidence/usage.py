"""What a trial used of its machine, as a record."""

from __future__ import annotations

from dataclasses import dataclass, field

from reprokit.core.json_record import ABSENT, JsonRecord

MARK = "reprokit: iteration"
"""What a program prints, with a number behind it, at the end of each iteration whose memory is of interest."""

SECONDS = "reprokit: seconds="
"""What a program prints, with a number behind it, where its time is that number rather than its CPU time."""


@dataclass(frozen=True, kw_only=True)
class Usage(JsonRecord):
    """``cpu_seconds``: user and system time of all its processes. ``peak_memory``: bytes, as the memory limit counts
    them, with the cache of files that it read or wrote. None: not measured.

    ``iterations``: number of a marked iteration -> bytes of memory without caches, in the order of the marks.
    """

    cpu_seconds: float | None = field(default=None, metadata=ABSENT)
    peak_memory: int | None = field(default=None, metadata=ABSENT)
    iterations: tuple[tuple[int, int], ...] = field(default=(), metadata=ABSENT)
