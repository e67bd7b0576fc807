"""Writes cases/README.md from catalogue.yaml, the cases and their verdicts.

Run ``python -m docs.scripts.catalogue [--check]``. ``reprokit list --write`` lists the cases of any folder; this groups
ours by what an engineer sees, and says from which documents they come.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from reprokit.case.facts import facts
from reprokit.case.files import CaseFile
from reprokit.core.text import pluralize
from reprokit.report.catalogue import (
    HEADER,
    PAGE_FILE,
    VERDICTS_FILE,
    Library,
    counts,
    inline,
    legend,
    link,
    read_verdicts,
    row,
)
from reprokit.report.markdown.text import table
from reprokit.run.loading import load_all

CASES = Path(__file__).parents[2] / "cases"
SOURCE = Path(__file__).with_name("catalogue.yaml")
NOTE = "<!-- Written by `python -m docs.scripts.catalogue`: edit the cases or its catalogue.yaml instead. -->"
WHERE_FROM = "Where they come from"

NonEmpty = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Model):
    """One entry of a document: what it says, and the cases that it became, or why it became none."""

    number: NonEmpty
    says: NonEmpty
    cases: tuple[NonEmpty, ...] = ()
    without: str = ""


class Topic(_Model):
    """A chapter of a document."""

    title: NonEmpty
    entries: tuple[Entry, ...] = Field(min_length=1)


class Document(_Model):
    """Where cases come from. ``short``: its name before an entry's number; the topic's, if topics share numbers."""

    name: NonEmpty
    short: str = ""
    about: str = ""
    topics: tuple[Topic, ...] = Field(min_length=1)


class Group(_Model):
    """Cases with a tag, under the words of a user who sees such a bug."""

    title: NonEmpty
    tag: NonEmpty


class Catalogue(_Model):
    """The whole file. ``intro``: Markdown."""

    title: NonEmpty
    intro: str
    groups: tuple[Group, ...] = Field(min_length=1)
    documents: tuple[Document, ...]


class HeadingAnchors:
    """The anchors that GitHub, GitLab and others make from headings, in the order of the page."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def of(self, heading: str) -> str:
        """The anchor of the next heading; call it once for each, in order."""
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = self._taken[slug]
        self._taken[slug] += 1
        return f"#{slug}-{number}" if number else f"#{slug}"


def read(text: str) -> Catalogue:
    """The catalogue in a text. Raises pydantic.ValidationError."""
    return Catalogue.model_validate(yaml.load(text, Loader=yaml.CBaseLoader))


def problems(catalogue: Catalogue, files: Sequence[CaseFile]) -> Iterator[str]:
    """What of a catalogue does not fit the cases."""
    tags = {group.tag for group in catalogue.groups}
    for file in files:
        if len(tags & set(file.case.tags)) != 1:
            yield f"{file.path}: its tags name {len(tags & set(file.case.tags))} groups of the catalogue, and not one"
    for tag in tags - {tag for file in files for tag in file.case.tags}:
        yield f"no case has the tag {tag!r}"
    ids = {file.case.id for file in files}
    for topic in (topic for document in catalogue.documents for topic in document.topics):
        for number, count in Counter(entry.number for entry in topic.entries).items():
            if count > 1:
                yield f"{topic.title}: {count} entries {number!r}"
        for entry in topic.entries:
            yield from (f"{topic.title} {entry.number}: there is no case {name!r}" for name in set(entry.cases) - ids)
            if bool(entry.cases) == bool(entry.without.strip()):
                yield f"{topic.title} {entry.number}: name the cases that it became, or say in `without` why none"


def text_of(catalogue: Catalogue, library: Library) -> str:
    """The whole page."""
    anchors = HeadingAnchors()
    anchors.of(catalogue.title)
    anchors.of("Contents")
    contents = [(group, anchors.of(group.title), _files(group, library)) for group in catalogue.groups]
    sources = anchors.of(WHERE_FROM)
    origins = _origins(catalogue.documents, anchors)
    lines = [f"# {inline(catalogue.title)}", "", NOTE, "", catalogue.intro.strip("\n"), "", counts(library), ""]
    lines += ["## Contents", ""]
    lines += [f"- {link(inline(group.title), anchor)} ({len(files)})" for group, anchor, files in contents]
    lines += [f"- {link(WHERE_FROM, sources)}", "", legend(library), ""]
    for group, _, files in contents:
        rows = [[*row(library, file), ", ".join(origins.get(file.case.id, ()))] for file in files]
        lines += [f"## {inline(group.title)}", "", table([*HEADER, "from"], rows)]
    return "\n".join([*lines, *_where_from(catalogue.documents, library)]).rstrip("\n") + "\n"


def _files(group: Group, library: Library) -> list[CaseFile]:
    return [file for file in library.files if group.tag in file.case.tags]


def _origins(documents: Sequence[Document], anchors: HeadingAnchors) -> dict[str, list[str]]:
    """For each case, links to the topics of the entries that name it."""
    found: dict[str, list[str]] = {}
    for document in documents:
        anchors.of(document.name)
        numbers = [entry.number for topic in document.topics for entry in topic.entries]
        by_topic = len(set(numbers)) < len(numbers)
        for topic in document.topics:
            place = anchors.of(topic.title)
            name = topic.title if by_topic else document.short or document.name
            for entry in topic.entries:
                for case_id in entry.cases:
                    found.setdefault(case_id, []).append(link(inline(f"{name} {entry.number}"), place))
    return found


def _where_from(documents: Sequence[Document], library: Library) -> Iterator[str]:
    here = {file.case.id: library.target(file) for file in library.files}
    unnamed = dict(here)
    yield from (f"## {WHERE_FROM}", "")
    for document in documents:
        entries = [entry for topic in document.topics for entry in topic.entries]
        with_cases = sum(bool(entry.cases) for entry in entries)
        yield from (f"### {inline(document.name)}", "", document.about.strip("\n"), "")
        yield from (f"{pluralize(len(entries), 'entry', 'entries')}, {with_cases} of them with cases.", "")
        for topic in document.topics:
            rows = [[inline(one.number), inline(one.says), _became(one, here)] for one in topic.entries]
            yield from (f"#### {inline(topic.title)}", "")
            yield table(["entry", "what it says", "cases, or why there is none"], rows)
        for name in (name for entry in entries for name in entry.cases):
            unnamed.pop(name, None)
    if unnamed:
        names = ", ".join(link(inline(name), target) for name, target in unnamed.items())
        yield from ("### From elsewhere", "", f"No entry of these documents names {names}.")


def _became(entry: Entry, here: Mapping[str, str]) -> str:
    return ", ".join(link(inline(name), here[name]) for name in entry.cases) or inline(entry.without)


def library_of(folder: Path) -> Library:
    """The cases of a folder, with what was last seen of them."""
    files = load_all([str(folder)])
    known = {file.case.id: facts(file.case) for file in files}
    return Library(folder=folder, files=files, facts=known, verdicts=read_verdicts(folder / VERDICTS_FILE))


def main(check: bool) -> None:
    """Write the page, or ``check`` whether it is up to date."""
    catalogue, library = read(SOURCE.read_text("utf-8")), library_of(CASES)
    if found := list(problems(catalogue, library.files)):
        sys.exit("\n".join(found))
    path, text = CASES / PAGE_FILE, text_of(catalogue, library)
    if not check:
        path.write_text(text, encoding="utf-8")
    elif path.read_text("utf-8") != text:
        sys.exit(f"{path} is not up to date: run `python -m docs.scripts.catalogue` and commit the result")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
