"""What is removed for a budget, what stays because it is in use, and runs that are held to a budget."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.core.errors import EngineError, ImageDamaged, ImageGone, UsageError
from reprokit.engine.protocol import IMAGE, OTHER_CACHE, Build, Kept, Trial
from reprokit.evidence.model import Ending, Verdict
from reprokit.run import uses
from reprokit.run.keeping import (
    LOG,
    Fetched,
    Keeper,
    Logs,
    RemovalRequest,
    Scraps,
    SourceCache,
    collect,
    cost,
    holders,
    plan_collection,
    plan_removals,
    stock,
)
from reprokit.store.database import Store
from tests.bench.keeping_simulation import GB, simulate
from tests.unit.run.test_runner import Project, toy

DAY = 86400.0
NOW = 1000 * DAY


def image(key: str, size: int = 100, **values: object) -> Kept:
    defaults = {"kind": IMAGE, "name": key, "parts": {key: size}, "used": NOW, "seconds": 60.0}
    return Kept(key=key, **{**defaults, **values})  # type: ignore[arg-type]


class Shelf:
    """Holds things in memory."""

    def __init__(self, *items: Kept) -> None:
        self.items = {one.key: one for one in items}
        self.on_discard: Callable[[Kept], bool] = lambda kept: True

    def kept(self) -> Sequence[Kept]:
        return list(self.items.values())

    def discard(self, several: Sequence[Kept]) -> Sequence[Kept]:
        for one in several:
            if self.on_discard(one):
                del self.items[one.key]
        return [one for one in several if one.key not in self.items]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def removed(items: Sequence[Kept], **values: object) -> list[str]:
    return [one.kept.key for one in plan_removals(items, now=NOW, **values).removals]  # type: ignore[arg-type]


# -- the planner -------------------------------------------------------------------------------------------------------


def test_what_an_engine_of_this_host_keeps_is_found_without_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprokit.engine.venv.environments.top", lambda: tmp_path / "venvs")
    (tmp_path / "venvs" / "pip" / "wheels").mkdir(parents=True)
    (tmp_path / "venvs" / "pip" / "wheels" / "x.whl").write_bytes(b"x" * 4096)
    found = [kept for holder in holders(None, tmp_path / "store") for kept in holder.kept()]
    assert [kept.name for kept in found if "venvs" in kept.key], found


def test_what_is_cheap_large_old_and_seldom_used_goes_first() -> None:
    same = [image("a"), image("b"), image("c")]
    for odd in (
        {"seconds": 1.0},
        {"parts": {"b": 300}},
        {"used": NOW - 9 * DAY},
    ):
        items = [same[0], replace(same[1], **odd), same[2]]  # type: ignore[arg-type]
        assert removed(items, budget=sum(one.bytes for one in items) - 1) == ["b"], odd
    often = [replace(one, times=5) for one in same[1:]]
    assert removed([same[0], *often], budget=299) == ["a"]


def test_of_equals_the_same_one_goes_however_the_engine_lists_them() -> None:
    same = [image("a"), image("b"), image("c")]
    for items in (same, same[::-1]):
        assert removed(items, budget=250) == ["a"], "what a dry run showed"
        assert removed(items, older_than=-1) == ["a", "b", "c"]


def test_what_no_time_is_known_of_is_taken_to_be_made_at_twenty_megabytes_a_second() -> None:
    assert cost(image("a", 40_000_000, seconds=None)) == 2.0


def test_only_what_no_other_shares_is_freed() -> None:
    first = image("a", parts={"base": 1000, "a": 10}, seconds=1.0)
    second = image("b", parts={"base": 1000, "b": 20}, seconds=2.0)
    found = plan_removals([first, second], now=NOW, budget=500)
    assert [(one.kept.key, one.freed) for one in found.removals] == [("a", 10), ("b", 1020)]
    assert (found.total, found.left) == (1030, 0)


def test_what_holds_nothing_is_not_removed_for_a_budget() -> None:
    assert removed([image("empty", parts={}, seconds=None), image("a")], budget=50) == ["a"]


def test_a_base_goes_after_what_lies_on_it() -> None:
    base = image("base", 1000, seconds=0.1)
    upper = image("upper", parts={"base": 1000, "own": 1}, needs=frozenset({"base"}), seconds=1e9)
    assert removed([base, upper], budget=0) == ["upper", "base"]
    assert removed([base, replace(upper, stays="a run uses it")], budget=0) == []


def test_logs_go_after_all_that_can_be_made_again() -> None:
    log = image("run", 1000, kind=LOG, seconds=0.001, used=0.0)
    assert removed([log, image("a", seconds=1e6)], budget=1000) == ["a"]


def test_old_things_go_without_a_budget_and_leftovers_always() -> None:
    items = [image("old", used=NOW - 31 * DAY), image("new"), image("left", seconds=0.0)]
    assert removed(items, older_than=30 * DAY) == ["left", "old"]
    assert removed(items) == ["left"]


KEYS = "abcdefgh"
ITEMS = st.lists(
    st.builds(
        image,
        st.sampled_from(KEYS),
        parts=st.dictionaries(st.sampled_from("uvwxyz"), st.integers(1, 1000), max_size=4),
        used=st.floats(0, NOW),
        seconds=st.none() | st.floats(0, 1e5),
        times=st.integers(1, 100),
        stays=st.sampled_from(["", "", "", "a run uses it"]),
        needs=st.frozensets(st.sampled_from(KEYS), max_size=2),
        kind=st.sampled_from([IMAGE, LOG]),
    ),
    unique_by=lambda one: one.key,
)


@given(items=ITEMS, budget=st.none() | st.integers(0, 4000), older_than=st.none() | st.floats(0, NOW))
def test_a_plan_keeps_the_budget_or_removes_all_that_may_go(
    items: list[Kept], budget: int | None, older_than: float | None
) -> None:
    sizes = {part: size for one in items for part, size in one.parts.items()}  # one size for each part
    items = [replace(one, parts={part: sizes[part] for part in one.parts}) for one in items]
    found = plan_removals(items, now=NOW, budget=budget, older_than=older_than)
    gone = {one.kept.key for one in found.removals}
    left = [one for one in items if one.key not in gone]
    assert len(gone) == len(found.removals)
    assert not any(one.stays for one in items if one.key in gone)
    assert not gone & {key for one in left for key in one.needs}, "nothing loses what it is made on"
    assert found.left == sum({part: size for one in left for part, size in one.parts.items()}.values())
    assert found.total - found.left == sum(one.freed for one in found.removals)
    if budget is not None and found.left > budget:
        needed = {key for one in left for key in one.needs}
        assert all(one.stays or one.key in needed or not one.bytes for one in left)


def test_a_year_of_nights_never_passes_the_budget_and_counts_what_is_built_again() -> None:
    year = simulate(20 * GB, count=60)
    assert year.most <= 20 * GB
    assert year.unmet == 0
    assert 0 < year.again < year.builds
    assert year.builds - year.again == simulate(1000 * GB, count=60).builds, "built once at least, whatever the budget"
    assert year.seconds_again < simulate(20 * GB, count=60, costs=False).seconds_again


# -- uses --------------------------------------------------------------------------------------------------------------


def test_what_is_used_is_known_until_it_ends() -> None:
    with uses.Uses() as mine:
        mine.begin("a")
        mine.begin("a")
        mine.begin("b")
        assert uses.in_use() == {"a", "b"}
        mine.end("a")
        assert uses.in_use() == {"a", "b"}
        mine.end("a")
        assert uses.in_use() == {"b"}
    assert uses.in_use() == set()
    mine.end("b")
    assert uses.in_use() == set()
    found = uses.last("a")
    assert found is not None
    assert found.times == 2
    assert abs(found.at - time.time()) < 3600


def test_what_a_killed_process_used_is_free(tmp_path: Path) -> None:
    script = "from reprokit.run.uses import Uses; import time; u = Uses(); u.begin('x'); print(1, flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{script}; time.sleep(600)"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        assert uses.in_use() == {"x"}
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert uses.in_use() == set()
    assert not list((tmp_path / "cache/reprokit/uses/live").iterdir())


def test_the_longest_build_counts_and_old_uses_are_forgotten() -> None:
    uses.remember("a", seconds=50.0)
    uses.remember("a", seconds=2.0, size=7, times=1)
    found = uses.last("a")
    assert found is not None
    assert (found.seconds, found.size, found.times) == (50.0, 7, 1)
    uses.forget_before(time.time() + 60)
    assert uses.last("a") is None


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    with uses.Uses() as mine:
        mine.begin("a")
        mine.end("a")


# -- collecting --------------------------------------------------------------------------------------------------------


def test_collecting_removes_by_the_plan_and_remembers_what_it_freed() -> None:
    shelf = Shelf(image("a", used=0.0), image("b"))
    said: list[str] = []
    left = collect([shelf], RemovalRequest(budget=150), lambda one: said.append(one.kept.key))
    assert (said, list(shelf.items), left.total) == (["a"], ["b"], 100)
    known = uses.last("a")
    assert known is not None
    assert known.size == 100


def test_what_is_used_or_to_be_kept_stays() -> None:
    shelf = Shelf(*(image(key, also=frozenset({f"{key}-too"})) for key in "abcd"))
    wanted = RemovalRequest(budget=0, keep=("c*",))
    with uses.Uses() as mine:
        mine.begin("a")
        mine.begin("b-too")
        left = collect([shelf], wanted, lambda one: None, cases=lambda: {"d": {"x-1"}})
        assert sorted(shelf.items) == ["a", "b", "c"]
        assert left.total == 300
    asked = RemovalRequest(budget=0, keep=("case-?",))
    assert plan_collection(stock([shelf], asked, lambda: {"a": {"case-1"}}), wanted).bound == 100


def test_what_begins_to_be_used_between_the_plan_and_its_turn_stays() -> None:
    shelf = Shelf(image("a", used=0.0), image("b"))
    with uses.Uses() as mine:
        begins = threading.Thread(target=mine.begin, args=("b",))

        def first(kept: Kept) -> bool:
            # The lock is held: a use that begins now waits, and finds the thing gone. So does "b" a moment later.
            begins.start()
            shelf.on_discard = lambda kept: True
            return True

        shelf.on_discard = first
        collect([shelf], RemovalRequest(budget=0), lambda one: None)
        begins.join()
        assert set(shelf.items) <= {"b"}


def test_what_cannot_be_removed_is_left_and_two_collections_get_along(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Shelf(image("a"), image("b"))
    stuck.on_discard = lambda kept: kept.key != "a"
    assert collect([stuck], RemovalRequest(budget=0), lambda one: None).total == 100
    shelf = Shelf(*(image(str(number), used=float(number)) for number in range(30)))
    shelf.on_discard = lambda kept: kept.key in shelf.items
    listed, delays = shelf.kept, iter((0.0, 0.5, 1.0))

    def slow() -> Sequence[Kept]:  # what another collection removes between the list and the look at its uses
        found = listed()
        time.sleep(next(delays, 0.0))
        return found

    monkeypatch.setattr(shelf, "kept", slow)
    several = [
        threading.Thread(target=collect, args=([shelf], RemovalRequest(budget=500), lambda one: None)) for _ in range(3)
    ]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert len(shelf.items) == 5


def test_an_interrupted_collection_goes_on_the_next_time() -> None:
    shelf = Shelf(*(image(str(number), used=float(number)) for number in range(5)))

    def interrupted(kept: Kept) -> bool:
        if len(shelf.items) == 3:
            raise KeyboardInterrupt
        return True

    shelf.on_discard = interrupted
    with pytest.raises(KeyboardInterrupt):
        collect([shelf], RemovalRequest(budget=100), lambda one: None)
    shelf.on_discard = lambda kept: True
    assert collect([shelf], RemovalRequest(budget=100), lambda one: None).total == 100


def test_another_programs_build_cache_stays_unless_it_is_asked_for() -> None:
    shelf = Shelf(image("a", kind=OTHER_CACHE))
    assert stock([shelf], RemovalRequest(budget=0)).items == []
    collect([shelf], RemovalRequest(budget=0, other_cache=True), lambda one: None)
    assert not shelf.items


# -- what is in files --------------------------------------------------------------------------------------------------


def test_sources_and_scraps_are_listed_and_removed(tmp_path: Path) -> None:
    places = ["sources/trees/abc/file", "sources/0123.git/HEAD", "sources/0123-history.git/HEAD", "templates/one.cache"]
    for place in places:
        (tmp_path / "cache/reprokit" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache/reprokit" / place).write_text("x" * 5000)
    (tmp_path / "store/measured").mkdir(parents=True)
    (tmp_path / "store/measured/1.json").write_text("{}")
    dead = subprocess.Popen(["true"])
    dead.wait()
    for run in ("old", "new"):  # a run that was killed leaves its jobs to --resume, for a month
        (tmp_path / "store/jobs" / run / "job").mkdir(parents=True)
    os.utime(tmp_path / "store/jobs/old", (0, 0))
    shelves = [SourceCache(tmp_path / "cache/reprokit/sources"), Scraps(tmp_path / "store")]
    found = stock(shelves, RemovalRequest()).items
    assert sorted(one.kind for one in found) == [
        "compiled templates",
        "measurement",
        "source repository",
        "source repository",
        "source tree",
        "temporary folder",
    ]
    with uses.Uses() as mine:
        mine.begin(str(tmp_path / "cache/reprokit/sources/trees/abc"))
        collect(shelves, RemovalRequest(budget=0), lambda one: None)
        assert [one.kind for one in stock(shelves, RemovalRequest()).items if one.bytes] == ["source tree"]
    collect(shelves, RemovalRequest(budget=0), lambda one: None)
    assert not any(one.bytes for one in stock(shelves, RemovalRequest()).items)
    assert (tmp_path / "cache/reprokit/templates").is_dir(), "a run may be about to write there"
    assert [one.name for one in (tmp_path / "store/jobs").iterdir()] == ["new"]


def test_downloads_of_builds_are_listed_and_removed_and_what_is_under_way_stays(tmp_path: Path) -> None:
    places = ["own/sha256/ab/abc", "open/sha512/ab/abc", "own/address/ab/abc", "own/parts/old", "own/parts/new"]
    for place in [*places, "own/parts/abc.lock"]:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("x" * 5000)
    os.utime(tmp_path / "own/parts/old", (0, 0))
    found = stock([Fetched(tmp_path)], RemovalRequest()).items
    assert sorted(one.kind for one in found) == [*["download"] * 3, "part of a download"]
    collect([Fetched(tmp_path)], RemovalRequest(budget=0), lambda one: None)
    assert not stock([Fetched(tmp_path)], RemovalRequest()).items
    assert (tmp_path / "own/parts/new").exists()
    assert not stock([Fetched(tmp_path / "absent")], RemovalRequest()).items


def test_logs_of_finished_runs_go_and_verdicts_stay(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.run()
    folder = tmp_path / "store"
    logs = Logs(folder)
    (kept,) = logs.kept()
    assert (kept.kind, kept.cases) == (LOG, {"toy"})
    before = Store(folder).run("last")
    collect([logs], RemovalRequest(budget=0), lambda one: None)
    assert logs.kept() == []
    assert Store(folder).run("last") == before
    assert not list(folder.rglob("*.log"))
    assert Logs(tmp_path / "absent").kept() == []


# -- runs --------------------------------------------------------------------------------------------------------------


def by_images(project: Project) -> None:
    """Make each cell of the case need an image of its own."""
    text = project.case.read_text()
    project.case.write_text(text.replace("env: {A:", 'environment: {setup: "echo {{ a }}{{ b }}"}\nenv: {A:'))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    by_images(made)
    return made


def test_a_run_is_held_to_the_budget(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_BUDGET", "250")
    most = 0

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        nonlocal most
        most = max(most, len(project.engine.built))
        return toy(trial, sink)

    project.engine.behave = behave
    project.engine.image_bytes = 100
    project.run(jobs=1, confirm="never")
    assert {cell.verdict for cell in project.cells} == {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
    assert len(project.engine.discarded) >= 2
    assert len(project.engine.built) <= 2
    assert "removed for the budget: image reprokit/img:" in project.output.getvalue()


def test_a_run_without_a_budget_removes_nothing(project: Project) -> None:
    project.run()
    assert project.engine.discarded == []
    assert len(project.engine.built) == 4
    assert uses.in_use() == set()


def test_images_in_use_are_marked(project: Project) -> None:
    seen: list[bool] = []

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        seen.append(trial.image.removeprefix("sha256:") in uses.in_use() and trial.image in project.engine.leases)
        return toy(trial, sink)

    project.engine.behave = behave
    project.run()
    assert seen
    assert all(seen)
    assert project.engine.leases == []


def test_a_run_says_that_the_engines_clock_is_another(project: Project) -> None:
    project.engine.ahead = -3600.0
    project.run()
    assert "the clock of Fake 1 is 60 min 00 s behind this host's" in project.output.getvalue()


def test_a_base_is_leased_while_it_is_built_on_and_what_is_gone_before_its_lease_is_built_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, lease, gone = project.engine, project.engine.lease, list[str]()

    def make(build: Build) -> None:
        assert f"sha256:{build.dockerfile.split()[1]}" in engine.leases

    def lease_late(image: str) -> Callable[[], None]:
        if not gone and "reprokit/img" in image:
            gone.append(image)
            engine.remove_image(image)
        return lease(image)

    engine.make = make
    monkeypatch.setattr(engine, "lease", lease_late)
    project.run(confirm="never")
    assert gone
    assert {cell.verdict for cell in project.cells} == {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
    assert engine.leases == []


def test_an_image_that_is_gone_at_its_trial_is_built_again(project: Project) -> None:
    gone: list[str] = []

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if not gone:
            gone.append(trial.image.removeprefix("sha256:"))
            project.engine.remove_image(trial.image)
            raise ImageGone(f"the image {trial.image} is gone")
        return toy(trial, sink)

    project.engine.behave = behave
    project.run(confirm="never")
    assert {cell.verdict for cell in project.cells} == {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
    assert project.engine.built.count(gone[0]) == 1
    assert "it is built again" in project.output.getvalue()


def test_trials_run_in_the_image_that_was_built_also_where_its_name_is_moved_meanwhile(project: Project) -> None:
    ran: list[str] = []

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        found = project.engine.image(trial.image)
        assert found is not None
        ran.append(found.id)
        project.engine.tag("sha256:another", found.tag)
        return toy(trial, sink)

    project.engine.behave = behave
    project.run(confirm="never")
    assert ran
    assert "sha256:another" not in ran
    assert all(cell.image and cell.image.tag in cell.repeat for cell in project.cells)


def test_an_image_that_is_built_while_its_bases_name_is_moved_is_built_again(project: Project) -> None:
    builds: list[str] = []

    def make(build: Build) -> None:
        builds.append(build.tag)
        if len(builds) == 1:
            project.engine.tag("sha256:another", build.dockerfile.split()[1])

    project.engine.make = make
    project.run(confirm="never")
    assert {cell.verdict for cell in project.cells} == {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
    assert builds[0] not in project.engine.built
    assert builds[0] not in {cell.image.tag for cell in project.cells if cell.image}


def test_an_image_that_has_lost_a_part_is_built_again_from_its_first_step_once_for_all(project: Project) -> None:
    builds: list[Build] = []
    project.engine.make = builds.append

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if not any(build.fresh for build in builds if f"sha256:{build.tag}" == trial.image):
            raise ImageDamaged("content digest sha256:0a: not found")
        return toy(trial, sink)

    project.engine.behave = behave
    project.run(confirm="never")
    assert {cell.verdict for cell in project.cells} == {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
    assert "it is built again" in project.output.getvalue()


def test_an_image_that_is_gone_twice_is_an_error_of_the_engine(project: Project) -> None:
    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        raise ImageGone("gone")

    project.engine.behave = behave
    project.run(confirm="never")
    assert {cell.verdict for cell in project.cells} == {Verdict.ENGINE_ERROR}


def test_housekeeping_that_fails_concerns_no_cell(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Kept]:
        raise EngineError("the disk cannot be read")

    monkeypatch.setenv("REPROKIT_BUDGET", "250")
    project.engine.kept = broken  # type: ignore[method-assign]
    project.run(confirm="never")
    assert {cell.verdict for cell in project.cells} == {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
    assert project.output.getvalue().count("the budget cannot be kept: the disk cannot be read") == 1


def test_a_run_that_cannot_fit_says_so_before_it_starts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.engine.image_bytes = 3_000_000_000
    project.run()
    project.session = project.new_session()
    monkeypatch.setenv("REPROKIT_BUDGET", "2g")
    with pytest.raises(UsageError, match=r"toy: .*its image took 3\.0 GB when it was built last, .* is 2\.1"):
        project.run()
    assert len(Store(project.folder / "store").runs()) == 1
    monkeypatch.setenv("REPROKIT_BUDGET", "4g")
    project.session = project.new_session()
    project.run()
    assert "4 images of this run took up to 12 GB" in project.output.getvalue()


def test_a_build_waits_for_room_while_trials_run() -> None:
    shelf = Shelf(image("a"), image("b", stays=""))
    keeper = Keeper(RemovalRequest(budget=150), lambda: [shelf])
    uses.remember("new", size=100)
    with keeper.uses as mine:
        mine.begin("a")
        mine.begin("b")

        def make() -> None:
            with keeper.room("new", threading.Event(), waits=lambda: True):
                assert not shelf.items
                shelf.items["new"] = image("new")

        waiting = threading.Thread(target=make)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        mine.end("a")
        mine.end("b")
        waiting.join(30)
        assert not waiting.is_alive()
    assert list(shelf.items) == ["new"]


def test_a_build_of_unknown_size_is_taken_to_be_as_large_as_the_largest_of_the_run() -> None:
    shelf = Shelf()
    keeper = Keeper(RemovalRequest(budget=300), lambda: [shelf])
    most = []
    for number in range(6):
        with keeper.room(str(number), threading.Event()):
            shelf.items[str(number)] = image(str(number), used=float(number))
            most.append(len(shelf.items))
    assert most == [1, 2, 3, 3, 3, 3]
    with pytest.raises(RuntimeError), keeper.room("failed", threading.Event()):
        raise RuntimeError("the build failed")
    with keeper.room("next", threading.Event()):
        assert len(shelf.items) == 2, "no room is left reserved for what failed"
