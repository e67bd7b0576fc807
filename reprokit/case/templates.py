"""Sandboxed Jinja2 over the axes of a cell. Most templates are text and names, which are put together here: importing
Jinja2 takes a sixth of the time in which a case is checked. Everything else is for :mod:`.sandbox`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from reprokit.case.inspection import MAX_TEXT, Inspection, RenderError

if TYPE_CHECKING:
    from reprokit.core.confined import ConfinedChild

__all__ = ["CONSTANTS", "MAX_TEXT", "Inspection", "RenderError", "inspect", "is_template", "render_text"]

TOO_LONG = "the template takes too much time or memory: loop less, and make smaller texts"

CONSTANTS = frozenset({"true", "false", "none", "True", "False", "None", "and", "or", "not", "if", "else", "in", "is"})
"""Words of the template language, which no axis can be named after."""

SPECIAL = CONSTANTS | {"self", "range", "dict", "cycler", "joiner", "namespace"}
"""Names that Jinja2 gives a meaning of their own."""
_NAME = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}")

_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")
"""How Python shows an object that has no text of its own: another text in each process."""

_PLAIN_TEXT = 256 * 1024
"""Characters that a template of plain parts may come to, by a rough upper bound, to be rendered in this process."""


def is_template(text: str) -> bool:
    """Whether the text holds anything that Jinja2 would act on."""
    return "{{" in text or "{%" in text or "{#" in text


@lru_cache(maxsize=4096)
def inspect(text: str) -> Inspection:
    """The names that ``text`` uses, or what is wrong with it as a template."""
    if not is_template(text):
        return Inspection()
    if (pieces := split(text)) is not None:
        return Inspection(names=frozenset(pieces[1::2]), pieces=pieces, plain_names=len(pieces) // 2)
    from reprokit.case.sandbox import inspected

    return inspected(text)


def split(text: str) -> tuple[str, ...] | None:
    """Texts (even places) and names (odd) of a template of nothing else; None where Jinja2 has to read it."""
    pieces = _NAME.split(text)
    plain = not any(is_template(one) for one in pieces[::2]) and not any(one.endswith("{") for one in pieces[:-1:2])
    return tuple(pieces) if plain and "\r" not in text and SPECIAL.isdisjoint(pieces[1::2]) else None


def render_text(text: str, values: Mapping[str, str]) -> str:
    """``text`` with the values put in. Raises RenderError when a name has no value, or it goes wrong otherwise."""
    if not is_template(text):
        return text
    known = inspect(text)
    names = known.plain_names
    if names < 0 or len(text) + names * max(map(len, values.values()), default=0) > _PLAIN_TEXT:
        try:
            rendered = _child().ask(text, values)
        except ValueError as error:
            raise RenderError(str(error)) from None
    elif known.pieces and all(name in values for name in known.pieces[1::2]):  # which Jinja2 would do no otherwise
        rendered = "".join(values[one] if at % 2 else one for at, one in enumerate(known.pieces))
    else:
        from reprokit.case.sandbox import filled

        rendered = filled(text, values)
    if (shown := _ADDRESS.search(rendered)) and shown[0] not in text:
        raise RenderError("the template shows a method or another object, not a text: call it, as in x.lower()")
    return rendered


@cache
def _child() -> ConfinedChild:
    from reprokit.core.confined import ConfinedChild  # most cases need none

    return ConfinedChild("reprokit.case.sandbox", "filled", TOO_LONG)


def fresh_budget() -> None:
    """Give the templates of a further case all of the time, whatever those of the last one took."""
    if _child.cache_info().currsize:
        _child().fresh_budget()
