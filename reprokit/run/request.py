"""What one ``reprokit run`` was asked to do: enough to plan it, and to resume it in another process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reprokit.case import units
from reprokit.case.filters import Filter
from reprokit.case.matrix import Cell, Selection, in_matrix, label
from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core import json_text
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.text import pluralize
from reprokit.engine import kinds
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.cases import select
from reprokit.evidence.sequential import Trials

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Some cells of the case at ``path`` whose text has the ``digest``; ``fix``: with their fixed variants.

    ``trust``: the most that the case is trusted, whatever its path says.
    """

    path: str
    digest: str
    cells: tuple[Cell, ...]
    fix: bool = False
    trust: Trust = Trust.OWN


class _Cells(BaseModel):
    """The cells of one case that have the same axes, as a table: it is a third as long as a mapping per cell."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: str = Field(min_length=1)
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    axes: list[str]
    cells: list[list[str]] = Field(min_length=1)
    fix: bool = False
    trust: Trust = Field(Trust.OWN, strict=False)


class _Entry(BaseModel):
    """What is read of an entry: it has its job's name and labels too, and whatever a workflow adds."""

    model_config = ConfigDict(extra="ignore", strict=True)

    cases: list[_Cells] = Field(min_length=1)


def chosen_to_json(chosen: Iterable[Chosen]) -> list[dict[str, Any]]:
    """The ``cases`` of an entry, which :func:`read_chosen` reads."""
    found: list[dict[str, Any]] = []
    for one in chosen:
        tables: dict[tuple[str, ...], list[list[str]]] = {}
        for cell in one.cells:
            tables.setdefault(tuple(cell), []).append(list(cell.values()))
        for axes, cells in tables.items():
            table = {"path": one.path, "digest": one.digest, "axes": list(axes), "cells": cells}
            table |= {"trust": one.trust.value} if ALLOWANCES[one.trust].domain else {}
            found.append({**table, "fix": True} if one.fix else table)
    return found


def read_chosen(text: str, where: str) -> tuple[Chosen, ...]:
    """The cells that an entry names. ``where``: the file, for messages. Raises UsageError."""
    try:
        entry = _Entry.model_validate(json_text.loads(text))
    except ValueError as error:
        raise UsageError(
            f"{where}: {_wrong_entry(error)}; expected an entry of what `reprokit integrate github matrix ` prints"
        ) from None
    return chosen_from_json([table.model_dump() for table in entry.cases], where)


def read_every_job(text: str, where: str) -> dict[str, tuple[Chosen, ...]]:
    """The cells that each job of a whole matrix names, by the job's name. Raises UsageError."""
    try:
        entries = {str(entry["name"]): entry for entry in json_text.loads(text)["include"]}
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{where}: expected what `reprokit integrate github matrix ` prints") from None
    return {name: read_chosen(json.dumps(entry), f"{where}: {name}") for name, entry in entries.items()}


def chosen_from_json(tables: Sequence[Mapping[str, Any]], where: str = "the recorded request") -> tuple[Chosen, ...]:
    """As :func:`chosen_to_json` wrote it. Raises UsageError for a cell named twice, or without a value for an axis."""
    found: dict[tuple[str, str, bool, Trust], list[Cell]] = {}
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for number, table in enumerate(tables):
        at = f"{where}: cases[{number}] ({table['path']})"
        axes = table["axes"]
        if len(set(axes)) != len(axes):
            raise UsageError(f"{at}: an axis is named twice: {', '.join(axes)}")
        trust = Trust(table.get("trust", Trust.OWN))
        cells = found.setdefault((table["path"], table["digest"], table.get("fix", False), trust), [])
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
        Chosen(path=path, digest=digest, cells=tuple(cells), fix=fix, trust=trust)
        for (path, digest, fix, trust), cells in found.items()
    )


def _wrong_entry(error: ValueError) -> str:
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
            _check_cell(file, cell)
            found.append((file, cell, one.fix))
    return found


def _check_cell(file: CaseFile, cell: Cell) -> None:
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


BUNDLES = (".tar.gz", ".tgz", ".tar.zst", ".tar")
"""How the names of bundles end."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a run is asked; ``yes``, ``reviewed`` and ``ask`` are about this invocation alone."""

    cases: tuple[str, ...]
    """As typed."""
    selection: Selection = field(default_factory=Selection)
    filter: Filter = field(default_factory=Filter)
    trials: int | Trials | None = None
    """None: as the case says."""
    fix: bool = False
    datasets: Mapping[str, Path] = field(default_factory=dict)
    """Folders of this host by name, those of the configuration too."""
    sources: Mapping[str, Path] = field(default_factory=dict)
    """As ``datasets``."""
    named: tuple[str, ...] = ()
    """Which of the two the command line gave, so that the chosen cases must know them."""
    base_images: str = "auto"
    """auto | registry | bootstrap"""
    refresh_bases: bool = False
    """Take a registry's images as they are now, not as the store first saw them."""
    engine: str = "auto"
    """``auto`` or a kind of :mod:`reprokit.engine.kinds`."""
    jobs: int = 2
    """Builds, and trials, at a time; with ``on``, jobs at a time, 0 = as many as fit."""
    confirm: str = "auto"
    """auto | always | exact | never: whether decided cells are repeated until their trials carry what they say."""
    locked: bool = False
    """Build from the locks beside the cases and from nothing else."""
    backtrace: bool = False
    """Take the stacks of crashes and hangs of every case."""
    chosen: tuple[Chosen, ...] = ()
    """The cells, each by its name; ``selection``, ``filter`` and ``fix`` then do not count."""
    bundle: bool = False
    """The one case is that of a bundle, with its image."""
    reuse: float | None = None
    """Cells are taken over from earlier runs, of at most so many seconds ago; None for none."""
    on: str = ""
    """The launcher that has the cells run elsewhere, '' for none."""
    yes: bool = False
    """Its cases may run here unread, see :mod:`reprokit.run.approving`."""
    reviewed: tuple[str, ...] = ()
    """Digests of the texts of cases that were read and may run here."""
    ask: bool = True
    """Whether a user at the terminal may be asked."""

    @classmethod
    def configured(
        cls,
        *,
        datasets: Mapping[str, Path],
        sources: Mapping[str, Path],
        base_images: str | None = None,
        engine: str | None = None,
        confirm: str | None = None,
        jobs: int | None = None,
        **asked: Any,
    ) -> Request:
        """A request with the configuration of this host beneath: None, and folders that are not named, are as it says.

        ``asked``: the other fields.
        """
        from reprokit.engine import site

        settings = site.settings()
        return cls(
            datasets={**settings.datasets, **datasets},
            sources={**settings.sources, **sources},
            named=(*(f"--dataset {name}" for name in datasets), *(f"--source {name}" for name in sources)),
            # What runs on other hosts is chosen there.
            base_images=base_images or ("auto" if asked.get("on") else settings.base_images),
            confirm=confirm or settings.confirm,
            engine=engine or (kinds.AUTO if asked.get("on") else settings.engine),
            jobs=jobs or (0 if asked.get("on") else default_jobs()),
            **asked,
        )

    def datasets_for(self, trust: Trust) -> Mapping[str, Path]:
        """The data sets that a case gets that is trusted so far."""
        return self._folders_for(trust, "--dataset", self.datasets)

    def sources_for(self, trust: Trust) -> Mapping[str, Path]:
        """The folders that stand in for sources of a case that is trusted so far."""
        return self._folders_for(trust, "--source", self.sources)

    def _folders_for(self, trust: Trust, option: str, folders: Mapping[str, Path]) -> Mapping[str, Path]:
        everything = ALLOWANCES[trust].configured_folders
        return {name: path for name, path in folders.items() if everything or f"{option} {name}" in self.named}

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads; paths are absolute, so that it holds in another folder."""
        return {
            "cases": [case if case == "-" or "://" in case else str(Path(case).absolute()) for case in self.cases],
            "axes": {name: list(values) for name, values in self.selection.axes.items()},
            "only": [{name: list(values) for name, values in group.items()} for group in self.selection.only],
            "skip": [{name: list(values) for name, values in group.items()} for group in self.selection.skip],
            "tags": list(self.filter.tags),
            "frameworks": list(self.filter.frameworks),
            "needs": list(self.filter.needs),
            "trials": self.trials and Trials.of(self.trials).to_json(),
            "fix": self.fix,
            "datasets": {name: str(path.absolute()) for name, path in self.datasets.items()},
            "sources": {name: str(path.absolute()) for name, path in self.sources.items()},
            "named": list(self.named),
            "base_images": self.base_images,
            "refresh_bases": self.refresh_bases,
            "engine": self.engine,
            "jobs": self.jobs,
            "confirm": self.confirm,
            "locked": self.locked,
            "backtrace": self.backtrace,
            "chosen": chosen_to_json(self.chosen),
            **({"bundle": True} if self.bundle else {}),
            **({"reuse": self.reuse} if self.reuse else {}),
            **({"on": self.on} if self.on else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """The inverse of :meth:`to_json`."""

        def groups(name: str) -> tuple[Mapping[str, tuple[str, ...]], ...]:
            return tuple({axis: tuple(values) for axis, values in group.items()} for group in data[name])

        return cls(
            cases=tuple(data["cases"]),
            selection=Selection(
                axes={name: tuple(values) for name, values in data["axes"].items()},
                only=groups("only"),
                skip=groups("skip"),
            ),
            # A run of an earlier version knew tags alone, and one engine.
            filter=Filter(**{name: tuple(data.get(name, ())) for name in ("tags", "frameworks", "needs")}),
            trials=data["trials"] and Trials.of(data["trials"]),
            fix=data["fix"],
            datasets={name: Path(path) for name, path in data["datasets"].items()},
            sources={name: Path(path) for name, path in data["sources"].items()},
            named=tuple(data["named"]),
            base_images=data["base_images"],
            refresh_bases=data.get("refresh_bases", False),
            engine=data.get("engine", "auto"),
            jobs=data["jobs"],
            confirm=data.get("confirm", "auto"),
            locked=data.get("locked", False),
            backtrace=data.get("backtrace", False),
            chosen=chosen_from_json(data.get("chosen", ())),
            bundle=data.get("bundle", False),
            reuse=data.get("reuse"),
            on=data.get("on", ""),
        )


def is_bundle(source: str) -> bool:
    """Whether a CASE argument is a bundle, by its name: a file, or an object in a bucket."""
    return source.endswith(BUNDLES) and ("://" not in source or source.startswith("s3://"))


def default_jobs() -> int:
    """Builds, and trials, at a time: as configured, or the number of CPUs."""
    from reprokit.engine import site

    return site.settings().jobs or max(2, os.cpu_count() or 2)


def read_trials(text: str) -> Trials:
    """``5``, ``auto``, or ``max=20,confidence=0.95,rate=0.1``; what is left out is as in a case. Raises UsageError."""
    parsers = {"max": units.trials, "confidence": units.confidence, "rate": units.rate}
    given: dict[str, Any] = {}
    try:
        if "=" not in text and text != "auto":
            return Trials.of(units.trials(text))
        for part in text.split(",") if text != "auto" else ():
            name, _, value = (word.strip() for word in part.partition("="))
            if name not in parsers or name in given:
                wrong = "is given twice" if name in given else f"is not one of {', '.join(parsers)}"
                hint = "" if name in given else near(name, parsers, prefix="; ")
                raise UsageError(f"{text}: {name!r} {wrong}{hint}")
            given[name] = parsers[name](value)
    except ValueError as error:
        raise UsageError(f"{text}: expected {error}") from None
    return Trials(**given)
