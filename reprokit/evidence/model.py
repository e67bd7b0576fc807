"""What was seen: how a trial ended, what its log shows, and the words for outcomes and verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from reprokit.core.json_record import ABSENT
from reprokit.evidence.usage import Usage

RULES_VERSION = "5"
"""Version of the rules that turn a log into an outcome and outcomes into a verdict; recorded with each."""


class StrEnum(str, Enum):
    """``enum.StrEnum`` for Python 3.10: members print and compare as their value."""

    def __str__(self) -> str:
        return str(self.value)


class Outcome(StrEnum):
    """What one trial shows."""

    REPRODUCED = "reproduced"
    PASSED = "passed"
    DIFFERENT_FAILURE = "different-failure"
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"
    INCONCLUSIVE = "inconclusive"


class Verdict(StrEnum):
    """What all trials of a cell together show; the words of the contract."""

    REPRODUCED = "reproduced"
    FLAKY = "flaky"
    NOT_REPRODUCED = "not-reproduced"
    DIFFERENT_FAILURE = "different-failure"
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"
    INCONCLUSIVE = "inconclusive"
    BUILD_FAILED = "build-failed"
    ENVIRONMENT_MISMATCH = "environment-mismatch"
    UNSUPPORTED = "unsupported"
    ENGINE_ERROR = "engine-error"
    CANCELLED = "cancelled"

    @property
    def conclusive(self) -> bool:
        """Whether the verdict is a finding about the bug, rather than about us, the host or the engine."""
        return self in _CONCLUSIVE


_CONCLUSIVE = frozenset({Verdict.REPRODUCED, Verdict.FLAKY, Verdict.NOT_REPRODUCED, Verdict.DIFFERENT_FAILURE})


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a container ended, as the engine reports it.

    ``exit_code`` is None only when the engine never said; above 128 it is 128 + signal, as Docker reports.
    ``oom``: the kernel killed something in it for memory. ``timed_out``: we stopped it at its time limit.
    ``seconds``: wall time from start to end. ``usage``: None where the engine could not measure it.
    """

    exit_code: int | None
    oom: bool = False
    timed_out: bool = False
    seconds: float = 0.0
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One line of a traceback: where the program stood. ``library``: of native code whose ``file`` is its source."""

    file: str
    line: int
    function: str
    library: str = field(default="", metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class ExceptionSeen:
    """One exception as printed. ``type`` is dotted as printed; ``line`` is its first line in the log (from 1).

    ``nested``: the members of an exception group. ``cause_of_next``: printed as the cause or context of the next one.
    ``ignored``: Python itself printed it and went on (``Exception ignored in``), so it is not how the program failed.
    ``statuses``: those of a program that did not handle it. ``of_test``: how a test failed, by its runner; each counts.
    ``captured``: it stands in the output of a test, or where a test failed as expected.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    line: int = 0
    end_line: int = 0
    nested: tuple[ExceptionSeen, ...] = ()
    cause_of_next: bool = False
    ignored: bool = False
    statuses: tuple[int, ...] = (1,)
    of_test: bool = False
    captured: bool = False


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A failure other than a Python traceback: ``kind`` (``terminate``, ``abort``, ``sanitizer``, ``signal``, ``cuda``,
    ``paddle-enforce``, ``nvcc-fatal``, ``ptxas-fatal``, ``compiler-error``, ``bus-error``, ``oom-kill`` ...),
    its ``text`` and its log line.
    """

    kind: str
    text: str
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """How a trial failed, by what stays the same when the same happens elsewhere (:mod:`.fingerprint`).

    ``id`` is a hash of ``version``, ``kind`` (an exception's type or a kind of crash), ``frames`` (``file:function``,
    innermost first), ``message`` (normalised) and ``cause`` (what an exception only reports; '' mostly). ``title`` is
    for people: one line, as this trial printed it.
    """

    version: str
    id: str
    kind: str
    frames: tuple[str, ...] = ()
    message: str = ""
    cause: str = ""
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Everything that a log shows, in log order."""

    exceptions: tuple[ExceptionSeen, ...] = ()
    crashes: tuple[Crash, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Check:
    """One key of the signature against one trial: ``key``, whether it ``matched``, ``why`` in words.

    ``lines``: those of the log file; ``why`` has their numbers in the whole output (:class:`.text.LineNumbers`).
    """

    key: str
    matched: bool
    why: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The outcome of one trial with the reason in words, the checks behind it and the exception that was judged.

    ``fingerprint``: how it failed; None when it passed, or was stopped or killed without the signature asking for it.
    ``known``: the id of the case's known failure that a different failure is; '' when it is not one of them.
    ``stack``: where it crashed or hung, innermost frame first, where that was taken.
    """

    outcome: Outcome
    reason: str
    checks: tuple[Check, ...] = ()
    exception: ExceptionSeen | None = None
    crash: Crash | None = None
    fingerprint: Fingerprint | None = None
    known: str = ""
    stack: tuple[Frame, ...] = ()
    rules: str = field(default=RULES_VERSION)
