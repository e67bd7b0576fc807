"""Why a build failed: from the step that failed and what it printed to a sentence, cause first. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reprokit.environment.steps import short_step
from reprokit.evidence.build_causes import BuildCause, find
from reprokit.evidence.build_log import BuildLog
from reprokit.evidence.text import clean

MOST = 400
"""Characters of a cause."""
LAST = 3
"""Last lines that stand for a cause that no row knows."""
LONGEST = 20_000
"""Characters of a line that are read: pip lists all versions of a package in one."""
ROOM = 200_000
"""Characters of output that are read, the last ones."""
_LINE = 200
_FOOTER = re.compile(
    r"note: This |hint: See above|╰─>|×|ERROR: (?:Failed building|Could not build)|Failed to build|\[end of"
)
_STATUS = re.compile(r"exit (?:code|status):? ([0-9]{1,9})\s*$")


@dataclass(frozen=True, kw_only=True)
class BuildFailure:
    """``cause``: a sentence; ``where``: the line of the case's script, ''; ``put``: what to put into the case where the
    log proves it, ''; ``advice``: what else to do, ''; ``step``: the step in short.
    """

    cause: str
    step: str
    where: str = ""
    put: str = ""
    advice: str = ""

    @property
    def reason(self) -> str:
        """All of it in one line: the cause first, the step last."""
        place = self.where or self.step
        fix = f"put into the case: {self.put}" if self.put else self.advice
        return "; ".join(filter(None, (self.cause, fix))) + (f" (step: {place})" if place else "")


def explain(step: str, tail: Sequence[str], message: str = "") -> BuildFailure:
    """Say why ``step``, as an engine names it, failed after printing ``tail``, its last lines. Never raises on a log.

    ``message``: what the engine said of the failure.
    """
    ended = _STATUS.search(message)
    log = BuildLog(step=step, lines=_affordable(tail), status=int(ended[1]) if ended else 0)
    cause = find(log) or _unknown(log)
    sentence = cause.sentence if len(cause.sentence) <= MOST else cause.sentence[: MOST - 4] + " ..."
    return BuildFailure(
        cause=" ".join(sentence.split()),
        step=short_step(step),
        where=str(log.at) if log.at else "",
        put=cause.put,
        advice=cause.advice,
    )


def _affordable(tail: Sequence[str]) -> tuple[str, ...]:
    """The last lines, cleaned, no longer than what regular expressions can be asked to look at."""
    lines: list[str] = []
    room = ROOM
    for line in reversed(tail):
        lines.append(clean(line[:LONGEST]))
        room -= len(lines[-1])
        if room < 0:
            break
    return tuple(reversed(lines))


def _unknown(log: BuildLog) -> BuildCause:
    said = [line.strip()[:_LINE] for line in (log.inner.splitlines() if log.subject else log.lines)]
    last = [line for line in said if line and not _FOOTER.match(line)][-LAST:]
    ended = f" with exit status {log.status}" if log.status else ""
    if not last:
        return BuildCause(sentence=f"the step failed{ended} and printed nothing")
    return BuildCause(sentence=f"the step failed{ended}; the last lines: {' | '.join(last)}")
