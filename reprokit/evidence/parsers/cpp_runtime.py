"""What the C and C++ runtimes print before they abort: uncaught exceptions, failed assertions, a corrupted heap."""

from __future__ import annotations

import re

from reprokit.evidence.parser import CrashRule, Parser, StackFormat, Trait

_THROWN = re.compile(
    r"terminate called after throwing an instance of '(?P<type>.+?)'(?:\s+what\(\):\s*(?P<what>.*))?$"
    r"|libc\+\+abi.*: terminating .* of type (?P<libcxx>[^\s:]+(?:::[^\s:]+)*)(?:: (?P<said>.*))?$",
    re.DOTALL,
)
_SMASHED = re.compile(r"\*\*\* (.+ detected) \*\*\*.*", re.DOTALL)


def _said(text: str) -> str:
    if hit := _THROWN.match(text):
        thrown, said = hit["type"] or hit["libcxx"], hit["what"] or hit["said"] or ""
        return f"{thrown}: {said}" if said else thrown
    return hit[1] if (hit := _SMASHED.match(text)) else text


PARSER = Parser(
    name="cpp-runtime",
    traits=frozenset({Trait.NATIVE}),
    golden=("cpp-terminate*", "cpp-bad-alloc", "cpp-corruption", "cpp-double-free", "cpp-stack-smashing", "cpp-assert"),
    version="1",
    precedence=10,
    said=_said,
    # of an exception of c10, PyTorch's own, behind what()
    stack=StackFormat(line=r"frame #\d+: (?P<function>.+?) \+ 0x[0-9a-f]+ \("),
    crashes=(
        CrashRule(
            kind="terminate",
            needles=("terminate called",),
            pattern=r"terminate called (?:after throwing an instance of '[^'\n]*'|without an active exception"
            r"|recursively)(?:\n+ *what\(\):[^\n]*)?",
        ),
        CrashRule(kind="terminate", needles=("libc++abi",), pattern=r"libc\+\+abi(?:\.dylib)?: terminating .*"),
        CrashRule(
            kind="abort",
            needles=("(): ",),
            pattern=r"(?:free|malloc|realloc|calloc|munmap_chunk|mremap_chunk|malloc_consolidate|sysmalloc)\(\): "
            r"(?:invalid|double free|corrupted|unaligned|mismatching|unsorted|largebin|smallbin|memory|too many).*",
        ),
        CrashRule(
            kind="abort",
            needles=("double free or corruption", "corrupted "),
            coarse=("corrupt",),
            pattern=r"double free or corruption.*|corrupted (?:size vs|double-linked).*",
        ),
        CrashRule(
            kind="abort", needles=(" detected ***",), coarse=("detected",), pattern=r"\*\*\* .* detected \*\*\*.*"
        ),
        CrashRule(kind="assertion", needles=("Assertion ",), pattern=r"^.*: Assertion [`'].*' failed\.?"),
    ),
)
