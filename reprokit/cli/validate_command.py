"""``reprokit validate``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import click

from reprokit.case.files import CaseFile
from reprokit.case.matrix import count
from reprokit.cli import options
from reprokit.core.errors import CaseError, Problem
from reprokit.core.json_record import ABSENT, JsonDocument
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.run.admitting import site_catalog
from reprokit.run.case_warnings import warnings
from reprokit.run.loading import load_all


@click.command(
    "validate",
    epilog="""\b
Examples:
  reprokit validate cases/ bug-report.md
  reprokit validate https://github.com/OWNER/NAME/issues/1 --asks   # before you run an untrusted case
""",
)
@options.cases_argument()
@click.option("--asks", is_flag=True, help="List what building and running the cases would do, and their digests.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print it as JSON (format reprokit-validate/v1), problems included."
)
def command(cases: tuple[str, ...], asks: bool, as_json: bool) -> int:
    """Check case files. Every error of every file is reported at once, with file:line:column and a near match."""
    if as_json:
        return _as_json(cases, asks)
    files, catalog = load_all(cases), site_catalog()
    for file in files:
        echo(f"{file.path}: {file.case.id}: valid ({pluralize(_cells(file), 'cell')})")
        for problem in warnings(file, catalog):
            echo(problem, err=True)
    if asks:
        for file in files:
            echo(f"\n{_asks(file)}", nl=False)
    return 0


def _asks(file: CaseFile) -> str:
    from reprokit.case import review  # most calls do not ask

    return review.summary(file, most=None)


def _cells(file: CaseFile) -> int:
    matrix = file.case.matrix
    return count(matrix.axes, matrix.exclude, matrix.include)


@dataclass(frozen=True)
class ProblemFound:
    """An error in a case file."""

    path: str
    line: int
    column: int
    message: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class ValidCase:
    """A case without errors; `asks` with --asks alone."""

    path: str
    id: str
    digest: str
    cells: int
    warnings: list[str]
    asks: str = field(default="", metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class Validation(JsonDocument):
    """What `validate` found."""

    FORMAT = "reprokit-validate/v1"

    valid: bool
    cases: list[ValidCase]
    problems: list[ProblemFound]


def _as_json(cases: tuple[str, ...], asks: bool) -> int:
    problems: tuple[Problem, ...] = ()
    files: list[CaseFile] = []
    status = 0
    try:
        files = load_all(cases)
    except CaseError as error:
        problems, status = error.problems, error.exit_status
    catalog = site_catalog()
    found = Validation(
        valid=not problems,
        cases=[
            ValidCase(
                path=file.path,
                id=file.case.id,
                digest=file.digest,
                cells=_cells(file),
                warnings=[str(one) for one in warnings(file, catalog)],
                asks=_asks(file) if asks else "",
            )
            for file in files
        ],
        problems=[ProblemFound(**dataclasses.asdict(one)) for one in problems],
    )
    options.echo_document(found)
    return status
