"""Reports of ThreadSanitizer, whose stacks have no addresses."""

from __future__ import annotations

from reprokit.evidence.parser import CrashRule, Parser, StackFormat, Trait

PARSER = Parser(
    name="thread-sanitizer",
    traits=frozenset({Trait.SANITIZER}),
    golden=("tsan-*",),
    version="1",
    precedence=15,
    stack=StackFormat(
        line=r"    #\d+ (?!0x)(?P<function>.+?)(?: \S+:\d+(?::\d+)?| \(\S+\)(?: \(BuildId: \w+\))?| <null>)*$",
        needle="WARNING: ThreadSanitizer: ",
    ),
    crashes=(
        CrashRule(
            kind="thread-sanitizer",
            needles=("WARNING: ThreadSanitizer: ",),
            coarse=("Sanitizer: ",),
            pattern=r"WARNING: (?P<text>ThreadSanitizer: .+?)(?: \(pid=\d+\))?$",
        ),
    ),
)
