"""The failure parsers: the rows of data/crash_parsers.yaml, and a module for each that is more than patterns.

CONTRIBUTING.md has the steps to add one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from reprokit.core.discovery import registered
from reprokit.evidence.parser import CrashRule, Parser, StackFormat, Trait

ROWS = Path(__file__).parents[1] / "data" / "crash_parsers.yaml"


@cache
def parsers() -> tuple[Parser, ...]:
    """All parsers, by precedence, then by their names."""
    data = yaml.load(ROWS.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    rows = [_parser(row, data["signals"]) for row in data["parsers"]]
    found = [*registered(sys.modules[__name__], Parser).values(), *rows]
    return tuple(sorted(found, key=lambda parser: (parser.precedence, parser.name)))


def parser_of(kind: str) -> Parser:
    """The parser that finds crashes of that kind. Raises KeyError for a kind that none finds."""
    return _by_kind()[kind]


def has(kind: str, trait: Trait) -> bool:
    """Whether crashes of that kind have the trait."""
    return trait in parser_of(kind).traits


@cache
def _by_kind() -> dict[str, Parser]:
    return {rule.kind: parser for parser in parsers() for rule in parser.crashes}


def _parser(row: Mapping[str, Any], signals: Mapping[str, str]) -> Parser:
    """The parser that a row declares. Raises TypeError for a key that there is not."""
    fields = dict(row)
    said: Callable[[str], str] = str
    if fields.pop("signal", False):
        said = partial(_signal_in, signals=signals)
    elif pattern := fields.pop("leave_out", ""):
        said = partial(re.compile(pattern, re.DOTALL).sub, "")
    elif rules := fields.pop("said", ()):
        said = partial(_written, rules=[(re.compile(pattern, re.DOTALL), text) for pattern, text in rules])
    crashes = tuple(CrashRule(**_joined(rule)) for rule in fields.pop("crashes"))
    if stack := fields.pop("stack", None):
        fields["stack"] = StackFormat(**_joined(stack))
    traits = frozenset(map(Trait, fields.pop("traits")))
    return Parser(**{**fields, "golden": tuple(fields["golden"])}, traits=traits, crashes=crashes, said=said)


def _joined(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with patterns of one line, and tuples for lists."""
    return {
        key: "".join(value.splitlines()) if isinstance(value, str) else tuple(value) for key, value in fields.items()
    }


def _signal_in(text: str, signals: Mapping[str, str]) -> str:
    """The name of the signal that a text reports, whichever program wrote it; the text itself where it names none."""
    return next((name for words, name in signals.items() if words in text), text)


def _written(text: str, rules: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """A text as the first rule writes it that matches its beginning."""
    return next((found.expand(template) for pattern, template in rules if (found := pattern.match(text))), text)
