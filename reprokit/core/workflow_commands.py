"""Talking to the runner, so that nothing that is written can end what it is in:
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, visible

MAX_SUMMARY = 1024**2 - 4096
"""Bytes of one step's summary; GitHub drops one of more than 1 MiB as a whole."""


def command(name: str, message: str = "", **properties: str | int) -> str:
    """``::name key=value::message``, one line whatever the texts hold. Properties without a value are left out."""
    given = ",".join(
        f"{key.replace('_', '-')}={_escaped(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in properties.items()
        if value != ""
    )
    return f"::{name}{' ' if given else ''}{given}::{_escaped(message)}"


def _escaped(text: str) -> str:
    # The runner ends a line at \r and \n; the percent sign first, or the others would be escaped twice.
    return visible(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def set_outputs(values: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> None:
    """Outputs of the step. Outside of a workflow they are printed, for someone who tries the command by hand."""
    path = environ.get("GITHUB_OUTPUT")
    if not path:
        for name, value in values.items():
            echo(f"{name}={value}")
        return
    _append(path, "".join(_entry(name, value) for name, value in values.items()))


def _entry(name: str, value: str) -> str:
    """One entry, with a delimiter that cannot be guessed."""
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise ValueError(f"no name of an output: {name!r}")
    delimiter = f"end-{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def add_summary(markdown: str, environ: Mapping[str, str] = os.environ) -> None:
    """Add Markdown to the job's summary, cut at a line where GitHub would drop it as a whole."""
    path = environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        echo(markdown)
        return
    data = markdown.encode("utf-8", "replace")
    if len(data) > MAX_SUMMARY:
        head = data[:MAX_SUMMARY].decode("utf-8", "ignore").rpartition("\n")[0]
        data = f"{head}\n\n(cut: GitHub shows 1 MiB; the artifact has all)\n".encode()
    _append(path, data.decode("utf-8") + "\n")


def _append(path: str, text: str) -> None:
    try:
        with Path(path).open("a", encoding="utf-8", newline="") as stream:
            stream.write(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def quoted(stream: TextIO | None = None) -> Iterator[None]:
    """Output within is not interpreted as commands: logs of cases hold arbitrary text.

    The runner takes ``::name::`` at the start of a line, and ``##[name]`` anywhere in one, until a stop command;
    only a word that cannot be guessed makes it listen again.
    """
    word = f"resume-{secrets.token_hex(16)}"
    echo(command("stop-commands", word), file=stream)
    try:
        yield
    finally:
        echo(f"\n::{word}::", file=stream)
