"""What the format must know of the axes that mean something to the environment, which passes it in; others are free."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reprokit.core.near_match import near

FIRST_RELEASE = "0.1.0"
"""Of reprokit, and of the format: no case has a free axis with the name of one that it knew."""

NONE = "none"
"""The value that asks for an environment without the thing that an axis names."""

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """What is wrong with a value: ``words`` say it after its place, ``hint`` what to write instead."""

    words: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class AxisSyntax:
    """The values that an axis takes."""

    name: str
    since: str
    """The first release of reprokit that knows the axis: cases may be older, and have a free axis of its name."""
    help: str
    """One sentence for editors and documentation."""
    schema: Mapping[str, Any]
    """The JSON Schema of one value."""
    check: Callable[[str], Wrong | None]
    """What is wrong with a value, None for one that may be right."""
    versions: bool
    """Whether values are versions."""

    def why_free(self, value: str) -> Wrong | None:
        """Why a value is only a template variable: the axis is younger than the format, and does not take it."""
        return self.check(value) if self.since != FIRST_RELEASE else None


class KnownAxes(tuple[AxisSyntax, ...]):
    """The syntax of every known axis, in the order in which help texts name them."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(axis.name for axis in self)

    def wrong(self, name: str, value: str) -> Wrong | None:
        """What is wrong with a value of the axis ``name``; None where nothing is, or the value is free."""
        own = next((axis for axis in self if axis.name == name), None)
        return own.check(value) if own and own.since == FIRST_RELEASE else None

    def of_versions(self) -> Iterator[str]:
        """The names of the axes whose values are versions."""
        return (axis.name for axis in self if axis.versions)


def version_syntax(name: str, *, since: str, help: str) -> AxisSyntax:  # noqa: A002 - the word that the field has, too
    """The syntax of an axis whose values are versions, or ``none``."""
    return AxisSyntax(
        name=name,
        since=since,
        help=help,
        schema={"type": ["string", "number"], "pattern": r"^(none|[0-9]+(\.[0-9]+)*)$"},
        check=wrong_version,
        versions=True,
    )


def is_version(value: str) -> bool:
    """Whether a value is digits and dots."""
    return _VERSION.fullmatch(value) is not None


def wrong_version(value: str) -> Wrong | None:
    """What is wrong with a value that should be a version or ``none``."""
    if value == NONE or is_version(value):
        return None
    bare = _VERSION.search(value)
    hint = near(value, (NONE,)) or (f"did you mean {bare[0]!r}?" if bare else 'such as "11.8"')
    return Wrong(words=f"expected a version (digits and dots) or none, found {value!r}", hint=hint)
