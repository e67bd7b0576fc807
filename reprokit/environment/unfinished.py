"""The image of a build that failed, as it was before the step that failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from reprokit.environment import dockerfile


def before(rendered: dockerfile.Rendered, step: str, workdir: str) -> dockerfile.Rendered | None:
    """What builds the image up to ``step``, an instruction as the engine names it; None where no step is that one.

    Its layers are those that the failed build has left in the build cache.
    """
    good: list[str] = []
    for instruction in _instructions(rendered.dockerfile):
        if _words(instruction) == _words(step):
            end = dockerfile.render_one("unfinished.j2", {}, workdir=workdir).dockerfile
            return replace(rendered, dockerfile="".join(good) + end)
        good.append(instruction)
    return None


def _instructions(text: str) -> Iterator[str]:
    """The instructions with what precedes them, such as comments; each with its continuation lines."""
    held = ""
    for line in text.splitlines(keepends=True):
        held += line
        is_comment = line.lstrip().startswith("#")
        if not is_comment and line.strip() and not line.rstrip().endswith("\\"):
            yield held
            held = ""


def _words(instruction: str) -> str:
    """One line, without comments, however it was broken into lines."""
    lines = [line for line in instruction.splitlines() if not line.lstrip().startswith("#")]
    return " ".join(re.sub(r"\\\s*\n", " ", "\n".join(lines)).split())
