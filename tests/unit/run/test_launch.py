"""Cells in jobs of a launcher that loses, cuts, delays and refuses them. Real ones are in tests/integration."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from reprokit.case.trust import Trust
from reprokit.cli.display.screen import Screen
from reprokit.cli.run_command import command
from reprokit.core.errors import Unsupported, UsageError
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending
from reprokit.evidence.records import CellRecord
from reprokit.run.launch import launched_runner, partition
from reprokit.run.launch.job import ARCHIVE, DIGEST, LOG, Job
from reprokit.run.launch.opening import kind_of
from reprokit.run.launch.partition import parts
from reprokit.run.launch.processes import CommandLauncher, SshLauncher
from reprokit.run.launch.taking import take
from reprokit.run.loading import load_all
from reprokit.run.plan import plan
from reprokit.run.request import Chosen, Request, chosen_to_json
from reprokit.run.run_session import Session
from reprokit.search.repeating import planner
from reprokit.store.database import Store
from tests.servers import wait_until
from tests.unit.fakes import FakeEngine
from tests.unit.run.launch_fakes import FakeLauncher

CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {a: ["1", "2"], b: [u, v, w, x, y, z]}
env: {A: "{{ a }}", B: "{{ b }}"}
command: toy
expect:
  failure: {exit_code: 3, output: boom}
  reproduces: [{a: "2"}]
"""
AS_ON_ONE_HOST = ["not-reproduced"] * 6 + ["reproduced"] * 6


def toy(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    sink(f"{trial.env['A']} {trial.env['B']}\n".encode())
    if trial.env["A"] == "2":
        sink(b"boom\n")
        return Ending(exit_code=3, seconds=0.1)
    return Ending(exit_code=0, seconds=0.1)


class Run:
    """A folder with a case and a store, and a launcher."""

    def __init__(self, folder: Path, launcher: FakeLauncher, case: str = CASE) -> None:
        self.folder, self.case, self.launcher = folder, folder / "toy.yaml", launcher
        self.case.write_text(case)
        self.output = io.StringIO()
        self.new_session()

    def new_session(self) -> None:
        self.session = Session(self.folder / "store", display=Screen(self.output))
        self.session._launcher = self.launcher

    def start(self, **values: object) -> int:
        defaults = {"cases": (str(self.case),), "base_images": "registry", "on": "fake", "confirm": "never", "jobs": 0}
        return self.session.start(Request(**{**defaults, **values}))  # type: ignore[arg-type]

    @property
    def cells(self) -> tuple[CellRecord, ...]:
        assert self.session.record is not None
        return self.session.record.cells

    @property
    def verdicts(self) -> list[str]:
        return [str(cell.verdict) for cell in self.cells]


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(launched_runner, "LOOK", 0.01)
    monkeypatch.setattr(partition, "SHORTEST", 1.0)
    monkeypatch.setattr(partition, "IMAGE", 1.0)


def plain(job: Job, node: str) -> FakeEngine:
    return FakeEngine(toy)


def test_verdicts_are_those_of_one_host_and_logs_come_home(tmp_path: Path) -> None:
    run = Run(tmp_path, FakeLauncher(plain))
    assert run.start() == 0
    assert run.verdicts == AS_ON_ONE_HOST
    assert len(run.launcher.jobs) > 2
    store = tmp_path / "store"
    assert (store / run.cells[7].trials[0].log).read_text() == "2 v\nboom\n"
    assert {cell.case_path for cell in run.cells} == {str(run.case)}
    assert all(cell.details.node and cell.details.node.name for cell in run.cells)
    assert "/jobs/" not in "".join(cell.repeat for cell in run.cells)
    assert run.launcher.closed
    assert not (store / "jobs").exists()


@pytest.mark.parametrize(
    "fails",
    [
        {1: "lost", 2: "cut", 3: "silent"},
        {1: "half", 2: "half", 4: "half"},
        {1: "late", 2: "refused", 3: "lost"},
        {1: "lost", 2: "lost", 3: "late", 4: "cut", 5: "half", 6: "silent"},
    ],
)
def test_whatever_becomes_of_jobs_no_cell_is_lost_double_or_false(tmp_path: Path, fails: dict[int, str]) -> None:
    run = Run(tmp_path, FakeLauncher(plain, fails))
    assert run.start() == 0
    assert run.verdicts == AS_ON_ONE_HOST
    store = Store(tmp_path / "store")
    assert run.session.record is not None
    assert Counter(one.number for one in store.run(run.session.record.id).cells) == Counter(range(1, 13))
    store.close()
    assert all((tmp_path / "store" / cell.trials[0].log).is_file() for cell in run.cells)
    assert any(cell.details.node and cell.details.node.lost for cell in run.cells)


def test_what_is_lost_three_times_is_an_engine_error_in_the_words_of_the_scheduler(tmp_path: Path) -> None:
    run = Run(tmp_path, FakeLauncher(plain, dict.fromkeys(range(1, 100), "lost")))
    assert run.start(jobs=100) == 3
    assert set(run.verdicts) == {"engine-error"}
    assert all(cell.reason.startswith("NODE_FAIL") for cell in run.cells)
    assert {len(cell.details.node.lost) for cell in run.cells if cell.details.node} == {3}


def test_a_job_that_does_not_end_is_cancelled_and_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched_runner, "GRACE", -100_000.0)
    engines = FakeLauncher(plain, {1: "hangs"})
    run = Run(tmp_path, engines)
    engines.on_start = lambda job: monkeypatch.setattr(launched_runner, "GRACE", 0.0) if len(engines.jobs) > 2 else None
    assert run.start(trials=1) == 0
    assert run.verdicts == AS_ON_ONE_HOST
    assert "1" in engines.cancelled


def test_an_interrupt_cancels_the_jobs_and_keeps_what_they_decided(tmp_path: Path) -> None:
    launcher = FakeLauncher(plain, {2: "hangs"})
    run = Run(tmp_path, launcher)

    def interrupt(job: Job) -> None:
        if len(launcher.jobs) == 3:  # the first has ended, then: two run at a time
            raise KeyboardInterrupt

    launcher.on_start = interrupt
    assert run.start() == 130
    assert launcher.cancelled == ["2"]
    decided = [cell.number for cell in run.cells if str(cell.verdict) != "cancelled"]
    assert decided
    run.launcher = FakeLauncher(plain)
    run.new_session()
    assert run.session.resume(None) == 0
    assert run.verdicts == AS_ON_ONE_HOST


def test_the_jobs_of_a_submitter_that_was_killed_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    launcher = FakeLauncher(plain)
    run = Run(tmp_path, launcher)

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(launched_runner.LaunchedRunner, "_look", die)
        with pytest.raises(Killed):
            run.start()
    before = len(launcher.jobs)
    run.new_session()
    monkeypatch.setattr("reprokit.run.resuming.is_over", lambda *_: True)
    assert run.session.resume(None) == 0
    assert run.verdicts == AS_ON_ONE_HOST
    found = {cell.details.node.id for cell in run.cells if cell.details.node}
    assert {launcher.jobs[str(number)].id for number in range(1, before + 1)} <= found


def test_what_one_node_cannot_serve_goes_to_another(tmp_path: Path) -> None:
    def never(build: object) -> None:
        raise Unsupported("this engine makes no such thing")

    launcher = FakeLauncher(lambda job, node: FakeEngine(toy, make=never if node == "one" else None))
    launcher.nodes = ("one", "two")
    run = Run(tmp_path, launcher)
    assert run.start() == 0
    assert run.verdicts == AS_ON_ONE_HOST
    launcher.engine = lambda job, node: FakeEngine(toy, make=never)
    run.new_session()
    assert run.start() == 3
    assert set(run.verdicts) == {"unsupported"}


def test_cells_are_repeated_to_confirm_what_they_say_as_on_one_host(tmp_path: Path) -> None:
    run = Run(tmp_path, FakeLauncher(plain, {2: "lost", 8: "lost", 9: "cut"}))
    run.session._confirming = planner
    assert run.start(confirm="always") == 0
    alone = Session(
        tmp_path / "alone", display=Screen(io.StringIO()), engine=lambda: FakeEngine(toy), confirming=planner
    )
    request = Request(cases=(str(run.case),), base_images="registry", confirm="always")
    assert alone.start(request) == 0
    assert alone.record is not None
    assert run.verdicts == AS_ON_ONE_HOST
    repeats = [sum(cell.details.repeats for cell in cells) for cells in (run.cells, alone.record.cells)]
    assert repeats[0] == repeats[1] > 0
    for cell in run.cells:
        assert [trial.number for trial in cell.trials] == list(range(1, len(cell.trials) + 1))
        assert len({trial.log for trial in cell.trials}) == len(cell.trials)
        assert all((tmp_path / "store" / trial.log).is_file() for trial in cell.trials)


def test_a_host_that_is_down_is_avoided_even_while_others_are_busy(tmp_path: Path) -> None:
    launcher = SshLauncher("one,two")
    job = Job(id="j", folder=tmp_path, seconds=1.0, avoid=("one",))
    assert {launcher._free(job), launcher._free(replace(job, avoid=("one", "two")))} <= {"one", "two"}
    launcher._ours = {f"two {number} 1 x": SimpleNamespace(poll=lambda: None) for number in range(3)}  # type: ignore[assignment]
    assert launcher._free(job) == "two"
    assert launcher._free(replace(job, avoid=())) == "one"


def test_the_next_job_starts_before_the_records_of_the_last_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = FakeLauncher(plain, slots=2)
    run, started = Run(tmp_path, launcher), []

    def note(*given: Any) -> Any:
        started.append(len(launcher.jobs))
        return take(*given)

    monkeypatch.setattr(launched_runner, "take", note)
    assert run.start() == 0
    assert run.verdicts == AS_ON_ONE_HOST
    assert started[0] == 2, "by these records the next jobs are cut"
    assert started[1] > 2


def test_later_jobs_are_cut_by_how_long_the_cells_before_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SHORTEST", 10.0), ("LONGEST", 15.0), ("IMAGE", 30.0)):
        monkeypatch.setattr(partition, name, seconds)
    run = Run(tmp_path, FakeLauncher(plain, slots=1))
    assert run.start() == 0
    assert run.verdicts == AS_ON_ONE_HOST
    assert len(run.launcher.jobs) == 2, "cells whose time is not known count 5 s each"


def test_what_a_job_has_decided_so_far_is_shown(tmp_path: Path) -> None:
    launcher = FakeLauncher(plain, {1: "hangs"})
    launcher.on_start = lambda job: (job.folder / LOG).write_text("run x: toy\n[1/6] #1 a=1: passed\n[2/6] #2") and None
    run = Run(tmp_path, launcher)
    run.session = Session(tmp_path / "store", display=Screen(run.output, verbose=True))
    run.session._launcher = launcher
    launcher.nodes = ("one",)

    def end_once_shown() -> None:
        wait_until(lambda: "-1-1 on one: 2 of 6 cells decided" in run.output.getvalue())
        launcher.cancel("1")

    threading.Thread(target=end_once_shown).start()
    assert run.start() == 0
    assert f"job {launcher.jobs['1'].id} on one: 2 of 6 cells decided" in run.output.getvalue()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_stream_says_what_its_run_says_before_the_archive_comes(tmp_path: Path, shell: str) -> None:
    job = Job(id="j", folder=tmp_path / "job", seconds=1.0)
    (job.folder / "here").mkdir(parents=True)
    wait = f"until [ -e {tmp_path}/seen ]; do sleep 0.1; done"
    lines = ["cd $(dirname $0)", "exec >log", "echo '[1/2] #1 a'", wait, "echo '[2/2] #2 b'", f"echo x >{DIGEST}"]
    (job.folder / "job.sh").write_text("\n".join(lines))
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with (job.folder / "here" / "output").open("wb") as output:
        process = subprocess.Popen([shell, "-c", job.stream], stdin=subprocess.PIPE, stdout=output, env=environ)
        assert process.stdin is not None
        process.stdin.write(job.packed())
        process.stdin.close()
        wait_until(job.progress)
        assert job.progress() == "1 of 2 cells decided"
        (tmp_path / "seen").touch()
        assert process.wait(60) == 0
    job.unpack(job.folder / "here" / "output")
    assert (job.folder / DIGEST).read_text() == "x\n"
    assert job.progress() == "2 of 2 cells decided"
    assert job.said() == "[2/2] #2 b"


def test_an_unread_case_stays_unread_on_a_node(tmp_path: Path) -> None:
    seen: list[Trust] = []

    def note(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        seen.append(trial.trust)
        return toy(trial, sink)

    run = Run(tmp_path, FakeLauncher(lambda job, node: FakeEngine(note)))
    request = Request(
        cases=(str(run.case),), base_images="registry", on="fake", confirm="never", jobs=0, yes=True, ask=False
    )
    run.session.start(request, trust=Trust.STRANGER)
    assert set(seen) == {Trust.STRANGER}
    assert {cell.details.trust for cell in run.cells} == {Trust.STRANGER}


def test_a_dry_run_lists_what_travels_and_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.yaml").write_text(CASE)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, ["toy.yaml", "--on", "ssh a,b", "--dry-run", "--store", "s"])
    assert "the text of toy.yaml" in done.output
    assert "run --cells cells.json" in done.output
    assert not (tmp_path / "s").exists()
    (file,) = load_all(["toy.yaml"])
    some = Chosen(path="toy.yaml", digest=file.digest, cells=({"a": "1", "b": "u"},), trust=Trust.STRANGER)
    (tmp_path / "c.json").write_text(json.dumps({"name": "x", "cases": chosen_to_json([some])}))
    done = CliRunner().invoke(command, ["--cells", "c.json", "--on", "ssh a,b", "--dry-run", "--store", "s"])
    assert Trust.STRANGER.value in done.output, "as the run itself trusts it"


def test_cells_of_an_image_stay_together_and_those_with_gpus_apart(tmp_path: Path) -> None:
    text = CASE.replace("command: toy", "command: toy\nresources: {gpus: \"{{ 1 if b == 'u' else 0 }}\"}")
    text = text.replace("command: toy", 'environment: {pip: ["numpy=={{ a }}.0"]}\ncommand: toy')
    (tmp_path / "toy.yaml").write_text(text)
    tasks = plan(load_all([str(tmp_path / "toy.yaml")]), Request(cases=(str(tmp_path / "toy.yaml"),)))
    found = parts(tasks, lambda task: 5.0, 2)
    assert sorted(task.number for some in found for task in some) == list(range(1, 13))
    assert {task.spec.limits.gpus for task in found[0]} == {1}
    assert all(len({task.spec.limits.gpus for task in some}) == 1 for some in found)
    assert any(len(some) > 1 and len({task.cell["a"] for task in some}) == 1 for some in found)


@pytest.mark.parametrize("each", [1.0, 20.0, 60.0, 600.0])
def test_nodes_end_at_about_the_same_time_after_few_jobs_of_minutes(
    tmp_path: Path, each: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "SHORTEST", 60.0)
    monkeypatch.setattr(partition, "IMAGE", 30.0)
    (tmp_path / "toy.yaml").write_text(CASE.replace("[u, v, w, x, y, z]", str([str(n) for n in range(90)])))
    tasks = plan(load_all([str(tmp_path / "toy.yaml")]), Request(cases=(str(tmp_path / "toy.yaml"),)))
    jobs = [len(some) for some in parts(tasks, lambda task: each, 3)]
    ends = [0.0] * 3
    for number in range(len(jobs)):
        ends[ends.index(min(ends))] += jobs[number] * each + 3.0
    assert sum(jobs) == len(tasks) == 180
    assert min(ends) >= max(ends) - max(each, 93.0)
    assert jobs == sorted(jobs, reverse=True)
    assert max(jobs) * each <= 1830.0
    assert len(jobs) <= 18 or each == 600.0


def test_without_jobs_a_scheduler_has_a_queue_and_a_program_the_cpus_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy.yaml").write_text(CASE)
    asked: list[int] = []

    def start(self: Session, request: Request, **_: object) -> int:
        asked.append(request.jobs)
        return 0

    monkeypatch.setattr(Session, "start", start)
    monkeypatch.setenv("REPROKIT_JOBS", "5")
    for words in (["--on", "slurm"], ["--on", "slurm", "--jobs", "3"], ["--on", "command:sh {job}/job.sh"]):
        CliRunner().invoke(command, [str(tmp_path / "toy.yaml"), "--store", str(tmp_path / "s"), *words])
    assert asked == [0, 3, 5]


@pytest.mark.parametrize("on", ["", "slurn", "command:", "command", "ssh ", "ssh", "http://x"])
def test_what_names_no_launcher_is_refused(on: str) -> None:
    with pytest.raises(UsageError, match="command:TEMPLATE"):
        kind_of(on)


def test_templates_and_hosts_are_checked() -> None:
    for template in ("true", "sh {jbo}/job.sh {job}"):
        with pytest.raises(UsageError):
            CommandLauncher(template)
    for hosts in ("-oProxyCommand=x", "a,", "a b"):
        with pytest.raises(UsageError):
            SshLauncher(hosts)


def test_what_a_stream_brings_is_taken_by_its_names_alone(tmp_path: Path) -> None:
    job = Job(id="j", folder=tmp_path / "job", seconds=1.0)
    (job.folder / "here").mkdir(parents=True)
    with tarfile.open(tmp_path / "out", "w") as archive:
        for name in ("../evil", "/tmp/evil-h2", DIGEST, ARCHIVE, "job.sh"):
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    tar = (tmp_path / "out").read_bytes()
    # A site's words, those of a case, and a log of any length come first.
    said = b"Welcome to the cluster\n[1/2] #1: boom: reprokit-job-begins\n" + b"[2/2] #2: passed\n" * 9000
    (tmp_path / "out").write_bytes(said + b"reprokit-job-begins j\n" + tar)
    job.unpack(tmp_path / "out")
    assert {path.name for path in job.folder.iterdir()} == {"here", DIGEST, ARCHIVE}
    assert job.arrived() is None
