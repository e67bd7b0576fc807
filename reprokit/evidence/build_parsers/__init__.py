"""The parsers of failed builds: one module for each kind of cause, each with one :class:`BuildParser`.

To add one, add a module here and a case to tests/golden/builds, and make its log:
``python -m tests.golden.builds.make NAME``.
"""

from __future__ import annotations

import sys
from functools import cache

from reprokit.core.discovery import registered
from reprokit.evidence.build_parser import BuildParser


@cache
def build_parsers() -> tuple[BuildParser, ...]:
    """All parsers, by precedence, then by the names of their modules."""
    found = registered(sys.modules[__name__], BuildParser)
    return tuple(sorted(found.values(), key=lambda parser: parser.precedence))
