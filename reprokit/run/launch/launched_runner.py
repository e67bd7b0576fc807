"""Decides the cells of a plan by jobs that a launcher starts: what :class:`~reprokit.run.runner.Runner` is for this
host.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from reprokit.core import json_text
from reprokit.core.errors import EngineError, ReprokitError, Unsupported
from reprokit.core.files import write
from reprokit.core.text import pluralize
from reprokit.engine.protocol import EngineInfo
from reprokit.evidence.model import Verdict
from reprokit.evidence.origin import HostRecord, LossRecord, NodeRecord
from reprokit.evidence.records import CellRecord
from reprokit.evidence.spans import Timings
from reprokit.run.cell_records import decided_record
from reprokit.run.confirming import Planner, of_case, repeatable, repeats_ahead, with_trial
from reprokit.run.deciding import Decisions
from reprokit.run.launch.job import Job, write_script
from reprokit.run.launch.launcher import JobState, Launcher, Phase
from reprokit.run.launch.partition import expected_seconds, parts, units_of
from reprokit.run.launch.taking import take
from reprokit.run.launch.travelling import words_of, write_cells
from reprokit.run.listener import Listener
from reprokit.run.request import Request
from reprokit.run.resuming import UNDECIDED
from reprokit.run.task import Task
from reprokit.run.timing import KnownSeconds, Timer
from reprokit.store.folder import SeenBases

if TYPE_CHECKING:
    from reprokit.store.recorder import Recorder

WAVES = 5
"""Times that cells are repeated to confirm what they say: what trials show may ask for others."""
ATTEMPTS = 3
"""Jobs that a cell gets before it counts as failed by the launcher."""
FAILURES = 3
"""Jobs in a row that a node loses, after which others are preferred."""
MOST_JOBS = 16
"""Jobs at a time where neither the launcher nor ``--jobs`` says."""
LOOK = 0.5
"""Seconds between two looks at the jobs."""
GRACE = 180.0
"""Seconds beyond its time after which a job counts as lost: its run stops itself before."""
FIRST_HOUR = 3600.0
"""Seconds that every job may take."""
SILENCE = 300.0
"""Seconds for which a launcher may fail to answer."""
OWN = 512 << 20
"""Bytes that the run of a job takes beside its cells."""
LEAVE = 30.0
"""Seconds after an interrupt in which jobs may leave what they decided."""


@dataclass(frozen=True, kw_only=True)
class JobCells:
    """Cells that go into one job. ``attempt``: counted from 1; ``lost``: those before; ``avoid``: nodes that lost or
    refused them; ``more``: trials more of decided cells, 0 = they are to be decided; ``uncut``: for any number of jobs.
    """

    tasks: tuple[Task, ...]
    attempt: int = 1
    lost: tuple[LossRecord, ...] = ()
    avoid: tuple[str, ...] = ()
    more: int = 0
    uncut: bool = False


@dataclass(eq=False)
class StartedJob:
    """A job that was started. ``began``: when it ran first, by the monotonic clock, None before; ``given_up``: it was
    lost, though an archive may still come.
    """

    job: Job
    part: JobCells
    ident: str
    state: JobState = field(default_factory=lambda: JobState(phase=Phase.WAITING))
    progress: str = ""
    began: float | None = None
    given_up: bool = False
    why: str = ""
    """Why a cell of it that came back is not decided by that."""


class LaunchedRunner:
    """Runs one plan by the jobs of ``launcher``. The other arguments are those of a Runner."""

    def __init__(
        self,
        run_id: str,
        request: Request,
        *,
        launcher: Launcher,
        folder: Path,
        recorder: Recorder,
        listener: Listener,
        confirming: Planner | None = None,
    ) -> None:
        self._run_id = run_id
        self._request = request
        self._launcher = launcher
        self._folder = folder
        self._jobs = folder.absolute() / "jobs" / run_id
        self._listener = listener
        self._confirming = confirming
        self._cancel = recorder.hurry
        self._decisions = Decisions(folder, recorder, listener, self._cancel)
        self._timer = Timer()
        self._known: Callable[[Task], float] = lambda task: math.inf
        self._hosts: list[HostRecord] = []
        self._nodes: dict[str, None] = {}
        self._refused: dict[int, CellRecord] = {}
        self._repeated: set[int] = set()
        self._stopped: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._count = 0
        self._silent: float | None = None
        self._pending: list[JobCells] = []
        self._started: list[StartedJob] = []
        self._ended: list[StartedJob] = []

    @property
    def engine_info(self) -> EngineInfo | None:
        """The engines of the nodes as the one that the record of a run names; None where no cell came back."""
        engines = sorted({host.engine for host in self._hosts if host.engine})
        kinds = {host.engine_kind for host in self._hosts if host.engine_kind}
        if not engines:
            return None
        where = f"on {pluralize(len(self._nodes), 'node')}: {', '.join(engines)}"
        kind = kinds.pop() if len(kinds) == 1 else "mixed"
        return EngineInfo(kind=kind, name=self._launcher.name.partition(":")[0], version=where)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that jobs were on, as the launcher has them, else as they have themselves."""
        return tuple(self._nodes)

    @property
    def records(self) -> tuple[CellRecord, ...]:
        """The decided cells so far, in the order of their numbers."""
        return self._decisions.records

    @property
    def timings(self) -> Timings:
        """Where the time went, on the nodes."""
        return self._timer.timings()

    def reuse(self, record: CellRecord) -> None:
        """Take over a cell that an interrupted run had decided."""
        self._decisions.reuse(record)

    def run(self, tasks: Sequence[Task], earlier: Sequence[Task] = ()) -> tuple[CellRecord, ...]:
        """Decide every task, as :meth:`reprokit.run.runner.Runner.run` does. An interrupt cancels the jobs."""
        interrupted: KeyboardInterrupt | None = None
        self._decisions.begin(())  # the nodes compare
        try:
            self._known = KnownSeconds.of(self._folder, tasks)
            self._listener.state([task.number for task in tasks], "queued")
            self._adopt(tasks)
            under_way = {task.number for started in self._started for task in started.part.tasks}
            left = [task for task in tasks if task.number not in under_way]
            compared = {task.file.digest for task in left if task.case.expect.compare is not None}
            left += [task for task in earlier if task.file.digest in compared]  # which the others are compared with
            self._pending.append(JobCells(tasks=tuple(left), uncut=True))
            self._serve()
            self._confirm([*tasks, *earlier])
        except KeyboardInterrupt as interrupt:
            interrupted = interrupt
        if interrupted is not None or self._cancel.is_set():
            self._cancel.set()
            with suppress(KeyboardInterrupt):
                self._stop()
        shutil.rmtree(self._jobs, ignore_errors=True)
        with suppress(OSError):
            self._jobs.parent.rmdir()
        self._launcher.close()
        self._decisions.end(tasks, given_up=False)
        if interrupted is not None:
            raise interrupted
        return self.records

    def _confirm(self, tasks: Sequence[Task]) -> None:
        """Repeat cells until the planner asks for none: in jobs of as many trials as it would ask for one by one."""
        planner = self._confirming
        cases = repeatable(tasks, planner, self.records)
        for _ in range(WAVES if planner is not None else 0):
            assert planner is not None
            counts: dict[int, list[Task]] = {}
            for digest, known in cases.items():
                for number, more in repeats_ahead(planner, of_case(self.records, digest), known).items():
                    counts.setdefault(more, []).append(known[number])
            if not counts or self._cancel.is_set():
                return
            self._repeated, self._started = set(), []
            for more, some in counts.items():
                self._listener.state([task.number for task in some], "confirming", pluralize(more, "trial"))
                self._pending.append(JobCells(tasks=tuple(some), more=more, uncut=True))
            self._serve()
            cases = {digest: known for digest, known in cases.items() if digest not in self._stopped}

    @property
    def _slots(self) -> int:
        return self._launcher.slots or self._request.jobs or MOST_JOBS

    def _serve(self) -> None:
        while (self._pending or self._ended or self._under_way) and not self._cancel.is_set():
            self._look()
            # Read before the next job starts are only the first records, which the next jobs are cut by: no node waits.
            while self._pending and self._under_way < self._slots and (self.records or not self._ended):
                self._start(self._next())
            if self._ended:
                self._end(self._ended[0])
                del self._ended[0]
            elif self._under_way:
                self._cancel.wait(LOOK)

    def _next(self) -> JobCells:
        """The cells of the next job. Each wave of jobs is cut by how long the cells of a case took in those before."""
        part = self._pending.pop(0)
        if not part.uncut:
            return part
        took: dict[str, list[float]] = {}
        for record in self.records:
            took.setdefault(record.case_digest, []).append(record.seconds or 0.0)

        def seconds(task: Task) -> float:
            known = self._known(task)
            return known if known < math.inf or task.file.digest not in took else median(took[task.file.digest])

        jobs = parts(part.tasks, seconds, self._slots)
        if rest := [task for some in jobs[self._slots :] for task in some]:
            self._pending.append(replace(part, tasks=tuple(rest)))
        first, *others = [replace(part, tasks=tuple(some), uncut=False) for some in jobs[: self._slots]] or [part]
        self._pending[:0] = others
        return first

    @property
    def _under_way(self) -> int:
        return sum(not one.given_up for one in self._started)

    def _start(self, part: JobCells) -> None:
        left = self._left(part)
        tasks = [task for unit in units_of(part.tasks) if left & {one.number for one in unit} for task in unit]
        if not tasks:
            return
        part = replace(part, tasks=tuple(tasks))
        self._count += 1
        job_id = f"reprokit-{self._run_id}-{self._count}-{part.attempt}".lower()
        limits = [task.spec.limits for task in tasks]
        job = Job(
            id=job_id,
            folder=self._jobs / job_id,
            seconds=self._deadline(part),
            gpus=max(one.gpus for one in limits),
            cpus=max(math.ceil(one.cpus or 1) for one in limits),
            memory=max((one.memory + OWN for one in limits if one.memory), default=None),
            avoid=tuple({*part.avoid, *(node for node, count in self._failures.items() if node and count >= FAILURES)}),
        )
        job.folder.mkdir(parents=True, mode=0o700)
        write_cells(job.folder, job_id, tasks, self._folder, locked=self._request.locked)
        write_script(job, words_of(self._request, tasks, part.more))
        started = StartedJob(job, part, "")
        self._remember(started)
        try:
            started.ident = self._launcher.start(job)
        except Unsupported as error:
            self._fail(started, Verdict.UNSUPPORTED, str(error), part.lost)
        except EngineError as error:
            self._lose(started, str(error))
        else:
            self._remember(started)
            self._started.append(started)

    def _deadline(self, part: JobCells) -> float:
        """Seconds: ten times what the job is expected to take, and what its cells may take at most the last time."""
        most = sum((part.more or task.trials.max) * task.spec.limits.timeout for task in part.tasks) + FIRST_HOUR
        usual = max(FIRST_HOUR, 10 * expected_seconds(part.tasks, self._known))
        return most if part.attempt == ATTEMPTS else min(most, usual)

    def _left(self, part: JobCells) -> set[int]:
        """What a job of these cells still has to do, by number."""
        done = self._repeated if part.more else {record.number for record in self.records}
        return {task.number for task in part.tasks} - done

    def _look(self) -> None:
        """Note what became of the jobs."""
        if not self._started:
            return
        try:
            states = self._launcher.states([one.ident for one in self._started])
            self._silent = None
        except EngineError as error:
            if self._silent is None:
                self._silent = time.monotonic()
                self._listener.note(str(error))
            if time.monotonic() - self._silent < SILENCE:
                return
            states = {one.ident: JobState(phase=Phase.LOST, words=str(error)) for one in self._started}
        for started in list(self._started):
            state = states.get(started.ident, JobState(phase=Phase.LOST, words="the launcher knows no such job"))
            self._see(started, state)

    def _see(self, started: StartedJob, state: JobState) -> None:
        if state.phase is Phase.ENDED:
            self._started.remove(started)
            self._ended.append(started)
        if started.given_up:
            return
        before = started.state.phase, started.state.node, started.progress
        started.state = state
        started.progress = started.job.progress() if state.phase is Phase.RUNNING else ""
        self._nodes |= dict.fromkeys([state.node.rpartition("@")[2]] if state.node else [])
        if before != (state.phase, state.node, started.progress):
            self._show(started)
        if state.phase is Phase.RUNNING and started.began is None:
            started.began = time.monotonic()
        late = started.began is not None and time.monotonic() - started.began > started.job.seconds + GRACE
        if state.phase is Phase.LOST:
            self._give_up(started, state.words or "it was lost")
        elif late and state.phase is not Phase.ENDED:
            self._give_up(started, f"it did not end in its time ({started.job.seconds:.0f} s)")

    def _show(self, started: StartedJob) -> None:
        state, where = started.state, f"job {started.job.id}"
        if state.phase is Phase.RUNNING:
            where += f" on {state.node}" if state.node else ""
            where += f": {started.progress}" if started.progress else ""
            self._listener.state(sorted(self._left(started.part)), "running", where)
        elif state.phase is Phase.WAITING:
            words = f"for {where}" + (f": {state.words}" if state.words else "")
            self._listener.state(sorted(self._left(started.part)), "waiting", words)

    def _end(self, started: StartedJob) -> None:
        """Of a job that ended, what it decided counts, also when it was given up; the rest goes into another job."""
        whole = self._take(started)
        said = "; ".join(dict.fromkeys(one for one in (started.state.words, started.job.said()) if one))
        why = started.why or f"{'its run was stopped' if whole else 'no whole archive came back'}{said and f': {said}'}"
        if not started.given_up:
            self._lose(started, why)
        if whole:
            shutil.rmtree(started.job.folder, ignore_errors=True)

    def _give_up(self, started: StartedJob, why: str) -> None:
        """A job is lost, as far as is known: it is ended, and if its archive comes all the same, that still counts."""
        with suppress(EngineError):
            self._launcher.cancel(started.ident)
        if self._take(started):
            self._started.remove(started)
        started.given_up = True
        self._lose(started, why)

    def _lose(self, started: StartedJob, why: str) -> None:
        """What a job left undecided goes into another one, or fails."""
        part, node, left = started.part, started.state.node, self._left(started.part)
        if not left or self._cancel.is_set():
            return
        self._failures[node] += 1
        lost = (*part.lost, LossRecord(node=node, id=started.job.id, why=why))
        avoid = (*part.avoid, *([node] if node else []))
        # What a node refuses is not lost: each node is asked once.
        refused = bool(node) and node not in part.avoid and left <= self._refused.keys()
        if part.attempt >= ATTEMPTS and not refused:
            self._fail(started, Verdict.ENGINE_ERROR, "; ".join(dict.fromkeys(map(str, lost))), lost)
            return
        self._listener.note(f"job {started.job.id}: {why}; {pluralize(len(left), 'cell')} of it: into another job")
        self._listener.state(sorted(left), "queued")
        attempt = part.attempt + (not refused)
        self._pending.append(replace(part, attempt=attempt, lost=part.lost if refused else lost, avoid=avoid))

    def _fail(self, started: StartedJob, verdict: Verdict, reason: str, lost: tuple[LossRecord, ...]) -> None:
        for task in started.part.tasks:
            if started.part.more and task.file.digest not in self._stopped:
                self._stopped.add(task.file.digest)
                what = "its cells are not repeated any more to confirm what they say"
                self._listener.note(f"{task.case.id}: {what}: {reason}")
            elif not started.part.more and task.number in self._left(started.part):
                record = self._refused.get(task.number) or decided_record(task, verdict, reason)
                self._decisions.decide(replace(record, details=replace(record.details, node=NodeRecord(lost=lost))))

    def _take(self, started: StartedJob) -> bool:
        """Take the records of a job's archive that decide something; whether it came whole."""
        with suppress(EngineError):
            self._launcher.bring(started.ident, started.job)
        archive, left, more = started.job.arrived(), self._left(started.part), started.part.more
        if archive is None:
            return False
        trials = {record.number: len(record.trials) for record in self.records} if more else {}
        tasks = [(task, trials.get(task.number, 0)) for task in started.part.tasks if task.number in left]
        try:
            taken = take(archive, self._folder, self._run_id, tasks)
        except (ReprokitError, OSError, ValueError) as error:
            self._listener.note(f"job {started.job.id}: {error}")
            return False
        self._nodes.setdefault(started.state.node.rpartition("@")[2] or taken.machine)
        self._failures[started.state.node] = 0
        self._hosts.append(taken.host)
        if taken.timings is not None:
            self._timer.merge(taken.timings, taken.machine)
        known = {task.number: task for task in started.part.tasks}
        for record in taken.cells:
            if more:
                self._repeat(known[record.number], record)
            elif self._is_final(started, record):
                self._decide(started, record, taken.machine)
            elif record.verdict is not Verdict.CANCELLED:
                started.why = record.reason
        return True

    def _is_final(self, started: StartedJob, record: CellRecord) -> bool:
        """Whether a record decides its cell: an engine's failure does not while there are attempts, nor what a node
        cannot serve while the launcher can choose another.
        """
        if record.verdict is Verdict.UNSUPPORTED:
            self._refused[record.number] = record
            return {*started.part.avoid, started.state.node} >= set(self._launcher.nodes)
        if record.verdict is Verdict.ENGINE_ERROR:
            return started.part.attempt >= ATTEMPTS
        return record.verdict not in UNDECIDED

    def _decide(self, started: StartedJob, record: CellRecord, machine: str) -> None:
        seen = SeenBases(self._folder)
        if record.details.base is not None and record.details.base.source == "registry":
            for reference, image in record.details.images.items():
                if image.digest and (self._request.refresh_bases or not seen.digest(reference)):
                    seen.keep(reference, image.digest)
        node = NodeRecord(name=started.state.node or machine, id=started.job.id, lost=started.part.lost)
        self._decisions.decide(replace(record, details=replace(record.details, node=node)))

    def _repeat(self, task: Task, repeated: CellRecord) -> None:
        """Add the trials of a repeated cell to its own."""
        if not repeated.trials:
            return
        self._repeated.add(task.number)
        record = self._decisions.record(task)
        each = (repeated.seconds or 0.0) / len(repeated.trials)
        for trial in repeated.trials:
            record = with_trial(task, record, trial, each, record.repeat)
        self._decisions.keep(self._decisions.compared_again(task, record), self._listener.repeated)

    def _stop(self) -> None:
        """Cancel every job, and wait a while for what each has decided."""
        for started in self._started:
            with suppress(EngineError):
                self._launcher.cancel(started.ident)
        until = time.monotonic() + LEAVE
        while (self._ended or self._under_way) and time.monotonic() < until:
            self._look()
            for started in self._ended:
                self._take(started)
            self._ended.clear()
            time.sleep(0.2)
        if which := ", ".join(one.job.id for one in self._started if not one.given_up):
            self._listener.note(f"still running after they were cancelled: {which}")

    def _remember(self, started: StartedJob) -> None:
        """Keep what another process needs to find the job again, should this one be killed."""
        part = started.part
        values = {
            "ident": started.ident,
            "numbers": [task.number for task in part.tasks],
            "attempt": part.attempt,
            "lost": [one.to_json() for one in part.lost],
            "avoid": list(part.avoid),
            "seconds": started.job.seconds,
        }
        if not part.more:
            write(started.job.folder / "job.json", json.dumps(values))

    def _adopt(self, tasks: Sequence[Task]) -> None:
        """Find the jobs of a run whose process was killed."""
        known = {task.number: task for task in tasks}
        for folder in sorted(self._jobs.iterdir()) if self._jobs.is_dir() else []:
            with suppress(OSError, ValueError, LookupError, TypeError):
                self._count = max(self._count, int(folder.name.rsplit("-", 2)[1]))
                found = json_text.loads((folder / "job.json").read_text(encoding="utf-8"))
                some = tuple(known[number] for number in found["numbers"] if number in known)
                lost = tuple(LossRecord.from_json(one) for one in found["lost"])
                part = JobCells(tasks=some, attempt=found["attempt"], lost=lost, avoid=tuple(found["avoid"]))
                if some and found["ident"]:
                    job = Job(id=folder.name, folder=folder, seconds=found["seconds"])
                    self._started.append(StartedJob(job, part, found["ident"]))
        if self._started:
            self._listener.note(f"{pluralize(len(self._started), 'job')} of this run: found again")
