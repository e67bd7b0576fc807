"""The failure parsers: one module for each kind of failure, each with one :class:`~reprokit.evidence.parser.Parser`.

To add one, add a module here and golden logs in tests/golden, and record their results: ``python -m tests.golden``.
"""

from __future__ import annotations

import sys
from functools import cache

from reprokit.core.discovery import registered
from reprokit.evidence.parser import Parser, Trait


@cache
def parsers() -> tuple[Parser, ...]:
    """All parsers, by precedence, then by the names of their modules."""
    found = registered(sys.modules[__name__], Parser)
    return tuple(sorted(found.values(), key=lambda parser: parser.precedence))


def parser_of(kind: str) -> Parser:
    """The parser that finds crashes of that kind. Raises KeyError for a kind that none finds."""
    return _by_kind()[kind]


def has(kind: str, trait: Trait) -> bool:
    """Whether crashes of that kind have the trait."""
    return trait in parser_of(kind).traits


@cache
def _by_kind() -> dict[str, Parser]:
    return {rule.kind: parser for parser in parsers() for rule in parser.crashes}
