"""The driver of searches, on a fake engine: what is asked is run once, recorded, resumed and answered."""

from __future__ import annotations

import dataclasses
import io
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.case import read as read_module
from reprokit.case.read import Text
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import BuildFailed, Cancelled, EngineError, UsageError
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending, Verdict
from reprokit.evidence.reading import Reading, reading
from reprokit.run.request import Request
from reprokit.run.session import Session
from reprokit.search.asking import Ask, Candidate, Search
from reprokit.search.session import Answer, SearchSession
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

    def start(self, make: Callable[[SearchSession], Search[Answer]]) -> tuple[int, SearchSession]:
        session = self.session()
        return session.start("walk", self.request, {"far": 3}, make), session

    def resume(self, make: Callable[[SearchSession], Search[Answer]]) -> tuple[int, SearchSession]:
        session = self.session()
        return session.resume("walk", (), make), session


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def walk(session: SearchSession) -> Search[Answer]:
    """Asks for one cell after the other."""
    seen: list[Reading] = []
    for a in map(str, range(1, session.arguments["far"] + 1)):
        seen += yield Ask(candidates=(cell(a),))
    return Answer(words=(f"seen {', '.join(seen)}",), data={"seen": seen}, exit_status=0)


def test_verdicts_read_as_bad_good_or_unknown() -> None:
    assert reading(Verdict.FLAKY) is reading(Verdict.REPRODUCED) is Reading.BAD
    assert reading(Verdict.NOT_REPRODUCED) is Reading.GOOD
    others = set(Verdict) - {Verdict.FLAKY, Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
    assert {reading(verdict) for verdict in (*others, None)} == {Reading.UNKNOWN}


def test_a_search_is_a_run_whose_cells_come_as_they_are_asked_for(project: Project) -> None:
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
    result = session.result()
    assert [c["reading"] for c in result["cells"]] == ["good", "bad", "unknown"]
    assert result["answer"]["seen"] == ["good", "bad", "unknown"]
    said = project.output.getvalue()
    assert "[2] a=2 package=bash: reproduced" in said
    assert "seen good, bad, unknown" in said


def test_what_is_asked_again_is_not_run_again(project: Project) -> None:
    def again(session: SearchSession) -> Search[Answer]:
        first = yield Ask(candidates=(cell("1"), cell("2")))
        second = yield Ask(candidates=(cell("2"), cell("1"), cell("2")))
        return Answer(words=(str([*first, *second] == ["good", "bad", "bad", "good", "bad"]),))

    _, session = project.start(again)
    assert session.answer is not None
    assert session.answer.words == ("True",)
    assert len(project.engine.trials) == 2


def test_an_interrupted_search_goes_on_where_it_was_and_repeats_nothing(project: Project) -> None:
    def interrupted(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.env["A"] == "three":
            project.interrupt()
        return toy(trial, sink)

    asked: list[str] = []

    def make(session: SearchSession) -> Search[Answer]:
        far = session.recall("far", lambda: asked.append("far") or 3)
        assert far == 3
        return walk(session)

    project.engine.behave = interrupted
    status, _ = project.start(make)
    assert status == 130
    assert "stopped: 2 cells decided and kept; go on with: reprokit walk --resume" in project.output.getvalue()
    project.engine.behave = toy
    before = len(project.engine.trials)
    with pytest.raises(UsageError, match="nothing to resume"):
        Session(project.store, display=Screen(project.output), engine=lambda: project.engine).resume(None)
    status, session = project.resume(make)
    assert status == 0
    assert len(project.engine.trials) == before + 1
    assert asked == ["far"]
    assert [c["reading"] for c in session.result()["cells"]] == ["good", "bad", "unknown"]
    run = Store(project.store).run("last")
    assert [c.cell["a"] for c in run.cells] == ["1", "2", "3"]
    assert len(Store(project.store).runs()) == 1
    with pytest.raises(UsageError, match="nothing to resume"):
        project.resume(make)


def test_a_search_over_an_address_goes_on_with_the_text_that_was_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        return project.interrupt() if trial.env["A"] == "two" else toy(trial, sink)

    project.engine.behave = interrupted
    url = "https://bugs.example/7.yaml"
    monkeypatch.setattr(read_module, "_fetch", lambda url: Text(path=url, text=CASE))
    request = dataclasses.replace(project.request, cases=(url,), yes=True)
    assert project.session().start("walk", request, {"far": 3}, walk) == 130
    monkeypatch.delattr(read_module, "_fetch")
    project.engine.behave = toy
    status, session = project.resume(walk)
    assert status == 0
    assert session.file.path == url


def test_a_case_that_changed_is_not_resumed(project: Project) -> None:
    project.engine.behave = lambda trial, sink: project.interrupt()
    project.start(walk)
    project.case.write_text(CASE + "tags: [new]\n")
    with pytest.raises(UsageError, match="its case changed since"):
        project.resume(walk)


def test_a_cell_for_which_the_case_has_no_text_is_unknown(project: Project) -> None:
    def beyond(session: SearchSession) -> Search[Answer]:
        readings = yield Ask(candidates=(cell("9"), cell("2")))
        return Answer(words=tuple(readings))

    _, session = project.start(beyond)
    assert session.answer is not None
    assert session.answer.words == ("unknown", "bad")
    record = Store(project.store).run("last").cells[0]
    assert record.verdict is Verdict.UNSUPPORTED
    assert "9" in record.reason


def test_an_engine_that_goes_away_ends_the_search_to_be_resumed(project: Project) -> None:
    def gone(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.env["A"] == "two":
            project.engine.info = _refuse  # type: ignore[method-assign]
            raise EngineError("the connection broke")
        return toy(trial, sink)

    project.engine.behave = gone
    with pytest.raises(EngineError, match="nobody answers"):
        project.start(walk)
    project.engine = FakeEngine(toy)
    status, session = project.resume(walk)
    assert status == 0
    assert [c["reading"] for c in session.result()["cells"]] == ["good", "bad", "unknown"]


def _refuse() -> None:
    raise EngineError("nobody answers")


def test_what_comes_soon_is_built_meanwhile_and_a_failure_of_that_is_no_matter(project: Project) -> None:
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

    def make(session: SearchSession) -> Search[Answer]:
        first = yield Ask(candidates=(cell("1"),), soon=(cell("2", "curl"),))
        second = yield Ask(candidates=(cell("2", "curl"),))
        return Answer(words=(*first, *second))

    _, session = project.start(make)
    assert session.answer is not None
    assert session.answer.words == ("good", "bad")
    assert len(project.engine.built) == 2


def test_the_cheapest_is_what_stands_then_what_shares_most(project: Project) -> None:
    costs: list[int] = []

    def make(session: SearchSession) -> Search[Answer]:
        costs.append(session.cost(cell("1", "bash")))
        yield Ask(candidates=(cell("1", "bash"),))
        costs.extend(session.cost(one) for one in (cell("2", "bash"), cell("1", "curl"), cell("9", "curl")))
        return Answer(words=())

    project.start(make)
    new, stands, shares, never = costs
    assert stands == 0
    assert 0 < shares < new < never


def test_a_search_is_over_one_case(project: Project) -> None:
    (project.case.parent / "other.yaml").write_text(CASE.replace("id: toy", "id: other"))
    session = project.session()
    with pytest.raises(UsageError, match="about one case"):
        session.start("walk", Request(cases=(str(project.case.parent),)), {}, walk)
