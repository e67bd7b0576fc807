"""Drives a search with containers: runs its cells, records them as a run in the store, shows and resumes them.

A command calls ``session.start(kind, request, arguments, make)`` or ``session.resume(kind, cases, make)``, and then
``session.result()``. ``make(session)`` returns the search (see :mod:`reprokit.search.queries`), whose result is a
:class:`SearchAnswer`. It reads everything from outside but the case, the request and the arguments through
``session.recall``, so that a resumed search takes the same path as the first. A search never runs a decided cell (same
case digest, cell and rules) twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import itertools
import sys
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.case.matrix import cell_key, label
from reprokit.core.errors import CaseError, ReprokitError, Unsupported, UsageError
from reprokit.core.interrupts import WAIT_FOR, GaveUp, signals
from reprokit.core.text import pluralize
from reprokit.core.version import __version__
from reprokit.engine.images import find_built
from reprokit.environment.steps import instructions
from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import RULES_VERSION, Verdict
from reprokit.evidence.reading import Reading, reading
from reprokit.evidence.records import ANSWER, CellRecord, RequestRecord, RunRecord, SearchRecord
from reprokit.run.approving import approve
from reprokit.run.building import bases_here
from reprokit.run.comparing import check_search, reference_cell
from reprokit.run.images import image_for
from reprokit.run.invocation import Invocation, load_again, new_id, now
from reprokit.run.listener import Display, Listener
from reprokit.run.loading import load_all
from reprokit.run.plan import task_of
from reprokit.run.request import Request
from reprokit.run.resuming import UNDECIDED, is_over, out_of_sight
from reprokit.run.runner import Runner
from reprokit.run.sources import SourceError, SourceTrees
from reprokit.run.task import Task
from reprokit.search.queries import (
    Candidate,
    Query,
    Search,
    SearchAnswer,
    SearchDocument,
    SearchedCase,
    SearchedCell,
    T,
    answer_from_json,
    drive,
)
from reprokit.search.repeating import KnownTrials, known_trials, tally_of
from reprokit.store.folder import SeenBases, make_folder

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.core.json_record import JsonRecord
    from reprokit.engine.protocol import Engine, EngineInfo
    from reprokit.store.database import Store

NEW_BASE = 100
"""Added to the steps where the engine has to get a base image first."""
NOT_SERVED = 1000
"""The cost of a cell that this host cannot serve: it is tried last."""


def count_unshared(dockerfile: str, known: Collection[str]) -> int:
    """How many instructions of a Dockerfile follow the longest beginning that it shares with one of ``known``."""
    own, *others = ([*filter(None, instructions(one))] for one in (dockerfile, *known))
    pairs = (zip(own, other, strict=False) for other in others)
    alike = (sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], some)) for some in pairs)
    return len(own) - max(alike, default=0)


class Ahead:
    """Builds the images that a search is likely to ask for next, while its containers run: one build at a time.

    Each is built by a runner of its own that can be cancelled. Errors are not reported here: the search builds the
    image again if it needs it, and waits for the image's lock while this builds it.
    """

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make = make
        self._builder = ThreadPoolExecutor(1, "ahead")
        self._under_way: dict[Hashable, tuple[Future[None], Runner]] = {}

    def want(self, tasks: Mapping[Hashable, Task], keep: frozenset[Hashable]) -> None:
        """Build the images of ``tasks``; stop the builds whose key is in neither ``tasks`` nor ``keep``."""
        for key in [key for key in self._under_way if key not in tasks and key not in keep]:
            self._drop(key)
        for key, task in tasks.items():
            if key not in self._under_way:
                runner = self._make()
                self._under_way[key] = (self._builder.submit(_build, runner, task), runner)

    def _drop(self, key: Hashable) -> None:
        future, runner = self._under_way.pop(key)
        future.cancel()
        runner.cancel()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        under_way = [future for future, _ in self._under_way.values()]
        for key in list(self._under_way):
            self._drop(key)
        wait(under_way, timeout=0 if isinstance(error, GaveUp) else WAIT_FOR)
        self._builder.shutdown(wait=False)


def _build(runner: Runner, task: Task) -> None:
    with contextlib.suppress(Exception):
        runner.build([task])


TaskKey = tuple[str, str]
"""Case digest and cell: a search decides each pair once."""


class SearchSession(Invocation):
    """One search over one case, new or resumed."""

    file: CaseFile
    request: Request
    arguments: Mapping[str, Any]

    def __init__(
        self,
        store_folder: Path,
        *,
        display: Display,
        engine: Callable[[], Engine] | None = None,
    ) -> None:
        super().__init__(store_folder, display=display, engine=engine, confirming=lambda _: self._next_repeat)
        self._wanted: dict[int, int] = {}
        self.label_axes: tuple[str, ...] = ()  # that progress lines show; empty for all
        self.answer: SearchAnswer | None = None
        self._records: dict[TaskKey, CellRecord] = {}
        self._numbers: dict[TaskKey, int] = {}
        self._recalled: dict[str, Any] = {}
        self._texts: set[str] = set()
        self._shown: set[TaskKey] = set()
        self._dockerfiles: set[str] = set()
        self._checked: dict[tuple[str, str], Path] = {}
        self._listener: Listener = Listener()

    def start(
        self,
        kind: str,
        request: Request,
        arguments: JsonRecord,
        make: Callable[[SearchSession], Search[SearchAnswer]],
        file: CaseFile | None = None,
    ) -> int:
        """Start a search over the one case that ``request`` names; returns the exit status of the command ``kind``.
        ``file``: the case, where it was read already.

        Raises UsageError or CaseError before anything is run or recorded, and EngineError when the engine stops
        answering.
        """
        run_id = new_id(self.folder)
        self.file = file or _the_case(load_all(request.cases), request)
        [self.file] = approve([self.file], request)
        self.request = request
        self.arguments = arguments.to_json()
        check_search(self.file.case)
        search = make(self)
        self._open_engine(request).info()
        make_folder(self.folder)
        known = SearchRecord(
            kind=kind,
            arguments=self.arguments,
            line=tuple(sys.argv[1:]),
            digest=self.file.digest,
            trust=self.file.trust,
        )
        record = RunRecord(
            id=run_id,
            started_at=now(),
            version=__version__,
            request=RequestRecord(asked=self.request.to_json(), search=known),
            host=self._host(None),
            owner=self._own(run_id),
        )
        self._recorder.begin(record, {self.file.digest: (self.file.case.id, self.file.case.title, self.file.text)})
        return self._go(search, record, f"{kind} {run_id}: {self.file.case.id}")

    def resume(
        self,
        kind: str,
        cases: Sequence[str],
        make: Callable[[SearchSession], Search[SearchAnswer]],
        jobs: int | None = None,
        arguments: JsonRecord | None = None,
    ) -> int:
        """Resume the last search of that kind that has no answer; returns the exit status of the command.

        ``cases``: only a search over these; empty for any. ``jobs``: replaces the recorded number of jobs.
        ``arguments``: only a search with these; where it has an answer, that is taken over.
        Raises as :meth:`start` does.
        """
        store = self._open_store()
        record = _unanswered(store, kind, cases, arguments)
        known = record.request.search if record is not None else None
        if record is None or known is None:
            raise UsageError(f"nothing to resume: there is no interrupted {kind} in {self.folder}")
        request = Request.from_json(record.request.asked)
        self.request = dataclasses.replace(request, refresh_bases=False, jobs=request.jobs if jobs is None else jobs)
        self.arguments = known.arguments
        read = {known.digest: (request.cases[0], known.trust)}
        self.file = _the_case(load_again(store, record, request, read), request)
        if self.file.digest != known.digest:
            raise UsageError(
                f"{kind} {record.id} cannot be resumed: its case has changed since; start again without --resume"
            )
        self._recalled = store.findings(record.id)
        for cell in record.cells:
            key = (cell.case_digest, cell_key(cell.cell))
            self._numbers[key] = cell.number
            if cell.verdict not in UNDECIDED and cell.rules == RULES_VERSION:
                self._records[key] = cell
        if ANSWER in self._recalled:
            self.record, self.answer = record, answer_from_json(kind, self._recalled[ANSWER])
            return self.answer.exit_status
        self._open_engine(self.request).info()
        search = make(self)
        texts = store.texts(cell.case_digest for cell in record.cells)
        store.close()
        record = dataclasses.replace(record, owner=self._own(record.id), finished_at=None, exit_status=None)
        self._recorder.begin(record, texts, resumed=True)
        decided = pluralize(len(self._records), "cell")
        return self._go(search, record, f"resuming {kind} {record.id}: {decided} decided")

    def recall(self, key: str, find: Callable[[], Any]) -> Any:
        """The JSON value that ``find`` returns: called once per search and recorded, however often it is resumed."""
        if key not in self._recalled:
            self._recalled[key] = find()
            if self.record is not None:
                self._recorder.find(key, self._recalled[key])
        return self._recalled[key]

    def cost(self, candidate: Candidate) -> int:
        """What a candidate costs before its program runs: 0 where its image exists or it is decided.

        Else 1 for each instruction of its Dockerfile that no image shares. The first value is kept for the whole
        search. Raises EngineError.
        """
        key = self._key(candidate)
        if key in self._records and key in self._shown:
            return 0
        return int(self.recall(f"cost {key[0]} {key[1]}", lambda: self._cost(candidate)))

    def record_of(self, candidate: Candidate) -> CellRecord | None:
        """The record of a candidate; None until it is decided."""
        return self._records.get(self._key(candidate))

    @property
    def trials(self) -> KnownTrials:
        """What is known of the trials of decided candidates, and for how many seconds they may be repeated."""
        return known_trials(lambda one: self._records[self._key(one)], self._records.values(), self.request.confirm)

    def decided_before(self, variant: str = "case") -> list[CellRecord]:
        """The cells of the last run of this exact case text, without those of its fix, or those of its fix alone."""
        store = self._open_store()
        seen = store.last_seen(self.file.key)
        store.close()
        cells = seen[1] if seen else []
        return [cell for cell in cells if cell.case_digest == self.file.digest and cell.variant == variant]

    def note(self, text: str) -> None:
        """Show a line to the user."""
        self._listener.note(text)

    def result(self) -> SearchDocument:
        """The search with its cells, and its answer if it has one."""
        assert self.record is not None
        assert self.record.request.search is not None
        return SearchDocument.pick(
            self,
            kind=self.record.request.search.kind,
            run_id=self.record.id,
            case=SearchedCase.pick(self.file, id=self.file.case.id),
            cells=tuple(
                SearchedCell.pick(cell, digest=cell.case_digest, reading=reading(cell.verdict), trials=tally_of(cell))
                for cell in self._cells()
            ),
        )

    def _go(self, search: Search[SearchAnswer], record: RunRecord, begun: str) -> int:
        self.record = record
        for key, value in self._recalled.items():
            self._recorder.find(key, value)
        self._say(begun)
        gc.enable()  # the command line starts without
        status: int = 3
        engine: EngineInfo | None = None
        try:
            with self._display.progress() as self._listener, signals(), Ahead(self._silent_runner) as ahead:
                runner = self._runner(record.id, self.request, self._recorder, self._listener)
                for decided in self._records.values():
                    runner.reuse(decided)
                try:
                    self.answer = drive(search, functools.partial(self._decide, runner, ahead))
                finally:
                    engine = runner.engine_info
                status = self.answer.exit_status
                self._recorder.find(ANSWER, self.answer.to_json())
        except KeyboardInterrupt:
            status = 130
        except ReprokitError as error:
            status = error.exit_status
            raise
        finally:
            try:
                self._finish(status, engine)
            finally:
                self._close()
        return status

    def _decide(self, runner: Runner, ahead: Ahead, ask: Query) -> tuple[Reading, ...]:
        """The readings of the candidates of ``ask``; runs those that are not decided yet."""
        keys = [self._key(candidate) for candidate in ask.candidates]
        if ask.again:
            self._repeat(runner, dict(zip(keys, ask.candidates, strict=True)))
            return tuple(reading(self._records[key].verdict) for key in keys)
        todo = {key: one for key, one in zip(keys, ask.candidates, strict=True) if key not in self._records}
        todo |= {key: one for key, one in self._references(list(todo.values())) if key not in self._records}
        for key in todo:
            self._numbers.setdefault(key, max(self._numbers.values(), default=0) + 1)
        self._show(todo | dict(zip(keys, ask.candidates, strict=True)))
        tasks = {key: task for key, one in todo.items() if (task := self._task(one, runner))}
        # No build beside trials whose time counts.
        ahead_of_time = () if self.file.case.expect.ratio else ask.soon
        soon = {self._key(one): one for one in ahead_of_time if self._key(one) not in self._records}
        ahead.want(
            {key: task for key, one in soon.items() if key not in tasks and (task := self._task(one))}, frozenset(tasks)
        )
        try:
            if tasks:
                runner.run(list(tasks.values()))
        finally:  # an interrupt leaves the cells that were decided before it
            found = {record.number: record for record in runner.records}
            self._records |= {key: found[self._numbers[key]] for key in todo if self._numbers[key] in found}
        if any(self._records[key].verdict is Verdict.CANCELLED for key in todo):
            # Python loses an interrupt that arrives while an object is finalised; a cancelled cell still shows it.
            raise KeyboardInterrupt
        if any(self._records[key].verdict is Verdict.ENGINE_ERROR for key in todo):
            # If the engine no longer answers, the search ends and can be resumed; else the cell is unresolved.
            self._open_engine(self.request).info()
        return tuple(reading(self._records[key].verdict) for key in keys)

    def _references(self, candidates: Iterable[Candidate]) -> Iterator[tuple[TaskKey, Candidate]]:
        """The cells of the case as it stands that candidates, rewritten ones too, are compared with."""
        for one in candidates:
            cell = reference_cell(self.file.case, one.cell)
            if cell is not None:
                other = Candidate(cell=cell)
                yield self._key(other), other

    def _repeat(self, runner: Runner, asked: Mapping[TaskKey, Candidate]) -> None:
        """One more trial of each of these, which are decided. Where one does not come about, no more are asked for."""
        self._wanted = {self._numbers[key]: len(self._records[key].trials) + 1 for key in asked}
        try:
            runner.run([], [task for one in asked.values() if (task := self._task(one, runner))])
        finally:
            found = {record.number: record for record in runner.records}
            self._records |= {key: found[self._numbers[key]] for key in asked}
        if any(len(found[number].trials) < wanted for number, wanted in self._wanted.items()):
            self.request = dataclasses.replace(self.request, confirm="never")

    def _next_repeat(self, records: Sequence[CellRecord], running: Collection[int]) -> int | None:
        """Implements :class:`reprokit.run.confirming.Planner`: what a search asks for, and nothing else."""
        behind = (one.number for one in records if len(one.trials) < self._wanted.get(one.number, 0))
        return next((number for number in behind if number not in running), None)

    def _show(self, asked: Mapping[TaskKey, Candidate]) -> None:
        """Pass the listener the cells that are asked for now, and the verdicts that a resumed search already has."""
        new = {key: one for key, one in asked.items() if key not in self._shown}
        self._shown |= new.keys()
        self._listener.appended({self._numbers[key]: self._name(one) for key, one in new.items()})
        for key in new:
            if key in self._records:
                self._listener.decided(self._records[key])

    def _task(self, candidate: Candidate, runner: Runner | None = None) -> Task | None:
        """The candidate's task; None where a template of the case fails for such a cell.

        With a ``runner``, the failure is then recorded as the cell's verdict.
        """
        file = candidate.file or self.file
        if runner is not None:
            self._know(file)
        number = self._numbers.get(self._key(candidate), 0)
        try:
            task = task_of(number, file, file.case, "case", candidate.cell, self.request, self._checked)
            own = self.record.id if candidate.fresh and self.record else ""
            # A rewritten case has no expectations.
            return (
                dataclasses.replace(task, expected=None, tried=candidate.name, rebuilt=own) if candidate.file else task
            )
        except CaseError as error:
            if runner is not None:
                record = CellRecord(
                    number=number,
                    case_id=file.case.id,
                    case_path=file.path,
                    case_digest=file.digest,
                    cell=candidate.cell,
                    verdict=Verdict.UNSUPPORTED,
                    reason=error.problems[0].message,
                    rules=RULES_VERSION,
                    details=CellDetails(trust=file.trust),
                )
                self._recorder.decide(record)
                self._listener.decided(record)
                runner.reuse(record)
        return None

    def _cost(self, candidate: Candidate) -> int:
        task = self._task(candidate)
        if task is None:
            return NOT_SERVED
        engine = self._open_engine(self.request)
        try:
            image = image_for(task, self._supply(self.request), self._trees)
        except (Unsupported, SourceError):
            return NOT_SERVED
        dockerfile = image.rendered.dockerfile
        bases = bases_here(engine, image, SeenBases(self.folder))
        if bases is None or not find_built(engine, image.name(bases)):
            return NEW_BASE * (bases is None) + count_unshared(dockerfile, self._dockerfiles)
        if dockerfile:
            self._dockerfiles.add(dockerfile)
        return 0

    @functools.cached_property
    def _trees(self) -> SourceTrees:
        return SourceTrees(self.request.sources_for, lambda _: None)

    def _silent_runner(self) -> Runner:
        return self._runner("", self.request, None, Listener())

    def _know(self, file: CaseFile) -> None:
        if self.record is not None and file.digest not in self._texts:
            self._texts.add(file.digest)
            self._recorder.know(file.digest, file.case.id, file.case.title, file.text)

    def _key(self, candidate: Candidate) -> TaskKey:
        return (candidate.file or self.file).digest, cell_key(candidate.cell)

    def _name(self, candidate: Candidate) -> str:
        shown = {name: candidate.cell[name] for name in self.label_axes if name in candidate.cell}
        return candidate.name or label(shown or candidate.cell)

    def _cells(self) -> tuple[CellRecord, ...]:
        return tuple(sorted(self._records.values(), key=lambda cell: cell.number))

    def _finish(self, status: int, engine: EngineInfo | None) -> None:
        assert self.record is not None
        self.record = record = dataclasses.replace(
            self.record,
            cells=self._cells(),
            host=self._host(engine),
            finished_at=now(),
            exit_status=status,
            version=__version__,
        )
        try:
            self._recorder.finish(finished_at=record.finished_at or "", exit_status=status, host=record.host)
        finally:
            if late := self._recorder.close():
                self._say(late)

    def _close(self) -> None:
        assert self.record is not None
        self._display.search_ended(self.record.cells)
        if self.answer is not None:
            for line in self.answer.words:
                self._say(line)
            self._say(f"details: reprokit show {self.record.id} [CELL]")
        elif self.record.request.search is not None:
            kind = self.record.request.search.kind
            count = sum(cell.verdict not in UNDECIDED for cell in self.record.cells)
            self._say(f"stopped: {pluralize(count, 'cell')} decided and kept; continue with: reprokit {kind} --resume")


@dataclass(kw_only=True)
class Spent:
    """The cells and time that a search has used, as recorded: a resumed search stops where the first would have."""

    session: SearchSession
    max_cells: int  # 0 for no such limit
    most_seconds: float  # 0 for no such limit
    asked: list[Candidate] = field(default_factory=list)
    seconds: float = 0.0  # that candidates took to be decided

    @property
    def records(self) -> list[CellRecord]:
        """The records of the candidates, in the order in which they were run."""
        return [record for one in self.asked if (record := self.session.record_of(one)) is not None]

    def all(self) -> bool:
        """Whether a limit is reached; one cell is kept for a final check."""
        return bool(self.max_cells and len(self.asked) + 1 >= self.max_cells) or self.is_late()

    def is_late(self) -> bool:
        """Whether the time is over."""
        return bool(self.most_seconds and self.seconds >= self.most_seconds)

    def watch(self, search: Search[T]) -> Search[T]:
        """``search``, with its candidates and their time counted."""
        readings: tuple[Reading, ...] | None = None
        while True:
            try:
                ask = next(search) if readings is None else search.send(readings)
            except StopIteration as end:
                found: T = end.value
                return found
            started = time.monotonic()
            readings = yield ask
            took = round(time.monotonic() - started, 2)
            if ask.again:
                self.seconds += took
                continue
            self.asked += ask.candidates
            self.seconds += float(self.session.recall(f"seconds {len(self.asked)}", functools.partial(float, took)))


def _the_case(files: Sequence[CaseFile], request: Request) -> CaseFile:
    if len(files) != 1:
        names = ", ".join(file.case.id for file in files[:3])
        raise UsageError(
            f"a search takes one case, and {request.cases[0]} holds {len(files)}: {names} ...; name the file of one"
        )
    return files[0]


def _unanswered(store: Store, kind: str, cases: Sequence[str], arguments: JsonRecord | None) -> RunRecord | None:
    """The newest search of a kind that has no answer, or has these ``arguments``, and whose process has exited.

    Raises UsageError where all that there is may still be running out of sight.
    """
    wanted = Request(cases=tuple(cases)).to_json()["cases"]
    unseen: list[RunRecord] = []
    for run in store.runs(None):
        search = run.request.search
        if search is None or run.owner.imported or search.kind != kind or (cases and list(run.request.cases) != wanted):
            continue
        if run.exit_status == UsageError.exit_status or (arguments and search.arguments != arguments.to_json()):
            continue  # its arguments were wrong: resuming would fail again
        if is_over(run, unseen) and (arguments or ANSWER not in store.findings(run.id)):
            return store.run(run.id)
    if unseen:
        raise UsageError(f"nothing to resume: {out_of_sight(unseen[0])}")
    return None
