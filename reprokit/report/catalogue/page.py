"""The catalogue page of a folder of cases, ``README.md``, as text. Pure: the same input always gives the same page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit.case.facts import CaseFacts
from reprokit.case.files import CaseFile
from reprokit.case.model import Case
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.report.catalogue.catalogue import Catalogue, CatalogueEntry, Document, TagGroup
from reprokit.report.catalogue.flip import flip
from reprokit.report.catalogue.safe_markdown import HeadingAnchors, inline, link, size, table
from reprokit.report.catalogue.verdicts import DecidedCell, SeenCase, Verdicts
from reprokit.report.labels import served_by

FILE = "README.md"
NOTE = "<!-- Written by `reprokit index`: edit the cases or catalogue.yaml instead, then run it again. -->"
SOURCES = "Where they come from"
NEED_WORDS = {"gpu": "GPU", "network": "network", "source": "git tree", "data": "data", "root": "root"}
MAIN = 2
"""Most frameworks that are named beside what the failure depends on."""
SHOWN = (Verdict.REPRODUCED, Verdict.FLAKY)
"""Verdicts of cells in which the failure was seen."""
LEGEND = """\
**Fails with** says what the failure depends on: it shows with the values before "not", and with those after it the same
program passes. Without a "not" it shows in every environment that the case tries. In parentheses is what all of
them have. **Last seen** counts environments: in how many it was reproduced, in how many not, and in how many of those
where it was reproduced the case's fix passed{when}. **Needs** is what a machine needs beyond a container engine,
and the size of the largest image.
"""


@dataclass(frozen=True, kw_only=True)
class Library:
    """A folder of cases with all that is known of it. ``facts`` by id; ``folder``: what the cases' paths begin with."""

    folder: Path
    files: Sequence[CaseFile]
    facts: Mapping[str, CaseFacts]
    catalogue: Catalogue | None
    verdicts: Verdicts

    @property
    def unnamed(self) -> list[str]:
        """The ids of cases that no entry of a document names."""
        documents = self.catalogue.documents if self.catalogue else ()
        named = {name for document in documents for _, entry in _entries(document) for name in entry.cases}
        return [file.case.id for file in self.files if file.case.id not in named]

    def target(self, file: CaseFile) -> str:
        """The path of a case's file from the page."""
        return Path(file.path).relative_to(self.folder).as_posix()


@dataclass(frozen=True, kw_only=True)
class _Section:
    group: TagGroup
    files: Sequence[CaseFile]
    anchor: str


def page(library: Library) -> str:
    """The whole page."""
    catalogue = library.catalogue or Catalogue(groups=(TagGroup(title="-", tag="-"),))
    anchors = HeadingAnchors()
    anchors.of(catalogue.title)
    anchors.of("Contents")
    sections = [
        _Section(group=group, files=files, anchor=anchors.of(group.title)) for group, files in _grouped(library)
    ]
    documents = catalogue.documents
    places: dict[tuple[int, int], str] = {}
    sources = anchors.of(SOURCES) if documents else ""
    for number, document in enumerate(documents):
        anchors.of(document.name)
        for index, topic in enumerate(document.topics):
            places[number, index] = anchors.of(topic.title)
    origins = _origins(documents, places)
    lines = [f"# {inline(catalogue.title)}", "", NOTE, ""]
    lines += [*_paragraphs(catalogue.intro or _how_to_run(library)), _counts(library), ""]
    lines += ["## Contents", ""]
    lines += [f"- {link(inline(section.group.title), section.anchor)} ({len(section.files)})" for section in sections]
    day = _usual_day(library)
    when = f", on {day} where no other day is given" if day else ""
    lines += [f"- {link(SOURCES, sources)}"] * bool(documents) + ["", *_paragraphs(LEGEND.format(when=when))]
    for section in sections:
        lines += [f"## {inline(section.group.title)}", "", *_paragraphs(section.group.intro)]
        header = ["what one sees", "fails with", "last seen", "needs"] + ["from"] * bool(documents)
        lines += [*table(header, [_row(library, file, day, origins) for file in section.files]), ""]
    if documents:
        lines += _where_from(library, documents)
    return "\n".join(lines).rstrip("\n") + "\n"


def _grouped(library: Library) -> list[tuple[TagGroup, list[CaseFile]]]:
    """The groups with their cases; without a catalogue a group per first tag."""
    if library.catalogue:
        groups = library.catalogue.groups
        return [(group, [file for file in library.files if group.tag in file.case.tags]) for group in groups]
    tags = sorted({file.case.tags[:1] for file in library.files}, key=lambda first: (not first, first))
    return [
        (
            TagGroup(title=first[0] if first else "Without a tag", tag=first[0] if first else "-"),
            [file for file in library.files if file.case.tags[:1] == first],
        )
        for first in tags
    ]


def _how_to_run(library: Library) -> str:
    name = library.folder.resolve().name
    example = library.target(library.files[0])
    return (
        "Each file is a bug that can be run: the environments to try, the command, and how the failure looks.\n\n"
        f"```console\n$ reprokit run {name}/{example} --fix   # a case, and beside it the case with its fix\n"
        f"$ reprokit run {name}/ --fix   # all of them\n"
        f"$ reprokit list {name}/ --needs no-gpu   # look for some\n```"
    )


def _counts(library: Library) -> str:
    cells = sum(len(facts.cells) for facts in library.facts.values())
    words = f"{pluralize(len(library.files), 'case')} with {pluralize(cells, 'cell')} (environments to try)"
    images = {
        seen.image: seen.size for case in _fresh(library).values() for seen in case.cells if seen.image and seen.size
    }
    if images:
        words += f", run in {pluralize(len(images), 'image')}, of which the largest has {size(max(images.values()))}"
    return words + "."


def _fresh(library: Library) -> dict[str, SeenCase]:
    """What was seen of the cases as they are now."""
    digests = {file.case.id: file.digest for file in library.files}
    return {name: seen for name, seen in library.verdicts.cases.items() if seen.digest == digests.get(name)}


def _usual_day(library: Library) -> str:
    """The day of most verdicts, the newest of such; '' without any."""
    days = Counter(seen.date for seen in _fresh(library).values())
    return max(days, key=lambda day: (days[day], day), default="")


def _row(library: Library, file: CaseFile, day: str, origins: Mapping[str, Sequence[str]]) -> list[str]:
    facts = library.facts[file.case.id]
    seen = library.verdicts.cases.get(file.case.id)
    fresh = seen if seen and seen.digest == file.digest else None
    words = [NEED_WORDS[need] for need in facts.needs]
    if fresh:
        words += [size(fresh.size)] if fresh.size else []
    row = [
        link(inline(file.case.title), library.target(file)),
        _fails_with(file.case, facts),
        inline(last_seen(seen, fresh, day)),
        ", ".join(words),
    ]
    if library.catalogue and library.catalogue.documents:
        row.append(", ".join(origins.get(file.case.id, ())))
    return row


def _fails_with(case: Case, facts: CaseFacts) -> str:
    """Where the failure shows, and of which frameworks all of that is, unless it names one."""
    where = flip(case, facts.cells)
    parts = [where.words(lambda name: f"`{name}`", inline)]
    if not where.named & set(facts.frameworks):
        pinned = [(name, versions) for name, versions in facts.frameworks.items() if versions][:MAIN]
        words = [f"{name} {' to '.join(dict.fromkeys((versions[0], versions[-1])))}" for name, versions in pinned]
        parts.append(f"({inline(', '.join(words))})" if words else "")
    return " ".join(part for part in parts if part) or "itself"


def last_seen(seen: SeenCase | None, fresh: SeenCase | None, usual_day: str = "") -> str:
    """The verdicts of a case in words, with another day than the usual: those of its present state (``fresh``)."""
    if seen is None:
        return "not run yet"
    if fresh is None:
        return "not run since it changed"
    cases = [one for one in fresh.cells if one.variant == "case"]
    unsupported = [one for one in fresh.cells if one.verdict is Verdict.UNSUPPORTED]
    day = "" if fresh.date == usual_day else f" ({fresh.date})"
    if len(unsupported) == len(fresh.cells):
        return f"never run: {re.split(r';| [(]', unsupported[0].reason)[0]}{day}"
    parts = [_verdicts(cases), _fixes(fresh.cells)]
    departures = sum(one.as_expected is False for one in fresh.cells)
    if departures:
        parts.append(f"{departures} not as expected")
    others = "".join(sorted({served_by(one.engine) for one in fresh.cells}))
    return "; ".join(part for part in parts if part) + others + day


def _verdicts(cells: Sequence[DecidedCell]) -> str:
    """``2 reproduced, 1 not, 1 build-failed``."""
    counts = Counter(one.verdict for one in cells)
    words = [f"{counts[verdict]} {verdict}" for verdict in SHOWN if counts[verdict]]
    well = counts.pop(Verdict.NOT_REPRODUCED, 0)
    if well:
        words.append(f"{well} not" if words else f"{well} not reproduced")
    return ", ".join(words + [f"{count} {verdict}" for verdict, count in counts.items() if verdict not in SHOWN])


def _fixes(cells: Sequence[DecidedCell]) -> str:
    """``fix holds in 2``: where the failure was reproduced, and the fixed variant passed in the same cell."""

    def key(one: DecidedCell) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(one.cell.items()))

    def shows(one: DecidedCell) -> bool:
        """A flaky failure proves a fix only where the trials were as many as it takes: where it is what is expected."""
        return one.verdict is Verdict.REPRODUCED or (one.verdict is Verdict.FLAKY and bool(one.as_expected))

    reproduced = {key(one) for one in cells if one.variant == "case" and shows(one)}
    fixed = [one.verdict for one in cells if one.variant == "fix" and key(one) in reproduced]
    if not fixed:
        return ""
    holds = fixed.count(Verdict.NOT_REPRODUCED)
    return f"fix holds in {holds}" + (f" of {len(fixed)}" if holds < len(fixed) else "")


def _entries(document: Document) -> Iterator[tuple[int, CatalogueEntry]]:
    for index, topic in enumerate(document.topics):
        for entry in topic.entries:
            yield index, entry


def _origins(documents: Sequence[Document], places: Mapping[tuple[int, int], str]) -> dict[str, list[str]]:
    """For each case, links to the topics of the entries that name it."""
    found: dict[str, list[str]] = {}
    for number, document in enumerate(documents):
        numbers = [entry.number for _, entry in _entries(document)]
        by_topic = len(set(numbers)) < len(numbers)
        for index, entry in _entries(document):
            name = document.topics[index].title if by_topic else document.short or document.name
            text = link(inline(f"{name} {entry.number}"), places[number, index])
            for case_id in entry.cases:
                found.setdefault(case_id, []).append(text)
    return found


def _where_from(library: Library, documents: Sequence[Document]) -> list[str]:
    here = {file.case.id: library.target(file) for file in library.files}
    lines = [f"## {SOURCES}", ""]
    for document in documents:
        entries = [entry for _, entry in _entries(document)]
        with_cases = sum(bool(entry.cases) for entry in entries)
        lines += [f"### {inline(document.name)}", "", *_paragraphs(document.about)]
        lines += [f"{pluralize(len(entries), 'entry', 'entries')}, {with_cases} of them with cases.", ""]
        for topic in document.topics:
            rows = [
                [
                    inline(entry.number),
                    inline(entry.says),
                    ", ".join(link(inline(name), here[name]) for name in entry.cases) or inline(entry.without),
                ]
                for entry in topic.entries
            ]
            lines += [
                f"#### {inline(topic.title)}",
                "",
                *table(["entry", "what it says", "cases, or why there is none"], rows),
                "",
            ]
    if library.unnamed:
        names = ", ".join(link(inline(name), here[name]) for name in library.unnamed)
        lines += ["### From elsewhere", "", f"No entry of these documents names {names}.", ""]
    return lines


def _paragraphs(markdown: str) -> list[str]:
    """Markdown as it was written, with an empty line after it."""
    return [markdown.strip("\n"), ""] if markdown.strip() else []
