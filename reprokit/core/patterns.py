"""The regular expressions that cases hold: Python's syntax and meaning, searched by RE2 in linear time. Pure.

Python's own engine can take years over one short pattern. Here Python parses a pattern, and RE2, which never goes back
in the text, gets what was parsed. RE2 sees one byte for each character: ASCII as it is, and all other characters that
the pattern cannot tell apart as one byte above 127, so that ``\\w``, ``\\d``, ``\\s`` and ``.`` take any script at the
price of ASCII. What differs from Python is listed in ``docs/write-a-case.md``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from threading import Thread
from typing import Any

import re2

try:
    from re import _parser as parser  # type: ignore[attr-defined]  # Python 3.11 and later
except ImportError:
    import sre_parse as parser

MOST_STEPS = 1000
"""Steps of RE2's program for a pattern: each character of a text costs at most so many. ``a{1,100}`` takes 200."""
LONGEST = 4000
"""Characters of a pattern."""

_LONG = 10**8
"""Steps, about a second, after which a search has a thread of its own."""

_UNAVAILABLE = {
    "ASSERT": "looking ahead or behind is not available: write what is there as a part of the pattern",
    "ASSERT_NOT": "(?!...) and (?<!...) are not available: write what may be there instead, such as [^a] for (?!a)",
    "GROUPREF": "a reference to a group is not available: write out what is repeated, or take any text with .*",
    "GROUPREF_EXISTS": "a choice by a group is not available: write both alternatives with |",
    "ATOMIC_GROUP": "(?>...) is not available: write (?:...), which finds the same or more",
    "POSSESSIVE_REPEAT": "a + after a repeat is not available: leave it out, which finds the same or more",
}
_PLACES = {
    "AT_BEGINNING": "^",
    "AT_END": "$",
    "AT_BEGINNING_STRING": r"\A",
    "AT_END_STRING": r"\z",
    "AT_BOUNDARY": r"\b",
    "AT_NON_BOUNDARY": r"\B",
}
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda character: character.isalnum() or character == "_",
}
_DEEP = "its groups are nested too deeply"
_ASCII = [chr(code) for code in range(128)]
_FURTHER = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
"""Forms of ASCII letters beyond ASCII that Python takes for the same where case does not matter."""
_LAST = 0x10FFFF
_WIDE = re.compile(r"[^\x00-\x7f]+")

_Key = tuple[bool, ...]
"""What a pattern can know of a character: to which of its ranges, and of all categories, it belongs."""


class PatternError(ValueError):
    """A regular expression that cannot be searched for; the text says why, and what to write instead."""


class Pattern:
    """A regular expression, ready to be searched for. ``^`` and ``$`` match at the borders of lines."""

    required: str
    """The longest plain text that every match must hold; empty when none is certain."""
    any_case: bool
    """Whether ``required`` may be in upper and lower case."""

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        parsed = _parsed(text)
        runs = [""]
        _collect(parsed, runs)
        self.required = max(runs, key=len)
        self.any_case = bool(parsed.state.flags & re.IGNORECASE)
        try:
            self._alphabet = _Alphabet(parsed)
            written = _Writer(self._alphabet).written(parsed, parsed.state.flags | re.MULTILINE)
        except RecursionError:
            raise PatternError(_DEEP) from None
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        try:
            self._program = re2.compile(written.encode("latin-1"), options)
        except re2.error as error:
            said = error.args[0].decode("latin-1") if error.args and isinstance(error.args[0], bytes) else str(error)
            if "nest" not in said:
                said = f"its repeats make too large a pattern ({said.partition(':')[0]})"
            raise PatternError(f"{said}: write + or * for a repeat with a large count") from None
        if self._program.programsize > MOST_STEPS:
            raise PatternError(
                f"it takes {self._program.programsize} steps for each character, and {MOST_STEPS} are the most: "
                "write a shorter pattern, and + or * for a repeat with a large count"
            )

    def search(self, text: str) -> tuple[int, int] | None:
        """Start and end of the first match in ``text``, or None. Other threads run meanwhile."""
        plain = text if text.isascii() else _WIDE.sub(lambda wide: wide[0].translate(self._alphabet), text)
        data = plain.encode("latin-1")
        if len(data) * self._program.programsize < _LONG:
            hit = self._program.search(data)
            return hit.span() if hit else None
        found: list[tuple[int, int] | None] = []  # in a thread, so that signals are answered meanwhile
        thread = Thread(
            target=lambda: found.append(hit.span() if (hit := self._program.search(data)) else None), daemon=True
        )
        thread.start()
        thread.join()
        return found[0]


@lru_cache(maxsize=64)
def compiled(text: str) -> Pattern:
    """The pattern that ``text`` (without slashes) describes. Raises PatternError."""
    return Pattern(text)


def is_regex(text: str) -> bool:
    """Whether ``text`` is written ``/like this/``, the contract's form of a regular expression."""
    return len(text) > 2 and text.startswith("/") and text.endswith("/")


def _parsed(text: str) -> Any:
    if len(text) > LONGEST:
        raise PatternError(f"it has {len(text)} characters, and {LONGEST} are the most")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parser.parse(text)
    except re.error as error:
        raise PatternError(str(error)) from None
    except OverflowError:
        raise PatternError("a repeat counts to 1000 at most") from None
    except RecursionError:
        raise PatternError(_DEEP) from None


class _Alphabet(dict[int, int]):
    """Characters beyond ASCII -> the byte that stands for all that the pattern cannot tell from them."""

    def __init__(self, parsed: Any) -> None:
        self.ranges = sorted(set(_wide_ranges(parsed)))
        self.classes: dict[_Key, int] = {}
        cuts = sorted({128, _LAST + 1, *(cut for low, high in self.ranges for cut in (low, high + 1))})
        for low, after in pairwise(cuts):
            inside = self._inside(low)
            kinds = [_kinds(chr(low))] if after == low + 1 else _KINDS
            for kind in kinds:
                self.classes.setdefault(inside + kind, 128 + len(self.classes))
        if len(self.classes) > 128:
            raise PatternError("it names too many characters beyond ASCII (about 120 are possible): write . for some")

    def __missing__(self, code: int) -> int:
        self[code] = byte = self.classes[self._inside(code) + _kinds(chr(code))]
        return byte

    def _inside(self, code: int) -> _Key:
        return tuple(low <= code <= high for low, high in self.ranges)


def _kinds(character: str) -> _Key:
    return tuple(belongs(character) for belongs in _CATEGORIES.values())


_KINDS: list[_Key] = [(False, False, False), (False, True, False), (False, False, True), (True, False, True)]
"""The values of ``_kinds`` that exist beyond ASCII: none, a space, a letter, a digit (which is a letter, too)."""


class _Writer:
    """Writes what Python parsed in RE2's syntax."""

    def __init__(self, alphabet: _Alphabet) -> None:
        self._alphabet = alphabet
        self._sets: dict[tuple[Any, ...], str] = {}

    def written(self, parsed: Any, flags: int) -> str:
        parts = [self._one(str(operation), value, flags) for operation, value in parsed]
        return "".join(parts) or "(?:)"

    def _one(self, name: str, value: Any, flags: int) -> str:
        if name in _UNAVAILABLE:
            raise PatternError(_UNAVAILABLE[name])
        if name == "ANY":
            return "(?s:.)" if flags & re.DOTALL else r"[^\n]"
        if name in ("LITERAL", "NOT_LITERAL"):
            return self._set((("LITERAL", value),), flags, negated=name == "NOT_LITERAL")
        if name == "IN":
            items = tuple((str(kind), what) for kind, what in value)
            return self._set(items, flags, negated=items[0][0] == "NEGATE")
        if name == "AT":
            place = _PLACES[str(value)]
            return f"(?m:{place})" if place in "^$" and flags & re.MULTILINE else place
        if name == "BRANCH":
            return "(?:" + "|".join(self.written(branch, flags) for branch in value[1]) + ")"
        if name == "SUBPATTERN":
            _, added, removed, inner = value
            return f"(?:{self.written(inner, flags & ~removed | added)})"
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(*value, lazy=name == "MIN_REPEAT", flags=flags)
        return r"[^\x00-\xff]"  # FAILURE, which matches nothing: (?!) as Python reads it

    def _repeat(self, least: Any, most: Any, inner: Any, *, lazy: bool, flags: int) -> str:
        endless = most == parser.MAXREPEAT
        if least > 1000 or (not endless and most > 1000):
            raise PatternError("a repeat counts to 1000 at most: write + or *")
        count = f"{{{int(least)},{'' if endless else int(most)}}}"
        return f"(?:{self.written(inner, flags)}){count}{'?' if lazy else ''}"

    def _set(self, items: tuple[tuple[str, Any], ...], flags: int, *, negated: bool) -> str:
        """A set of bytes: those of the ASCII characters and of the classes of others that ``items`` take."""
        if (items, flags, negated) not in self._sets:
            self._sets[items, flags, negated] = self._new_set(items, flags, negated)
        return self._sets[items, flags, negated]

    def _new_set(self, items: tuple[tuple[str, Any], ...], flags: int, negated: bool) -> str:
        folded = bool(flags & re.IGNORECASE)
        [(name, value), *more] = items
        if name == "LITERAL" and value < 128 and not (folded or more):  # most are
            taken = {value}
        else:
            taken = {ord(one) for one in _ASCII if any(_takes(item, one, folded) for item in items)}
            for key, byte in self._alphabet.classes.items():
                if any(self._takes_key(item, key, folded, flags) for item in items):
                    taken.add(byte)
        if negated:
            taken = set(range(256)) - taken
        if len(taken) == 1 and chr(*taken).isascii() and chr(*taken).isalnum():
            return chr(*taken)
        return "[" + "".join(_bytes(sorted(taken))) + "]" if taken else r"[^\x00-\xff]"

    def _takes_key(self, item: tuple[str, Any], key: _Key, folded: bool, flags: int) -> bool:
        name, value = item
        if name == "CATEGORY":
            return _in_category(value, *((False,) * 3 if flags & re.ASCII else key[-3:]))
        if name == "NEGATE":
            return False
        low, high = value if name == "RANGE" else (value, value)
        wanted = set(_forms(low, high)) if folded and not flags & re.ASCII else {(max(low, 128), high)}
        return any(one in wanted and inside for one, inside in zip(self._alphabet.ranges, key, strict=False))


def _takes(item: tuple[str, Any], character: str, folded: bool) -> bool:
    """Whether an item of a set takes an ASCII character."""
    name, value = item
    if name == "CATEGORY":
        return _in_category(value, *_kinds(character))
    if name == "NEGATE":
        return False
    low, high = value if name == "RANGE" else (value, value)
    return low <= ord(character) <= high or (folded and low <= ord(character.swapcase()) <= high)


def _in_category(value: Any, digit: bool, space: bool, word: bool) -> bool:
    name = str(value).rpartition("_")[2]
    return {"DIGIT": digit, "SPACE": space, "WORD": word}[name] != ("_NOT_" in str(value))


def _bytes(codes: list[int]) -> Iterator[str]:
    """The codes as ranges of a set."""
    start = 0
    for at, code in enumerate(codes):
        if at + 1 == len(codes) or codes[at + 1] != code + 1:
            yield f"\\x{codes[start]:02x}-\\x{code:02x}"
            start = at + 1


def _forms(low: int, high: int) -> Iterator[tuple[int, int]]:
    """The range beyond ASCII, and the upper and the lower case of one character, as far as they lie beyond ASCII."""
    if high > 127:
        yield (max(low, 128), high)
    forms = {chr(low).lower(), chr(low).upper()} if low == high else set()
    for letter, others in _FURTHER.items():
        if low <= ord(letter) <= high or low <= ord(letter.upper()) <= high:
            forms |= {*others}
    yield from ((ord(form), ord(form)) for form in forms if len(form) == 1 and ord(form) > 127)


def _wide_ranges(parsed: Any) -> Iterator[tuple[int, int]]:
    """The ranges of characters beyond ASCII that a pattern names, in upper and lower case where it may ask for both."""
    for name, value in _leaves(parsed):
        if name in ("LITERAL", "NOT_LITERAL", "RANGE"):
            yield from _forms(*(value if name == "RANGE" else (value, value)))


def _leaves(parsed: Any) -> Iterator[tuple[str, Any]]:
    for operation, value in parsed:
        name = str(operation)
        if name == "IN":
            yield from ((str(kind), what) for kind, what in value)
        elif name == "BRANCH":
            for branch in value[1]:
                yield from _leaves(branch)
        elif name == "SUBPATTERN":
            yield from _leaves(value[3])
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            yield from _leaves(value[2])
        else:
            yield name, value


def _collect(parsed: Iterable[tuple[Any, Any]], runs: list[str]) -> None:
    """Add the runs of plain text that every match must hold."""
    for operation, value in parsed:
        name = str(operation)
        if name == "LITERAL":
            runs[-1] += chr(value)
        elif name == "SUBPATTERN" and not value[1]:
            _collect(value[3], runs)
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] >= 1:
            runs.append("")
            _collect(value[2], runs)
            runs.append("")
        elif name != "AT":
            runs.append("")
