"""Runs a program of the user's choice in the container of a cell, in place of its trials: ``shell`` and ``exec``."""

from __future__ import annotations

import contextlib
import posixpath
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.matrix import as_group, label, parse_group
from reprokit.case.render import SHELL
from reprokit.case.trust import ALLOWANCES, recorded
from reprokit.core.errors import Unsupported, UsageError
from reprokit.core.interrupts import signals
from reprokit.core.text import whole_number
from reprokit.engine.protocol import Mount, Trial
from reprokit.environment.cases import load_text
from reprokit.environment.debugging import CAPABILITY
from reprokit.environment.unfinished import before
from reprokit.evidence.model import Ending, Verdict
from reprokit.run.approving import approve
from reprokit.run.debuggers import with_debuggers
from reprokit.run.gpus import GpuAllocation
from reprokit.run.images import BuiltImage, ImageSpec
from reprokit.run.loading import load_all
from reprokit.run.plan import plan, task_of
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.run.services import Services
from reprokit.run.task import Task
from reprokit.run.trials import trial_of
from reprokit.store.folder import make_folder

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.core.tty import Terminal
    from reprokit.evidence.records import CellRecord

ROOT = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""Capabilities without which root cannot install a package."""
MOST_LISTED = 20
"""Cells that a message lists."""

STDIN = ".reprokit-stdin"
"""Folder below the work folder that holds what a command reads."""

_ENTER = """\
command -v bash > /dev/null || exec sh -i
exec bash --rcfile /dev/fd/3 -i 3<<'END'
exec 3<&-
[ ! -f ~/.bashrc ] || . ~/.bashrc
unset HISTFILE
PS1='\\u@reprokit:\\w\\$ '
for one in "$REPROKIT_HISTORY_1" "$REPROKIT_HISTORY_2"; do [ -z "$one" ] || history -s -- "$one"; done
unset one REPROKIT_HISTORY_1 REPROKIT_HISTORY_2
END
"""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How the container differs from that of a trial: its user is ``root``, it has a ``network``, ``writable`` folders
    of the host, each with its path below the work folder, and ``debug``: gdb, py-spy, the right to use them, and core
    dumps.
    """

    root: bool = False
    network: bool = False
    writable: tuple[tuple[Path, str], ...] = ()
    debug: bool = False

    def check(self, tasks: Sequence[Task]) -> None:
        """Raise UsageError for an untrusted case that no one has read: it gets no more than its trials do."""
        for task in tasks:
            if self != Changes() and ALLOWANCES[task.file.trust].asks:
                raise UsageError(
                    f"{task.file.path}: an untrusted case that no one has read gets none of --root, --network, "
                    f"--writable and --debug: read it, and give --reviewed {task.file.digest}"
                )

    def applied(self, trial: Trial, *, containers: bool) -> Trial:
        """The trial with these changes. ``containers``: the engine makes some, and root has no power in them yet."""
        limits = trial.limits
        if self.root:
            limits = replace(limits, user="root")
        if self.network:
            limits = replace(limits, network="bridge")
        added = (*(ROOT if self.root and containers else ()), *((CAPABILITY,) if self.debug else ()))
        mounts = list(trial.mounts)
        for folder, place in self.writable:
            mounts.append(Mount(source=folder, target=posixpath.join(trial.workdir, place), read_only=False))
        return replace(trial, limits=limits, capabilities=added, core_dumps=self.debug, mounts=tuple(mounts))


def tasks_named(
    request: Request,
    cell: str | None,
    *,
    fix: bool,
    planning: Callable[[Sequence[CaseFile], Request], list[Task]] = plan,
) -> list[Task]:
    """The cells that are named, as in :meth:`ByHand.tasks`. ``planning``: what makes tasks of cases and a request."""
    number = whole_number(cell or "") or 0
    if cell and not number:
        if request.selection.only:
            raise UsageError(f"{cell} and --only both say which cells: leave out one of them")
        request = replace(request, selection=replace(request.selection, only=(parse_group(cell),)))
    if number:
        planned = [task for task in plan(load_all(request.cases), request) if task.variant == "case"]
        if number > len(planned):
            raise UsageError(
                f"there is no cell {number}: `reprokit validate --cells` lists them, from 1 to {len(planned)}"
            )
        wanted = planned[number - 1].cell
    tasks = planning(load_all(request.cases), replace(request, fix=fix))
    variant = "fix" if fix else "case"
    return [task for task in tasks if task.variant == variant and (not number or task.cell == wanted)]


@dataclass(kw_only=True)
class Used:
    """What became of a cell: how the program ended and what it wrote, or the record that says why it never started."""

    task: Task
    ending: Ending | None = None
    output: bytearray = field(default_factory=bytearray)
    record: CellRecord | None = None


class ByHand(Session):
    """Finds the cells that a user names, and runs programs in their containers. Records nothing."""

    def tasks(self, request: Request, cell: str | None, *, fix: bool) -> list[Task]:
        """The cells of the cases that are named, once they may be run: all, those of ``k=v,k=v``, or one by its number.

        ``fix``: their fixed variants. Raises UsageError, CaseError.
        """
        return tasks_named(request, cell, fix=fix, planning=self._approved)

    def recorded(self, request: Request, run: str, number: int, *, fix: bool) -> tuple[Request, Task]:
        """A cell of a recorded run, of the case as it was then, with what that run was asked; once it may be run.

        ``request``: what this invocation adds to it. ``fix``: with the fix, if it was recorded without, too. Raises
        UsageError.
        """
        store = self._open_store()
        record = store.run(run)
        cell = record.cell(number)
        text = store.case_text(cell.case_digest)
        store.close()
        if not text:
            raise UsageError(f"{self.folder} does not hold the case of run {record.id}, cell {number}, any more")
        file = load_text(cell.case_path, text)
        # What a record of another machine says of a case is not believed.
        believed = record.owner.is_here and not record.owner.imported
        trust = recorded(cell.details.trust, believed=believed)
        [file] = approve([replace(file, trust=trust)], request, {file.digest: [dict(cell.cell)]})
        asked = Request.from_json(record.request.asked)
        if asked.bundle:
            raise UsageError(f"run {record.id} was of the bundle {asked.cases[0]}: it is run as a whole")
        engine = asked.engine if request.engine == "auto" else request.engine
        request = replace(asked, engine=engine, jobs=1, refresh_bases=False)
        variant = "fix" if fix else cell.variant
        case = file.fixed if variant == "fix" else file.case
        if case is None:
            raise UsageError(f"--fix: the case {cell.case_id} has no fix")
        return request, task_of(1, file, case, variant, dict(cell.cell), request, {})

    def execute(
        self,
        request: Request,
        tasks: Sequence[Task],
        command: Sequence[str],
        changes: Changes,
        sink: Callable[[Used, bytes], None],
        stdin: Path | None = None,
    ) -> list[Used]:
        """Run a command in the container of each task, and pass its output to ``sink`` as it comes.

        ``stdin``: a file with what it finds on standard input, in a folder of its own; None: nothing.
        """
        found = {task.number: Used(task=task) for task in tasks}

        def work(services: Services, ready: BuiltImage, task: Task, allocation: GpuAllocation | None) -> None:
            used = found[task.number]
            trial = replace(self._trial(services, ready, task, allocation, changes), command=tuple(command))
            trial = trial if stdin is None else with_stdin(trial, stdin)
            with _place(services, allocation):
                used.ending = services.engine.run(trial, lambda data: sink(used, data), services.cancel)

        for record in self._use(request, tasks, changes, work):
            found[record.number].record = record
        return list(found.values())

    def shell(
        self, request: Request, task: Task, terminal: Terminal, changes: Changes, say: Callable[[str], None]
    ) -> int:
        """A shell in the container of a task; its exit status, or 3 where the task cannot be served.

        Where its image cannot be built, in what the last good step left. ``say``: shows what the user finds there.
        """
        used = Used(task=task)
        step = ""

        def work(services: Services, ready: BuiltImage, task: Task, allocation: GpuAllocation | None) -> None:
            info = services.engine.info()
            if not info.capabilities.terminals:
                raise Unsupported(f"{info} cannot attach a terminal: run one command with reprokit exec")
            trial = self._trial(services, ready, task, allocation, changes)
            if step:  # the step that puts them into the image may come later
                trial = replace(trial, files=task.spec.files)
            for line in introduction(task, replace(trial, image=ready.image.tag), str(info), step):
                say(line)
            trial = replace(with_shell(trial, step), terminal=terminal)
            used.ending = services.engine.run(trial, lambda _: None, services.cancel)

        records = self._use(request, [task], changes, work)
        failed = records[0].details.build if records and records[0].verdict is Verdict.BUILD_FAILED else None
        if failed is not None and task.held is None:

            def last_good(image: ImageSpec) -> ImageSpec:
                nonlocal step
                found = before(image.rendered, failed.step, task.spec.workdir)
                if found is None:
                    raise Unsupported(f"nothing of the image can be entered before the step {failed.step!r}")
                step = found.command
                return replace(image, rendered=found.rendered)

            self._use(request, [task], changes, work, last_good)
        return 3 if used.ending is None or used.ending.exit_code is None else used.ending.exit_code

    def _trial(
        self,
        services: Services,
        ready: BuiltImage,
        task: Task,
        allocation: GpuAllocation | None,
        changes: Changes,
    ) -> Trial:
        image, engine = ready.image, services.engine
        if changes.debug:
            image = with_debuggers(
                engine, image, trust=task.file.trust, on_progress=lambda _: None, cancel=services.cancel
            )
        trial = trial_of(task, image.id, services.run_id, allocation.gpus if allocation else ())
        return changes.applied(trial, containers=engine.info().capabilities.images)

    def _use(
        self,
        request: Request,
        tasks: Sequence[Task],
        changes: Changes,
        work: Callable[[Services, BuiltImage, Task, GpuAllocation | None], None],
        image_of: Callable[[ImageSpec], ImageSpec] | None = None,
    ) -> tuple[CellRecord, ...]:
        """Serve the tasks; records of those that could not be. Raises KeyboardInterrupt once nothing is left."""
        changes.check(tasks)
        self._check_engine(request, tasks)
        make_folder(self.folder)
        with self._display.progress() as listener, signals():
            runner = self._runner("", request, None, listener)
            listener.planned("", tasks)
            runner.use(tasks, work, image_of)
        return runner.records


@contextlib.contextmanager
def _place(services: Services, allocation: GpuAllocation | None) -> Iterator[None]:
    """A place among the programs that may run at a time; a task with GPUs has its own."""
    if allocation is None:
        services.semaphore.acquire()
    try:
        yield
    finally:
        if allocation is None:
            services.semaphore.release()


def with_stdin(trial: Trial, file: Path) -> Trial:
    """The trial with a file of this host on standard input. Its folder is mounted, since engines mount folders."""
    place = posixpath.join(trial.workdir, STDIN)
    reading = f'exec "$@" < {shlex.quote(posixpath.join(place, file.name))}'
    mount = Mount(source=file.parent, target=place, read_only=True)
    return replace(trial, mounts=(*trial.mounts, mount), command=("sh", "-c", reading, "sh", *trial.command))


def command_text(command: Sequence[str]) -> str:
    """The command of a case as a line or a script for a shell."""
    return command[-1].rstrip("\n") if tuple(command[:-1]) == SHELL else shlex.join(command)


def with_shell(trial: Trial, step: str = "") -> Trial:
    """The trial with a shell in place of its command, which is ready in $REPROKIT_COMMAND and the history.

    What is newest in the history runs as a trial does: a script of several lines by the shell's options of a trial.
    ``step``: the step of the build that failed, in $REPROKIT_STEP.
    """
    text = command_text(trial.command)
    exact = f'{shlex.join(SHELL)} "$REPROKIT_COMMAND"' if text != shlex.join(trial.command) else ""
    history = [text, exact] if "\n" in text else [exact, text]
    own = {"REPROKIT_COMMAND": text, **({"REPROKIT_STEP": step} if step else {}), "TERM": "xterm-256color"}
    lines = {f"REPROKIT_HISTORY_{number}": line for number, line in enumerate(history, 1)}
    return replace(trial, command=("sh", "-c", _ENTER), env={**trial.env, **own, **lines})


def introduction(task: Task, trial: Trial, engine: str, step: str = "") -> list[str]:
    """What is said before a shell starts."""
    fixed = ", fixed" if task.variant == "fix" else ""
    where = f"{task.case.id}, {label(task.cell)}{fixed}: {trial.image}, {engine}"
    if step:
        return [
            where,
            "The image is as it was before the step that failed, which is in $REPROKIT_STEP.",
            "Steps of a build run as root and with a network: for these there are --root and --network.",
        ]
    return [
        where,
        "The command of the case is the newest line of the history (arrow up), and in $REPROKIT_COMMAND.",
        *(
            f"{mount.target} is {mount.source} of this host, to be written."
            for mount in trial.mounts
            if not mount.read_only
        ),
        "The container is removed at the end of the shell.",
    ]


def ambiguous_cell(tasks: Sequence[Task], words: Sequence[str]) -> UsageError:
    """That several cells match where one has to be named. ``words``: the command line up to the cell."""
    lines = [f"  {shlex.join([*words, as_group(task.cell)])}" for task in tasks[:MOST_LISTED]]
    more = [f"  and {len(tasks) - MOST_LISTED} more"] if len(tasks) > MOST_LISTED else []
    return UsageError("\n".join([f"{len(tasks)} cells match; type one of:", *lines, *more]))
