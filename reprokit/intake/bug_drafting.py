"""From a bug of a data set to its case: the draft, and its file, which is valid before it is written."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprokit.case.tree import Loc
from reprokit.core import redaction
from reprokit.core.errors import CaseError
from reprokit.core.files import write
from reprokit.core.redaction import Omitted
from reprokit.environment.axes.operating_system import DEFAULT
from reprokit.environment.cases import load_text, schema_line
from reprokit.environment.catalog import OURS
from reprokit.intake.bug import Bug, BugEntry, PipChanges, WrongBug
from reprokit.intake.draft import Draft, clean_title, literal, render
from reprokit.intake.matrix import conda_axes, why_unavailable

WORKDIR = "/workspace"
LONGEST = 20_000
"""Most characters of a description."""
APT = ("build-essential", "python3-dev", "git")
"""What data sets take for granted: a compiler, for packages without a wheel for the interpreter, and git."""
_NAMES = 500
"""Characters of the names of tests, and of modules, in a signature: the size of patterns is limited."""
_FIXED = ".fixed"
"""Where the tree of the fix is while an image is built, if tests are taken from it."""


UNCHANGED = PipChanges()


def draft_of(bug: Bug, changes: PipChanges = UNCHANGED) -> Draft:
    """The case of a bug: the tests fail at the buggy commit, and pass with the fix."""
    pip, changed = _changed(bug.pip, changes)
    cell, another = python(bug.python)
    omitted: list[Omitted] = []

    def public(text: str, where: str) -> str:
        scrubbed = redaction.scrub(text, where=where)
        omitted.extend(scrubbed.omitted)
        return scrubbed.text

    tests: dict[str, Any] = {}
    if bug.test_files:
        tests = {bug.folder + "-tests": {"git": bug.git, "ref": bug.fixed, "path": _FIXED}}
    source = {"git": bug.git, "ref": bug.buggy, "path": literal(bug.folder)}
    environment: dict[str, Any] = {"apt": list(APT)} if pip or bug.setup else {}
    if pip:
        environment["pip"] = [_escaped(step) for step in pip]
    if setup := _setup(bug):
        environment["setup"] = literal(setup)
    data: dict[str, Any] = {
        "id": bug.case_id,
        "title": clean_title(public(bug.title, "title")) or bug.case_id,
        "description": public(bug.description, "description")[:LONGEST],
        "report": {"url": bug.url},
        "tags": list(bug.tags),
        "matrix": {axis: [value] for axis, value in cell.items()},
        "environment": environment,
        "sources": {bug.folder: source | ({"patch": literal(bug.test_patch)} if bug.test_patch else {}), **tests},
        "files": {name: literal(text) for name, text in bug.files.items()},
        "env": {name: literal(value) for name, value in bug.env.items()},
        "command": literal(f"cd {shlex.quote(bug.folder)}\n{bug.command}"),
        "resources": {"timeout": "10m"},
        "expect": {"failure": _failure(bug), "reproduces": "all"},
        "fix": _fix(bug),
    }
    notes: dict[Loc, tuple[str, ...]] = dict(bug.notes)
    if "apt" in environment:
        notes[("environment", "apt")] = ("Data sets take these for granted: packages without a wheel are compiled.",)
    if changed or changes.instead:
        said = f"By --pip or --without, instead of {', '.join(changed) or 'nothing'}: "
        said += f"{', '.join(map(str, changes.instead)) or 'nothing'}."
        notes["environment", "pip"] = (*notes.get(("environment", "pip"), ()), said)
    if another:
        notes[("matrix",)] = (another,)
    return Draft(
        data={key: value for key, value in data.items() if value not in ({}, [], "")},
        notes=notes,
        omitted=tuple(omitted),
    )


def python(asked: str) -> tuple[dict[str, str], str]:
    """(the axes of a cell with the Python that a data set names, what is to be said of it; '' for nothing).

    Where no release of a system has that one, the newest of its series is taken.
    """
    if not asked:
        return {"os": DEFAULT}, "The data set names no Python: this is the one of the release."
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}", asked):
        return {"os": DEFAULT}, f"The data set asks for Python {asked[:40]!r}, which is not a version: it is left out."
    releases = [name for name, release in OURS.releases().items() if release.bootstraps]
    values = dict.fromkeys((asked, ".".join(asked.split(".")[:2])))
    for conda, value, os in itertools.product((False, True), values, (DEFAULT, *reversed(releases))):
        cell = {"os": os, "python": value}
        if not why_unavailable(cell) and bool(conda_axes(cell)) is conda:
            why = f"The data set asks for Python {asked}, which is not available: this is another of its series."
            return cell, "" if value == asked else why
    return {"os": DEFAULT, "python": asked}, f"Python {asked} is not available: name another one."


def _changed(steps: Sequence[Any], changes: PipChanges) -> tuple[list[Any], list[str]]:
    """(the steps of pip with the changes, the lines that they replace)."""
    instead = {canonicalize_name(one.name): str(one) for one in changes.instead}
    instead |= {canonicalize_name(name): "" for name in changes.without}
    found: dict[str, str] = {}

    def lines_of(step: Sequence[str]) -> list[str]:
        lines = []
        for line in step:
            package = canonicalize_name(re.split(r"[^\w.-]", line)[0])
            if package in instead:
                found[package] = line
            lines.append(instead.get(package, line))
        return [line for line in lines if line]

    new: list[Any] = []
    for step in steps:
        listed = isinstance(step, dict)
        if lines := lines_of(step["requirements"] if listed else step):
            new.append({**step, "requirements": lines} if listed else lines)
    added = [line for name, line in instead.items() if line and name not in found]
    return new + ([added] if added else []), list(found.values())


def _escaped(step: Any) -> Any:
    if isinstance(step, str):
        return literal(step)
    if isinstance(step, dict):
        return {key: _escaped(value) for key, value in step.items()}
    return [_escaped(item) for item in step]


def _setup(bug: Bug) -> str:
    lines = []
    if bug.test_files:
        files = shlex.join(bug.test_files)
        lines = [
            "# The test files of the fix, over those of the buggy commit.",
            f"(cd {_FIXED} && cp --parents -- {files} {shlex.quote(f'../{bug.folder}/')})",
            f"rm -rf {_FIXED}",
        ]
    if bug.setup:
        lines += [f"cd {shlex.quote(bug.folder)}", bug.setup]
    return "\n".join(lines) + "\n" if lines else ""


def _failure(bug: Bug) -> dict[str, str]:
    """Of pytest and unittest: one of the tests fails, or what they import of the project is not there.

    Every one of the tests fails at the buggy commit, so the first ones do where a pattern cannot hold all.
    """
    if not bug.tests:
        return {"exit_code": "nonzero"}
    names = "|".join(re.escape(one) for one in _first(bug.tests, _NAMES))
    patterns = [rf"^(?:FAILED|FAIL:|ERROR:|_+) (?:\S*[:.])?(?:{names})\b"]
    if bug.packages:
        modules = "|".join(re.escape(one) for one in _first(bug.packages, _NAMES // 10))
        # Of a module of the project that does not exist: a project that cannot be imported at all is not the bug.
        patterns.append(rf"Error: No module named '(?:{modules})\.")
        patterns.append(rf"Error: (?:cannot import name \S+ from|module) '(?:{modules})[.']")
    return {"exit_code": "nonzero", "output": f"/{'|'.join(patterns)}/"}


def _first(texts: Sequence[str], most: int) -> list[str]:
    """The first of the texts, each once, which have at most so many characters together, and at least one."""
    found = list(dict.fromkeys(texts))
    while len(found) > 1 and sum(map(len, found)) > most:
        found.pop()
    return found


def _fix(bug: Bug) -> dict[str, Any]:
    if bug.fixed:
        return {"summary": f"The commit of the fix, {bug.fixed[:12]}", "sources": {bug.folder: {"ref": bug.fixed}}}
    patch = bug.test_patch.rstrip("\n") + "\n" + bug.fix_patch
    return {"summary": "The patch of the fix", "sources": {bug.folder: {"patch": literal(patch.lstrip("\n"))}}}


# -- files -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of an entry: the file that was written, or why there is none."""

    key: str
    file: Path | None = None
    why_not: str = ""
    sources: tuple[str, ...] = ()


def write_cases(
    entries: Iterable[BugEntry], out: Path, *, force: bool, changes: PipChanges = UNCHANGED
) -> Iterator[Imported]:
    """Write the case of each entry to ``out``, and say what became of it. A file that exists is kept, unless forced."""
    written: dict[str, str] = {}
    for entry in entries:
        try:
            bug = entry.read()
            file = out / f"{bug.case_id}.yaml"
            if file.name in written:
                raise WrongBug(f"its case would have the id {bug.case_id}, which {written[file.name]} has")
            text = schema_line(file) + render(draft_of(bug, changes))
            case = load_text(str(file), text).case
            if file.exists() and not force:
                raise WrongBug(f"{file} exists already: overwrite it with --force, or name another folder with --out")
            write(file, text)
        except WrongBug as error:
            yield Imported(key=entry.key, why_not=str(error))
        except CaseError as error:
            yield Imported(key=entry.key, why_not=f"its case would not be valid: {error}")
        except OSError as error:
            yield Imported(key=entry.key, why_not=f"{out} cannot be written: {error.strerror}")
        else:
            written[file.name] = entry.key
            yield Imported(key=entry.key, file=file, sources=tuple(case.sources))
