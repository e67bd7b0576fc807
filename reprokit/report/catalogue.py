"""A folder of cases as a library: what was last seen of each case, and the catalogue page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reprokit.case.facts import CaseFacts
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, cell_key
from reprokit.case.model import Case
from reprokit.core.errors import UsageError
from reprokit.core.text import pluralize, size
from reprokit.engine import registry
from reprokit.evidence.model import Verdict
from reprokit.report.flip import flip
from reprokit.report.labels import served_by
from reprokit.report.markdown.text import table

VERDICTS_FILE = "verdicts.json"
VERDICTS_FORMAT = "reprokit-verdicts/v1"
RESULT = "reprokit-result/v1"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class DecidedCell(_Model):
    """One variant of one cell, as it was last decided."""

    cell: dict[str, str]
    variant: Literal["case", "fix"]
    verdict: Verdict
    expected: Verdict | None = None
    as_expected: bool | None = None
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    image: str = ""
    size: int | None = None  # bytes of its image
    reason: str = ""  # where the verdict is inconclusive or departs
    engine: str = ""  # what served it, '' for Docker


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
    """The verdicts after a merge, and ids of cases."""

    verdicts: Verdicts
    taken: tuple[str, ...]  # whose verdicts were taken
    outdated: tuple[str, ...]  # that were seen in another state
    strange: tuple[str, ...]  # that the folder does not have


def read_verdicts(path: Path) -> Verdicts:
    """The file, or nothing seen where there is none. Raises UsageError."""
    if not path.exists():
        return Verdicts()
    again = f"restore it, or delete it and run reprokit list --write FILE --results ({VERDICTS_FORMAT})"
    found = _load(path, Verdicts, again)
    assert isinstance(found, Verdicts)
    return found


def merge_verdicts(
    old: Verdicts, path: Path, files: Sequence[CaseFile], facts: Mapping[str, CaseFacts]
) -> MergedVerdicts:
    """``old`` with what the result file says of these cases; cells that it does not speak of stay as they are.

    A verdict of a container engine is never replaced by one of virtual environments, which only stand in for it.
    Raises UsageError.
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
            _decided(cell, result.started_at[:10], engine)
            for cell in case.cells
            if cell.verdict is not Verdict.CANCELLED
        ]
        cells = _ordered((*kept, *fresh), facts[case.id].cells)
        if cells:
            cases[case.id] = SeenCase(digest=case.digest, cells=cells)
            taken.append(case.id)
    strange = tuple(case.id for case in result.cases if case.id not in here)
    return MergedVerdicts(verdicts=Verdicts(cases=cases), taken=tuple(taken), outdated=tuple(outdated), strange=strange)


def _decided(cell: _Result.Case.Cell, date: str, engine: str) -> DecidedCell:
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


def dump_verdicts(verdicts: Verdicts) -> str:
    """The file's text: a line per cell, so that differences can be read."""
    lines = ["{", f'  "format": "{VERDICTS_FORMAT}",', '  "cases": {']
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


PAGE_FILE = "README.md"
WRITTEN = "<!-- Written by `"
"""What a page that may be replaced begins its note with."""
NOTE = f"{WRITTEN}reprokit list --write`: edit the cases instead, then run it again. -->"
HEADER = ("what one sees", "fails with", "last seen", "needs")
NEED_WORDS = {"gpu": "GPU", "network": "network", "source": "git tree", "data": "data", "root": "root"}
MAIN = 2
"""Most frameworks that are named beside what the failure depends on."""
SHOWN = (Verdict.REPRODUCED, Verdict.FLAKY)
"""Verdicts of cells in which the failure was seen."""
LEGEND = """\
**Fails with** says what the failure depends on: it shows with the values before "not", and with those after it the same
program passes. Without a "not" it shows in every environment that the case tries. In parentheses is what all of
them have. **Last seen** counts environments: in how many it was reproduced, in how many not, and in how many of those
where it was reproduced the case's fix passed{when}. **Needs** is what a machine needs beyond a container engine,
and the size of the largest image.
"""


@dataclass(frozen=True, kw_only=True)
class Library:
    """A folder of cases with all that is known of it."""

    folder: Path  # what the cases' paths begin with
    files: Sequence[CaseFile]
    facts: Mapping[str, CaseFacts]  # by id
    verdicts: Verdicts

    def target(self, file: CaseFile) -> str:
        """The path of a case's file from the page."""
        return Path(file.path).relative_to(self.folder).as_posix()


def page(library: Library) -> str:
    """The whole page: how to run the cases, and a table of them."""
    rows = [row(library, file) for file in library.files]
    lines = ["# Cases", "", NOTE, "", _how_to_run(library), "", counts(library), "", legend(library), ""]
    return "\n".join([*lines, table(HEADER, rows)])


def legend(library: Library) -> str:
    """What the columns of the table mean."""
    day = _usual_day(library)
    return LEGEND.format(when=f", on {day} where no other day is given" if day else "").strip()


def _how_to_run(library: Library) -> str:
    name = library.folder.resolve().name
    example = library.target(library.files[0])
    return (
        "Each file is a bug that can be run: the environments to try, the command, and how the failure looks.\n\n"
        f"```console\n$ reprokit run {name}/{example} --fix   # a case, and beside it the case with its fix\n"
        f"$ reprokit run {name}/ --fix   # all of them\n"
        f"$ reprokit list {name}/ --needs no-gpu   # look for some\n```"
    )


def counts(library: Library) -> str:
    """How many cases, cells and images there are."""
    cells = sum(len(facts.cells) for facts in library.facts.values())
    words = f"{pluralize(len(library.files), 'case')} with {pluralize(cells, 'cell')} (environments to try)"
    images = {
        seen.image: seen.size for case in _fresh(library).values() for seen in case.cells if seen.image and seen.size
    }
    if images:
        words += f", run in {pluralize(len(images), 'image')}, of which the largest has {size(max(images.values()))}"
    return words + "."


def _fresh(library: Library) -> dict[str, SeenCase]:
    """What was seen of the cases as they are now."""
    digests = {file.case.id: file.digest for file in library.files}
    return {name: seen for name, seen in library.verdicts.cases.items() if seen.digest == digests.get(name)}


def _usual_day(library: Library) -> str:
    """The day of most verdicts, the newest of such; '' without any."""
    days = Counter(seen.date for seen in _fresh(library).values())
    return max(days, key=lambda day: (days[day], day), default="")


def row(library: Library, file: CaseFile) -> list[str]:
    """A case in the table."""
    facts = library.facts[file.case.id]
    seen = library.verdicts.cases.get(file.case.id)
    fresh = seen if seen and seen.digest == file.digest else None
    words = [NEED_WORDS[need] for need in facts.needs]
    words += [size(fresh.size)] if fresh and fresh.size else []
    return [
        link(inline(file.case.title), library.target(file)),
        _fails_with(file.case, facts),
        inline(last_seen(seen, fresh, _usual_day(library))),
        ", ".join(words),
    ]


def _fails_with(case: Case, facts: CaseFacts) -> str:
    """Where the failure shows, and of which frameworks all of that is, unless it names one."""
    where = flip(case, facts.cells)
    parts = [where.words(lambda name: f"`{name}`", inline)]
    if not where.named & set(facts.frameworks):
        pinned = [(name, versions) for name, versions in facts.frameworks.items() if versions][:MAIN]
        words = [f"{name} {' to '.join(dict.fromkeys((versions[0], versions[-1])))}" for name, versions in pinned]
        parts.append(f"({inline(', '.join(words))})" if words else "")
    return " ".join(part for part in parts if part) or "itself"


def last_seen(seen: SeenCase | None, fresh: SeenCase | None, usual_day: str = "") -> str:
    """The verdicts of a case in words, with another day than the usual: those of its present state (``fresh``)."""
    if seen is None:
        return "not run yet"
    if fresh is None:
        return "not run since it changed"
    cases = [one for one in fresh.cells if one.variant == "case"]
    unsupported = [one for one in fresh.cells if one.verdict is Verdict.UNSUPPORTED]
    day = "" if fresh.date == usual_day else f" ({fresh.date})"
    if len(unsupported) == len(fresh.cells):
        return f"never run: {re.split(r';| [(]', unsupported[0].reason)[0]}{day}"
    parts = [_verdicts(cases), _fixes(fresh.cells)]
    departures = sum(one.as_expected is False for one in fresh.cells)
    if departures:
        parts.append(f"{departures} not as expected")
    others = "".join(sorted({served_by(one.engine) for one in fresh.cells}))
    return "; ".join(part for part in parts if part) + others + day


def _verdicts(cells: Sequence[DecidedCell]) -> str:
    """``2 reproduced, 1 not, 1 build-failed``."""
    counts = Counter(one.verdict for one in cells)
    words = [f"{counts[verdict]} {verdict}" for verdict in SHOWN if counts[verdict]]
    well = counts.pop(Verdict.NOT_REPRODUCED, 0)
    if well:
        words.append(f"{well} not" if words else f"{well} not reproduced")
    return ", ".join(words + [f"{count} {verdict}" for verdict, count in counts.items() if verdict not in SHOWN])


def _fixes(cells: Sequence[DecidedCell]) -> str:
    """``fix holds in 2``: where the failure was reproduced, and the fixed variant passed in the same cell."""

    def key(one: DecidedCell) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(one.cell.items()))

    def shows(one: DecidedCell) -> bool:
        """A flaky failure proves a fix only where the trials were as many as it takes: where it is what is expected."""
        return one.verdict is Verdict.REPRODUCED or (one.verdict is Verdict.FLAKY and bool(one.as_expected))

    reproduced = {key(one) for one in cells if one.variant == "case" and shows(one)}
    fixed = [one.verdict for one in cells if one.variant == "fix" and key(one) in reproduced]
    if not fixed:
        return ""
    holds = fixed.count(Verdict.NOT_REPRODUCED)
    return f"fix holds in {holds}" + (f" of {len(fixed)}" if holds < len(fixed) else "")


_SPECIAL = re.compile(r"([\\*<>\[\]~$&]|(?<!\w)_|_(?!\w))")


def inline(text: str) -> str:
    """One line of a case's own text in a paragraph or a table: what is between backticks stays code."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    escaped = [part if index % 2 else _SPECIAL.sub(r"\\\1", part) for index, part in enumerate(parts)]
    return "".join(escaped).replace("|", r"\|")


def link(text: str, target: str) -> str:
    """A link; ``text`` is Markdown already, ``target`` a path or an anchor as it is."""
    return f"[{text}]({quote(target, safe='/#-._~')})"
