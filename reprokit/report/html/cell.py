"""A cell's page: its trials with their logs, environment, Dockerfile, how to repeat it; cells packed into few files."""

from __future__ import annotations

import hashlib
import json
import marshal
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from reprokit.core.json_record import JsonRecord
from reprokit.core.private_patterns import PEM
from reprokit.core.text import one_line, pluralize
from reprokit.environment import comparing
from reprokit.environment.comparing import Compared
from reprokit.evidence.details import FailedBuildRecord, FailureRecord
from reprokit.evidence.differences import ComparisonRecord
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.native import HEAD, NONE, Stacks, ThreadStack, split
from reprokit.evidence.records import CellRecord, ExceptionRecord, ImageRecord, RunRecord, TrialRecord
from reprokit.evidence.text import CUT_MARK, LineNumbers
from reprokit.evidence.text import clean as plain
from reprokit.report.detail import histogram, usage_words
from reprokit.report.differences import LOCKED
from reprokit.report.history.changes import collect_facts
from reprokit.report.html.gathering import RecordedCase
from reprokit.report.html.writing import FREE, NAMES, Clean, Folder, clean_texts, script, script_json

PACKAGES = tuple(concern for concern in LOCKED if concern != "sources")
"""The concerns whose facts are many, and the same in all cells of an image: they are shared."""
LOG_BYTES = 256 * 1024  # of a log that is copied: its beginning and its end
MOST = 200_000  # characters of a log that come with the page; of a longer one its ends, and what was judged
AROUND = 50  # of a longer one: lines around what was judged
LINE = 48 * 1024  # characters of one line of a log that is not copied whole
WORD = 4096  # characters of the longest word that is looked for whole; what is secret in a longer one shows in fewer
CONTEXT = 5  # lines beside those that are shown which are looked at as well, to tell what is private in these


@dataclass(frozen=True, kw_only=True)
class Log:
    """A trial's log as it may be shown."""

    text: str  # scrubbed, with as many lines as the recorded one has; '' where there is none
    file: str = ""  # where the report keeps it below ``data/``, '' where it does not
    note: str = ""  # why it does not, or what is left out
    whole: bool = False  # the page has all of it, and it needs no file
    kept: Set[int] | None = None  # the numbers, from 1, of the lines that hold what they held; None: all do, uncut


@dataclass(frozen=True, kw_only=True)
class ExcerptedLog(JsonRecord):
    """The lines of a log that come with a page."""

    lines: int  # that its file has
    parts: tuple[tuple[int, str], ...] = ()  # of each its first line and its text
    cuts: Sequence[tuple[int, int]] = ()  # what the recorded log lacks: see :class:`reprokit.evidence.text.LineNumbers`


@dataclass(frozen=True, kw_only=True)
class ShownStack(JsonRecord):
    """A thread, innermost frame first: of each its function and place."""

    name: str
    frames: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class ShownStacks(JsonRecord):
    """The stacks in a log, at the time limit those of the last look, each with how often it was seen there."""

    title: str
    threads: tuple[ShownStack, ...]
    more: int  # threads that are not listed
    missing: str  # why not all are there


@dataclass(frozen=True, kw_only=True)
class ShownTrial(JsonRecord):
    """A trial; its log comes beside it, see :class:`CellPage`."""

    number: int
    outcome: Outcome
    exit_code: int | None
    seconds: float
    oom: bool
    timed_out: bool
    used: str
    reason: str
    exception: ExceptionRecord | None
    stacks: ShownStacks | None
    lines: tuple[int, ...]
    file: str
    note: str


@dataclass(frozen=True, kw_only=True)
class ShownImage(ImageRecord):
    """The image of a cell, and what it was made of."""

    base: str
    served_by: Mapping[str, str]
    sources: Mapping[str, str | None]  # name -> commit


@dataclass(frozen=True, kw_only=True)
class EarlierVerdict(JsonRecord):
    """What a cell was judged before it was judged again."""

    at: str
    rules: str
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class ShownTensor(JsonRecord):
    """How two tensors differ, with the bars of a histogram."""

    name: str
    words: str
    bars: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class ShownComparison(JsonRecord):
    """What the trials wrote, against the reference."""

    reference: str
    more: int  # tensors that are not listed
    tensors: tuple[ShownTensor, ...]


@dataclass(frozen=True, kw_only=True)
class CellPage(JsonRecord):
    """A cell of ``data/cells/RUN/NAME/K.js``."""

    case: str
    run: str
    at: str
    engine: str
    version: str
    number: int
    cell: Mapping[str, str]
    variant: str
    verdict: str
    expected: Verdict | None
    as_expected: bool | None
    reason: str
    rules: str
    seconds: float | None
    tried: str | None
    failures: tuple[FailureRecord, ...]
    rejudged: tuple[EarlierVerdict, ...]
    comparison: ShownComparison | None
    build: FailedBuildRecord | None
    notes: tuple[str, ...]
    image: ShownImage | None
    asked: tuple[Compared, ...]
    facts: Mapping[str, Mapping[str, str]]  # concern -> name -> value, as ``reprokit diff`` compares them
    packages: Mapping[str, Mapping[str, str]]  # the same of the concerns :data:`PACKAGES`
    measured: bool
    dockerfile: str
    repeat: str
    trials: tuple[ShownTrial, ...]
    logs: tuple[ExcerptedLog, ...]

    def to_json(self) -> dict[str, Any]:
        """As of the base, with the log of a trial as ``logNUMBER``: each is kept, and shared, by itself."""
        found = super().to_json()
        logs = zip(self.trials, found.pop("logs"), strict=True)
        return {**found, **{f"log{trial.number}": log for trial, log in logs}}


def describe_cell(
    known: RecordedCase, run: RunRecord, record: CellRecord, log: Callable[[TrialRecord], Log]
) -> CellPage:
    """What a cell's page shows; ``log``: of a trial, as it may be shown."""
    text = known.file.text if known.file else ""
    facts = collect_facts(lambda digest: text if digest == known.digest else "", run, record).facts
    details = record.details
    logs = [log(trial) for trial in record.trials]
    return CellPage.pick(
        record,
        case=known.id,
        run=run.id,
        at=run.started_at,
        engine=run.host.engine or "",
        version=run.version,
        verdict=record.verdict.value if record.verdict else "undecided",
        reason=record.marked_reason,
        tried=details.tried or None,
        failures=details.ways,
        rejudged=tuple(EarlierVerdict.pick(one.before, at=one.at) for one in details.rejudged),
        comparison=details.comparison and _compare(details.comparison),
        build=details.build,
        notes=details.notes,
        image=_image(record),
        asked=tuple(comparing.compared(record.cell, record.environment)),
        facts={concern: values for concern, values in facts.items() if values and concern not in PACKAGES},
        packages={concern: facts[concern] for concern in PACKAGES if facts.get(concern)},
        measured=record.environment is not None,
        trials=tuple(map(_trial, record.trials, logs)),
        logs=tuple(map(_excerpt, record.trials, logs)),
    )


def _compare(record: ComparisonRecord) -> ShownComparison:
    tensors = [
        ShownTensor(name=one_line(one.name), words=str(one), bars=tuple(histogram(one.decades)))
        for one in record.tensors
    ]
    return ShownComparison(reference=record.reference, more=record.of - len(record.tensors), tensors=tuple(tensors))


def _image(record: CellRecord) -> ShownImage | None:
    if not record.image:
        return None
    base = record.details.base
    return ShownImage.pick(
        record.image,
        base=f"{base.reference} ({base.source})" if base and base.reference and base.source else "",
        served_by={name: text for name, text in record.details.served_by.items() if name != "base"},
        sources={name: tree.commit for name, tree in record.details.sources.items()},
    )


def _trial(trial: TrialRecord, log: Log) -> ShownTrial:
    return ShownTrial.pick(
        trial,
        used=usage_words(trial.usage).removeprefix(", "),
        stacks=find_stacks(log.text),
        file=log.file,
        note=log.note,
    )


def _excerpt(trial: TrialRecord, log: Log) -> ExcerptedLog:
    return excerpt(log.text, judged_lines(trial), MOST if log.file or log.whole else 0, log.kept)


MOST_THREADS = 32  # threads whose stacks come with the page; the log has all of them


def find_stacks(log: str) -> ShownStacks | None:
    """The stacks in a log; None where none were asked for."""
    if HEAD not in log and NONE not in log:
        return None
    _, stacks = split(plain(log))
    threads = [one for one in (stacks.samples[-1] if stacks.samples else stacks.threads) if one.frames]
    if not threads and not stacks.missing:
        return None
    where = "at the time limit" if stacks.samples else "of the crash"
    return ShownStacks(
        title=f"Stacks {where}: {pluralize(len(threads), 'thread')}" if threads else "No stacks",
        threads=tuple(ShownStack(name=_name(one, stacks), frames=_frames(one)) for one in threads[:MOST_THREADS]),
        more=max(len(threads) - MOST_THREADS, 0),
        missing=stacks.missing,
    )


def _name(stack: ThreadStack, stacks: Stacks) -> str:
    name = f"{stack.name} of {stack.program}" if stack.name not in ("", stack.program) else stack.program
    words = f"{name}, process {stack.process}, thread {stack.thread}"
    if stack.signal:
        return f"{words}: {stack.signal}"
    if not stack.sample:
        return words
    same = sum(
        any(one.thread == stack.thread and one.frames == stack.frames for one in look) for look in stacks.samples
    )
    return f"{words}: the same in {same} of {pluralize(len(stacks.samples), 'look')}"


def _frames(stack: ThreadStack) -> tuple[tuple[str, str], ...]:
    return tuple((one.function, f"{one.file}:{one.line}" if one.line else one.file) for one in stack.frames)


def judged_lines(trial: TrialRecord) -> set[int]:
    """The lines, from 1, that the judge looked at."""
    return {*trial.lines, *(trial.exception.lines if trial.exception else ())}


def excerpt(text: str, judged: Set[int], most: int = MOST, kept: Set[int] | None = None) -> ExcerptedLog:
    """What comes of a log with the page.

    A log of up to ``most`` characters is one part; of a longer one come a quarter of ``most`` from its beginning, as
    much from its end, and what is around the lines that were ``judged``, as far as it is ``kept``: see :class:`Log`.
    """
    cleaned = plain(text, colours=True)
    if not cleaned:
        return ExcerptedLog(lines=0)
    lines = cleaned.removesuffix("\n").split("\n")
    cuts = LineNumbers(text).cuts
    if len(cleaned) <= most and kept is None:
        return ExcerptedLog(lines=len(lines), parts=((1, "\n".join(lines)),), cuts=cuts)
    end = max(most // 4, 5000)
    wanted = lines_to_show(lines, judged, end, end)
    parts: list[tuple[int, list[str]]] = []
    for at in sorted(wanted if kept is None else {at for at in wanted if at + 1 in kept}):
        if not parts or parts[-1][0] + len(parts[-1][1]) != at + 1:
            parts.append((at + 1, []))
        line = lines[at]
        cut = f"{line[:end]} ... {len(line) - end} more characters"
        parts[-1][1].append(cut if len(line) > end and kept is None else line)
    return ExcerptedLog(lines=len(lines), parts=tuple((at, "\n".join(some)) for at, some in parts), cuts=cuts)


def lines_to_show(lines: Sequence[str], judged: Set[int], head: int, tail: int) -> set[int]:
    """The indices of the lines at the beginning and the end, of so many characters, and around those ``judged``."""
    first, last = count_within(lines, head), count_within(lines[::-1], tail)
    wanted = {*range(first), *range(len(lines) - last, len(lines))}
    around = {number - 1 + by for number in judged for by in range(-AROUND, AROUND + 1)}
    return wanted | {at for at in around if 0 <= at < len(lines)}


def count_within(lines: Sequence[str], most: int) -> int:
    """How many of the first lines have ``most`` characters together; at least one."""
    size = 0
    for at, line in enumerate(lines):
        size += len(line) + 1
        if size > most:
            return max(at, 1)
    return len(lines)


def last_states(text: str, judged: Set[int]) -> str:
    """A log whose lines are as a terminal leaves them where carriage returns overwrote them, as progress bars do.

    Lines that were ``judged`` stay whole: what matched may have been overwritten.
    """
    if "\r" not in text:
        return text
    lines = text.split("\n")
    return "\n".join(
        line if "\r" not in line or at in judged else _last_state(line) for at, line in enumerate(lines, 1)
    )


def _last_state(line: str) -> str:
    return next((state for state in reversed(line.split("\r")) if plain(state).strip()), "")


def thin_log(text: str, judged: Set[int], clean: Clean) -> tuple[str, str, str, Set[int]]:
    """A long log cleaned where it is shown, its other lines emptied; as it is copied; what is said of that; and the
    numbers of the lines that hold what they held. Cleaning takes most of the time that a report takes.
    """
    lines = PEM.sub(lambda key: "<private-key>" + "\n" * key[0].count("\n"), text).split("\n")
    head, tail = LOG_BYTES // 4, LOG_BYTES - LOG_BYTES // 4
    wanted = lines_to_show(lines, judged, head, tail)
    near = {at + by for at in wanted for by in range(-CONTEXT, CONTEXT + 1)}
    near |= {at for at, line in enumerate(lines) if CUT_MARK.fullmatch(line)}  # by these, lines are numbered
    found = same_lines("\n".join(_cut(line) if at in near else "" for at, line in enumerate(lines)), clean)
    parts = found.split("\n")
    first, last = count_within(lines, head), count_within(lines[::-1], tail)
    shown, note = found, ""
    if first + last < len(lines):
        left = sum(len(line) + 1 for line in lines[first:-last])
        note = f"{left:,} characters of {len(text):,} are left out in the middle"
        shown = "\n".join([*parts[:first], f"[... {note} ...]", *parts[-last:]])
    return found, shown, note, {at + 1 for at in wanted}


def _cut(line: str) -> str:
    """A line, of a very long one the beginning: no word that may be a secret is cut in two and goes unrecognised."""
    if len(line) <= LINE:
        return line
    last = re.search(r"[\w+/=.~-]*\Z", line[LINE - WORD : LINE])
    start = line[: LINE - len(last[0])] if last and len(last[0]) < WORD else line[:LINE]
    return f"{start} ... {len(line) - len(start)} more characters"


def same_lines(text: str, clean: Clean) -> str:
    """A text cleaned, with as many lines as before: what the judge looked at is known by its line.

    A key of several lines becomes one; empty lines then stand for the others, behind all that lies between the first
    place and the last where lines were lost.
    """
    found, lines = clean(text).split("\n"), text.split("\n")
    lost = len(lines) - len(found)
    if lost <= 0:
        return "\n".join(found)
    end = 0  # of the lines at the end, as many as stayed what they are
    while end < len(found) and found[-1 - end] in (lines[-1 - end], clean(lines[-1 - end])):
        end += 1
    return "\n".join([*found[: len(found) - end], *[""] * lost, *found[len(found) - end :]])


SHARED_FROM = 1500  # characters from which on a value of a cell is written once for all cells that have the same
CELLS = 100
"""Cells whose numbers lie so close that one file has them: a file is small, and ten thousand cells are few files."""
KEPT = 50_000  # values that are remembered with what they became
_PLAIN = (str, int, float, type(None))

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _key(value: Any) -> bytes | str:
    """What equal values have in common, and others do not. Marshalling takes a third of the time of JSON."""
    try:
        return marshal.dumps(value, 2)  # later versions tell objects from each other that are equal
    except ValueError:  # not made of Python's own types
        return _encode(value)


class Packer:
    """Writes the data of cells to a folder. What many cells have in common is cleaned and encoded once."""

    def __init__(self, folder: Folder, clean: Clean, log: Callable[[str, TrialRecord], Log]) -> None:
        """``log``: of a trial, by the ``KEY/NUMBER`` of its cell."""
        self._folder = folder
        self._clean = clean
        self._log = log
        self._texts: dict[tuple[str, object, type], str] = {}
        self._shared: set[str] = set()

    def write_cells(self, key: str, known: RecordedCase, run: RunRecord, cells: Sequence[CellRecord]) -> None:
        """Write ``data/cells/KEY.js``: ``{cells, columns, values}``, the data of ``cells`` by their numbers."""
        pages = [describe_cell(known, run, one, partial(self._log, f"{key}/{one.number}")) for one in cells]
        self._write(f"cells/{key}", pages)

    def _write(self, key: str, cells: Sequence[CellPage]) -> None:
        """Write ``data/KEY.js``.

        ``columns``: of each name the position in ``values`` for each of the ``cells``, -1 where the cell is without it;
        one position instead where all cells have the same.
        """
        at: dict[str, int] = {}
        columns: dict[str, list[int]] = {}
        for row, page in enumerate(cells):
            for name, value in page.to_json().items():
                column = columns.setdefault(name, [])
                column += [-1] * (row - len(column))
                column.append(at.setdefault(self._text(name, value), len(at)))
        for column in columns.values():
            column += [-1] * (len(cells) - len(column))
        short = {name: column[0] if len({*column}) == 1 else column for name, column in columns.items()}
        about = f'"cells":{_encode([page.number for page in cells])},"columns":{_encode(short)}'
        self._folder.text(f"data/{key}.js", script_json(key, f'{{{about},"values":[{",".join(at)}]}}'))

    def _text(self, name: str, value: Any) -> str:
        """What stands for a value of that name: itself, or where a large one is kept."""
        # Words of ours stay as they are, so that the same text under another name may become something else.
        where = name if name in NAMES or name in FREE else ""
        key = (where, value if isinstance(value, _PLAIN) else _key(value), type(value))
        if key not in self._texts:
            if len(self._texts) >= KEPT:
                self._texts.clear()
            plain = _encode(value)
            large = len(plain) >= SHARED_FROM
            self._texts[key] = self._share(name, value, plain) if large else self._small(name, value, plain)
        return self._texts[key]

    def _cleaned(self, name: str, value: Any) -> Any:
        return clean_texts({name: value}, self._clean)[name]

    def _small(self, name: str, value: Any, plain: str) -> str:
        shown = self._cleaned(name, value)
        return plain if shown == value else _encode(shown)

    def _share(self, name: str, value: Any, plain: str) -> str:
        digest = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:16]
        if digest not in self._shared:
            self._shared.add(digest)
            key = f"shared/{digest}"
            self._folder.text(f"data/{key}.js", script(key, self._cleaned(name, value)))
        return _encode({"$shared": digest})
