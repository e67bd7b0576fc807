"""What a host has to make environments of: where base images come from, and who is asked for Python and GCC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.environment.catalog import OURS, Catalog

if TYPE_CHECKING:
    from reprokit.environment.host import Host

Recipe = Literal["dockerfile", "script"]
"""What an environment is made from: a Dockerfile for an image, or a shell script that runs on a host."""

BASE_SOURCES = ("registry", "bootstrap")
PYTHON_PROVIDERS = ("distribution", "image", "uv", "conda")
GCC_PROVIDERS = ("distribution", "image", "conda")


@dataclass(frozen=True, kw_only=True)
class Supply:
    """``base_source``: ``registry``, or ``bootstrap`` (base images are made from the distribution's packages).

    ``python`` and ``gcc``: the providers that are asked, in this order, until one has what the cell asks for. One that
    is left out is never asked. ``silent``: providers whose downloads do not answer, so that they serve nothing.
    ``missing``: images that their registry no longer has, by reference, for which another provider is asked.
    ``host``: this host, where a script makes cells' environments of it.
    ``catalog``: the compatibility data, with the site's own rows.
    Raises UsageError for a name that stands for nothing.
    """

    base_source: str
    python: tuple[str, ...] = PYTHON_PROVIDERS
    gcc: tuple[str, ...] = GCC_PROVIDERS
    silent: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()
    host: Host | None = None
    catalog: Catalog = OURS

    def __post_init__(self) -> None:
        _known("base source", (self.base_source,), BASE_SOURCES)
        _known("python provider", self.python, PYTHON_PROVIDERS)
        _known("gcc provider", self.gcc, GCC_PROVIDERS)

    def silence(self, provider: str, setting: str) -> str:
        """Why a provider serves nothing, and which setting names another place for its downloads; '' where it does."""
        if provider not in self.silent:
            return ""
        return f", but its downloads are not available here ({setting} of the configuration names another place)"


def _known(what: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            hint = near(name, known)
            expected = f"expected {', '.join(known[:-1])} or {known[-1]}"
            raise UsageError(f"{what} {name!r}: {expected}" + (f" ({hint})" if hint else ""))
