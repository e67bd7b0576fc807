"""Reports of AddressSanitizer and its relatives."""

from __future__ import annotations

import re

from reprokit.evidence.parser import CrashRule, Parser, StackFormat, Trait

_ADDRESS = re.compile(r" on (?:unknown )?address 0x.*", re.DOTALL)

PARSER = Parser(
    name="sanitizer",
    traits=frozenset({Trait.SANITIZER}),
    golden=("asan-*", "ubsan-*"),
    version="1",
    precedence=20,
    said=lambda text: _ADDRESS.sub("", text),
    stack=StackFormat(
        line=r"\s*#\d+ 0x[0-9a-f]+ in (?P<function>.+?)"
        r"(?: \S+:\d+(?::\d+)?| \(\S+\)(?: \(BuildId: \w+\))?| <null>)*$",
        needle="#0 0x",
    ),
    crashes=(
        CrashRule(kind="sanitizer", needles=("Sanitizer: ",), pattern=r"(?:ERROR|WARNING): \w+Sanitizer: .*"),
        CrashRule(
            kind="sanitizer",
            needles=("runtime error: ",),
            coarse=("rror",),
            pattern=r"^\S+:\d+:\d+: runtime error: .*",
        ),
    ),
)
