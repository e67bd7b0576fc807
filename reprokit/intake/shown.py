"""A failure as a report shows it, and the table of what lines and words say. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from reprokit.case import placeholders
from reprokit.evidence.model import ExceptionSeen, Frame
from reprokit.intake.signatures import readable
from reprokit.intake.table import table as read


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A failure in a report. ``signature``: ``expect.failure``; ``notes``: key -> origin; ``line``, ``last``: lines.

    ``frames``: of its traceback, outermost first; ``others``: how many more failures the report shows. ``words``: what
    it is where people only write of it (a kind of the table). ``building``: it failed while something was installed or
    compiled. ``echo``: it only repeats another failure. ``ratio``: how many times as slow, 0 where that is not the bug.
    ``missing``: what is still to be written, '' for nothing. ``inline``: a sentence goes on around it.
    """

    signature: dict[str, Any]
    notes: dict[str, str] = field(default_factory=dict)
    line: int = 0
    last: int = 0
    frames: tuple[Frame, ...] = ()
    others: int = 0
    exception: ExceptionSeen | None = None
    building: bool = False
    echo: bool = False
    words: str = ""
    ratio: float = 0.0
    missing: str = ""
    inline: bool = False

    @property
    def title(self) -> str:
        """The failure in one line; '' where neither a type nor a message is known."""
        kind = str(self.signature.get("exception") or self.signature.get("signal") or "")
        text = readable(str(self.signature.get("message") or self.signature.get("output") or ""))
        return ": ".join(part for part in (kind, text) if part and placeholders.MARK not in part)


@cache
def table() -> Mapping[str, Any]:
    """The rules for lines and words, with their examples."""
    # ASCII: a word ends where Chinese follows without a blank.
    flags = {"lines": re.MULTILINE, "words": re.MULTILINE | re.IGNORECASE | re.ASCII}
    return {
        part: [{**row, "search": re.compile(row["pattern"], flags[part])} for row in rows]
        for part, rows in read("failures").items()
    }
