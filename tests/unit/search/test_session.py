"""The driver of searches, on a fake engine: what it asks for is run once, recorded, resumed and answered."""

from __future__ import annotations

import dataclasses
import io
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.case.read import Text
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import BuildFailed, Cancelled, EngineError, UsageError
from reprokit.core.json_record import JsonRecord
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending, Verdict
from reprokit.evidence.reading import Reading, reading
from reprokit.run import loading
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.search.queries import Candidate, Query, Search, SearchAnswer
from reprokit.search.search_session import SearchSession
from reprokit.store.database import Store
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {a: ["1", "2", "3"], package: [bash, curl]}
environment: {apt: ["{{ package }}"]}
env: {A: "{{ {'1': 'one', '2': 'two', '3': 'three'}[a] }}"}
command: toy
expect:
  failure: {exit_code: 3, output: boom}
"""


def toy(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    if trial.env["A"] == "two":
        sink(b"boom\n")
        return Ending(exit_code=3, seconds=0.1)
    return Ending(exit_code=0 if trial.env["A"] == "one" else 1, seconds=0.1)


def cell(a: str, package: str = "bash") -> Candidate:
    return Candidate(cell={"a": a, "package": package})


@dataclasses.dataclass(frozen=True)
class Far(JsonRecord):
    """The arguments of the search of these tests."""

    far: int


class Project:
    def __init__(self, folder: Path) -> None:
        self.case = folder / "toy.yaml"
        self.case.write_text(CASE)
        self.store = folder / "store"
        self.engine = FakeEngine(toy)
        self.output = io.StringIO()

    def session(self) -> SearchSession:
        return SearchSession(self.store, display=Screen(self.output), engine=lambda: self.engine)

    def interrupt(self) -> Ending:
        os.kill(os.getpid(), signal.SIGINT)
        assert self.engine.cancel.wait(10)
        raise Cancelled("stopped")

    @property
    def request(self) -> Request:
        return Request(cases=(str(self.case),), base_images="registry", jobs=1)

    def start(self, make: Callable[[SearchSession], Search[SearchAnswer]]) -> tuple[int, SearchSession]:
        session = self.session()
        return session.start("walk", self.request, Far(far=3), make), session

    def resume(self, make: Callable[[SearchSession], Search[SearchAnswer]]) -> tuple[int, SearchSession]:
        session = self.session()
        return session.resume("walk", (), make), session


def walk(session: SearchSession) -> Search[SearchAnswer]:
    """Asks for one cell after the other."""
    seen: list[Reading] = []
    for a in map(str, range(1, session.arguments["far"] + 1)):
        seen += yield Query(candidates=(cell(a),))
    return SearchAnswer(words=(f"seen {', '.join(seen)}",))


def test_a_verdict_is_read_as_fail_pass_or_unresolved() -> None:
    assert reading(Verdict.FLAKY) is reading(Verdict.REPRODUCED) is Reading.FAIL
    assert reading(Verdict.NOT_REPRODUCED) is Reading.PASS
    others = set(Verdict) - {Verdict.FLAKY, Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
    assert {reading(verdict) for verdict in (*others, None)} == {Reading.UNRESOLVED}


def test_a_search_is_recorded_as_a_run_of_the_cells_it_asked_for(project: Project) -> None:
    status, session = project.start(walk)
    assert status == 0
    store = Store(project.store)
    run = store.run("last")
    assert [(c.number, c.cell["a"], str(c.verdict)) for c in run.cells] == [
        (1, "1", "not-reproduced"),
        (2, "2", "reproduced"),
        (3, "3", "different-failure"),
    ]
    assert run.exit_status == 0
    assert run.request.search is not None
    assert run.request.search.arguments == {"far": 3}
    assert store.findings(run.id)["answer"]["words"] == ["seen good, bad, unknown"]
    assert store.case_text(run.cells[0].case_digest) == CASE
    result = session.result().to_json()
    assert [c["reading"] for c in result["cells"]] == ["good", "bad", "unknown"]
    assert result["answer"] == {"words": ["seen good, bad, unknown"], "exit_status": 0}
    output = project.output.getvalue()
    assert "#2 a=2 package=bash: reproduced" in output
    assert "seen good, bad, unknown" in output


def test_a_cell_that_is_asked_for_again_is_not_run_again(project: Project) -> None:
    def again(session: SearchSession) -> Search[SearchAnswer]:
        first = yield Query(candidates=(cell("1"), cell("2")))
        second = yield Query(candidates=(cell("2"), cell("1"), cell("2")))
        return SearchAnswer(words=(str([*first, *second] == ["good", "bad", "bad", "good", "bad"]),))

    _, session = project.start(again)
    assert session.answer is not None
    assert session.answer.words == ("True",)
    assert len(project.engine.trials) == 2


def test_a_resumed_search_continues_and_repeats_nothing(project: Project) -> None:
    def interrupted(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.env["A"] == "three":
            project.interrupt()
        return toy(trial, sink)

    asked: list[str] = []

    def make(session: SearchSession) -> Search[SearchAnswer]:
        far = session.recall("far", lambda: asked.append("far") or 3)
        assert far == 3
        return walk(session)

    project.engine.behave = interrupted
    status, _ = project.start(make)
    assert status == 130
    assert "stopped: 2 cells decided and kept; continue with: reprokit walk --resume" in project.output.getvalue()
    project.engine.behave = toy
    before = len(project.engine.trials)
    with pytest.raises(UsageError, match="nothing to resume"):
        Session(project.store, display=Screen(project.output), engine=lambda: project.engine).resume(None)
    status, session = project.resume(make)
    assert status == 0
    assert len(project.engine.trials) == before + 1
    assert asked == ["far"]
    assert [c["reading"] for c in session.result().to_json()["cells"]] == ["good", "bad", "unknown"]
    run = Store(project.store).run("last")
    assert [c.cell["a"] for c in run.cells] == ["1", "2", "3"]
    assert len(Store(project.store).runs()) == 1
    with pytest.raises(UsageError, match="nothing to resume"):
        project.resume(make)


def test_a_resumed_search_over_a_url_uses_the_text_that_was_read_first(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        return project.interrupt() if trial.env["A"] == "two" else toy(trial, sink)

    project.engine.behave = interrupted
    url = "https://bugs.example/7.yaml"
    monkeypatch.setattr(loading, "fetch", lambda url: Text(path=url, text=CASE))
    request = dataclasses.replace(project.request, cases=(url,), yes=True)
    assert project.session().start("walk", request, Far(far=3), walk) == 130
    monkeypatch.setattr(loading, "fetch", None)
    project.engine.behave = toy
    status, session = project.resume(walk)
    assert status == 0
    assert session.file.path == url


def test_a_search_over_a_changed_case_is_not_resumed(project: Project) -> None:
    project.engine.behave = lambda trial, sink: project.interrupt()
    project.start(walk)
    project.case.write_text(CASE + "tags: [new]\n")
    with pytest.raises(UsageError, match="its case has changed since"):
        project.resume(walk)


def test_a_cell_for_which_a_template_fails_is_unresolved(project: Project) -> None:
    def beyond(session: SearchSession) -> Search[SearchAnswer]:
        readings = yield Query(candidates=(cell("9"), cell("2")))
        return SearchAnswer(words=tuple(readings))

    _, session = project.start(beyond)
    assert session.answer is not None
    assert session.answer.words == ("unknown", "bad")
    record = Store(project.store).run("last").cells[0]
    assert record.verdict is Verdict.UNSUPPORTED
    assert "9" in record.reason


def test_a_search_stopped_by_a_lost_engine_can_be_resumed(project: Project) -> None:
    def gone(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.env["A"] == "two":
            project.engine.info = _refuse  # type: ignore[method-assign]
            raise EngineError("the connection broke")
        return toy(trial, sink)

    project.engine.behave = gone
    with pytest.raises(EngineError, match="the engine does not answer"):
        project.start(walk)
    project.engine = FakeEngine(toy)
    status, session = project.resume(walk)
    assert status == 0
    assert [c["reading"] for c in session.result().to_json()["cells"]] == ["good", "bad", "unknown"]


def test_without_an_engine_no_search_is_recorded(project: Project) -> None:
    project.engine.info = _refuse  # type: ignore[method-assign]
    with pytest.raises(EngineError, match="the engine does not answer"):
        project.start(walk)
    assert not project.store.exists()


def _refuse() -> None:
    raise EngineError("the engine does not answer")


def test_the_next_image_is_built_while_a_cell_runs_and_its_failure_is_ignored(project: Project) -> None:
    meanwhile = threading.Event()

    def waits(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        assert meanwhile.wait(10), "nothing was built while the trial ran"
        return toy(trial, sink)

    building = project.engine.build

    def build(*given: object) -> object:
        if "curl" in given[0].dockerfile and not meanwhile.is_set():  # type: ignore[attr-defined]
            meanwhile.set()
            raise BuildFailed("no such thing today")
        return building(*given)  # type: ignore[arg-type]

    project.engine.behave = waits
    project.engine.build = build  # type: ignore[method-assign, assignment]

    def make(session: SearchSession) -> Search[SearchAnswer]:
        first = yield Query(candidates=(cell("1"),), soon=(cell("2", "curl"),))
        second = yield Query(candidates=(cell("2", "curl"),))
        return SearchAnswer(words=(*first, *second))

    _, session = project.start(make)
    assert session.answer is not None
    assert session.answer.words == ("good", "bad")
    assert len(project.engine.built) == 2


def test_an_existing_image_costs_nothing_and_shared_steps_cost_less(project: Project) -> None:
    costs: list[int] = []

    def make(session: SearchSession) -> Search[SearchAnswer]:
        costs.append(session.cost(cell("1", "bash")))
        yield Query(candidates=(cell("1", "bash"),))
        costs.extend(session.cost(one) for one in (cell("2", "bash"), cell("1", "curl"), cell("9", "curl")))
        return SearchAnswer(words=())

    project.start(make)
    new, exists, shares, never = costs
    assert exists == 0
    assert 0 < shares < new < never


def test_a_search_takes_one_case(project: Project) -> None:
    (project.case.parent / "other.yaml").write_text(CASE.replace("id: toy", "id: other"))
    session = project.session()
    with pytest.raises(UsageError, match="takes one case"):
        session.start("walk", Request(cases=(str(project.case.parent),)), Far(far=3), walk)
