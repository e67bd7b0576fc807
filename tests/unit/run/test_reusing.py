"""``--reuse``: what is taken over from an earlier run, what never is, and that it is marked wherever it is shown."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.cli import invoke
from reprokit.environment.host import Gpu, HostFacts
from reprokit.evidence.details import LimitsRecord
from reprokit.evidence.model import Ending, Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.evidence.usage import GpuRecord, Usage
from reprokit.report.formats import FormatSources, run_format
from reprokit.run.loading import load_all
from reprokit.run.plan import plan
from reprokit.run.request import Request
from reprokit.run.reusing import Earlier, newest_record, refusal
from reprokit.store.database import Store
from tests.unit.run.test_runner import CASE, Project, toy

WEEK = 7 * 86400.0


def again(project: Project, **values: object) -> tuple[CellRecord, ...]:
    """Run it once more in a new session; how many programs ran is in ``project.engine.trials``."""
    project.engine.trials.clear()
    project.session = project.new_session()
    project.run(**{"reuse": WEEK, **values})
    return project.cells


def test_cells_are_taken_over_with_logs_of_their_own_and_where_they_came_from(project: Project) -> None:
    project.run()
    first = project.session.record
    cells = again(project)
    assert project.engine.trials == []
    assert [cell.reused_from for cell in cells] == [f"{first.id}:{number}" for number in (1, 2, 3, 4)]
    assert [cell.verdict for cell in cells] == [cell.verdict for cell in first.cells]
    assert not any(cell.image.built for cell in cells if cell.image)
    store = Store(project.folder / "store")
    store.forget(first.id)  # takes its folder away, with its logs
    kept = store.run(project.session.record.id)
    assert [(project.folder / "store" / trial.log).read_bytes() for trial in kept.cells[2].trials] == [b"boom\n"]
    assert [cell.reused_from for cell in kept.cells] == [cell.reused_from for cell in cells]
    store.close()


def test_a_run_reuses_nothing_unless_it_is_asked_to(project: Project) -> None:
    project.run()
    again(project, reuse=None)
    assert len(project.engine.trials) == 4


def test_what_was_taken_over_is_taken_over_no_further_and_is_not_a_result_of_its_own(project: Project) -> None:
    project.run()
    first = project.session.record.id
    again(project)
    cells = again(project)
    assert {cell.reused_from.partition(":")[0] for cell in cells if cell.reused_from} == {first}
    store = Store(project.folder / "store")
    assert {run.id for run, cells in store.outlines(None) if not all(one.reused_from for one in cells)} == {first}
    store.forget(first)
    store.close()
    again(project)
    assert len(project.engine.trials) == 4


def edited(project: Project) -> None:
    project.case.write_text(CASE.replace("A toy", "Another toy"))


def another_base(project: Project) -> None:
    image = project.engine.image
    project.engine.image = lambda tag: (  # type: ignore[method-assign]
        dataclasses.replace(found, id="sha256:new") if (found := image(tag)) and "img" not in tag else found
    )


def gone_logs(project: Project) -> None:
    for log in (project.folder / "store").glob("runs/*/*/trial-*.log"):
        log.unlink()


def test_a_cell_of_which_one_log_is_gone_runs_and_leaves_the_other_logs_as_they_were(project: Project) -> None:
    project.run(trials=2)
    first = project.session.record
    store = project.folder / "store"
    for cell in first.cells:
        kept, gone = (store / trial.log for trial in cell.trials)
        kept.write_bytes(b"of the earlier run")
        gone.unlink()
    cells = again(project, trials=2)
    assert not any(cell.reused_from for cell in cells)
    assert {(store / cell.trials[0].log).read_bytes() for cell in first.cells} == {b"of the earlier run"}


def other_store(project: Project) -> None:
    store = Store(project.folder / "store")
    run = store.run("last")
    store.forget(run.id)
    store.put(dataclasses.replace(run, owner=run.owner.as_imported()), {})
    store.close()


def other_rules(project: Project) -> None:
    store = Store(project.folder / "store")
    for cell in store.run("last").cells:
        store.decide(store.run("last").id, dataclasses.replace(cell, rules="1"))
    store.close()


@pytest.mark.parametrize("change", [edited, another_base, gone_logs, other_store, other_rules])
def test_every_cell_runs_where_what_decides_it_changed(project: Project, change: Callable[[Project], None]) -> None:
    project.run()
    change(project)
    assert not any(cell.reused_from for cell in again(project))
    assert len(project.engine.trials) == 4


@pytest.mark.parametrize(
    "values", [{"trials": 3}, {"backtrace": True}, {"fix": True}, {"reuse": 1e-9}], ids=lambda value: next(iter(value))
)
def test_every_cell_runs_that_was_asked_for_otherwise(project: Project, values: dict[str, object]) -> None:
    project.run()
    cells = again(project, **values)
    assert not any(cell.reused_from for cell in cells if cell.variant == "fix" or "fix" not in values)


def test_limits_of_the_host_are_a_part_of_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.run()
    monkeypatch.setenv("REPROKIT_MAX_MEMORY", "1g")
    again(project)
    assert len(project.engine.trials) == 4


def test_what_was_flaky_or_inconclusive_runs_again(project: Project) -> None:
    seen: list[str] = []

    def behave(trial: object, sink: Callable[[bytes], None]) -> Ending:
        key = f"{trial.env['A']}{trial.env['B']}"  # type: ignore[attr-defined]
        seen.append(key)
        if key == "1x":
            return Ending(exit_code=143, timed_out=True, seconds=1.0)
        if key == "2x" and seen.count(key) == 2:
            return Ending(exit_code=0, seconds=0.1)
        return toy(trial, sink)  # type: ignore[arg-type]

    project.engine.behave = behave
    project.run(trials=2)
    assert [str(cell.verdict) for cell in project.cells] == ["timed-out", "not-reproduced", "flaky", "reproduced"]
    project.engine.behave = toy
    cells = again(project, trials=2)
    assert [cell.reused_from is not None for cell in cells] == [False, True, False, True]
    assert len(project.engine.trials) == 4


def test_a_newer_flaky_record_is_not_passed_over_for_an_older_one(project: Project) -> None:
    project.run()
    run = project.session.record
    flaky = [(run, dataclasses.replace(cell, verdict=Verdict.FLAKY)) for cell in run.cells[:1]]
    steady = [(run, run.cells[0])]
    found = newest_record([*flaky, *steady], "fake")
    assert found is not None
    assert found.cell.verdict is Verdict.FLAKY
    assert newest_record(steady, "docker") is None


@pytest.fixture
def earlier(project: Project) -> tuple[RunRecord, CellRecord, Request]:
    project.run()
    return project.session.record, project.cells[0], Request(cases=(str(project.case),), base_images="registry")


def test_a_cell_with_a_gpu_needs_the_same_model_and_driver(earlier: tuple[RunRecord, CellRecord, Request]) -> None:
    run, cell, request = earlier
    [task, *_] = plan(load_all(request.cases), request)
    assert cell.image is not None
    limits = dataclasses.replace(task.spec.limits, gpus=1)
    task = dataclasses.replace(task, spec=dataclasses.replace(task.spec, limits=limits))
    gpu = GpuRecord(name="NVIDIA H100", uuid="GPU-1", driver="550.1")
    trials = tuple(dataclasses.replace(trial, usage=Usage(gpus=(gpu,))) for trial in cell.trials)
    same = LimitsRecord(**{one.name: getattr(limits, one.name) for one in dataclasses.fields(LimitsRecord)})
    cell = dataclasses.replace(cell, details=dataclasses.replace(cell.details, limits=same))
    found = Earlier(run=run, cell=dataclasses.replace(cell, trials=trials))
    tag = cell.image.tag

    def said(*names: str, driver: str | None = "550.1", of: Earlier = found) -> str:
        gpus = tuple(Gpu(index=0, uuid="GPU-0", name=name, memory=1, compute="9.0") for name in names)
        return refusal(task, of, tag, HostFacts(gpus=gpus, driver=driver), backtrace=False)

    other = "it ran on another GPU or driver"
    assert said("NVIDIA H100", "NVIDIA H100") == ""
    assert said("NVIDIA A100") == said("NVIDIA H100", "NVIDIA A100") == said("NVIDIA H100", driver="535") == other
    assert said("NVIDIA H100", of=Earlier(run=run, cell=cell)) == other  # it is not known what it had


def test_another_level_of_trust_or_image_is_refused(earlier: tuple[RunRecord, CellRecord, Request]) -> None:
    run, cell, request = earlier
    [task, *_] = plan(load_all(request.cases), request)
    assert cell.image is not None
    found = Earlier(run=run, cell=cell)
    assert refusal(task, found, "reprokit/img:other", HostFacts(), backtrace=False) == "its image is another one now"
    stranger = dataclasses.replace(task, file=dataclasses.replace(task.file, trust=Trust.STRANGER))
    words = refusal(stranger, found, cell.image.tag, HostFacts(), backtrace=False)
    assert words == "the case was trusted otherwise"
    given = dataclasses.replace(task, datasets={"data": Path("/data")})
    words = refusal(given, found, cell.image.tag, HostFacts(), backtrace=False)
    assert words == "data of this host is given to it"


def test_it_is_marked_in_every_output(project: Project) -> None:
    project.run()
    first = project.session.record.id
    again(project)
    record = project.session.record
    said = project.output.getvalue()
    assert "; 4 reused from earlier runs" in said
    assert f"reused from {first}" in said
    sources = FormatSources(folder=project.folder / "store", file_of=project.session.files.get)
    for name in ("md", "json", "junit", "csv"):
        text = run_format(name).text(record, sources)
        assert re.search(rf"reused from {first}|\(reused\)|\"reused_from\": \"{first}:1\"", text), name
    assert invoke(["report", "--store", str(project.folder / "store"), "-o", str(project.folder / "site")]) == 0
    pages = {path.name for path in (project.folder / "site" / "data").rglob("*") if path.name.startswith("2")}
    assert pages == {first}  # the matrix shows the run in which the cells ran
    cells = json.loads(run_format("json").text(record, sources))["cases"][0]["cells"]
    assert [cell["reused_from"] for cell in cells] == [f"{first}:{number}" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("other", ["--failed", "--resume", "--watch"])
def test_it_does_not_go_with_what_chooses_cells_by_earlier_runs(
    other: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", str(project.case), "--reuse", other]) == 2
    assert f"--reuse takes over what did not change: leave out {other}" in capsys.readouterr().err


def test_what_is_not_an_age_is_refused_and_a_case_behind_it_is_a_case(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", str(project.case), "--reuse=7x"]) == 2
    assert "--reuse=7x: expected a duration" in capsys.readouterr().err
    assert invoke(["run", "--reuse", str(project.folder / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
