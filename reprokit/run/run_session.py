"""One invocation of ``reprokit run``: plan, record, run, show, and say how to go on after an interruption."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reprokit.case.matrix import Cell, Selection, cell_key, label
from reprokit.case.trust import Trust, least
from reprokit.core.errors import RecordError, UsageError
from reprokit.core.interrupts import signals
from reprokit.core.text import build_times, pluralize, seconds
from reprokit.core.version import __version__
from reprokit.engine import site
from reprokit.evidence.records import CellRecord, RequestRecord, RunRecord, exit_status
from reprokit.evidence.spans import KEY, Timings
from reprokit.run import resuming
from reprokit.run.admitting import check_run_time, site_caps
from reprokit.run.approving import approve
from reprokit.run.case_warnings import axis_hints
from reprokit.run.cell_records import blank_record
from reprokit.run.invocation import Invocation, load_again, new_id, now, workflow
from reprokit.run.keeping import check_room
from reprokit.run.listener import Listener
from reprokit.run.loading import load_all
from reprokit.run.plan import check_locks, narrow_to_failed, plan
from reprokit.run.request import Request
from reprokit.run.task import Task
from reprokit.store.folder import make_folder

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.evidence.records import CellRecord
    from reprokit.run.images import BuiltImage
    from reprokit.run.launch.launched_runner import LaunchedRunner
    from reprokit.run.launch.launcher import Launcher
    from reprokit.run.lock_making import LockResult
    from reprokit.run.runner import Runner
    from reprokit.store.recorder import Recorder


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildResult:
    """The images that were built or found, each with the cells that share it, and the cells that have none."""

    built: tuple[tuple[BuiltImage, tuple[Task, ...]], ...]
    failed: tuple[CellRecord, ...]

    @property
    def exit_status(self) -> int:
        """0, or 3 where a cell has no image."""
        return 3 if self.failed else 0


class Session(Invocation):
    """Runs a request and keeps its record in ``record``. ``files``: the cases of what was run, by digest.

    ``timings``: where the time went, None before anything was run.
    """

    files: Mapping[str, CaseFile]
    timings: Timings | None = None
    _launcher: Launcher | None = None

    def start(self, request: Request, *, failed: bool = False, trust: Trust | None = None) -> int:
        """Plan and run; returns the contract's exit status. ``failed``: see :func:`.narrow_to_failed`.
        ``trust``: how far its cases are trusted, None = by where they are read.

        Raises UsageError or CaseError, and EngineError where no engine answers, before anything is run or recorded.
        """
        files = _load(request, trust)
        if failed:
            if not self.folder.is_dir():
                raise UsageError(f"--failed: nothing was run here yet: {self.folder} does not exist")
            store = self._open_store()
            request = narrow_to_failed(store, files, request)
            store.close()
        return self.begin(request, files, self._approved(files, request))

    def begin(self, request: Request, files: Sequence[CaseFile], tasks: Sequence[Task]) -> int:
        """Run tasks that may be run. Raises as :meth:`start`."""
        check_run_time(tasks, site_caps())
        if not request.on and (full := check_room(tasks, self.folder, site.settings().budget)):
            self._say(full)
        self._check_engine(request, tasks)
        run_id = new_id(self.folder)
        make_folder(self.folder)
        record = RunRecord(
            id=run_id,
            started_at=now(),
            version=__version__,
            request=RequestRecord(asked=request.to_json(), workflow=workflow(os.environ)),
            host=self._host(None),
            owner=self._own(run_id),
            cells=tuple(blank_record(task) for task in tasks),
        )
        self._recorder.begin(record, _texts(files))
        return self._go(record, request, tasks, {})

    def list_travelling(self, request: Request) -> int:
        """Say what would travel to the nodes of a launcher. Raises as :meth:`start`."""
        from reprokit.run.launch.travelling import describe

        for line in describe(plan(_load(request), request), request):
            self._say(line)
        return 0

    def resume(self, asked: Request | None, jobs: int | None = None, on: str = "") -> int:
        """Go on with the last run that was stopped or left cells inconclusive, one over these cases if ``asked`` names
        some.

        What it was asked then holds; another ``asked`` is refused, but for ``jobs``. ``on``: another cluster than its
        own.
        """
        if asked is not None and "-" in asked.cases:
            raise UsageError("--resume: the run keeps what it read from standard input; leave out the -")
        store = self._open_store()
        record = resuming.find_resumable(store, asked.to_json()["cases"] if asked else None)
        if record is None:
            if asked is None:
                raise UsageError(f"nothing to resume: in {self.folder}, no run was stopped or has inconclusive cells")
            going = resuming.find_in_progress(store, asked.to_json()["cases"])
            why = f"; run {going.id} is still in progress, in {going.owner}" if going else ""
            self._say(f"nothing to resume for these cases: starting a new run{why}")
            return self.start(asked)
        request = Request.from_json(record.request.asked)
        if request.bundle:
            raise UsageError(f"run {record.id} was of a bundle, which is run again: reprokit run {request.cases[0]}")
        if asked is not None and _essence(asked) != _essence(request):
            raise UsageError(
                f"run {record.id} was asked for something else; leave out the options to go on with it, "
                "or leave out --resume to run again"
            )
        # Its decided cells hold what the bases were when it started.
        request = dataclasses.replace(request, refresh_bases=False, jobs=request.jobs if jobs is None else jobs)
        request = dataclasses.replace(request, on=on or request.on)
        if asked is not None:
            request = dataclasses.replace(request, yes=asked.yes, reviewed=asked.reviewed)
        read = {cell.case_digest: (cell.case_path, cell.details.trust) for cell in record.cells}
        files = load_again(store, record, request, read)
        if asked is not None and asked.reviewed:
            files = approve(files, asked)
        tasks = plan(files, request)
        now_planned = [(task.file.digest, task.case.id, cell_key(task.cell), task.variant) for task in tasks]
        then = [(cell.case_digest, cell.case_id, cell_key(cell.cell), cell.variant) for cell in record.cells]
        if now_planned != then:
            known = {cell.case_digest for cell in record.cells}
            changed = ", ".join(dict.fromkeys(task.case.id for task in tasks if task.file.digest not in known))
            what = f"{changed} changed" if changed else "its cases or their cells changed"
            raise UsageError(f"run {record.id} cannot be resumed: {what} since; run again, without --resume")
        todo = {cell.number for cell in resuming.cells_to_repeat(record.cells)}
        done = {cell.number: cell for cell in record.cells if cell.number not in todo}
        self._check_engine(request, [task for task in tasks if task.number not in done])
        store.close()
        changed = resuming.changes_of_host(record.host, self._host(None))
        record = dataclasses.replace(record, owner=self._own(record.id), finished_at=None, exit_status=None)
        self._recorder.begin(record, _texts(files), resumed=True)
        self._say(f"resuming run {record.id}: {len(done)} of {len(tasks)} cells are decided")
        if changed:
            self._say(f"this host has changed since the run began ({changed}); decided cells are from before")
        return self._go(record, request, tasks, done)

    def build(self, request: Request) -> BuildResult:
        """Build and measure the images only. Records no run."""
        tasks = self._approved(load_all(request.cases), request)
        self._open_engine(request).info()
        make_folder(self.folder)
        with self._display.progress() as listener, signals():
            runner = self._runner("", request, None, listener)
            listener.planned("", tasks)
            began = time.monotonic()
            images = runner.build(tasks)
            took = time.monotonic() - began
        for _, ready, waiting in images:
            how = "exists"
            if ready.built or ready.fetched:
                how = f"{'built' if ready.built else 'fetched'} in {seconds(ready.seconds)}"
            size = f"{ready.image.size / 1e6:.0f} MB"
            self._say(f"{ready.image.tag}: {how}, {size}, {len(waiting)} cell{'s' if len(waiting) != 1 else ''}")
        for record in runner.records:
            self._say(f"{record.case_id}: {label(record.cell)}: {record.verdict}: {record.reason}")
        built = sum(ready.built for _, ready, _ in images)
        if len(images) > 1:
            self._say(build_times(built, took, len(images) - built))
        return BuildResult(built=tuple((ready, tuple(waiting)) for _, ready, waiting in images), failed=runner.records)

    def lock(self, request: Request, *, upgrade: bool = False, check: bool = False) -> LockResult:
        """Write the locks of cases. ``check``: only look.

        ``upgrade``: lock again what is fresh, too, from images that are built again.
        """
        from reprokit.run import lock_making

        check_locks(request)  # else every cell would be locked as unsupported
        files = load_all(request.cases)
        fixable = (task.file.fixed and task.case.fix_applies(task.cell) for task in plan(files, request))
        request = dataclasses.replace(request, fix=any(fixable))
        tasks = self._approved(files, request)
        wishes = lock_making.lock_requests(tasks, upgrade=upgrade)
        for wish in wishes:
            if not wish.todo:
                self._say(f"{wish.path}: fresh, {pluralize(len(wish.tasks), 'cell')}")
            elif check:
                self._say("\n  ".join([f"{wish.path}: stale", *wish.faults]))
        todo = [task for wish in wishes for task in wish.todo]
        if check or not todo:
            return lock_making.LockResult(wishes=tuple(wishes))
        lock_making.check_folders(wishes)
        engine = self._open_engine(request)
        engine.info()
        make_folder(self.folder)
        with self._display.progress() as listener, signals():
            runner = self._runner("", request, None, listener)
            listener.planned("", todo)
            images = runner.build(todo, fresh=upgrade)
            entries, refused = lock_making.entries_of(engine, self.folder, images, request, listener)
        refused += lock_making.refusals_of(todo, runner.records)
        whole = ["case", "fix"] if request.selection == Selection() else []
        written = set()
        for wish in wishes:
            if text := lock_making.write_lock(wish, entries, refused, whole):
                written.add(wish.path)
                self._say(text)
        for one in refused:
            self._say(str(one))
        return lock_making.LockResult(wishes=tuple(wishes), written=frozenset(written), refused=tuple(refused))

    @staticmethod
    def _approved(files: Sequence[CaseFile], request: Request) -> list[Task]:
        """What is to be built and run, once it may be. Raises UsageError when it may not."""
        tasks = plan(files, request)
        cells: dict[str, list[Cell]] = {}
        for task in tasks:
            cells.setdefault(task.file.digest, []).append(task.cell)
        then = list({task.file.digest: task.file for task in tasks}.values())
        now = approve(then, request, cells)
        if [file.trust for file in now] == [file.trust for file in then]:
            return tasks
        agreed = {file.digest: file for file in now}
        # Again: what is given to a case depends on how far it is trusted.
        return plan([agreed.get(file.digest, file) for file in files], request)

    def _go(
        self,
        record: RunRecord,
        request: Request,
        tasks: Sequence[Task],
        done: dict[int, CellRecord],
    ) -> int:
        gc.enable()  # the command line starts without
        interrupted = False
        unrecorded: RecordError | None = None
        with self._display.progress() as listener, signals():
            undone = [task for task in tasks if task.number not in done]
            runner = self._cells_runner(record.id, request, self._recorder, listener, undone)
            listener.planned(record.id, tasks)
            for file in {task.file.path: task.file for task in tasks}.values():
                for hint in axis_hints(file):
                    listener.note(str(hint))
            if not request.locked:
                self._note_locks(tasks, listener)
            for task in tasks:
                if task.number in done:
                    runner.reuse(done[task.number])
                    listener.decided(done[task.number])
            try:
                todo, earlier = ([task for task in tasks if (task.number in done) is known] for known in (False, True))
                runner.run(todo, earlier)
            except KeyboardInterrupt:
                interrupted = True
            except RecordError as error:
                unrecorded = error
            except BaseException:
                self._recorder.close()
                raise
        self.files = {task.file.digest: task.file for task in tasks}
        cells = runner.records
        status = 130 if interrupted else unrecorded.exit_status if unrecorded else exit_status(cells)
        self.record = record = dataclasses.replace(
            record,
            cells=cells,
            host=dataclasses.replace(
                self._host(runner.engine_info), nodes=tuple(dict.fromkeys((*record.host.nodes, *runner.nodes)))
            ),
            finished_at=now(),
            exit_status=status,
            version=__version__,
        )
        self.timings, is_recorded = runner.timings, False
        try:
            late = self._end_record(record, self.timings, unrecorded)
            is_recorded = True
        except RecordError as error:
            self.record = record = dataclasses.replace(record, exit_status=error.exit_status)
            raise
        finally:
            self._display.run_ended(record, self.files.get, interrupted=interrupted, recorded=is_recorded)
        if late:
            self._say(late)
        return status

    def _end_record(self, record: RunRecord, timings: Timings, unrecorded: RecordError | None) -> str:
        """Record the end of a run; returns as :meth:`.Recorder.close`. Raises RecordError, ``unrecorded`` if any."""
        try:
            if unrecorded is not None:
                raise unrecorded
            self._recorder.find(f"{KEY} {timings.began}", timings.to_json())
            at, status = record.finished_at or "", record.exit_status or 0
            self._recorder.finish(finished_at=at, exit_status=status, host=record.host)
        except RecordError:
            with contextlib.suppress(RecordError):  # a full disk takes the database no more than the journal
                self._recorder.close()
            raise
        return self._recorder.close()

    def _check_engine(self, request: Request, tasks: Iterable[Task]) -> None:
        """As of every invocation; where the request names a launcher, raise EngineError or UsageError unless that is
        there.
        """
        if request.on:
            self._open_launcher(request)
        else:
            super()._check_engine(request, tasks)

    def _cells_runner(
        self, run_id: str, request: Request, recorder: Recorder, listener: Listener, tasks: Sequence[Task]
    ) -> Runner | LaunchedRunner:
        """What decides the cells of a run, on this host or where the request says."""
        if not request.on:
            return self._runner(run_id, request, recorder, listener, tasks)
        from reprokit.run.launch.launched_runner import LaunchedRunner

        return LaunchedRunner(
            run_id,
            request,
            launcher=self._open_launcher(request),
            folder=self.folder,
            recorder=recorder,
            listener=listener,
            confirming=self._confirming(request.confirm),
        )

    def _open_launcher(self, request: Request) -> Launcher:
        if self._launcher is None:
            from reprokit.run.launch.opening import open_launcher

            self._launcher = open_launcher(request.on)
        return self._launcher

    @staticmethod
    def _note_locks(tasks: Sequence[Task], listener: Listener) -> None:
        from reprokit.run.locked_build import unused_locks

        if paths := unused_locks(tasks):
            which = f"{paths[0]} is" if len(paths) == 1 else f"{len(paths)} locks, {paths[0]} among them, are"
            listener.note(f"{which} not used: --locked builds from what is locked, and from nothing else")


def _load(request: Request, trust: Trust | None = None) -> list[CaseFile]:
    """Its cases, trusted as ``trust`` says, else no more than the entry that names their cells does."""
    most: dict[str, Trust] = {}
    for one in request.chosen:
        most[one.digest] = least(one.trust, most.get(one.digest, Trust.OWN))
    return [
        dataclasses.replace(file, trust=trust or least(file.trust, most.get(file.digest, Trust.OWN)))
        for file in load_all(request.cases)
    ]


def _texts(files: Sequence[CaseFile]) -> dict[str, tuple[str, str, str]]:
    return {file.digest: (file.case.id, file.case.title, file.text) for file in files}


def _essence(request: Request) -> dict[str, Any]:
    """What decides the outcome of a request, rather than how it is carried out."""
    return {
        key: value
        for key, value in request.to_json().items()
        if key not in ("jobs", "named", "refresh_bases", "reuse", "on")
    }
