"""Whether a trial ended before the program under test began: a command or a script that is not there. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reprokit.core.text import one_line
from reprokit.evidence.fingerprint import last_words
from reprokit.evidence.model import Ending

if TYPE_CHECKING:
    from reprokit.case.model import Failure

_STATUS = {
    126: 'the command was found, but cannot be executed; a file of the case can have mode: "755"',
    127: "the command, or a library that it loads, was not found",
}
"""What a shell, and the first process of a container, says by its exit status."""

_NO_SCRIPT = re.compile(
    r"\S+: can't open file .*: \[Errno \d+\] .*"  # Python
    r"|\S*sh: (?:\d+: )?(?:cannot|[Cc]an't) open .*"  # dash, busybox
    r'|Can\'t open perl script ".*": .*'
    r"|\S*ruby: No such file or directory -- .*"
    r"|Could not open input file: .*"  # PHP
    r"|Fatal error: cannot open file '.*': .*"  # Rscript
    r"|\S*lua[\w.]*: cannot open .*"
    r"|Error: Unable to access jarfile .*"
    r"|ERROR: file or directory not found: .*"  # pytest
)
_NO_SCRIPT_OF_NODE = re.compile(
    r"^(Error: Cannot find module '[^'\n]+')$(?s:.{0,4000})requireStack: \[\]\s*\}\s*(?:Node\.js v\S+\s*)?\Z", re.M
)
_TAIL = 8 * 1024


_NOTHING_CHECKED = re.compile(
    r"^=========(?: Error:| Warning:)? (Target application terminated before first instrumented API call"
    r"|Internal Sanitizer Error: .*|Unable to .*)$",
    re.M,
)


def why_not_checked(text: str) -> str:
    """Why NVIDIA's compute-sanitizer did not look at (all of) the kernels of a program, by its words; '' mostly.

    Its own exit status then says nothing about the program: without a GPU's driver it even kills what it starts.
    """
    said = _NOTHING_CHECKED.search(text) if "========= COMPUTE-SANITIZER" in text else None
    return f"compute-sanitizer did not check it: {one_line(said[1], 200)}" if said else ""


def why_not_started(failure: Failure, ending: Ending, text: str) -> str:
    """Say why the end of a trial is not the failure of a case, and what to write if it is; '' if it may be.

    Such is an exit status of 126 or 127, and an interpreter that could not open its script, as the last line of
    ``text`` (the cleaned log) says, unless ``exit_code`` of the signature names the number.
    """
    code = ending.exit_code
    if not code or ending.timed_out or ending.oom or failure.exit_code == code:
        return ""
    said = last_words(text[-_TAIL:]).strip()
    why = _STATUS.get(code, "")
    if not why:
        node = _NO_SCRIPT_OF_NODE.search(text[-_TAIL:])
        if not (node or _NO_SCRIPT.fullmatch(said)):
            return ""
        why, said = "the interpreter could not open its script", node[1] if node else said
    shown = f" ({one_line(said, 160)})" if said else ""
    return f"{why}{shown}; if that is the failure, write exit_code: {code}"
