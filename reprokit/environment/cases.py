"""Cases, with the axes that are known here: the case room's functions, bound to them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

from reprokit.case import files, matrix, schema
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, Partial, Selection
from reprokit.case.read import Fetch
from reprokit.core.errors import CaseError, ReprokitError, UsageError
from reprokit.environment.axes import KNOWN

SCHEMA_FILE = "reprokit.schema.json"
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*(\.[x*])?|none")


def load(source: str, *, stdin: TextIO | None = None, fetch: Fetch | None = None) -> list[CaseFile]:
    """The cases of a CASE argument: see :func:`reprokit.case.files.load`."""
    return files.load(source, KNOWN, stdin=stdin, fetch=fetch)


def load_text(path: str, text: str, *, draft: bool = False) -> CaseFile:
    """The case in ``text``, the content of the YAML file ``path`` (which need not exist yet). Raises CaseError.

    ``draft``: it may have placeholders.
    """
    return files.load_text(path, text, KNOWN, draft=draft)


@lru_cache(maxsize=256)
def recorded_case(text: str) -> CaseFile | None:
    """The case of a text that a store keeps; None where there is no text, or today's format no longer accepts it."""
    try:
        [file] = load("-", stdin=io.StringIO(text))
    except (ReprokitError, ValueError):
        return None
    return file


def recorded_trouble(text: str) -> str:
    """Why :func:`recorded_case` has no case for a text that a store keeps: its first problem, in words."""
    try:
        load("-", stdin=io.StringIO(text))
    except CaseError as error:
        return error.problems[0].message
    except (ReprokitError, ValueError) as error:
        return str(error)
    return ""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of case files: see :func:`reprokit.case.schema.json_schema`."""
    return schema.json_schema(KNOWN)


def select(
    axes: Mapping[str, Sequence[str]],
    exclude: Sequence[Partial],
    include: Sequence[Partial],
    selection: Selection,
    *,
    used: Iterable[str] = (),
    strict: bool = True,
) -> list[Cell]:
    """The cells that ``selection`` asks for: see :func:`reprokit.case.matrix.select`."""
    return matrix.select(axes, exclude, include, selection, known=KNOWN, used=used, strict=strict)


def check_versions(axes: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError where a value that a selection gives a known axis of versions is not one."""
    for name in KNOWN.of_versions():
        for value in axes.get(name, ()):
            if not _VERSION.fullmatch(value):
                raise UsageError(f"--{name} {value}: expected a version (digits and dots) or none")


def schema_line(target: Path) -> str:
    """The first line of a new case, by which editors find the schema, where that lies in the same folder; else ''."""
    return f"# yaml-language-server: $schema={SCHEMA_FILE}\n" if (target.parent / SCHEMA_FILE).is_file() else ""
