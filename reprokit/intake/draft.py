"""A draft of a case and its text: what is known, where that comes from, and what is not known. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reprokit.case import emit
from reprokit.case.model import FIX_KEYS, RESERVED
from reprokit.case.structure import keys_at
from reprokit.case.templates import is_template
from reprokit.case.tree import Loc
from reprokit.core.redaction import Omitted

SCHEMA = "reprokit/v1"
_WIDTH = 110
_GROUPS = ("matrix", "environment", "expect")
"""Keys with an empty line before them."""
_LINE = re.compile(r"line \d{1,9}", re.ASCII)
_SHOWN = 12
"""Most places of a kind of secret that are listed one by one."""
_LONE = re.compile("[\ud800-\udfff]")
"""What no YAML can have: bytes of a terminal that are not text, and halves of characters."""
RAW, END_RAW = "{% raw %}", "{% endraw %}"
_TEMPLATE = re.compile(r"\{[{%#]|\{(?=\r)|\r")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A draft of a case."""

    data: Mapping[str, Any]
    """The case, nested as in the format; scalars are texts; ``schema`` may be left out."""
    notes: Mapping[Loc, tuple[str, ...]] = field(default_factory=dict)
    """Path -> comments above that value (its origin, the reason); the path ``()`` is the top of the file."""
    missing: tuple[str, ...] = ()
    """What is not known, one sentence each."""
    omitted: tuple[Omitted, ...] = ()
    """What was removed from the texts because it is secret."""
    passing: tuple[Mapping[str, str], ...] = ()
    """Axes of the cells that pass, by the report."""
    troubles: tuple[str, ...] = ()
    """The failures that a report shows, where it shows several: the number of each, its line and first words."""


def literal(text: str) -> str:
    """``text`` escaped for a place of a case that takes templates: rendered in any cell, it is ``text`` again.

    For every text from outside that goes below :data:`reprokit.case.model.TEMPLATED`.
    """
    if not is_template(text):
        return text
    if "endraw" in text or "\r" in text:  # Jinja2 would end the block there, or make a line feed of it
        return _TEMPLATE.sub(lambda match: "{{ '" + ("\\r" if match[0] == "\r" else match[0]) + "' }}", text)
    return RAW + text + END_RAW


def render(draft: Draft) -> str:
    """The draft as YAML, in the format's key order, with its comments; reading it gives the draft's ``data``."""
    data = _ordered({"schema": SCHEMA} | dict(draft.data), ())
    head = "".join(f"# {line}".rstrip() + "\n" for line in _head(draft))
    return head + emit.document(
        data,
        comments=lambda loc: [line for note in draft.notes.get(loc, ()) for line in _wrapped(note)],
        spaced=lambda loc: loc != ("schema",) and len(loc) == 1 and (loc[0] in _GROUPS or loc in draft.notes),
        bare_counts=lambda loc: loc[0] not in ("matrix", "report") and "reproduces" not in loc,
    )


def summary(omitted: tuple[Omitted, ...]) -> tuple[str, ...]:
    """What was left out, one line for each kind: ``github-token, 3 times: env GH_TOKEN; lines 3, 12``."""
    return tuple(
        f"{kind}{f', {len(found)} times' if len(found) > 1 else ''}{_where([one.where for one in found])}"
        for kind in sorted({one.kind for one in omitted})
        if (found := [one for one in omitted if one.kind == kind])
    )


def _where(places: Sequence[str]) -> str:
    """Places in order, with all line numbers in one list; only the first few of many."""
    lines = sorted({int(place[5:]) for place in places if _LINE.fullmatch(place)})
    shown = f"{', '.join(map(str, lines[:_SHOWN]))}{' ...' if len(lines) > _SHOWN else ''}"
    others = sorted({place for place in places if place and not _LINE.fullmatch(place)}, key=_by_number)
    more = [f"{len(others) - _SHOWN} other places"] if len(others) > _SHOWN else []
    parts = [*([f"line{'s' if lines[1:] else ''} {shown}"] if lines else []), *others[:_SHOWN], *more]
    return f": {'; '.join(parts)}" if parts else ""


def _by_number(text: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d{1,9})", text)]


def _head(draft: Draft) -> Iterator[str]:
    for note in draft.notes.get((), ()):
        yield from _wrapped(note)
    if draft.missing:
        yield "Missing:"
        for sentence in draft.missing:
            yield from _wrapped(sentence, item=True)
    if draft.omitted:
        yield "Left out, since it looks secret or personal (<...> or REDACTED_... mark the places):"
        for line in summary(draft.omitted):
            yield from _wrapped(line, item=True)


def _wrapped(text: str, *, item: bool = False) -> list[str]:
    begin, rest = ("- ", "  ") if item else ("", "")
    return textwrap.wrap(
        emit.shown(text),
        _WIDTH,
        initial_indent=begin,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _ordered(value: Any, loc: Loc) -> Any:
    """``value`` as YAML can have it, with the keys of the format in the format's order, then the others."""
    if isinstance(value, (list, tuple)):
        return [_ordered(item, (*loc, index)) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if not isinstance(value, Mapping):
        return value
    known = FIX_KEYS if loc == ("fix",) else keys_at(loc[1:] if loc[:1] == ("fix",) else loc)
    last = RESERVED if loc == ("matrix",) else ()
    names = [name for name in known if name in value]
    names += [name for name in value if name not in names and name not in last]
    names += [name for name in last if name in value]
    return {name: _ordered(value[name], (*loc, name)) for name in names}


# -- title and id -----------------------------------------------------------------------------------------------------

UNTITLED = "A bug without a title"
LONGEST_ID = 60
"""Most characters of an id."""
LONGEST_TITLE = 200
"""Most characters of a title."""

_LABEL = re.compile(
    r"^\s*(?:\[?(?:bug|issue|question|help)\]?\s*[:：]\s*|\[(?:bug|issue|question|help)\]\s+)", re.IGNORECASE
)
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Characters that are invisible in a title, or change its writing direction."""
_CUT = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")


def clean_title(text: str) -> str:
    """``text`` as a title in one line, without a label such as ``[Bug]:`` before it; '' where nothing is left."""
    return cut_text(re.sub(r"\s+", " ", _LABEL.sub("", _UNSEEN.sub(" ", text))).strip(), LONGEST_TITLE, " ")


def slug(*texts: str) -> str:
    """The texts joined as an id of lower-case letters, digits and hyphens, cut between words; '' for nothing."""
    parts = [re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") for text in texts]
    return cut_text("-".join(dict.fromkeys(part for part in parts if part)), LONGEST_ID, "-")


def cut_text(text: str, most: int, between: str) -> str:
    """At most the first ``most`` characters of a text, cut at the separator ``between`` rather than within a word."""
    if len(text) <= most:
        return text
    whole = text[: most + 1].rpartition(between)[0].rstrip(between)
    return whole if len(whole) > most // 2 else text[:most].rstrip(between)


def is_foreign(text: str) -> bool:
    """Whether an id made of a text would lose most of it, such as Chinese."""
    return len(slug(text)) < 4 or bool(_CUT.search(text))
