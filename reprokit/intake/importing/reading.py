"""The files of a data set: regular, of limited size, in any encoding, and within its folder."""

from __future__ import annotations

from pathlib import Path

from reprokit.core.files import open_regular
from reprokit.intake.importing.bug import WrongBug
from reprokit.intake.reporting import marked

MOST = 4_000_000
"""Most bytes of a file about one bug."""


def text(folder: Path, file: Path, *, missing: str | None = None) -> str:
    """The text of ``file``, with line feeds alone; ``missing`` where there is none. Raises WrongBug.

    A symbolic link that leads out of ``folder`` is refused: cases are passed on, and files of this host are not.
    """
    if not file.is_file() and missing is not None and not file.is_symlink():
        return missing
    where = str(file)
    if not file.resolve().is_relative_to(folder.resolve()):
        raise WrongBug(f"{where}: it is a link that leads out of the data set")
    try:
        with open_regular(file) as stream:
            data = stream.read(MOST + 1)
    except OSError as error:
        raise WrongBug(f"{where}: it cannot be read: {error.strerror}") from None
    if len(data) > MOST:
        raise WrongBug(f"{where}: it has more than {MOST} bytes")
    return decoded(data).replace("\r\n", "\n").replace("\r", "\n")


def decoded(data: bytes) -> str:
    """The text in ``data``: UTF-8, or UTF-16 and UTF-32 by their mark, or Latin-1."""
    if (found := marked(data)) is not None:
        return found
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
