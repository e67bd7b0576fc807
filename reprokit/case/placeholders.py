"""What a draft holds in the place of what its report does not say, and what to write there. Pure.

A case with them is valid, so that the rest of it can be checked, and never reproduces: the command ends with 127, which
is never the failure, and no program prints the line of the signature.
"""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.case.model import Case
from reprokit.case.tree import Loc

MARK = "TODO(reprokit)"
COMMAND = f"echo '{MARK}: write the command that fails' >&2; exit 127"
OUTPUT = f"{MARK}: write a line that the failure prints"
RESULT = f"{MARK}: write what is printed where the result is wrong"
SLOW = f"{MARK}: write expect.slower_than in the place of this"
LEAK = f"{MARK}: write expect.leaks in the place of this"

_ADVICE = {
    COMMAND: "write the command that fails, such as: python repro.py",
    OUTPUT: "write how it fails, such as {exception: ValueError, message: the text}, {signal: SIGSEGV}, "
    "{timed_out: true}, or {output: a line that it prints}",
    RESULT: "write a line that the program prints only where the result is wrong, or make the program check its result "
    "(assert) and write {exception: AssertionError}",
    SLOW: "write {slower_than: {ratio: 2, of: {numpy: 1.26.4}}} under expect: how many times as slow as which cell; "
    "see docs/performance.md",
    LEAK: "write {leaks: {per_iteration: 1MiB}} under expect, and let the command print `reprokit: iteration N` at the "
    "end of each iteration; see docs/performance.md",
}


def find(case: Case) -> Iterator[tuple[Loc, str]]:
    """The place of each placeholder, and what to write there."""
    command = case.command if isinstance(case.command, str) else ""
    for loc, text in ((("command",), command), (("expect", "failure", "output"), case.expect.failure.output or "")):
        yield from ((loc, advice) for mark, advice in _ADVICE.items() if mark in text)
