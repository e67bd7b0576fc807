"""What is known of the cells of a valid case before anything is built: what looks wrong and what is not served."""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprokit.case import check_matrix
from reprokit.case.cellspec import CellSpec
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, count, expand, label
from reprokit.case.model import Case
from reprokit.case.render import SHELL
from reprokit.core.errors import CaseError, Problem, Unsupported
from reprokit.core.text import one_line
from reprokit.environment import compatibility
from reprokit.environment.axes import BY_NAME, KNOWN
from reprokit.environment.catalog import Catalog
from reprokit.environment.existing import nonexistent
from reprokit.environment.preflighting import preflight
from reprokit.environment.resolving import resolve, without_check
from reprokit.environment.supply import BASE_SOURCES, Supply
from reprokit.run.task import spec_of

if TYPE_CHECKING:
    from reprokit.environment.host import HostFacts

MOST_CELLS = 1000
"""Cells of a case that are looked at; of a larger matrix, none."""
_SECONDS = 10.0
"""For bash to read a text."""
_DOWNLOADS = re.compile(
    r"(?m)(?:^|[\s;&|(])(?:(?:pip[\d.]*|uv|conda|mamba|poetry|npm|apt|apt-get|dnf|yum) (?:[\w-]+ )*?install|wget|curl"
    r"|git clone)\s"
)


@dataclass(frozen=True, kw_only=True)
class CaseFindings:
    """What the author of a case should know; none of it is an error of the file, it may be what the case is about."""

    warnings: tuple[Problem, ...]
    unavailable: int  # cells that have no environment, wherever their base image comes from


def review(file: CaseFile, catalog: Catalog) -> CaseFindings:
    """Look at a valid case, and at each of its cells where they are at most ``MOST_CELLS``."""
    found, unavailable = list(_warnings_of_file(file, catalog)), 0
    matrix = file.case.matrix
    first: dict[str, list[str]] = {}
    broken: dict[str, Problem] = {}
    if count(matrix.axes) + len(matrix.include) <= MOST_CELLS:
        for cell in expand(matrix.axes, matrix.exclude, matrix.include):
            texts, is_refused = _warnings_of_cell(file, cell, catalog)
            unavailable += is_refused
            for text in texts:
                first.setdefault(text, []).append(label(cell))
            for loc, error in _shell_errors(file, cell):
                warning = f"warning: bash cannot read it: {error} (in the cell {label(cell)})"
                broken.setdefault(error, file.problem(loc, warning))
    found += broken.values()
    for text, cells in first.items():
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        found.append(file.problem(("matrix",), f"warning: {text} (in the cell {cells[0]}{more})", key=True))
    return CaseFindings(warnings=tuple(found), unavailable=unavailable)


def _warnings_of_file(file: CaseFile, catalog: Catalog) -> Iterator[Problem]:
    for loc, name, value in _axis_values(file):
        if why := nonexistent(name, value, catalog, newer=bool(file.case.environment.image)):
            yield file.problem(loc, f"warning: {why}")
    yield from axis_hints(file)
    if _reproduces_without_network(file.case):
        yield file.problem(
            ("command",),
            "warning: the command downloads, and any nonzero exit code is the failure: a network that fails, a "
            "certificate or a permission reproduces it, too",
            "state a line of the failure: expect: {failure: {output: ...}}",
        )
    for name in _without_effect(file):
        yield file.problem(
            ("matrix", name),
            f"warning: only a comment depends on the axis {name!r}: nothing else differs by it, so a verdict says "
            "nothing about its values",
            f"install it with {{{{ {name} }}}} in environment.setup, use it elsewhere, or remove the axis",
            key=True,
        )


def axis_hints(file: CaseFile) -> Iterator[Problem]:
    """Axes that the author may have meant otherwise: see :func:`reprokit.case.check_matrix.axis_hints`."""
    for found in check_matrix.axis_hints(file.case, file.names, KNOWN):
        yield file.problem(found.loc, f"warning: {found.message}", found.hint, key=found.on_key)


def _without_effect(file: CaseFile) -> Iterator[str]:
    """The free axes that only comments use, as those of drafts. What is compared names its axis without a template."""
    expect = file.case.expect
    if expect.compare or expect.ratio:
        return
    command = file.case.command if isinstance(file.case.command, str) else ""
    shell = f"{file.case.environment.setup}\n{command}".split("\n")
    comments = {line.strip() for line in shell if line.lstrip().startswith("# ")}  # not ``#include`` in a file
    lines = [line.strip() for line in file.text.split("\n") if "{" in line]
    for name in file.case.matrix.axes:
        name_in = re.compile(rf"\{{[{{%].*\b{re.escape(name)}\b")
        uses = [line for line in lines if name_in.search(line)]
        if uses and name not in BY_NAME and comments.issuperset(uses):
            yield name


def _reproduces_without_network(case: Case) -> bool:
    """Whether whatever hinders a download counts as the bug. A look at the words, not at what scripts do."""
    expect = case.expect
    command = case.command if isinstance(case.command, str) else shlex.join(case.command)
    downloads = "--no-index" not in command and _DOWNLOADS.search(f"{command} ")
    if not downloads or expect.compare or expect.leaks or expect.ratio:
        return False
    from reprokit.evidence.judgement import any_failure  # and with it all that reads logs

    return any_failure(expect.failure)


def _shell_errors(file: CaseFile, cell: Cell) -> Iterator[tuple[tuple[str, ...], str]]:
    """What bash cannot read of a cell, each with the place of its text. A fix that changes it is not looked at."""
    try:
        spec = spec_of(file, file.case, "case", cell)
    except CaseError:
        return
    for loc, text in shell_texts(spec):
        if error := shell_error(text):
            yield loc, error


def shell_texts(spec: CellSpec) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The texts of a cell that bash is to run, each with its place in the case; '' where it is not for bash."""
    command = spec.command[-1] if spec.command[: len(SHELL)] == SHELL else ""
    return (("command",), command), (("environment", "setup"), spec.environment.setup)


@functools.lru_cache(maxsize=1024)
def shell_error(text: str) -> str:
    """Why bash cannot read a text, without running any of it; '' where it can, or where this host has no bash."""
    bash = shutil.which("bash")
    if not text or bash is None:
        return ""
    # What a text may switch on itself before it is read: patterns such as !(a).
    words = [bash, "--norc", "-O", "extglob", "-n"]
    try:
        done = subprocess.run(
            words, input=text, text=True, capture_output=True, check=False, env={"LC_ALL": "C"}, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return ""
    first = done.stderr.strip().partition("\n")[0].removeprefix(f"{bash}: ")
    return one_line(first, 200) or "bash -n fails" if done.returncode else ""


def _axis_values(file: CaseFile) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Each value of an axis with its place."""
    for name, values in file.case.matrix.axes.items():
        yield from ((("matrix", name, place), name, value) for place, value in enumerate(values))
    for place, cell in enumerate(file.case.matrix.include):
        yield from ((("matrix", "include", place, name), name, value) for name, value in cell.items())


def _warnings_of_cell(file: CaseFile, cell: dict[str, str], catalog: Catalog) -> tuple[list[str], bool]:
    """What does not go together in a cell, wherever its base image comes from; whether it has no environment."""
    try:
        spec = spec_of(file, file.case, "case", cell)
    except CaseError:
        return [], False
    found: list[str] | None = None
    refused = ""
    for source in BASE_SOURCES:
        try:
            environment = without_check(spec, Supply(base_source=source, catalog=catalog))
        except Unsupported as error:
            refused = refused or str(error)
            continue
        conflicts = [] if compatibility.tolerated(spec) else compatibility.conflicts(spec, environment, catalog)
        here = [*compatibility.lacks(spec, environment), *conflicts]
        found = here if found is None else [text for text in found if text in here]
        if not found:  # whatever the others say
            break
    return ([refused], True) if found is None else (found, False)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """``unsupported``: why the cell is not available here, '' = it is; ``notes``: conflicts that the case wants so."""

    unsupported: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In one line, without what could be had instead."""
        texts = (f"unsupported: {self.unsupported}",) if self.unsupported else self.notes
        return "; ".join(text.split("; ")[0].split(". ")[0] for text in texts)


def predict(file: CaseFile, cell: Cell, supply: Supply, facts: HostFacts) -> Prediction:
    """What the tables and this host say of a cell of a case. Raises UsageError for a site's wrong table."""
    try:
        spec = spec_of(file, file.case, "case", cell)
        notes = (*resolve(spec, supply).notes, *preflight(spec, facts, supply.catalog))
    except (Unsupported, CaseError) as error:
        return Prediction(unsupported=str(error))
    return Prediction(notes=notes)
