"""What a template needs, and how rendering fails: what Jinja2 and those who do without it have in common."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TEXT = 16 * 1024**2
"""Largest text, in characters, that a template may produce."""


RAW_HINT = "text that is not a template belongs between {% raw %} and {% endraw %}"


class RenderError(ValueError):
    """A template that cannot be rendered with the values of one cell; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a template needs, without rendering it.

    ``names`` must be defined; ``guarded`` ones have a default or are tested for being defined.
    ``pieces``: texts (even places) and names (odd) that it is put together from, () where it holds anything else.
    ``plain_names``: how often names are used, -1 where it could take any time and memory.
    ``error`` and its ``line`` (from 1 within the text) and ``hint`` are set when the template is not valid.
    """

    names: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    pieces: tuple[str, ...] = ()
    plain_names: int = -1
    error: str = ""
    line: int = 0
    hint: str = ""
