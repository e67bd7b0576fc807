"""Errors of linkers; a compiler's own error, if there is one, says more."""

from __future__ import annotations

from reprokit.evidence.parser import CrashRule, Parser, Trait

PARSER = Parser(
    name="linker",
    traits=frozenset({Trait.COMPILER, Trait.ECHO}),
    golden=("gxx-missing-library", "gxx-undefined-reference"),
    version="1",
    precedence=90,
    crashes=(
        CrashRule(
            kind="linker-error",
            needles=("undefined reference",),
            coarse=("undefined ref",),
            pattern=r".*undefined reference to .*",
        ),
        CrashRule(kind="linker-error", needles=("cannot find -l",), pattern=r".*ld: cannot find -l.*"),
    ),
)
