"""The line of cells that a bisection searches: the values of one axis, or the commits of a source, between two ends."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, label, no_axis
from reprokit.case.model import Case
from reprokit.case.render import TemplateProblem, render
from reprokit.case.templates import inspect
from reprokit.core.errors import Unsupported, UsageError
from reprokit.core.near_match import near
from reprokit.engine import site
from reprokit.environment.axes import AXIS_NAMES, KNOWN
from reprokit.environment.resolving import resolve
from reprokit.run import sources
from reprokit.run.admitting import supply_of
from reprokit.run.plan import cells_of, check_values
from reprokit.run.request import Request
from reprokit.run.sources import git_says
from reprokit.search.queries import Commit
from reprokit.search.releases import AxisRange, Policy, Releases, find_releases

SHORT = 12
"""Digits of a commit's hash in a cell."""

_SEPARATOR = "\x1f"


def commits_between(
    name: str, repository: Path, low: str, high: str, *, spelt: tuple[str, ...] = (), tags_only: bool = False
) -> tuple[tuple[Commit, ...], str]:
    """The commits from ``low`` to ``high``, both included, along first parents, and a note on their order, or ''.

    Where ``low`` is on another branch, such as a release's, the merge base of both follows it.
    ``tags_only``: only the ends and tagged commits. ``spelt``: tags by which cells name their commits, beside the refs.
    Raises UsageError when the repository has no such refs, or they have no commit in common.
    """
    at = f"--source {name}={low}..{high}"
    first, last = (_commit(at, repository, ref) for ref in (low, high))
    if first == last:
        raise UsageError(f"{at}: both are the commit {first[:SHORT]}")
    base = git_says(repository, "merge-base", first, last)
    if not base:
        raise UsageError(f"{at}: the two have no commit in common")
    if base == last:
        first, last, base = last, first, last
    note = ""
    if base != first:
        note = f"{low} is not an ancestor of {high}: their merge base {base[:SHORT]} is placed between them"
    own = {ref for ref in (low, high, *spelt) if not re.fullmatch(r"[0-9a-f]{4,40}", ref)}
    begin = [one for commit in dict.fromkeys((first, base)) for one in _list_commits(repository, own, "-1", commit)]
    commits = (*begin, *_list_commits(repository, own, f"{base}..{last}"))
    if note:
        here = f"{commits[1].subject}; {commits[0].value} branched off here"
        commits = (commits[0], replace(commits[1], subject=here), *commits[2:])
    if tags_only:
        commits = tuple(commit for commit in commits if commit.tags or commit.hash in (first, last))
    return commits, note


def _list_commits(repository: Path, own: set[str], *chosen: str) -> tuple[Commit, ...]:
    """The commits that ``git log`` lists along first parents, the oldest first. ``own``: tags that name theirs."""
    # Subjects may hold characters that splitlines() would take for the end of a line.
    log = ["log", "-z", "--reverse", f"--format={_SEPARATOR.join(('%H', '%P', '%an', '%cs', '%D', '%s'))}"]
    log += ["--decorate=full", "--decorate-refs=refs/tags/*", "--first-parent", *chosen]
    return tuple(_parsed(line, own) for line in (git_says(repository, *log) or "").split("\0") if line)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def axis_of(file: CaseFile, name: str) -> str:
    """The axis that chooses the commit of a source: the axis that its ref uses, else a new one named after the source.

    Raises UsageError when the case has no such source, or uses that name for another axis.
    """
    if name not in file.case.sources:
        raise UsageError(
            f"--source {name}=...: the case has no such source{near(name, file.case.sources, prefix='; ')}"
        )
    ref = file.case.sources[name].ref.strip()
    if found := re.fullmatch(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", ref):
        return found[1]
    axis = re.sub(r"^(?=[0-9])|\W", "_", name)
    matrix = file.case.matrix
    if axis in {*matrix.axes, *(axis for cell in matrix.include for axis in cell)}:
        raise UsageError(
            f"--source {name}=...: the case has an axis {axis!r} that is not the ref of that source; "
            f'write ref: "{{{{ {axis} }}}}" if it is'
        )
    return axis


def add_axis(file: CaseFile, name: str, axis: str) -> CaseFile:
    """The case with the ref of a source taken from ``axis``; only the cells that a search makes have that axis."""

    def changed(case: Case) -> Case:
        source = case.sources[name].model_copy(update={"ref": f"{{{{ {axis} }}}}"})
        return case.model_copy(update={"sources": {**case.sources, name: source}})

    if axis in inspect(file.case.sources[name].ref).names:
        return file
    fixed = changed(file.fixed) if file.fixed and name in file.fixed.sources else file.fixed
    return dataclasses.replace(file, case=changed(file.case), fixed=fixed, names=file.names | {axis})


def _commit(at: str, repository: Path, ref: str) -> str:
    for name in (ref, f"origin/{ref}"):
        if found := git_says(repository, "rev-parse", "--verify", "--quiet", name + "^{commit}"):
            return found
    listing = ("for-each-ref", "--sort=-committerdate", "--format=%(refname:short)", "refs/heads", "refs/tags")
    names = (git_says(repository, *listing) or "").split()
    hint = near(ref, names, prefix="; ") or (f"; its newest branches and tags: {', '.join(names[:8])}" if names else "")
    raise UsageError(f"{at}: the repository has no commit, tag or branch {ref!r}{hint}")


def _parsed(line: str, own: set[str]) -> Commit:
    full, parents, author, date, decoration, subject = line.split(_SEPARATOR, 5)
    mark = "tag: refs/tags/"
    tags = tuple(sorted(one[len(mark) :] for one in decoration.split(", ") if one.startswith(mark)))
    return Commit(
        value=next((tag for tag in tags if tag in own), full[:SHORT]),
        hash=full,
        author=_printable(author),
        date=date,
        subject=_printable(subject),
        tags=tags,
        merge=" " in parents,
    )


@dataclass(frozen=True, kw_only=True)
class BisectLine(Releases):
    """Cells that differ in ``axis`` alone: ``rest`` with each of ``values``, in order from one end to the other."""

    axis: str
    rest: Cell
    details: Mapping[str, str] = field(default_factory=dict)  # value -> its date, and a commit's subject
    source: str = ""  # whose commits the values are; '' for an axis
    repository: str = ""  # the local one of the source
    commits: Mapping[str, Commit] = field(default_factory=dict)  # of a source, by value

    def cell(self, value: str) -> Cell:
        """The cell with that value."""
        return {**self.rest, self.axis: value}


def walk_axis(
    file: CaseFile,
    request: Request,
    axis: str,
    ends: Sequence[str],
    policy: Policy,
    by_hand: Sequence[str] = (),
) -> BisectLine:
    """The values of an axis between two ends, with the other axes as the request selects them. Reads package indexes.

    ``by_hand``: the line as the user names it, instead of what lies between the ends. Raises UsageError where more than
    one cell remains for a value, and as :func:`reprokit.search.releases.find_releases`.
    """
    rest = _rest(file, request, axis, ends)
    if axis not in rest and axis not in file.names and axis not in AXIS_NAMES:
        own = (*file.case.matrix.columns(), *sorted(file.names))
        raise UsageError(f"--axis {axis}=...: {no_axis(axis, own, KNOWN)}")
    if by_hand:
        check_values(file, {axis: by_hand}, request, "--values")
        return BisectLine(axis=axis, of=axis, things="values", rest=rest, values=tuple(by_hand))
    low, high = ends
    asked = AxisRange(file=file, cell=rest, axis=axis, low=low, high=high, policy=policy, catalog=site.catalog())
    found = find_releases(asked)
    if policy != Policy() and not found.packages:
        raise UsageError(
            f"--pre, --since and --before apply to a package's releases, and the values of {axis} are not releases"
        )
    unserved = _unserved(file, request, [{**rest, axis: value} for value in found.values[1:-1]], axis)
    return BisectLine(
        axis=axis,
        of=found.of,
        things=found.things,
        rest=rest,
        values=tuple(value for value in found.values if value not in unserved),
        details={value: f"released {day}" for value, day in found.dates.items()},
        left_out={**found.left_out, **unserved},
        every=found.every or found.values,
        packages=found.packages,
        notes=found.notes,
        unknown=found.unknown,
    )


def _unserved(file: CaseFile, request: Request, cells: Sequence[Cell], axis: str) -> dict[str, str]:
    """Value of ``axis`` -> why this host cannot serve such a cell, as far as that is known without building."""
    supply = supply_of(request)
    refused: dict[str, str] = {}
    for cell in cells if supply.host is None else ():
        try:
            resolve(render(file.case, cell), supply)
        except (Unsupported, TemplateProblem) as error:
            refused[cell[axis]] = str(error)
    return refused


def walk_source(file: CaseFile, request: Request, name: str, ends: Sequence[str], *, tags_only: bool) -> BisectLine:
    """The commits of a source between two refs, with the axes as the request selects them. Fetches its history.

    ``tags_only``: only the ends and tagged commits. Raises UsageError, as :func:`walk_axis` does, and SourceError.
    """
    axis = axis_of(file, name)
    rest = _rest(file, request, axis, ends)
    low, high = ends
    try:
        spec = render(file.case, {**rest, axis: low}).sources[name]
    except TemplateProblem as error:
        raise UsageError(f"--source {name}=...: {error}") from error
    repository = sources.history(name, spec, file.trust, stand_in=request.sources_for(file.trust).get(name))
    own = file.case.matrix.columns().get(axis, ())
    commits, note = commits_between(name, repository, low, high, spelt=own, tags_only=tags_only)
    return BisectLine(
        axis=axis,
        of=name,
        things="tags" if tags_only else "commits",
        rest=rest,
        values=tuple(commit.value for commit in commits),
        details={commit.value: commit.details for commit in commits},
        notes=(note,) if note else (),
        source=name,
        repository=str(repository),
        commits={commit.value: commit for commit in commits},
    )


def walk_merge(line: BisectLine, last: str, merge: str) -> dict[str, Any] | None:
    """The commits of the branch that a merge right after ``last`` brought, from where it began, as JSON.

    None where its first parent is not ``last``, or it merges several branches, or one of a single commit.
    """
    repository, known = Path(line.repository), {one.hash: one for one in line.commits.values()}
    parents = (git_says(repository, "rev-parse", f"{line.commits[merge].hash}^@") or "").split()
    if len(parents) != 2 or parents[0] != line.commits[last].hash:
        return None
    branch = _list_commits(repository, set(), f"{parents[0]}..{parents[1]}")
    begin = _list_commits(repository, set(), "-1", f"{branch[0].hash}^") if branch else ()
    commits = {one.value: one for one in (known.get(one.hash, one) for one in (*begin, *branch))}
    details = {one.value: one.details for one in commits.values()}
    return replace(line, values=tuple(commits), details=details, commits=commits, notes=()).to_json()


def list_moved_submodules(line: BisectLine, last: int, following: int) -> list[str]:
    """The submodules that differ between two places of a line of commits, in words; what of each to bisect."""
    ends = [line.commits[line.values[place]].hash for place in (last, following) if line.commits]
    words = (git_says(Path(line.repository), "diff-tree", "-r", "-z", *ends) or "").split("\0") if ends else []
    found = []
    for change, path in zip(words[::2], words[1::2], strict=False):
        before, after, old, new, *_ = change.split()
        if (before, after) == (":160000", "160000"):
            found.append(
                f"the submodule {_printable(path)} moves: bisect {old[:SHORT]}..{new[:SHORT]} of its repository"
            )
    return found


def _rest(file: CaseFile, request: Request, axis: str, ends: Sequence[str]) -> Cell:
    """The one cell that the selection leaves, apart from ``axis``. Raises UsageError where other axes differ too."""
    cells = [cell for _, cell in cells_of([file], request)]
    if not cells:
        raise UsageError("the selection is empty: --only, --skip, the axis options and exclude leave no cell")
    rests: dict[str, Cell] = {}
    having: dict[str, set[str]] = {}
    for cell in cells:
        others = {name: value for name, value in cell.items() if name != axis}
        rests.setdefault(label(others), dict(cell))
        having.setdefault(label(others), set()).add(cell.get(axis, ""))
    # Where the matrix ties the ends to values of other axes (an old release to an old Python), those are used.
    if tied := {name: rests[name] for name, values in having.items() if {*ends} <= values}:
        rests = tied
    if len(rests) > 1:
        values: dict[str, list[str]] = {}
        for cell in rests.values():
            for name, value in cell.items():
                if name != axis and value not in values.setdefault(name, []):
                    values[name].append(value)
        several = {name: some for name, some in values.items() if len(some) > 1}
        open_axes = "; ".join(f"{name} is {', '.join(some[:-1])} or {some[-1]}" for name, some in several.items())
        example = ",".join(f"{name}={some[0]}" for name, some in several.items())
        raise UsageError(
            f"a bisection searches one axis, but the selected cells differ in others too: {open_axes}; "
            f"choose one value of each, such as --only {example}"
        )
    return next(iter(rests.values()))
