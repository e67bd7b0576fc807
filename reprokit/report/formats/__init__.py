"""The formats of reports: one module for each, with one :class:`Format`; and the one place where they are scrubbed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.core import redaction
from reprokit.core.discovery import registered
from reprokit.evidence.records import ANSWER, CellRecord, RunRecord
from reprokit.report.explanation import FileOf, files_in

if TYPE_CHECKING:
    from reprokit.report.html.building import Built, PagesRequest
    from reprokit.search.queries import SearchResult
    from reprokit.store.database import Store


SHORT = 20_000
"""Characters up to which a text is remembered with what it became: packages, reasons and Dockerfiles repeat."""
KEPT = frozenset({"id", "case_id", "case_digest", "cell", "variant", "log"})
"""Fields of records that stay as they are: what the case itself says, and where a log lies in the store."""

Scrub = Callable[[str], str]
"""Takes out of a text what is private."""


@dataclass(frozen=True, kw_only=True)
class FormatSources:
    """What a format may look up beside the record."""

    folder: Path  # of the store
    file_of: FileOf = lambda digest: None
    search: SearchResult | None = None  # where the run is one

    @classmethod
    def of(cls, store: Store, run: RunRecord) -> FormatSources:
        """The sources for a recorded run."""
        search = None
        if asked := run.request.search:
            from reprokit.search.queries import SearchResult, answer_from_json

            answer = store.findings(run.id).get(ANSWER)
            search = SearchResult.pick(asked, answer=answer and answer_from_json(asked.kind, answer))
        return cls(folder=store.folder, file_of=files_in(store), search=search)


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of reports, as ``reprokit report --format`` offers it; not scrubbed is the record as it is."""

    name: str
    help: str  # what it is, in a few words
    suffix: str  # of its files; '' for a folder
    scrubbed: bool  # no tokens, and nothing that says who and where someone is

    def scrubber(self, runs: Iterable[RunRecord]) -> Scrub:
        """What every text of these runs passes on its way into this format."""
        return Scrubber(runs) if self.scrubbed else str


@dataclass(frozen=True, kw_only=True)
class RunFormat(Format):
    """A format of one run that is one text. Call :meth:`text`: ``write`` is given a record that is scrubbed already."""

    write: Callable[[RunRecord, FormatSources], str]

    def text(self, run: RunRecord, sources: FormatSources) -> str:
        """The run in this format, scrubbed if the format says so."""
        return self.write(scrub_run(run, self.scrubber([run])) if self.scrubbed else run, sources)


@dataclass(frozen=True, kw_only=True)
class PagesFormat(Format):
    """A format of many runs that is a folder. ``write`` passes every text that it writes through the scrub."""

    write: Callable[[Store, Path, PagesRequest, Scrub], Built]


class Scrubber:
    """Cleans texts, and knows the kinds of what it left out: ``github-token``, ``home``, ``host`` ..."""

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        """``runs``: the names of the hosts that made them are left out, beside what is private of this one."""
        self._known = {**redaction.hosts(name for run in runs for name in _made_on(run)), **redaction.of_this_host()}
        self._kinds: set[str] = set()
        self._short = lru_cache(maxsize=1 << 17)(self._scrub)

    def __call__(self, text: str) -> str:
        """The text without what is secret or private."""
        return self._short(text) if len(text) <= SHORT else self._scrub(text)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The kinds of what was left out so far."""
        return tuple(sorted(self._kinds))

    def _scrub(self, text: str) -> str:
        found = redaction.scrub(text, known=self._known)
        self._kinds.update(one.kind for one in found.omitted)
        return found.text


def scrub_run(run: RunRecord, scrub: Scrub) -> RunRecord:
    """The run with every text of it scrubbed but for the fields in :data:`KEPT`: a new field is scrubbed, too."""

    def clean(value: Any) -> Any:
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return scrub(value)
        if is_dataclass(value) and not isinstance(value, type):
            changed = {one.name: clean(getattr(value, one.name)) for one in fields(value) if one.name not in KEPT}
            if isinstance(value, CellRecord):
                changed["case_path"] = scrub(_from_here(value.case_path))
            return replace(value, **changed)
        if isinstance(value, Mapping):
            return {key: clean(each) for key, each in value.items()}
        return type(value)(map(clean, value)) if isinstance(value, (list, tuple)) else value

    whole: RunRecord = clean(run)
    return whole


def _from_here(path: str) -> str:
    """A path below the checkout, or below this folder, without what lies above: annotations need the file."""
    root = os.environ.get("GITHUB_WORKSPACE") or Path.cwd()
    inside = Path(path).is_absolute() and Path(path).is_relative_to(root) and Path.cwd().is_relative_to(root)
    return os.path.relpath(path) if inside else path


def _made_on(run: RunRecord) -> Iterator[str]:
    """The names of the hosts of a run: its own, those of its nodes, and of one that was merged, those of its jobs."""
    yield run.owner.machine
    yield from run.host.nodes
    for job in run.request.merged or ():
        yield job.machine
    for node in (cell.details.node for cell in run.cells):
        if node is not None:
            yield from (node.name, *(one.node for one in node.lost))


def formats() -> dict[str, Format]:
    """All formats by name: pages first, then those of one run."""
    found = registered(sys.modules[__name__], Format).values()
    ordered = sorted(found, key=lambda form: (isinstance(form, RunFormat), form.name))
    return {form.name: form for form in ordered}


def run_format(name: str) -> RunFormat:
    """The format of that name, which writes one run as a text. Raises KeyError where there is none."""
    form = formats()[name]
    if not isinstance(form, RunFormat):
        raise KeyError(f"{name} writes a folder, not the text of one run")
    return form
