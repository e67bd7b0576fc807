"""Builds that share a step which fails: who learns what it printed, and at what price."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import BuildFailed, Cancelled
from reprokit.engine.docker import buildkit, session
from reprokit.engine.docker.buildkit import FailedSteps, RanElsewhere
from reprokit.engine.docker.session import Trace
from reprokit.engine.protocol import Build, ImageInfo

STEP = "RUN --mount=type=bind,source=reprokit/setup.sh,target=/s  sh /s     && make"
BUILT = ImageInfo(tag="t:1", id="sha256:1", labels={}, size=1)


@pytest.fixture(autouse=True)
def _own_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(buildkit, "SETTLE", 0.0)


@pytest.mark.parametrize(
    ("error", "step"),
    [
        ("executor failed running [/bin/sh -c sh /s     && make]: exit code: 2", STEP),
        ('process "/bin/sh -c echo \\"a\\"" did not complete successfully: exit code: 2', 'RUN echo "a"'),
        ("executor failed running [/bin/sh -c sh /s     && make && more]: exit code: 2", ""),
        ("failed to compute cache key: /make not found", ""),
    ],
)
def test_the_step_that_another_build_ran_is_known_by_its_command(error: str, step: str) -> None:
    trace = Trace(lambda _: None)
    status = session.StatusResponse()
    for number, name in enumerate((STEP, "RUN make", 'RUN echo "a"', "COPY . /make")):
        status.vertexes.add(digest=str(number), name=f"[stage-1 {number}/4] {name}")
    trace.feed(status.SerializeToString())
    assert trace.failed() == ("", (), "")
    assert trace.ran_elsewhere(error) == step


def build(setup: str = "make", last: str = "RUN true\n", trust: Trust = Trust.OWN) -> Build:
    step = STEP.replace("     &&", " \\\n    &&")
    context: dict[str, bytes | Path] = {"reprokit/setup.sh": setup.encode(), "files/a": last.encode()}
    return Build(tag="t:1", dockerfile=f"FROM base\n{step}\n{last}", context=context, trust=trust)


class Script:
    """Attempts of a build that end, one after the other, as ``ends`` says."""

    def __init__(self, *ends: BuildFailed | ImageInfo) -> None:
        self._ends: Iterator[BuildFailed | ImageInfo] = iter(ends)
        self.count = 0

    def __call__(self) -> ImageInfo:
        self.count += 1
        end = next(self._ends)
        if isinstance(end, BuildFailed):
            raise end
        return end


def printed(text: str) -> BuildFailed:
    return BuildFailed("it failed", step=STEP, tail=(text,))


def elsewhere() -> RanElsewhere:
    return RanElsewhere(BuildFailed("it failed", step=STEP))


def test_a_step_that_ran_elsewhere_runs_again_until_its_output_is_known() -> None:
    attempts = Script(elsewhere(), elsewhere(), printed("no rule"))
    with pytest.raises(BuildFailed, match="it failed") as failed:
        FailedSteps().build(build(), attempts, threading.Event())
    assert failed.value.tail == ("no rule",)
    assert not failed.value.reason
    assert FailedSteps().build(build(), Script(elsewhere(), BUILT), threading.Event()) == BUILT


def test_where_no_attempt_gets_the_output_the_reason_says_so_and_names_the_step() -> None:
    attempts = Script(*[elsewhere() for _ in range(buildkit.MOST_REPEATS + 1)])
    with pytest.raises(BuildFailed) as failed:
        FailedSteps().build(build(), attempts, threading.Event())
    assert "another build" in failed.value.reason
    assert "sh /s" in failed.value.reason


@pytest.mark.parametrize(
    ("other", "repeats"),
    [
        (build(last="RUN false\n"), 0),
        (build(setup="make all"), 1),  # the same words, which read another file
        (build(trust=Trust.STRANGER), 1),
    ],
)
def test_what_a_build_of_this_process_got_meanwhile_serves_those_that_read_the_same(other: Build, repeats: int) -> None:
    steps, own = FailedSteps(), Script(printed("no rule"))

    class Meanwhile(Script):
        def __call__(self) -> ImageInfo:
            if not self.count:
                with pytest.raises(BuildFailed):
                    steps.build(build(), own, threading.Event())
            return super().__call__()

    attempts = Meanwhile(elsewhere(), printed("another rule"))
    with pytest.raises(BuildFailed) as failed:
        steps.build(other, attempts, threading.Event())
    assert attempts.count == 1 + repeats
    assert failed.value.tail == (("another rule",) if repeats else ("no rule",))
    # What was printed before a build began says nothing of it.
    later = Script(elsewhere(), printed("by now"))
    with pytest.raises(BuildFailed) as failed:
        steps.build(build(), later, threading.Event())
    assert failed.value.tail == ("by now",)


def test_a_long_run_keeps_the_output_of_few_failed_steps_and_nothing_else_of_their_builds() -> None:
    steps, context = FailedSteps(), []

    def attempt() -> ImageInfo:
        held = type("Context", (), {})()
        context.append(weakref.ref(held))
        raise printed("no rule")

    for number in range(buildkit.MOST_KEPT + 5):
        with contextlib.suppress(BuildFailed):
            steps.build(build(setup=str(number)), attempt, threading.Event())
    gc.collect()
    assert not any(one() for one in context)
    assert len(steps._failed) == buildkit.MOST_KEPT


def test_waiting_for_the_output_ends_when_the_run_does() -> None:
    cancel = threading.Event()
    cancel.set()
    steps = FailedSteps()
    locked = buildkit.cache.folder("locks") / f"step-{buildkit._identity(build(), STEP)}.lock"
    with buildkit.locked(locked), pytest.raises(Cancelled):
        steps.build(build(), Script(elsewhere()), cancel)
