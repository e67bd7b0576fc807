"""Case files; every problem of every file is reported at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from reprokit.case import placeholders
from reprokit.case.axes import KnownAxes
from reprokit.case.markdown import blocks, is_markdown
from reprokit.case.model import Case
from reprokit.case.read import MARKDOWN_SUFFIXES, YAML_SUFFIXES, Fetch, Text, read
from reprokit.case.tree import CaseTree, Loc, SourcePosition, parse
from reprokit.case.trust import Trust, case_key, of_path
from reprokit.case.validate import Checked, check
from reprokit.core.errors import CaseError, Problem, UsageError


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """A valid case and where it is from.

    ``path``: as given, ``<stdin>``, or the address. ``text``: the case's own text (a Markdown file's fenced block).
    ``fixed``: the case with its ``fix`` merged over it, or None. ``digest``: see :func:`digest_of`.
    ``names``: every name that its templates use. ``positions``: where each key and value is. ``trust``: how far the
    case is trusted.
    """

    path: str
    text: str
    case: Case
    fixed: Case | None
    digest: str
    names: frozenset[str]
    positions: CaseTree = field(repr=False)
    fixed_places: Mapping[Loc, SourcePosition] = field(repr=False, default_factory=dict)
    trust: Trust = Trust.OWN

    @property
    def key(self) -> str:
        """What names the case in a store: see :func:`reprokit.case.trust.case_key`."""
        return case_key(self.case.id, self.path, self.digest, self.trust)

    def problem(self, loc: Loc, message: str, hint: str = "", *, key: bool = False, fixed: bool = False) -> Problem:
        """A problem at the value at ``loc`` (or at its key, or as the fixed variant has it)."""
        tree = self.positions
        if fixed:
            tree = replace(tree, places=dict(self.fixed_places))
        return tree.problem(*tree.position(tuple(loc), key=key), message, hint)


def load(source: str, known: KnownAxes, *, stdin: TextIO | None = None, fetch: Fetch | None = None) -> list[CaseFile]:
    """The cases in a file, folder, Markdown file, standard input (``-``) or web address, in a fixed order.

    ``known``: the axes that mean something. In a folder the copy of a case in a Markdown file, such as a shared issue,
    does not count beside the case's YAML file, whichever of the two was edited later.
    Raises CaseError with all problems of all files, placeholders of drafts included, and UsageError when there is
    nothing to read.
    """
    files: list[CaseFile] = []
    problems: list[Problem] = []
    ids: dict[str, Problem] = {}
    trees: list[tuple[CaseTree, bool]] = []
    for item in read(source, stdin, fetch):
        if isinstance(item, Problem):
            problems.append(item)
        else:
            trees += [(tree, item.optional) for tree in _trees(item)]
    for tree in _without_copies(trees):
        checked = check(tree, known)
        problems += checked.problems
        problems += _doubled(tree, ids)
        if checked.case is not None:
            files.append(_case_file(tree, checked, checked.case))
            problems += _open(files[-1])
    if problems:
        raise CaseError(problems)
    if not files:
        raise UsageError(f"{source}: no case in this folder (looked for *.yaml, *.yml and *.md with a case)")
    return files


def load_text(path: str, text: str, known: KnownAxes, *, draft: bool = False) -> CaseFile:
    """The case in ``text``, the content of the YAML file ``path`` (which need not exist yet). Raises CaseError.

    ``draft``: it may have placeholders.
    """
    tree = parse(path, text)
    checked = check(tree, known)
    if checked.case is None:
        raise CaseError(list(checked.problems))
    file = _case_file(tree, checked, checked.case)
    if not draft and (problems := list(_open(file))):
        raise CaseError(problems)
    return file


def _open(file: CaseFile) -> Iterator[Problem]:
    """A problem for each placeholder of a draft: without what it stands for, no verdict can be decided."""
    for loc, advice in placeholders.find(file.case):
        yield file.problem(loc, "TODO: the report of this draft does not say it, so it cannot be decided", advice)


def _case_file(tree: CaseTree, checked: Checked, case: Case) -> CaseFile:
    return CaseFile(
        path=tree.path,
        text=tree.text,
        case=case,
        fixed=checked.fixed,
        digest=digest_of(tree.text),
        names=checked.names,
        positions=tree,
        fixed_places=checked.fixed_places,
        trust=of_path(tree.path),
    )


def digest_of(text: str) -> str:
    """``sha256:...`` of a case's text.

    Line endings, and whether the last line has one, do not count: the digest is the same when read back from an issue.
    """
    lines = text.replace("\r\n", "\n")
    return "sha256:" + hashlib.sha256((lines if lines.endswith("\n") else f"{lines}\n").encode("utf-8")).hexdigest()


def _trees(item: Text) -> Iterator[CaseTree]:
    suffix = Path(item.path).suffix.lower()
    markdown = item.markdown or suffix in MARKDOWN_SUFFIXES or (suffix not in YAML_SUFFIXES and is_markdown(item.text))
    if not markdown:
        yield parse(item.path, item.text)
        return
    found = blocks(item.text)
    if not found and not item.optional:
        tree = CaseTree(path=item.path, text=item.text)
        hint = "write the case between ```yaml and ```"
        tree.problems.append(tree.problem(1, 1, "no fenced block holds a line schema: reprokit/v1", hint))
        yield tree
    for block in found:
        yield parse(item.path, block.text, first_line=block.first_line, shifts=block.shifts)


def _without_copies(trees: Sequence[tuple[CaseTree, bool]]) -> Iterator[CaseTree]:
    """The trees, each with whether it is of Markdown that a folder has, without those that another one stands for."""
    written = {_id(tree) for tree, optional in trees if not optional}
    seen: set[tuple[str, str]] = set()
    for tree, optional in trees:
        same = (_id(tree), digest_of(tree.text))
        if not optional or (_id(tree) not in written and same not in seen) or not _id(tree):
            yield tree
        seen.add(same)


def _id(tree: CaseTree) -> str:
    name = tree.data.get("id") if isinstance(tree.data, dict) else None
    return name if isinstance(name, str) else ""


def _doubled(tree: CaseTree, ids: dict[str, Problem]) -> Iterator[Problem]:
    """The problem that another case of the same ``load`` has the same id."""
    if not (name := _id(tree)):
        return
    here = tree.problem(*tree.position(("id",)), f"the id {name!r} is taken")
    first = ids.setdefault(name, here)
    if first is not here:
        message = f"the id {name!r} is already that of {first.path}:{first.line}:{first.column}"
        yield tree.problem(*tree.position(("id",)), message, "ids are unique in a folder of cases")
