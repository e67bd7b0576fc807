"""Sections that are made to fit a limit: what is worth least gives way first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reprokit.report.markdown.text import size


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a text. ``forms``: from the whole one to the shortest; ``worth``: the least gives way first."""

    name: str
    worth: int
    forms: tuple[str, ...]


def fit(sections: Sequence[Section], limit: int, measure: Callable[[str], int] = size) -> tuple[list[str], list[str]]:
    """The form of each section in which all fit together, and the names of those that are not whole.

    The limit counts the line breaks that join them. Where the shortest forms are too much, these are what comes back.
    """
    sizes = [[measure(form) + 2 for form in section.forms] for section in sections]
    chosen = [0] * len(sections)
    total = sum(each[0] for each in sizes)
    for at in sorted(range(len(sections)), key=lambda at: sections[at].worth):
        while total > limit and chosen[at] + 1 < len(sections[at].forms):
            total += sizes[at][chosen[at] + 1] - sizes[at][chosen[at]]
            chosen[at] += 1
    texts = [section.forms[index] for section, index in zip(sections, chosen, strict=True)]
    cut = [section.name for section, index in zip(sections, chosen, strict=True) if index]
    return texts, cut
