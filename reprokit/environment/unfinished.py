"""The image of a build that failed, as it was before the step that failed. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reprokit.environment import dockerfile

_BOUND = re.compile(
    r"--mount=type=bind,source=((?!reprokit/(?:site\.sh|relay\.))[^,\s]+),target=(/run/reprokit/[^,\s]+)"
)
_MOUNT = re.compile(r"--mount=\S+\s+")
_BUILD_ONLY = re.compile(r"--mount=\S+\s+|\. /run/reprokit/site\.sh\s+&&\s+")
"""Mounts, and the site's settings which come by one, are there in builds alone."""
_SCRIPT = re.compile(r'bash -eo pipefail "\$CONTEXT"?/([^"\s]+)')


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """What builds an image up to a step, and the ``command`` that does the step in a shell of that image."""

    rendered: dockerfile.Rendered
    command: str


def before(rendered: dockerfile.Rendered, step: str, workdir: str) -> Unfinished | None:
    """The image up to ``step``, an instruction or a step of a script as the engine names it; None where none is that.

    Its layers are those that the failed build has left in the build cache.
    """
    if rendered.dockerfile.startswith("#!"):
        return _before_in_script(rendered, step)
    good: list[str] = []
    for instruction in _instructions(rendered.dockerfile):
        words = _words(instruction)
        if _MOUNT.sub("", words) == _MOUNT.sub("", _words(step)):  # an engine may mount under other names
            end = dockerfile.render_one("unfinished.j2", {}, workdir=workdir).dockerfile
            # What the step finds in the context of the build lies where it looks for it.
            copied = "".join(f"COPY {source} {target}\n" for source, target in _BOUND.findall(words))
            unfinished = replace(rendered, dockerfile="".join(good) + copied + end)
            return Unfinished(rendered=unfinished, command=_BUILD_ONLY.sub("", words))
        good.append(instruction)
    return None


def _before_in_script(rendered: dockerfile.Rendered, step: str) -> Unfinished | None:
    head, *steps = re.split(r"^(?=step )", rendered.dockerfile, flags=re.MULTILINE)
    for number, text in enumerate(steps):
        name, _, body = text.partition("\n")
        if name == f"step {shlex.quote(step)}" or name == f"step '{step}'":
            script = _SCRIPT.search(body)
            content = rendered.context.get(script[1]) if script else None
            own = step if body.startswith(f"{step}\n") else body.strip()
            command = content.decode() if isinstance(content, bytes) else own
            return Unfinished(rendered=replace(rendered, dockerfile=head + "".join(steps[:number])), command=command)
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
