"""``reprokit validate``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from reprokit.case.files import CaseFile
from reprokit.case.matrix import count, label
from reprokit.cli import options
from reprokit.core.errors import CaseError, Problem, UsageError
from reprokit.core.json_record import ABSENT, JsonDocument
from reprokit.core.terminal import echo, echo_data, json_text
from reprokit.core.text import pluralize
from reprokit.engine import site
from reprokit.environment.axes import AXIS_NAMES
from reprokit.run.case_warnings import review
from reprokit.run.loading import load_all

SELECTION = (*AXIS_NAMES, "axis", "only", "skip", "tags", "frameworks", "needs", "base_images")


@click.command(
    "validate",
    epilog="""\b
Examples:
  reprokit validate cases/ bug-report.md
  reprokit validate https://github.com/OWNER/NAME/issues/1 --asks   # before you run an untrusted case
  reprokit validate cases/cityscapes_rmi.yaml --cells --cuda 11.8
""",
)
@options.cases_argument()
@click.option("--asks", is_flag=True, help="List what building and running the cases would do, and their digests.")
@click.option(
    "--cells",
    is_flag=True,
    help="List the cells instead, after selection, with their expected verdicts, why this host cannot serve one, and "
    "versions that conflict where the case allows that. The options below select cells.",
)
@options.json_option(
    "Print it as JSON (format reprokit-validate/v1), problems included; with --cells, an array of objects {case, cell, "
    "expected, unsupported, notes}."
)
@options.selection_options
@options.filter_options
@options.base_option
@options.store_option
def command(cases: tuple[str, ...], asks: bool, cells: bool, as_json: bool, **given: Any) -> int:
    """Check case files. Every error of every file is reported at once, with file:line:column and a near match.

    Exit status: 0 valid, 2 an error in a file, 3 no error, but a cell that cannot be built.
    """
    if cells:
        options.refuse("--cells lists cells", "asks")
        return _list_cells(cases, as_json, given)
    options.refuse("only --cells selects", *SELECTION)
    if as_json:
        return _as_json(cases, asks)
    files, catalog = load_all(cases), site.catalog()
    reviews = [review(file, catalog) for file in files]
    for file, found in zip(files, reviews, strict=True):
        some = pluralize(_cells(file), "cell")
        outcome = f"{found.unavailable} of {some} cannot be built" if found.unavailable else f"valid ({some})"
        echo(f"{file.path}: {file.case.id}: {outcome}")
        for problem in found.warnings:
            echo(problem, err=True)
    if asks:
        for file in files:
            echo(f"\n{_asks(file)}", nl=False)
    return 3 if any(found.unavailable for found in reviews) else 0


def _asks(file: CaseFile) -> str:
    from reprokit.case import review  # most calls do not ask

    return review.summary(file, most=None)


def _cells(file: CaseFile) -> int:
    matrix = file.case.matrix
    return count(matrix.axes, matrix.exclude, matrix.include)


@dataclass(frozen=True, kw_only=True)
class ValidCase:
    """A case without errors; `asks` with --asks alone."""

    path: str
    id: str
    digest: str
    cells: int
    unavailable: int = field(default=0, metadata=ABSENT)
    """cells that no base image of any source serves: a run calls them unsupported"""
    warnings: list[str]
    asks: str = field(default="", metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class Validation(JsonDocument):
    """What `validate` found."""

    FORMAT = "reprokit-validate/v1"

    valid: bool
    """no problems, and every cell can be built as far as the tables know"""
    cases: list[ValidCase]
    problems: list[Problem]


def _as_json(cases: tuple[str, ...], asks: bool) -> int:
    problems: tuple[Problem, ...] = ()
    files: list[CaseFile] = []
    status = 0
    try:
        files = load_all(cases)
    except CaseError as error:
        problems, status = error.problems, error.exit_status
    catalog = site.catalog()
    reviews = [review(file, catalog) for file in files]
    status = status or (3 if any(found.unavailable for found in reviews) else 0)
    found = Validation(
        valid=not status,
        cases=[
            ValidCase(
                path=file.path,
                id=file.case.id,
                digest=file.digest,
                cells=_cells(file),
                unavailable=found.unavailable,
                warnings=[str(one) for one in found.warnings],
                asks=_asks(file) if asks else "",
            )
            for file, found in zip(files, reviews, strict=True)
        ],
        problems=list(problems),
    )
    options.echo_document(found)
    return status


def _list_cells(cases: Sequence[str], as_json: bool, given: dict[str, Any]) -> int:
    from reprokit.case.filters import choose
    from reprokit.engine.gpus import discovery
    from reprokit.run.admitting import supply_of
    from reprokit.run.case_warnings import predict
    from reprokit.run.plan import cells_of
    from reprokit.run.request import Request
    from reprokit.run.task import expected_verdict

    supply = supply_of(Request(cases=tuple(cases), base_images=given["base_images"] or site.settings().base_images))
    selection, wanted = options.selection_of(given), options.filter_of(given)
    request = Request(cases=tuple(cases), selection=selection)
    cells = list(cells_of(choose(load_all(cases), wanted), request))
    if not cells:
        raise UsageError("the selection is empty: --only, --skip and the axis options leave no cell")
    facts = discovery.leasable(discovery.facts(), site.settings().gpus, os.environ)  # as run does
    rows = [
        (file.case.id, cell, expected_verdict(file, cell), predict(file, cell, supply, facts)) for file, cell in cells
    ]
    if as_json:
        from reprokit.cli.documents.records import MatrixCell

        listed = [
            MatrixCell(case=name, cell=cell, expected=promised, unsupported=one.unsupported or None, notes=one.notes)
            for name, cell, promised, one in rows
        ]
        echo_data(json_text([one.to_json() for one in listed], indent=None), nl=False)
        return 0
    for name, cell, promised, prediction in rows:
        columns = [f"{name}: {label(cell)}", f"({promised} expected)" if promised else "", str(prediction)]
        echo("  ".join(filter(None, columns)))
    echo(pluralize(len(rows), "cell"))
    return 0
