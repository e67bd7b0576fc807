"""Plain data -> YAML text, as cases are written. A library's dumper cannot write comments, or quote by what readers
of YAML 1.1 and 1.2 would guess a text to be. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reprokit.case.tree import Loc

WIDTH = 100
"""Columns up to which a list or mapping of short values is written on one line."""

_PLAIN = re.compile(r"[^\W\d][^\x00-\x1f\x7f]*|\.{0,2}/[^\x00-\x1f\x7f]*")
_GUESSED = re.compile(r"(?i)true|false|yes|no|on|off|null|y|n|none_|\.inf|\.nan")
"""Words that readers of YAML 1.1 or 1.2 take for something else than text."""
_NOT_PLAIN = re.compile(r":(\s|$)|\s#|^\s|\s$")
_NOT_IN_FLOW = re.compile(r"[\[\]{},?]|:(?![/\w])")
_COUNT = re.compile(r"0|[1-9][0-9]{0,14}")
_HIDDEN = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that YAML does not allow, that some readers take for a line end, or that change the text's direction."""


class Flow(dict[str, Any]):
    """A mapping that is written on one line."""


def quoted(text: str) -> str:
    """``text`` in double quotes, on one line; what is not ASCII stays readable."""
    return _HIDDEN.sub(_escape, json.dumps(text, ensure_ascii=False))


def shown(text: str) -> str:
    """``text`` for a comment: on one line, with nothing in it that a terminal or a reader of YAML would act on."""
    return _HIDDEN.sub(_escape, " ".join(re.split(r"[\t\n\r ]+", text))).strip()


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def scalar(text: str, *, flow: bool = False, bare_counts: bool = True) -> str:
    """``text`` on one line, so that every reader of YAML reads that text; a count may be written without quotes."""
    if _COUNT.fullmatch(text):
        return text if bare_counts else quoted(text)
    plain = (
        _PLAIN.fullmatch(text)
        and not _GUESSED.fullmatch(text)
        and not _NOT_PLAIN.search(text)
        and not (flow and _NOT_IN_FLOW.search(text))
        and not _HIDDEN.search(text)
    )
    return text if plain else quoted(text)


def inline(value: Any, *, bare_counts: bool = True) -> str:
    """``value`` on one line."""
    if isinstance(value, Mapping):
        pairs = (
            f"{scalar(str(key), flow=True)}: {inline(item, bare_counts=bare_counts)}" for key, item in value.items()
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(item, bare_counts=bare_counts) for item in value) + "]"
    return scalar(str(value), flow=True, bare_counts=bare_counts or isinstance(value, int))


def document(
    data: Mapping[str, Any] | Sequence[Any],
    *,
    comments: Callable[[Loc], Sequence[str]] = lambda loc: (),
    spaced: Callable[[Loc], bool] = lambda loc: False,
    bare_counts: Callable[[Loc], bool] = lambda loc: True,
) -> str:
    """The text that :func:`reprokit.case.tree.parse` reads ``data`` (a mapping or list of such, and of texts) from.

    ``comments``: the comment lines above the value at a path. ``spaced``: whether an empty line precedes it.
    ``bare_counts``: whether counts at a path are written without quotes.
    """
    return "".join(f"{line}\n" for line in _Writer(comments, spaced, bare_counts).entries((), data, 0))


class _Writer:
    def __init__(
        self,
        comments: Callable[[Loc], Sequence[str]],
        spaced: Callable[[Loc], bool],
        bare_counts: Callable[[Loc], bool],
    ) -> None:
        self.comments, self.spaced, self.bare_counts = comments, spaced, bare_counts
        self.open = False
        """Whether the last text keeps all empty lines behind it, so that another would be part of it."""

    def entries(self, loc: Loc, value: Any, depth: int) -> Iterator[str]:
        """The lines of what a mapping or list holds."""
        pad = "  " * depth
        listed = not isinstance(value, Mapping)
        for key, item in enumerate(value) if listed else value.items():
            at = (*loc, key)
            if self.spaced(at) and not self.open:
                yield ""
            yield from (f"{pad}# {line}".rstrip() for line in self.comments(at))
            begin = f"{pad}-" if listed else f"{pad}{scalar(str(key), bare_counts=False)}:"
            yield from self.entry(at, item, depth, begin)

    def entry(self, loc: Loc, item: Any, depth: int, begin: str) -> Iterator[str]:
        block = _block(item) if isinstance(item, str) else ""
        self.open = block.endswith("+")
        if block:
            yield f"{begin} {block}"
            yield from ("  " * (depth + 1) + line if line else "" for line in item.rstrip("\n").split("\n"))
            yield from [""] * (len(item) - len(item.rstrip("\n")) - 1)
            return
        if not self.on_one_line(loc, item, len(begin)):
            lines = list(self.entries(loc, item, depth + 1))
            if begin.endswith(":") or lines[0].lstrip().startswith("#"):
                yield begin
                yield from lines
            else:
                yield f"{begin} {lines[0].lstrip()}"
                yield from lines[1:]
            return
        bare = self.bare_counts(loc)
        text = inline(item, bare_counts=bare) if isinstance(item, (Mapping, list, tuple)) else ""
        yield f"{begin} {text or scalar(str(item), bare_counts=bare or isinstance(item, int))}"

    def on_one_line(self, loc: Loc, item: Any, before: int) -> bool:
        """A text, an empty collection, or a short list or listed mapping of texts with nothing said in between."""
        if not isinstance(item, (Mapping, list, tuple)) or not item or isinstance(item, Flow):
            return True
        pairs = list(item.items() if isinstance(item, Mapping) else enumerate(item))
        if isinstance(item, Mapping) and not isinstance(loc[-1], int):
            return False
        if any(isinstance(one, (Mapping, list, tuple)) or "\n" in str(one) for _, one in pairs):
            return False
        if any(self.comments((*loc, key)) for key, _ in pairs):
            return False
        return before + 1 + len(inline(item, bare_counts=self.bare_counts(loc))) <= WIDTH


def _block(text: str) -> str:
    """The indicator of the block that ``text`` can be written as, or nothing."""
    if "\n" not in text or not text.strip(" \t\n") or _HIDDEN.search(text):
        return ""
    ends = len(text) - len(text.rstrip("\n"))
    return "|" + ("2" if text[0] in " \t\n" else "") + ("-" if not ends else "" if ends == 1 else "+")
