"""What a trial used of its machine, as a record."""

from __future__ import annotations

from dataclasses import dataclass, field

from reprokit.core.json_record import ABSENT, JsonRecord

MARK = "reprokit: iteration"
"""What a program prints, with a number behind it, at the end of each iteration whose memory is of interest."""

SECONDS = "reprokit: seconds="
"""What a program prints, with a number behind it, where its time is that number rather than its CPU time."""


@dataclass(frozen=True, kw_only=True)
class GpuRecord(JsonRecord):
    """A GPU that a trial had. The state is of the moment after the trial; what the driver does not tell is absent.

    ``memory``: bytes. ``uncorrected``: uncorrected ECC errors since the driver was loaded. ``clock``, ``memory_clock``:
    MHz. ``throttled``: what held the clock down. ``others``: processes that computed on it then: the trial's are gone.
    ``xids``: Xid errors that the driver reported of it during the trial.
    """

    name: str
    uuid: str
    memory: int = field(default=0, metadata=ABSENT)
    compute: str = field(default="", metadata=ABSENT)
    driver: str = field(default="", metadata=ABSENT)
    compute_mode: str = field(default="", metadata=ABSENT)
    ecc: bool | None = field(default=None, metadata=ABSENT)
    uncorrected: int | None = field(default=None, metadata=ABSENT)
    clock: int = field(default=0, metadata=ABSENT)
    memory_clock: int = field(default=0, metadata=ABSENT)
    throttled: tuple[str, ...] = field(default=(), metadata=ABSENT)
    others: int = field(default=0, metadata=ABSENT)
    xids: tuple[int, ...] = field(default=(), metadata=ABSENT)

    def __str__(self) -> str:
        words = [self.name, f"driver {self.driver}" if self.driver else ""]
        words.append(f"{self.clock} MHz" if self.clock else "")
        words.append(f"memory {self.memory_clock} MHz" if self.memory_clock else "")
        words.append("" if self.ecc is None else "ECC on" if self.ecc else "ECC off")
        words.append(f"{self.uncorrected} uncorrected ECC errors" if self.uncorrected else "")
        words.append(f"compute mode {self.compute_mode}" if self.compute_mode not in ("", "default") else "")
        words.append(f"throttled: {' and '.join(self.throttled)}" if self.throttled else "")
        words.append(f"used by {self.others} other process(es)" if self.others else "")
        words.append(f"Xid {', '.join(map(str, self.xids))}" if self.xids else "")
        return ", ".join(word for word in words if word)


@dataclass(frozen=True, kw_only=True)
class Usage(JsonRecord):
    """``cpu_seconds``: user and system time of all its processes. ``peak_memory``: bytes, as the memory limit counts
    them, with the cache of files that it read or wrote. None: not measured.

    ``iterations``: number of a marked iteration -> bytes of memory without caches, in the order of the marks.
    ``gpus``: those that it had.
    """

    cpu_seconds: float | None = field(default=None, metadata=ABSENT)
    peak_memory: int | None = field(default=None, metadata=ABSENT)
    iterations: tuple[tuple[int, int], ...] = field(default=(), metadata=ABSENT)
    gpus: tuple[GpuRecord, ...] = field(default=(), metadata=ABSENT)
