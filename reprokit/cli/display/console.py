"""Rich's console, whose texts are as visible as those of :mod:`reprokit.core.terminal`: only its own codes act."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from reprokit.core.terminal import visible


class _Console(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Rich's, of texts that may hold anything."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """A console for ``file``, standard output by default."""
    return _Console(file=file, width=width, highlight=False)
