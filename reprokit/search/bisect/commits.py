"""The commits of a source between two of its refs, and a case with an axis for the commit of a source."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.case.files import CaseFile
from reprokit.case.model import Case
from reprokit.case.templates import inspect
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.run.sources import git_says

SHORT = 12
"""Digits of a commit's hash in a cell."""

_SEPARATOR = "\x1f"


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit. ``value``: its name in cells (its tag where the case or the user names that, else a short hash)."""

    value: str
    sha: str
    date: str
    subject: str
    tags: tuple[str, ...] = ()
    merge: bool = False

    @property
    def details(self) -> str:
        """Its other tags, its day and its subject."""
        return ", ".join([*(tag for tag in self.tags if tag != self.value), f"{self.date} {self.subject}".strip()])


@dataclass(frozen=True, kw_only=True)
class CommitRange:
    """Commits, oldest first. ``note``: what the user should know about their order, or ''."""

    commits: tuple[Commit, ...]
    note: str = ""


def between(
    name: str, repository: Path, low: str, high: str, *, spelt: tuple[str, ...] = (), tags_only: bool = False
) -> CommitRange:
    """The commits from ``low`` to ``high``, both included, along first parents: in the order of the branch.

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
    # Subjects may hold characters that splitlines() would take for the end of a line.
    log = ["log", "-z", "--reverse", f"--format={_SEPARATOR.join(('%H', '%P', '%cs', '%D', '%s'))}"]
    log += ["--decorate=full", "--decorate-refs=refs/tags/*"]
    parts = [["-1", commit] for commit in dict.fromkeys((first, base))] + [["--first-parent", f"{base}..{last}"]]
    lines = [line for part in parts for line in (git_says(repository, *log, *part) or "").split("\0") if line]
    own = {ref for ref in (low, high, *spelt) if not re.fullmatch(r"[0-9a-f]{4,40}", ref)}
    commits = tuple(_parsed(line, own) for line in lines)
    if note:
        here = f"{commits[1].subject}; {commits[0].value} branched off here"
        commits = (commits[0], replace(commits[1], subject=here), *commits[2:])
    if tags_only:
        commits = tuple(commit for commit in commits if commit.tags or commit.sha in (first, last))
    return CommitRange(commits=commits, note=note)


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
    axis = re.sub(r"\W", "_", name) if not name[:1].isdigit() else f"_{name}"
    matrix = file.case.matrix
    if axis in {*matrix.axes, *(axis for cell in matrix.include for axis in cell)}:
        raise UsageError(
            f"--source {name}=...: the case has an axis {axis!r} that is not the ref of that source; "
            f'write ref: "{{{{ {axis} }}}}" if it is'
        )
    return axis


def with_axis(file: CaseFile, name: str, axis: str) -> CaseFile:
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
    sha, parents, date, decoration, subject = line.split(_SEPARATOR, 4)
    mark = "tag: refs/tags/"
    tags = tuple(sorted(one[len(mark) :] for one in decoration.split(", ") if one.startswith(mark)))
    return Commit(
        value=next((tag for tag in tags if tag in own), sha[:SHORT]),
        sha=sha,
        date=date,
        subject="".join(each if each.isprintable() else "\ufffd" for each in subject),
        tags=tags,
        merge=" " in parents,
    )
