"""What a failure parser is: how one kind of failure looks in a log, declared once, as a row of
data/crash_parsers.yaml or a module of :mod:`reprokit.evidence.parsers`. What observes logs knows none of them by
name. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reprokit.evidence.model import ExceptionSeen, StrEnum


class Trait(StrEnum):
    """What is known of all failures that a parser finds."""

    EXCEPTION = "exception"
    """Exceptions of Python, with type, message and frames."""
    NATIVE = "native"
    """A runtime, a driver or a library stopped the program, and says why."""
    SANITIZER = "sanitizer"
    SIGNAL = "signal"
    """The failure is a signal, whichever program reports it."""
    COMPILER = "compiler"
    """Something was being built: of several errors the first counts, since others follow from it."""
    ECHO = "echo"
    """Repeats what another text of the log says better, where there is one."""


@dataclass(frozen=True, kw_only=True)
class ExceptionFormat:
    """How exceptions are printed. ``needles``: plain texts, one of which is in every log that holds such an exception.

    ``read`` takes all lines of a log (cleaned, without line ends) and returns what they show, in log order. ``kept``: a
    regular expression (multi-line) for the lines around which a flood keeps its text; it is searched where one of
    ``kept_needles`` occurs. A needle that begins with a line end is also found at the start of a text.
    """

    needles: tuple[str, ...]
    read: Callable[[Sequence[str]], tuple[ExceptionSeen, ...]]
    kept: str
    kept_needles: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CrashRule:
    """How one kind of crash looks. ``pattern`` (multi-line) matches it; group ``text``, or the whole, is its text.

    Only lines that hold one of the ``needles`` (plain text) are looked at. ``coarse``: shorter texts, of which every
    needle holds one, that are searched first in a flood; None: the needles themselves; (): a flood is not searched,
    since such a line is always beside others that are kept.
    """

    kind: str
    needles: tuple[str, ...]
    pattern: str
    coarse: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class StackFormat:
    """How a native stack is printed. ``line`` is a regular expression with the group ``function``.

    Every line of a stack has to match it, those that name only a file too, where the group matches nothing: the first
    other line ends the stack.

    ``needle``: a plain text that is in every log with such a stack; '': it is read only in a log that holds the needle
    of another format. ``title``: the start of the line two above the first; '' where stacks have no title.
    ``outermost_first``: as in Python's tracebacks.
    """

    line: str
    needle: str = ""
    title: str = ""
    outermost_first: bool = False


@dataclass(frozen=True, kw_only=True)
class Parser:
    """One kind of failure: how it is printed, and what it means.

    ``traits`` hold of everything that it finds. ``golden``: globs of the logs in tests/golden that specify it.
    ``version`` is raised when its results on these change. ``said``: what a crash's text says, without what only this
    way of reporting adds. ``precedence``: where two parsers find something at one place, the lower counts.
    """

    name: str
    traits: frozenset[Trait]
    golden: tuple[str, ...]
    version: str
    exceptions: ExceptionFormat | None = None
    crashes: tuple[CrashRule, ...] = ()
    stack: StackFormat | None = None
    said: Callable[[str], str] = str
    precedence: int = 100
