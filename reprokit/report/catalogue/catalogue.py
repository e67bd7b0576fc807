"""``catalogue.yaml``: how a folder of cases is presented, and which documents its cases come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from reprokit.case.descriptions import dotted, found, listing
from reprokit.case.files import CaseFile
from reprokit.case.read import CATALOGUE as FILE
from reprokit.case.tree import CaseTree, Loc, parse, value_at
from reprokit.core.errors import CaseError, Problem, UsageError
from reprokit.core.near_match import near

__all__ = ["FILE", "Catalogue", "CatalogueEntry", "Document", "TagGroup", "Topic", "read"]

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CatalogueEntry(_Model):
    """One entry of a document: what it says, and the cases that it became, or why it became none."""

    number: Words
    says: Words
    cases: tuple[Words, ...] = ()
    without: str = ""


class Topic(_Model):
    """A chapter of a document."""

    title: Words
    entries: tuple[CatalogueEntry, ...] = Field(min_length=1)


class Document(_Model):
    """Where cases come from. ``short``: its name before an entry's number; the topic's, if topics share numbers."""

    name: Words
    short: str = ""
    about: str = ""
    topics: tuple[Topic, ...] = Field(min_length=1)


class TagGroup(_Model):
    """Cases with a tag, under the words of a user who sees such a bug. ``intro``: Markdown."""

    title: Words
    tag: Words
    intro: str = ""


class Catalogue(_Model):
    """The whole file. ``intro``: Markdown."""

    title: Words = "Cases"
    intro: str = ""
    groups: tuple[TagGroup, ...] = Field(min_length=1)
    documents: tuple[Document, ...] = ()


_MODELS: Mapping[tuple[str, ...], type[_Model]] = {
    (): Catalogue,
    ("groups",): TagGroup,
    ("documents",): Document,
    ("documents", "topics"): Topic,
    ("documents", "topics", "entries"): CatalogueEntry,
}


def read(path: Path, files: Sequence[CaseFile]) -> Catalogue | None:
    """The catalogue of these cases, or None where there is no file. Raises CaseError with every problem, UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    tree = parse(str(path), text)
    if not isinstance(tree.data, dict):
        written = any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())
        if written and tree.data is None:
            raise CaseError(tree.problems)
        message, hint = "expected a mapping of keys to values", f"its keys: {listing(Catalogue.model_fields)}"
        raise CaseError([tree.problem(1, 1, message, hint)])
    problems = list(tree.problems)
    try:
        catalogue = Catalogue.model_validate(tree.data)
    except ValidationError as error:
        # A list whose items are wrong also counts as one that is too short: only an empty one is reported.
        reported = [
            _problem(tree, one)
            for one in error.errors(include_url=False)
            if one["type"] != "too_short" or not value_at(tree.data, one["loc"])
        ]
        raise CaseError(problems + reported) from None
    problems += [*_check_groups(tree, catalogue, files), *_check_documents(tree, catalogue, files)]
    if problems:
        raise CaseError(problems)
    return catalogue


def _problem(tree: CaseTree, details: ErrorDetails) -> Problem:
    loc: Loc = details["loc"]
    kind, value = details["type"], value_at(tree.data, loc)
    model = _MODELS.get(tuple(part for part in loc[:-1] if isinstance(part, str)))
    keys = tuple(model.model_fields) if model else ()  # what is wrong with a plain text names no keys
    where = dotted(loc[:-1]) or "the catalogue"
    if kind == "missing":
        line, column = tree.position(loc[:-1])
        return tree.problem(line, column, f"the key {loc[-1]!r} is missing in {where}", f"its keys: {listing(keys)}")
    if kind == "extra_forbidden":
        hint = near(str(loc[-1]), keys) or f"known keys: {listing(keys)}"
        return tree.problem(*tree.position(loc, key=True), f"unknown key {str(loc[-1])!r} in {where}", hint)
    expected = {"model_type": "a mapping", "tuple_type": "a list", "string_type": "text"}
    expected |= {"string_too_short": "a text", "too_short": "a list that has items"}
    hint = "write a list: each item begins with '- '" if kind == "tuple_type" else ""
    what = expected.get(kind, "something else")
    message = f"{dotted(loc)}: expected {what}, found {'nothing' if value in ('', []) else found(value)}"
    return tree.problem(*tree.position(loc), message, hint)


def _check_groups(tree: CaseTree, catalogue: Catalogue, files: Sequence[CaseFile]) -> Iterator[Problem]:
    tags = {tag for file in files for tag in file.case.tags}
    groups: dict[str, int] = {}
    for index, group in enumerate(catalogue.groups):
        loc: Loc = ("groups", index, "tag")
        if group.tag in groups:
            other = f"groups[{groups[group.tag]}]"
            yield tree.problem(*tree.position(loc), f"the tag {group.tag!r} is that of {other} already", "drop one")
        elif group.tag not in tags:
            hint = near(group.tag, tags) or f"the tags are: {listing(sorted(tags))}"
            yield tree.problem(*tree.position(loc), f"no case has the tag {group.tag!r}", hint)
        groups.setdefault(group.tag, index)
    for file in files:
        if not set(file.case.tags) & set(groups):
            message = f"the case {file.case.id!r} is in no group of {Path(tree.path).name}"
            yield file.problem(("tags",), message, f"give it one of these tags: {listing(groups, limit=20)}")


def _check_documents(tree: CaseTree, catalogue: Catalogue, files: Sequence[CaseFile]) -> Iterator[Problem]:
    ids = [file.case.id for file in files]
    names: set[str] = set()
    for at, document in enumerate(catalogue.documents):
        if document.name in names:
            yield tree.problem(*tree.position(("documents", at, "name")), f"a second document {document.name!r}")
        names.add(document.name)
        for topic_at, topic in enumerate(document.topics):
            loc: Loc = ("documents", at, "topics", topic_at, "entries")
            yield from _check_entries(tree, loc, topic.entries, ids)


def _check_entries(
    tree: CaseTree, loc: Loc, entries: Iterable[CatalogueEntry], ids: Sequence[str]
) -> Iterator[Problem]:
    numbers: set[str] = set()
    for index, entry in enumerate(entries):
        at = tree.position((*loc, index, "number"))
        if entry.number in numbers:
            yield tree.problem(*at, f"a second entry {entry.number!r} in this topic", "merge the two")
        numbers.add(entry.number)
        if bool(entry.cases) == bool(entry.without.strip()):
            what = "both cases and without" if entry.cases else "neither cases nor without"
            hint = "name the cases that it became, or say in `without` why there is none"
            yield tree.problem(*at, f"the entry {entry.number!r} has {what}", hint)
        for position, name in enumerate(entry.cases):
            if name not in ids:
                where = tree.position((*loc, index, "cases", position))
                yield tree.problem(*where, f"there is no case {name!r}", near(name, ids) or "see `reprokit list`")
