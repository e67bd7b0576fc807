"""From the data of a smaller case to a case file that can be run. Pure, but for running ``bash -n`` on its scripts."""

from __future__ import annotations

import functools
import shutil
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell
from reprokit.case.render import SHELL, TemplateProblem, render
from reprokit.core.errors import CaseError
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.cases import load_text
from reprokit.search.queries import Candidate
from reprokit.search.reduce.edit import rewrite
from reprokit.search.reduce.parts import Data, changed


def start(file: CaseFile, cell: Cell, failure: Mapping[str, Any], *, keep_matrix: bool) -> Data:
    """The case with which a reduction begins: a name of its own, the strict signature and, by default, one cell."""
    data: Data = {**file.positions.data, "id": f"{file.case.id}-reduced"}
    expect = {**(data.get("expect") or {}), "failure": dict(failure)}
    if not keep_matrix:
        expect["reproduces"] = "all"
        data = changed(data, ("matrix",), {name: [value] for name, value in cell.items()} or None) if cell else data
    return changed(data, ("expect",), expect)


def written(file: CaseFile, cell: Cell, data: Data, name: str, path: str) -> Candidate | None:
    """The candidate for ``data``, a smaller version of ``file``; None where it is not a valid case or shell script.

    ``cell``: the cell to run, without axes that are gone. ``name``: its label. ``path``: the file to be written. A fix
    that no longer fits the smaller case is left out.
    """
    for attempt in (data, changed(data, ("fix",), None)) if "fix" in data else (data,):
        try:
            smaller = replace(load_text(path, rewrite(file.positions, attempt)), trust=file.trust)
            axes = {*smaller.case.matrix.axes, *(name for extra in smaller.case.matrix.include for name in extra)}
            left = {name: value for name, value in cell.items() if name in axes}
            if _readable(file, cell) and not _readable(smaller, left):
                return None
        except (CaseError, TemplateProblem):
            continue
        return Candidate(cell=left, file=smaller, name=name)
    return None


def same(candidate: Candidate) -> object:
    """A key for what a candidate would run: equal keys give equal results. Free axes count only by their effect."""
    assert candidate.file is not None
    case = candidate.file.case
    spec = render(case, candidate.cell)
    known = [(name, value) for name, value in candidate.cell.items() if name in AXIS_NAMES]
    parts = {name: value for name, value in vars(spec).items() if name not in ("cell", "reproduces")}
    return repr((known, parts, case.trials, case.expect.failure))


def _readable(file: CaseFile, cell: Cell) -> bool:
    spec = render(file.case, cell)
    command = spec.command[-1] if spec.command[: len(SHELL)] == SHELL else ""
    return all(_bash_reads(text) for text in (command, spec.environment.setup))


@functools.lru_cache(maxsize=1024)
def _bash_reads(text: str) -> bool:
    """Whether the text is a valid shell script; True where this host has no bash."""
    bash = shutil.which("bash")
    if not text or bash is None:
        return True
    return subprocess.run([bash, "-n"], input=text, text=True, capture_output=True, check=False).returncode == 0


def header(lines: Sequence[str]) -> str:
    """Lines as a comment at the top of a case."""
    # Replaces characters that would end the comment, or are not allowed in YAML.
    shown = ("".join(c if c.isprintable() else " " for c in line) for line in lines)
    wrapped = (part for line in shown for part in textwrap.wrap(line, 110, subsequent_indent="    "))
    return "".join(f"# {line}\n" for line in wrapped)
