"""The one exit for text to a terminal, a pipe or a log: what comes from outside cannot act on what shows it. Colours
of ours are marks with a word that no text from outside can hold.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import IO, Any

import click

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls without tab and line end, marks and overrides of direction, separators, invisible tags, half surrogates."""
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,40}m")

_WORD = os.urandom(8).hex()
_MARK = re.compile(rf"\x0e{_WORD}([0-9;]*)\x0f")


def visible(text: str) -> str:
    r"""The text with what would act on a terminal as ``\x1b`` or ``\u202e``; line ends and tabs stay."""
    return _UNSAFE.sub(_number, text.replace("\r\n", "\n"))


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain(text: str) -> str:
    """A program's output as :func:`visible` lines: without its colours, and a line for each state of a progress bar."""
    return visible(_COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def style(text: str, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None) -> str:
    """The text in a colour, for :func:`echo`."""
    before, after = click.style("\0", fg=fg, bold=bold, dim=dim).split("\0")
    return f"{_mark(before)}{visible(text)}{_mark(after)}"


def _mark(codes: str) -> str:
    return "".join(f"\x0e{_WORD}{code}\x0f" for code in re.findall(r"\x1b\[([0-9;]*)m", codes))


def shown(text: str) -> str:
    """:func:`visible`, and the marks of :func:`style` as colours."""
    parts = _MARK.split(text)  # text, codes, text, codes ... text
    return "".join(f"\x1b[{part}m" if at % 2 else visible(part) for at, part in enumerate(parts))


def echo(text: object = "", *, err: bool = False, nl: bool = True, file: IO[Any] | None = None) -> None:
    """Print a text that may hold anything; colours only where a terminal shows them."""
    click.echo(shown(str(text)), err=err, nl=nl, file=file)


def echo_data(text: str, *, nl: bool = True) -> None:
    """Print a text for programs: on a terminal as :func:`echo`, elsewhere to the letter."""
    if sys.stdout is not None and sys.stdout.isatty():
        echo(text, nl=nl)
    else:
        click.echo(text, nl=nl, color=True)


def json_text(document: object, *, indent: int | None = 2) -> str:
    """A JSON document, with a line end, in which what would act on a terminal is escaped: the same to programs."""
    return _UNSAFE.sub(_escaped, json.dumps(document, indent=indent, ensure_ascii=False)) + "\n"


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if ord(found[0]) > 0xFF else f"\\u{ord(found[0]):04x}"


def confirm(question: str) -> bool:
    """Ask on standard error; no is the default. Raises click.Abort."""
    return click.confirm(visible(question), default=False, err=True)


def echo_traceback() -> None:
    """Print the exception that is handled, with its traceback, on standard error."""
    import traceback  # seldom needed, and start-up stays short

    echo(traceback.format_exc(), err=True, nl=False)
