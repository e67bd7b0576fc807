"""The failure parsers: the rows of data/crash_parsers.yaml, and a module for each that is more than patterns.

CONTRIBUTING.md has the steps to add one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from reprokit.core.discovery import registered
from reprokit.evidence.model import ExceptionSeen, Frame
from reprokit.evidence.parser import CrashRule, ExceptionFormat, Parser, StackFormat, Trait

_MOST = 16 * 1024
"""Characters behind the head of an exception in which its stack is read."""
_END = re.compile(r"\n(?=\n|note: |stack backtrace:)")
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
    crashes = tuple(CrashRule(**_joined(rule)) for rule in fields.pop("crashes", ()))
    if stack := fields.pop("stack", None):
        fields["stack"] = StackFormat(**_joined(stack))
    if exceptions := fields.pop("exceptions", None):
        fields["exceptions"] = _exceptions(**_joined(exceptions))
    traits = frozenset(map(Trait, fields.pop("traits")))
    return Parser(**{**fields, "golden": tuple(fields["golden"])}, traits=traits, crashes=crashes, said=said)


def _joined(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with patterns of one line, and tuples for lists."""
    lines = {key: "".join(value.splitlines()) for key, value in fields.items() if isinstance(value, str)}
    return {**fields, **{key: tuple(value) for key, value in fields.items() if isinstance(value, list)}, **lines}


def _exceptions(
    head: str, frame: str, needles: tuple[str, ...], statuses: tuple[int, ...], kept: str, cause: str = "(?!)"
) -> ExceptionFormat:
    """How a row says that exceptions are printed: see data/crash_parsers.yaml."""
    heads, frames, causes = (re.compile(text, re.MULTILINE) for text in (head, frame, cause))

    def read(lines: Sequence[str]) -> tuple[ExceptionSeen, ...]:
        return _read("\n".join(lines), heads, frames, causes, statuses)

    return ExceptionFormat(needles=needles, read=read, kept=kept, kept_needles=needles)


def _read(
    text: str, head: re.Pattern[str], frame: re.Pattern[str], cause: re.Pattern[str], statuses: tuple[int, ...]
) -> tuple[ExceptionSeen, ...]:
    """The exceptions of a language whose stacks are frames below a head, innermost first."""
    found: list[ExceptionSeen] = []
    heads = list(head.finditer(text))
    for start, following in zip(heads, [*(each.start() for each in heads[1:]), len(text)], strict=False):
        part = text[start.end() : min(following, start.end() + _MOST)]
        frames = list(frame.finditer(part))
        if not frames and "bare" not in start.groupdict():
            continue
        message = start["message"] + part[: frames[0].start() if frames else None]
        line = text.count("\n", 0, start.start()) + 1
        one = ExceptionSeen(
            type=start["type"].replace(" ", "_"),
            message=_END.split(message.strip("\n"), maxsplit=1)[0].rstrip(),
            frames=tuple(
                Frame(file=e["file"], line=int(e["line"] or 0), function=e["function"] or "") for e in frames[::-1]
            ),
            line=line,
            end_line=line + text.count("\n", start.start(), start.end() + (frames[-1].end() if frames else 0)),
            statuses=statuses,
        )
        if cause.match(start[0]) and found:
            found[-1] = replace(found[-1], nested=(*found[-1].nested, one), end_line=one.end_line)
        else:
            found.append(one)
    return tuple(found)


def _signal_in(text: str, signals: Mapping[str, str]) -> str:
    """The name of the signal that a text reports, whichever program wrote it; the text itself where it names none."""
    return next((name for words, name in signals.items() if words in text), text)


def _written(text: str, rules: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """A text as the first rule writes it that matches its beginning."""
    return next((found.expand(template) for pattern, template in rules if (found := pattern.match(text))), text)
