"""What of this host's own settings a build receives, without any of it staying in the image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Served:
    """What one build gets: ``secrets`` by id, predefined ``build_args``, ``network`` ("default" or "host")."""

    secrets: Mapping[str, bytes] = field(default_factory=dict)
    build_args: Mapping[str, str] = field(default_factory=dict)
    network: str = "default"
    warnings: tuple[str, ...] = ()
    redact: Callable[[str], str] = lambda text: text


@dataclass(frozen=True, kw_only=True)
class Site:
    """The host's settings."""

    secrets: Mapping[str, bytes] = field(default_factory=dict)

    @contextmanager
    def serving(self, *, local: bool = True) -> Iterator[Served]:
        """Hold ready what builds need while the block runs."""
        yield Served(secrets=self.secrets)


def current() -> Site:
    """The site of this process."""
    return Site()
