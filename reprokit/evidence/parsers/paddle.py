"""Errors of Paddle's C++ core, which its Python exceptions quote."""

from __future__ import annotations

from reprokit.evidence.parser import CrashRule, Parser, StackFormat, Trait

ENFORCE = (
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "AlreadyExists",
    "ResourceExhausted",
    "PreconditionNotMet",
    "PermissionDenied",
    "ExecutionTimeout",
    "Unimplemented",
    "Unavailable",
    "Fatal",
    "External",
)
"""The classes of Paddle's errors."""

PARSER = Parser(
    name="paddle",
    traits=frozenset({Trait.NATIVE, Trait.ECHO}),
    golden=("paddle-inverse-nan*", "paddle-matmul", "paddle-worker", "paddleseg-rmi-singular"),
    version="1",
    precedence=70,
    stack=StackFormat(
        line=r"\d+ {2,3}(?P<function>\S.*)$",
        needle="C++ Traceback",
        title="C++ Traceback (most recent call last):",
        outermost_first=True,
    ),
    crashes=(
        CrashRule(
            kind="paddle-enforce",
            needles=tuple(f"({name}) " for name in ENFORCE),
            coarse=(),  # comes with a traceback or with a summary's title
            pattern=rf"(?:\w*Error: )?\((?:{'|'.join(ENFORCE)})\) .*(?:\n\s+\[Hint: .*)?",
        ),
        CrashRule(
            kind="paddle-enforce",
            needles=("Error Message Summary:",),
            coarse=("rror",),
            pattern=r"Error Message Summary:\n-+\n(?P<text>\w+: (?!.*detected by the operating system).*)",
        ),
    ),
)
