"""The regular expressions that cases hold: RE2's syntax (https://github.com/google/re2/wiki/Syntax), searched in
linear time in UTF-8; ``^`` and ``$`` match at the borders of lines. Python's own engine can take years. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from threading import Thread

import re2

MOST_STEPS = 3000
"""Steps of RE2's program for a pattern: each byte of a text costs at most so many. ``.{0,300}`` takes 2700."""
LONGEST = 4000
"""Characters of a pattern."""

_LONG = 10**8
"""Steps, about a second, after which a search has a thread of its own."""

# By what RE2 says; the first one that is found there.
_HINTS = {
    r"size: \{": "a repeat counts to 1000 at most, also one in another: write + or *",
    r"too large": "its repeats make too large a pattern: write + or * for a repeat with a large count",
    r"operator: \(\?<?!": "(?!...) and (?<!...) are not available: write what may be there, such as [^a] for (?!a)",
    r"operator: \(\?<?=": "looking ahead or behind is not available: write what is there as a part of the pattern",
    r"operator: \(\?\(": "a choice by a group is not available: write both alternatives with |",
    r"operator: \(\?>": "(?>...) is not available: write (?:...), which finds the same or more",
    r"sequence: \\[1-9]|operator: \(\?P": "a reference to a group is not available: write out what is repeated",
    r"operator: [*+?]\+": "a + after a repeat is not available: leave it out, which finds the same or more",
    r"sequence: \\Z": r"write \z for the end of the text",
    r"sequence: \\[uUN]": r"write the character itself, or \x{4E2D}",
}


class PatternError(ValueError):
    """A regular expression that cannot be searched for; the text says why, and what to write instead."""


class Pattern:
    """A regular expression, ready to be searched for."""

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        if len(text) > LONGEST:
            raise PatternError(f"it has {len(text)} characters, and {LONGEST} are the most")
        options = re2.Options()
        options.log_errors = False
        try:
            self._program = re2.compile(b"(?m)" + text.encode("utf-8", "surrogatepass"), options)
        except re2.error as error:
            said = error.args[0].decode("utf-8", "replace").replace("(?m)", "")
            hint = next((f" ({hint})" for words, hint in _HINTS.items() if re.search(words, said)), "")
            raise PatternError((said if len(said) < 100 else f"{said[:100]}...") + hint) from None
        if self._program.programsize > MOST_STEPS:
            raise PatternError(
                f"it takes {self._program.programsize} steps for each byte, and {MOST_STEPS} are the most: "
                "write a shorter pattern, and + or * for a repeat with a large count"
            )

    def search(self, text: str) -> tuple[int, int] | None:
        """Start and end of the first match in ``text``, or None. Other threads run meanwhile."""
        data = text.encode("utf-8", "replace")
        found: list[tuple[int, int] | None] = []

        def search() -> None:
            hit = self._program.search(data)
            found.append(hit.span() if hit else None)

        if len(data) * self._program.programsize < _LONG:
            search()
        else:  # in a thread, so that signals are answered meanwhile
            thread = Thread(target=search, daemon=True)
            thread.start()
            thread.join()
        if found[0] is None or len(data) == len(text):
            return found[0]
        start, end = found[0]
        first = len(data[:start].decode("utf-8", "replace"))
        return first, first + len(data[start:end].decode("utf-8", "replace"))


@lru_cache(maxsize=64)
def compiled(text: str) -> Pattern:
    """The pattern that ``text`` (without slashes) describes. Raises PatternError."""
    return Pattern(text)


def is_regex(text: str) -> bool:
    """Whether ``text`` is written ``/like this/``, the contract's form of a regular expression."""
    return len(text) > 2 and text.startswith("/") and text.endswith("/")
