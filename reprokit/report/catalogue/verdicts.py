"""``verdicts.json``: what was last seen of each case of a folder, kept beside the cases. Pure but for ``read``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reprokit.case.facts import CaseFacts
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, cell_key
from reprokit.core.errors import UsageError
from reprokit.engine import registry
from reprokit.evidence.model import Verdict

FILE = "verdicts.json"
FORMAT = "reprokit-verdicts/v1"
RESULT = "reprokit-result/v1"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class DecidedCell(_Model):
    """One variant of one cell, as it was last decided. ``size``: bytes of its image; ``reason`` where it is telling.

    ``engine``: what served it, '' for Docker.
    """

    cell: dict[str, str]
    variant: Literal["case", "fix"]
    verdict: Verdict
    expected: Verdict | None = None
    as_expected: bool | None = None
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    image: str = ""
    size: int | None = None
    reason: str = ""
    engine: str = ""


class SeenCase(_Model):
    """What was seen of a case whose text has the ``digest``."""

    digest: str
    cells: tuple[DecidedCell, ...]

    @property
    def date(self) -> str:
        """The day of the newest verdict."""
        return max((seen.date for seen in self.cells), default="")

    @property
    def size(self) -> int | None:
        """Bytes of the largest image."""
        return max((seen.size for seen in self.cells if seen.size), default=None)


class Verdicts(_Model):
    """The whole file: what was seen, by the case's id."""

    format: Literal["reprokit-verdicts/v1"] = "reprokit-verdicts/v1"
    cases: dict[str, SeenCase] = {}


class _Result(_Model):
    """What is read of a result file."""

    class Host(_Model):
        engine: str | None = None
        engine_kind: str | None = None

    class Image(_Model):
        tag: str = ""
        size: int | None = None

    class Case(_Model):
        class Cell(_Model):
            cell: dict[str, str]
            variant: Literal["case", "fix"]
            verdict: Verdict
            expected: Verdict | None
            as_expected: bool | None
            reason: str = ""
            image: _Result.Image | None = None

        id: str
        digest: str
        cells: tuple[Cell, ...]

    format: Literal["reprokit-result/v1"]
    started_at: str = Field(pattern=r"^\d{4}-\d\d-\d\dT")
    host: _Result.Host = Field(default_factory=lambda: _Result.Host())
    cases: tuple[Case, ...]


@dataclass(frozen=True, kw_only=True)
class MergedVerdicts:
    """``verdicts`` after a merge; ids of cases whose verdicts were ``taken``, that were seen in another state
    (``outdated``), and that the folder does not have (``strange``)."""

    verdicts: Verdicts
    taken: tuple[str, ...]
    outdated: tuple[str, ...]
    strange: tuple[str, ...]


def read(path: Path) -> Verdicts:
    """The file, or nothing seen where there is none. Raises UsageError."""
    if not path.exists():
        return Verdicts()
    found = _load(path, Verdicts, f"restore it, or delete it and run reprokit index --results ({FORMAT})")
    assert isinstance(found, Verdicts)
    return found


def merge(old: Verdicts, path: Path, files: Sequence[CaseFile], facts: Mapping[str, CaseFacts]) -> MergedVerdicts:
    """``old`` with what the result file says of these cases; cells that it does not speak of stay as they are.

    A verdict of a container engine is never replaced by one of virtual environments, which only stand in for it.

    Verdicts of another state of a case than the folder's are not taken. Raises UsageError.
    """
    result = _load(path, _Result, f"expected a file that `reprokit run --json` writes ({RESULT})")
    assert isinstance(result, _Result)
    here = {file.case.id: file for file in files}
    cases = {name: seen for name, seen in old.cases.items() if name in here}
    taken, outdated = [], []
    engine = result.host.engine_kind or ""
    for case in result.cases:
        if case.id not in here:
            continue
        if case.digest != here[case.id].digest:
            outdated.append(case.id)
            continue
        before = cases.get(case.id)
        kept = before.cells if before and before.digest == case.digest else ()
        fresh = [
            _seen(cell, result.started_at[:10], engine) for cell in case.cells if cell.verdict is not Verdict.CANCELLED
        ]
        cells = _ordered((*kept, *fresh), facts[case.id].cells)
        if cells:
            cases[case.id] = SeenCase(digest=case.digest, cells=cells)
            taken.append(case.id)
    strange = tuple(case.id for case in result.cases if case.id not in here)
    return MergedVerdicts(verdicts=Verdicts(cases=cases), taken=tuple(taken), outdated=tuple(outdated), strange=strange)


def _seen(cell: _Result.Case.Cell, date: str, engine: str) -> DecidedCell:
    image = cell.image or _Result.Image()
    telling = not cell.verdict.conclusive or cell.as_expected is False
    return DecidedCell(
        cell=cell.cell,
        variant=cell.variant,
        verdict=cell.verdict,
        expected=cell.expected,
        as_expected=cell.as_expected,
        date=date,
        image=image.tag.rpartition(":")[2][:12],
        size=image.size,
        reason=cell.reason.strip().partition("\n")[0] if telling else "",
        engine="" if registry.is_reference(engine) else engine,
    )


def _ordered(seen: Sequence[DecidedCell], cells: Sequence[Cell]) -> tuple[DecidedCell, ...]:
    """The last of each of the case's own cells and variants, in the order of the matrix; a finding before none."""
    by_weight = sorted(
        seen, key=lambda one: (one.verdict.conclusive, registry.capabilities(one.engine).images, one.date)
    )
    last = {(cell_key(one.cell), one.variant): one for one in by_weight}
    keys = ((cell_key(cell), variant) for cell in cells for variant in ("case", "fix"))
    return tuple(last[key] for key in keys if key in last)


def dumps(verdicts: Verdicts) -> str:
    """The file's text: a line per cell, so that differences can be read."""
    lines = ["{", f'  "format": "{FORMAT}",', '  "cases": {']
    names = sorted(verdicts.cases)
    for name in names:
        case = verdicts.cases[name]
        rows = [json.dumps(_plain(seen), ensure_ascii=False) for seen in case.cells]
        lines += [f'    {json.dumps(name)}: {{"digest": {json.dumps(case.digest)}, "cells": [']
        lines += [f"      {row}," for row in rows[:-1]] + [f"      {rows[-1]}"] * bool(rows)
        lines += ["    ]}" + ("," if name != names[-1] else "")]
    return "\n".join([*lines, "  }", "}"]) + "\n"


def _plain(seen: DecidedCell) -> dict[str, Any]:
    return {name: value for name, value in seen.model_dump(mode="json").items() if value not in (None, "")}


def _load(path: Path, kind: type[_Model], hint: str) -> _Model:
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {at + ': ' if at else ''}{first['msg']}; {hint}") from None
