"""Who serves what an axis asks for: the first provider of a declared order that has it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from reprokit.core.errors import Unsupported
from reprokit.environment.catalog import Release
from reprokit.environment.supply import Supply


@dataclass(frozen=True, kw_only=True)
class VersionRequest:
    """A version that a cell asks for, and what decides on who can serve it."""

    asked: str
    release: Release
    supply: Supply


W = TypeVar("W", bound=VersionRequest)
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Provider(Generic[W, S]):
    """``serves``: what fulfils a wish, or None. ``has``: in words, what there is instead, or is left unasked."""

    serves: Callable[[W], S | None]
    has: Callable[[W], str]


def served(axis: str, wish: W, providers: Mapping[str, Provider[W, S]], order: tuple[str, ...]) -> S:
    """What the first of the providers named in ``order`` has. Raises Unsupported, with what each of them has."""
    for name in order:
        if (found := providers[name].serves(wish)) is not None:
            return found
    said = [providers[name].has(wish) for name in order]
    said += [
        f"{provider.has(wish)}, but {axis}_providers leaves {name} out"
        for name, provider in providers.items()
        if name not in order and provider.serves(wish)
    ]
    raise Unsupported(
        f"{axis} {wish.asked} is not available on {wish.release.name}: {'; '.join(said)}; "
        "environment.image takes any other image"
    )
