"""reprokit from Python: what ``import reprokit`` offers. ``docs/api.md`` describes it, and what of it stays as it is.

Takes what the command line takes, as typed values; gives the records that reports are made of. Prints and asks nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Selection, parse_group, parse_values
from reprokit.core.errors import CaseError, Problem, UsageError
from reprokit.core.near_match import near
from reprokit.engine import kinds, site
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.cases import check_versions
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord
from reprokit.evidence.sequential import Trials
from reprokit.report.formats import FormatSources, run_format
from reprokit.run.listener import Listener
from reprokit.run.loading import load_all
from reprokit.run.request import Request, read_trials
from reprokit.run.run_session import Session
from reprokit.search.repeating import planner
from reprokit.store import remote
from reprokit.store.places import read_log

StrPath = str | os.PathLike[str]
Values = str | Sequence[str]
"""Values of an axis: a list of them, or one text as on the command line, ``"11.8,12.0"``."""
Group = str | Mapping[str, Values]
"""Values of some axes: ``{"cuda": "11.8"}``, or a text as on the command line, ``"cuda=11.8,gcc=12"``."""

log = logging.getLogger("reprokit")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as it was recorded. ``store``: the folder in which it is."""

    record: RunRecord
    store: Path
    files: Mapping[str, CaseFile]

    @property
    def id(self) -> str:
        """Its id, as ``reprokit show`` takes it."""
        return self.record.id

    @property
    def cells(self) -> tuple[CellRecord, ...]:
        """Its cells, each with its verdict, reason, measured environment and trials."""
        return self.record.cells

    @property
    def exit_status(self) -> int:
        """The exit status that ``reprokit run`` would have: 0 all as expected, 1 a departure, 3 inconclusive."""
        assert self.record.exit_status is not None
        return self.record.exit_status

    def log(self, trial: TrialRecord) -> str:
        """The output of a trial. Raises FileNotFoundError where its log was removed."""
        return read_log(self.store, trial.log).decode("utf-8", "replace")

    def json(self) -> str:
        """The result file, ``reprokit-result/v1``, as ``reprokit run --json`` writes it."""
        return run_format("json").text(self.record, FormatSources(folder=self.store, file_of=self.files.get))


def load(*cases: StrPath) -> tuple[CaseFile, ...]:
    """The cases of files, folders, Markdown files or addresses.

    Raises CaseError, whose ``problems`` are all errors of all files with their positions, and UsageError where there
    is nothing to read.
    """
    return tuple(load_all(os.fspath(case) for case in cases))


def validate(*cases: StrPath) -> tuple[Problem, ...]:
    """Every error of the cases that :func:`load` would read, with its position; () where all are valid.

    Raises UsageError where there is nothing to read.
    """
    try:
        load(*cases)
    except CaseError as error:
        return error.problems
    return ()


def run(
    cases: StrPath | Iterable[StrPath],
    *,
    axes: Mapping[str, Values] | None = None,
    only: Group | Iterable[Group] = (),
    skip: Group | Iterable[Group] = (),
    trials: int | Mapping[str, float] | None = None,
    confirm: Literal["auto", "always", "exact", "never"] | None = None,
    fix: bool = False,
    datasets: Mapping[str, StrPath] | None = None,
    sources: Mapping[str, StrPath] | None = None,
    locked: bool = False,
    engine: str | None = None,
    jobs: int | None = None,
    store: StrPath | None = None,
    reviewed: Iterable[str] = (),
    yes: bool = False,
    **known_axes: Values,
) -> Run:
    """Build and run the cells of cases, judge them, and record the run, as ``reprokit run`` does.

    Args:
        cases: Case files, folders, Markdown files or addresses, one or several.
        axes: Values in place of an axis of the case. Known axes can be keywords of their own: ``cuda=["11.8"]``.
        only: Keep the cells that match one of these groups.
        skip: Leave out the cells that match one of these groups.
        trials: Trials of a cell: a number, or what ``trials`` of a case takes, such as ``{"max": 20, "rate": 0.1}``.
        confirm: Whether decided cells are repeated; None = as configured.
        fix: Run the fixed variant beside the case.
        datasets: Folders with real data, by the name of the dataset.
        sources: Folders that stand in for sources, by the name of the source.
        locked: Build from the locks beside the cases and from nothing else.
        engine: What builds and runs: ``"auto"``, ``"docker"``, ``"podman"``, ``"venv"``; None = as configured.
        jobs: Builds, and trials, at a time; None = as configured, or the number of CPUs.
        store: The folder in which the run is recorded, or the address of its database; None = as configured, or the
            project's.
        reviewed: Digests of the texts of untrusted cases that were read and may run.
        yes: Run untrusted cases unread.
        known_axes: Values in place of a known axis.

    Returns:
        The run, also where verdicts depart from what the cases expect: look at ``exit_status`` or ``cells``.

    Raises:
        UsageError: What was asked makes no sense, or an untrusted case may not run; nothing was run.
        CaseError: A case file is wrong; nothing was run.
        EngineError: No engine answers; nothing was run.
        RecordError: The store cannot be written.
        KeyboardInterrupt: It was interrupted; what was decided is recorded.
    """
    if engine not in (None, *kinds.CHOICES):
        hint = near(engine, kinds.CHOICES, prefix="; ")
        raise UsageError(f"engine={engine!r}: not one of {', '.join(kinds.CHOICES)}{hint}")
    request = Request.configured(
        cases=(os.fspath(cases),) if isinstance(cases, (str, os.PathLike)) else tuple(map(os.fspath, cases)),
        selection=_selection({**(axes or {}), **_known(known_axes)}, only, skip),
        trials=_trials(trials),
        confirm=confirm,
        fix=fix,
        datasets=_folders("datasets", datasets),
        sources=_folders("sources", sources),
        locked=locked,
        engine=engine,
        jobs=jobs,
        reviewed=tuple(reviewed),
        yes=yes,
        ask=False,
    )
    if not request.cases:
        raise UsageError("no case is given: name a file, a folder, a Markdown file or a URL")
    return run_request(request, _store(store) if store is not None else None)


def _store(given: StrPath) -> Path:
    if isinstance(given, str) and remote.is_address(given):
        return remote.folder_of(given, site.settings().files)
    return Path(given).expanduser().resolve()


def run_request(request: Request, store: Path | None = None) -> Run:
    """As :func:`run`, of a request. ``store``: an absolute path; None = as configured, or the project's."""
    folder = store or site.settings().store_folder()
    session = Session(folder, display=_Logged(), confirming=planner)
    if session.start(request) == 130:
        raise KeyboardInterrupt
    assert session.record is not None
    return Run(record=session.record, store=folder, files=session.files)


def _trials(given: int | Mapping[str, float] | None) -> Trials | None:
    if given is None:
        return None
    parts = [f"{name}={value}" for name, value in given.items()] if isinstance(given, Mapping) else [str(given)]
    try:
        return read_trials(",".join(parts) or "auto")
    except UsageError as error:
        raise UsageError(f"trials: {error}") from None


def _known(given: Mapping[str, Values]) -> Mapping[str, Values]:
    """The known axes among keywords. Raises TypeError for another keyword, as Python does."""
    for name in given:
        if name not in AXIS_NAMES:
            hint = near(name, [*AXIS_NAMES, *(run.__kwdefaults__ or ())], prefix="; ")
            raise TypeError(f"run() has no argument {name!r}{hint}; other axes go into axes={{{name!r}: [...]}}")
    return given


def _selection(axes: Mapping[str, Values], only: Group | Iterable[Group], skip: Group | Iterable[Group]) -> Selection:
    values = {name: _values(given) for name, given in axes.items()}
    check_versions(values)
    return Selection(axes=values, only=_groups(only), skip=_groups(skip))


def _values(given: Values) -> tuple[str, ...]:
    return parse_values(given) if isinstance(given, str) else tuple(map(str, given))


def _groups(given: Group | Iterable[Group]) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    several = [given] if isinstance(given, (str, Mapping)) else given
    return tuple(
        parse_group(one) if isinstance(one, str) else {name: _values(values) for name, values in one.items()}
        for one in several
    )


def _folders(what: str, given: Mapping[str, StrPath] | None) -> dict[str, Path]:
    folders = {name: Path(folder).expanduser() for name, folder in (given or {}).items()}
    for name, folder in folders.items():
        if not folder.is_dir():
            raise UsageError(f"{what}[{name!r}]: {folder} is not a folder")
    return folders


class _Logged:
    """A display that shows nothing: what the command line would say goes to the logger ``reprokit``."""

    def say(self, text: str) -> None:
        log.info("%s", text)

    @contextmanager
    def progress(self) -> Iterator[Listener]:
        yield _Notes()

    def run_ended(
        self, record: RunRecord, file_of: Callable[[str], CaseFile | None], *, interrupted: bool, recorded: bool
    ) -> None:
        pass

    def search_ended(self, cells: Sequence[CellRecord]) -> None:
        pass


class _Notes(Listener):
    def note(self, text: str) -> None:
        log.info("%s", text)


__all__ = ["CaseFile", "CellRecord", "Outcome", "Problem", "Run", "TrialRecord", "Verdict", "load", "run", "validate"]
