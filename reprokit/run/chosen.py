"""Cells that are named one by one, as an entry of a job matrix names them: ``reprokit run --cells FILE``.

A matrix travels as data: what an entry says never meets a shell, and it is checked here before anything is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reprokit.case.matrix import Cell, Selection, in_matrix, label
from reprokit.core import json_text
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.text import pluralize
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.cases import select

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Some cells of the case at ``path`` whose text has the ``digest``; ``fix``: with their fixed variants."""

    path: str
    digest: str
    cells: tuple[Cell, ...]
    fix: bool = False


class _Cells(BaseModel):
    """The cells of one case that have the same axes, as a table: it is a third as long as a mapping per cell."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: str = Field(min_length=1)
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    axes: list[str]
    cells: list[list[str]] = Field(min_length=1)
    fix: bool = False


class _Entry(BaseModel):
    """What is read of an entry: it has its job's name and labels too, and whatever a workflow adds."""

    model_config = ConfigDict(extra="ignore", strict=True)

    cases: list[_Cells] = Field(min_length=1)


def to_json(chosen: Iterable[Chosen]) -> list[dict[str, Any]]:
    """The ``cases`` of an entry, which :func:`read` reads."""
    found: list[dict[str, Any]] = []
    for one in chosen:
        tables: dict[tuple[str, ...], list[list[str]]] = {}
        for cell in one.cells:
            tables.setdefault(tuple(cell), []).append(list(cell.values()))
        for axes, cells in tables.items():
            table = {"path": one.path, "digest": one.digest, "axes": list(axes), "cells": cells}
            found.append({**table, "fix": True} if one.fix else table)
    return found


def read(text: str, where: str) -> tuple[Chosen, ...]:
    """The cells that an entry names. ``where``: the file, for messages. Raises UsageError."""
    try:
        entry = _Entry.model_validate(json_text.loads(text))
    except ValueError as error:
        raise UsageError(
            f"{where}: {_wrong(error)}; expected an entry of what `reprokit matrix --github` prints"
        ) from None
    return from_json([table.model_dump() for table in entry.cases], where)


def read_all(text: str, where: str) -> dict[str, tuple[Chosen, ...]]:
    """The cells that each job of a whole matrix names, by the job's name. Raises UsageError."""
    try:
        entries = {str(entry["name"]): entry for entry in json_text.loads(text)["include"]}
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{where}: expected what `reprokit matrix --github` prints") from None
    return {name: read(json.dumps(entry), f"{where}: {name}") for name, entry in entries.items()}


def from_json(tables: Sequence[Mapping[str, Any]], where: str = "the recorded request") -> tuple[Chosen, ...]:
    """The inverse of :func:`to_json`. Raises UsageError for a cell that is named twice, or has no value for an axis."""
    found: dict[tuple[str, str, bool], list[Cell]] = {}
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for number, table in enumerate(tables):
        at = f"{where}: cases[{number}] ({table['path']})"
        axes = table["axes"]
        if len(set(axes)) != len(axes):
            raise UsageError(f"{at}: an axis is named twice: {', '.join(axes)}")
        cells = found.setdefault((table["path"], table["digest"], table.get("fix", False)), [])
        for values in table["cells"]:
            if len(values) != len(axes):
                raise UsageError(
                    f"{at}: {pluralize(len(values), 'value')} for {pluralize(len(axes), 'axis', 'axes')}: {values}"
                )
            cell = dict(zip(axes, values, strict=True))
            key = table["digest"], frozenset(cell.items())
            if key in seen:
                raise UsageError(f"{at}: the cell {label(cell)} is named twice")
            seen.add(key)
            cells.append(cell)
    return tuple(
        Chosen(path=path, digest=digest, cells=tuple(cells), fix=fix) for (path, digest, fix), cells in found.items()
    )


def _wrong(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
    return f"not JSON: {error}"


def cells_named(files: Sequence[CaseFile], chosen: Sequence[Chosen]) -> list[tuple[CaseFile, Cell, bool]]:
    """The named cells with their cases, and whether with the fix. Raises UsageError for what the cases do not have."""
    by_digest = {file.digest: file for file in files}
    found = []
    for one in chosen:
        file = by_digest.get(one.digest)
        if file is None:
            raise UsageError(
                f"{one.path} is not what the cells were chosen from ({one.digest[:19]}...): check out the commit that "
                "the matrix was made of, or make the matrix again"
            )
        for cell in one.cells:
            _check(file, cell)
            found.append((file, cell, one.fix))
    return found


def _check(file: CaseFile, cell: Cell) -> None:
    """Raise UsageError for a cell that no selection of the case could have given."""
    matrix = file.case.matrix
    if in_matrix(cell, matrix.axes, matrix.exclude, matrix.include):
        return
    names = {*matrix.axes, *(name for extra in matrix.include for name in extra), *AXIS_NAMES, *file.names}
    for name in cell:
        if name not in names:
            raise UsageError(f"{file.path}: the case has no axis {name!r}{near(name, names, prefix='; ')}")
    alone = Selection(axes={name: (value,) for name, value in cell.items()})
    if cell not in select(matrix.axes, matrix.exclude, matrix.include, alone, used=file.names):
        raise UsageError(f"{file.path}: the case's matrix has no cell {label(cell)}")
