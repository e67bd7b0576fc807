"""``pytest --reprokit cases/``: a test for each cell of the cases. Without the option it collects nothing.

pytest imports this module at every start: what it needs is imported when the option is given.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reprokit.api import CaseFile, CellRecord, Run
    from reprokit.run.task import Task

LAST_LINES = 20
"""Lines of a log that a failing test shows."""


class ExpectedFailure(Exception):
    """The cell fails as its case expects: the test is xfailed."""


class CellFailed(Exception):
    """The cell fails, or its verdict is inconclusive: the text is for the reader of the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """--reprokit."""
    group = parser.getgroup("reprokit", "reprokit: cases as tests")
    group.addoption(
        "--reprokit",
        action="store_true",
        help="Collect the cells of reprokit cases (*.yaml, *.yml, and files that are named) as tests.",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseCollector | None:
    """A collector for a file that holds a case."""
    if not parent.config.getoption("--reprokit") or file_path.suffix == ".py":
        return None
    from reprokit.case.read import MAX_BYTES, YAML_SUFFIXES, is_lock, looks_like_case
    from reprokit.core.files import read_regular

    if not parent.session.isinitpath(file_path):
        if file_path.suffix.lower() not in YAML_SUFFIXES or is_lock(file_path.name):
            return None
        try:
            text = read_regular(file_path, MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            return None
        if not looks_like_case(text):
            return None
    collector: CaseCollector = CaseCollector.from_parent(parent, path=file_path)
    return collector


class CaseCollector(pytest.File):
    """A case file; each of its cells is a test."""

    def collect(self) -> Iterator[CellItem]:
        """The tests. Raises CollectError with every problem of the file."""
        from reprokit.core.errors import ReprokitError
        from reprokit.core.terminal import visible
        from reprokit.environment.cases import load
        from reprokit.report.labels import cell_name
        from reprokit.run.cell_records import blank_record
        from reprokit.run.plan import plan
        from reprokit.run.request import Request

        try:
            files = load(str(self.path))
            tasks = plan(files, Request(cases=(str(self.path),)))
        except ReprokitError as error:
            raise self.CollectError(visible(str(error))) from error
        groups = _groups(tasks) if getattr(self.config.option, "loadgroup", False) else {}
        for task in tasks:
            name = visible(f"{task.case.id}[{cell_name(blank_record(task))}]")
            # pytest 9.2 reads ids back by their brackets, and would not find what failed last under its own.
            item: CellItem = CellItem.from_parent(self, name=name, nodeid=f"{self.nodeid}::{name}", task=task)
            if group := groups.get(task.number):
                item.add_marker(pytest.mark.xdist_group(group))
            yield item


def _groups(tasks: list[Task]) -> Mapping[int, str]:
    """The image of each task, by its number: xdist runs tests of one group in one process."""
    from reprokit.engine import site
    from reprokit.environment.supply import Supply
    from reprokit.run.images import UnfetchedTrees, image_and_layers

    # The same in every process of xdist, whatever a registry answers: what is shared does not depend on it.
    supply = Supply(base_source="bootstrap", catalog=site.catalog())
    with tempfile.TemporaryDirectory() as folder:
        trees = UnfetchedTrees(Path(folder))
        images = {task.number: image_and_layers(task, supply, trees) for task in tasks}
    return {number: f"image-{sha256(image[0].encode()).hexdigest()[:12]}" for number, image in images.items() if image}


class CellItem(pytest.Item):
    """A cell. It passes where the command passes, and is xfailed where it fails as the case expects."""

    def __init__(self, *, task: Task, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.task = task
        words = (f"{name}-{value}" for name, value in task.cell.items())
        self.extra_keyword_matches.update((*words, *task.case.tags))
        if task.expected is not None and task.expected.value != "not-reproduced":
            # strict as the project's own xfail_strict says
            self.add_marker(pytest.mark.xfail(raises=ExpectedFailure, reason=f"expected: {task.expected}"))

    def runtest(self) -> None:
        """Run the cell as a run of its own. Raises CellFailed, ExpectedFailure."""
        from reprokit import api
        from reprokit.core.terminal import visible
        from reprokit.run.request import Chosen, Request

        file: CaseFile = self.task.file
        chosen = Chosen(path=file.path, digest=file.digest, cells=(self.task.cell,))
        request = Request.configured(cases=(file.path,), chosen=(chosen,), datasets={}, sources={}, ask=False)
        run = api.run_request(request)
        [cell] = run.cells
        assert cell.verdict is not None
        self.user_properties += [("reprokit_run", run.id), ("verdict", cell.verdict.value)]
        if cell.verdict is api.Verdict.UNSUPPORTED:
            pytest.skip(visible(cell.reason))
        if cell.verdict is api.Verdict.NOT_REPRODUCED:
            return
        wanted = cell.expected not in (None, api.Verdict.NOT_REPRODUCED)
        raise (ExpectedFailure if wanted and cell.as_expected else CellFailed)(_text(run, cell))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> Any:
        """Verdict, reason and the last lines of the log, instead of a traceback through this module."""
        from reprokit.core.errors import ReprokitError
        from reprokit.core.terminal import visible

        if isinstance(excinfo.value, (CellFailed, ExpectedFailure, ReprokitError)):
            return visible(str(excinfo.value))
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the case is."""
        return self.path, None, self.name


def _text(run: Run, cell: CellRecord) -> str:
    expected = f" (expected {cell.expected})" if cell.expected else ""
    lines = [f"{cell.verdict}{expected}: {cell.reason}"]
    failed = [trial for trial in cell.trials if trial.outcome.value != "passed"] or list(cell.trials)
    if failed:
        lines += [f"trial {failed[0].number}, the last lines of its log:"]
        lines += [f"  {line}" for line in run.log(failed[0]).splitlines()[-LAST_LINES:]]
    lines.append(f"more: reprokit show {run.id} {cell.number}")
    return "\n".join(lines)
