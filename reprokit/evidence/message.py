"""Where an exception's message ends: Python prints it over as many lines as it has, and logs go on after it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reprokit.evidence.model import Frame

_FOREIGN_RUN = 500
"""Lines without the prefix after which the block counts as over: another process may print a lot in between."""


def shape(text: str) -> str:
    """Return ``text`` with all digits made equal, so that a logger's running time counts as the same prefix."""
    return re.sub(r"\d", "0", text)


@dataclass(frozen=True)
class Prefix:
    """What each line of a block starts with: this very text, or one that is ``alike`` (other digits)."""

    text: str = ""
    alike: bool = False

    def fits(self, line: str) -> bool:
        """Whether a line starts with it."""
        start = line[: len(self.text)]
        return start == self.text or (self.alike and shape(start) == shape(self.text))

    def fits_blank(self, line: str) -> bool:
        """Whether a line is an empty one of the block, its prefix without the blanks at its end."""
        bare = self.text.rstrip()
        return line == bare or (self.alike and shape(line) == shape(bare))


class View:
    """The lines after ``start`` of ``items`` that carry ``prefix``, without it, with their positions in ``items``."""

    def __init__(self, items: Sequence[tuple[int, str]], start: int, prefix: Prefix) -> None:
        self._items = items
        self._next = start + 1
        self._prefix = prefix
        self._foreign = 0
        self._seen: list[tuple[int, str]] = []

    def has(self, at: int) -> bool:
        """Whether the block has a line number ``at`` (from 0)."""
        while len(self._seen) <= at:
            if self._next >= len(self._items) or self._foreign > _FOREIGN_RUN:
                return False
            self._read()
        return True

    def at(self, at: int) -> tuple[int, str]:
        """Position in the items and text without prefix of line ``at``; call ``has`` first."""
        return self._seen[at]

    def ahead(self, at: int, count: int) -> list[tuple[int, str]]:
        """Up to ``count`` lines from ``at`` on."""
        self.has(at + count - 1)
        return self._seen[at : at + count]

    def _read(self) -> None:
        position, line = self._next, self._items[self._next][1]
        self._next += 1
        if self._prefix.fits(line):
            self._foreign = 0
            self._seen.append((position, line[len(self._prefix.text) :]))
        elif self._prefix.fits_blank(line):
            self._foreign = 0
            self._seen.append((position, ""))
        else:
            self._foreign += 1


_HEADER = re.compile(r"Traceback \(most recent call last\):\s*$")
_PLAIN_HEADER = re.compile(r"^Traceback \(most recent call last\):\s*$")
_NESTED_HEADER = re.compile(r"^Original Traceback \(most recent call last\):\s*$")
_FRAME = re.compile(r'^ +File "(?P<file>.+?)", line (?P<line>[0-9]{1,9}), in (?P<function>.*?)\s*$')
_LINK = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_STOP = re.compile(
    r'^(?:"""|\[reprokit: |\+[-+]{10}|Exception ignored |Exception in thread |Process [\w-]+:|Fatal Python error'
    r"|terminate called|libc\+\+abi|=====+|_____+|\*\*\*)"
)
_FOREIGN = re.compile(
    r"^(?:\[?\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|[\[(<]?(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|TRACE)\b(?![.\w])"
    r"|[EWIFD]\d{4} |\[\d|\s*\d+%\||\[?(?:epoch|step|iter|iteration|train|eval|loss)\b"
    r"|(?:make|ninja|bash|sh|timeout|mpirun|srun)(?:\[\d+\])?: |\[rank\d+\]:|done$|/?[\w./-]+: line \d+: )",
    re.IGNORECASE,
)
_PADDLE_RULE = re.compile(r"^-{10,}$")
_PADDLE_TITLE = re.compile(r"^(?:C\+\+ Traceback \(most recent call last\):|Error Message Summary:)$")
_DOCUMENTATION = re.compile(r"^(?:Check the documentation|See https?://|For more (?:details|information)|https?://)")
UNINDENTED = 40
"""Lines without indentation that may belong to a message; more than that is the program's own output."""


def looks_foreign(text: str) -> bool:
    """Whether a line is a log line, a progress bar or another program's words rather than a message's next line."""
    return bool(_FOREIGN.match(text) or _STOP.match(text))


class Message:
    """An exception's message, read line by line until something shows that it is over."""

    def __init__(self, first: str, *, strict: bool = False) -> None:
        """``strict``: the program runs on after this, so lines without indentation are not part of the message."""
        self._lines = [first]
        self._limit = 0 if strict else UNINDENTED
        self._nested = False
        self._summary = ""
        self._plain = 0

    def text(self) -> str:
        """The message as printed, without blank lines at its ends."""
        return "\n".join(self._lines).strip("\n").rstrip()

    def read(self, view: View, start: int, used: list[int], frames: list[Frame]) -> None:
        """Take lines of ``view`` from ``start`` on; frames of a nested traceback are added to ``frames``.

        ``used`` receives the positions of the lines taken.
        """
        at = start - 1
        while view.has(at := at + 1):
            position, text = view.at(at)
            if not text.strip():
                if not self._goes_on(view, at):
                    break
                self._lines.append("")
            elif self._ends(text):
                break
            else:
                self._take(text, frames)
                used.append(position)

    def _take(self, text: str, frames: list[Frame]) -> None:
        if self._opens_nested(text):
            self._nested = True
        elif self._nested and (frame := _FRAME.match(text)):
            frames.append(Frame(file=frame["file"], line=int(frame["line"]), function=frame["function"]))
        elif title := _PADDLE_TITLE.match(text):
            self._summary = title[0]
        elif self._summary.startswith("Error") and not _PADDLE_RULE.match(text):
            self._summary = ""
        if not text.startswith((" ", "\t")) and not self._nested and not self._summary:
            self._plain += 1
        self._lines.append(text)

    def _opens_nested(self, text: str) -> bool:
        """Whether a worker's traceback begins inside of this message: ``Caught ... with message:``, then the header."""
        return bool(_NESTED_HEADER.match(text) or (self._lines[-1].endswith(":") and _PLAIN_HEADER.match(text)))

    def _ends(self, text: str) -> bool:
        if text.startswith((" ", "\t")) or self._opens_nested(text) or _PADDLE_TITLE.match(text):
            return False
        if self._summary and not _HEADER.search(text):
            return False
        if self._nested and (_LINK.match(text) or _HEADER.match(text)):
            return False
        return bool(_HEADER.search(text) or _LINK.match(text) or looks_foreign(text)) or self._plain >= self._limit

    def _goes_on(self, view: View, at: int) -> bool:
        """Whether the message continues after the blank line at ``at``."""
        following = [text for _, text in view.ahead(at + 1, 3) if text.strip()][:2]
        if not following:
            return False
        text = following[0]
        if self._summary or _PADDLE_TITLE.match(text):
            return True
        if _PADDLE_RULE.match(text):
            return len(following) > 1 and bool(_PADDLE_TITLE.match(following[1]))
        if self._nested and (_LINK.match(text) or _HEADER.match(text)):
            return True
        if text[:1] in (" ", "\t"):
            before = next((line for line in reversed(self._lines) if line.strip()), "")
            return not text.startswith('  File "') and (before.endswith(":") or before[:1] in (" ", "\t"))
        return bool(_DOCUMENTATION.match(text))
