"""Reports of NVIDIA's compute-sanitizer (memcheck, racecheck, initcheck, synccheck), by its documentation.

No log of a GPU was at hand; that of a machine without one is real.
"""

from __future__ import annotations

import re

from reprokit.evidence.parser import CrashRule, Parser, StackFormat, Trait

_ADDRESS = re.compile(r"(?: at)? 0x[0-9a-f]+\b| in block \(\d+,\d+,\d+\)(?: :)?|\+0x[0-9a-f]+ in \S+")

_REPORTS = (
    "Invalid __",
    "Malloc/Free error ",
    "Leaked ",
    "Error: ",
    "ERROR: ",
    "Warning: ",
    "WARNING: ",
    "Potential ",
    "Uninitialized __",
    " Unused __",
    "Barrier error detected",
    "Deadlock detected ",
    "Tensor Memory column ",
)

PARSER = Parser(
    name="compute-sanitizer",
    traits=frozenset({Trait.SANITIZER}),
    golden=("compute-sanitizer-*",),
    version="1",
    precedence=18,
    said=lambda text: _ADDRESS.sub("", text),
    stack=StackFormat(
        # Between the frames stand the thread and the address, which have no function.
        line=r" ?=========\s+(?:(?:at|(?:Error: Race reported between|and) \w+ access at|\w+ Thread \(\S+\) at"
        r"|Device Frame:|Host Frame:) ?|by thread .*|Address .*|and is .*|Saved host .*)(?P<function>.+?|)"
        r"(?:[+:]0x[0-9a-f]+| \[0x[0-9a-f]+\])?(?: in \S+)?(?: \[\d+ hazards\])?$",
        needle="=========     ",
    ),
    crashes=(
        CrashRule(
            kind="compute-sanitizer",
            needles=tuple(f"========= {words}" for words in _REPORTS),
            coarse=("========= ",),
            pattern=r"^ ?========= (?P<text>(?:(?i:error|warning): )?(?:\(Warp Level Programming\) )?"
            r"(?:Invalid __|Malloc/Free error |Leaked |Race reported |Potential |Uninitialized __| Unused __"
            r"|Barrier error detected|Deadlock detected |Tensor Memory column ).*)",
        ),
    ),
)
