"""The stacks of ThreadSanitizer, which writes no addresses; what it found is a report as AddressSanitizer's."""

from __future__ import annotations

from reprokit.evidence.parser import Parser, StackFormat, Trait

PARSER = Parser(
    name="thread-sanitizer",
    traits=frozenset({Trait.SANITIZER}),
    golden=("tsan-*",),
    version="1",
    stack=StackFormat(
        line=r"    #\d+ (?!0x)(?P<function>.+?)(?: \S+:\d+(?::\d+)?| \(\S+\)(?: \(BuildId: \w+\))?| <null>)*$",
        needle="WARNING: ThreadSanitizer: ",
    ),
)
