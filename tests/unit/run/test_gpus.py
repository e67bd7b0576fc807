"""Cells that need GPUs: who gets which and when, what waits for what, and a GPU that is lost. On a fake engine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError
from reprokit.engine.gpus import discovery
from reprokit.engine.gpus.leases import LeaseRequest, Leases
from reprokit.engine.gpus.nvml import XidWatch
from reprokit.engine.protocol import Trial
from reprokit.environment.host import Gpu, GpuState, HostFacts
from reprokit.evidence.model import Ending
from reprokit.report.detail import usage_words
from reprokit.run import gpus
from tests.unit.run.test_runner import CASE, Project, toy

GPUS = tuple(
    Gpu(index=n, uuid=f"GPU-{n}", name="Tesla V100", memory=(16 if n < 3 else 80) << 30, compute="7.0")
    for n in range(4)
)
ONE = CASE + "resources: {gpus: 1}\n"


class Host:
    """A host with GPUs, of which some may be lost at any time."""

    def __init__(self) -> None:
        self.gpus = GPUS
        self.note = ""
        self.silent = 0
        """How often the driver does not answer."""

    def facts(self) -> HostFacts:
        if self.silent:
            self.silent -= 1
            return HostFacts(asked="NVML", note="NVML failed: no answer within 10 s")
        return HostFacts(gpus=self.gpus, driver="535.104.05", note=self.note)

    def lose(self, *uuids: str) -> None:
        self.gpus = tuple(gpu for gpu in self.gpus if gpu.uuid not in uuids)
        self.note = "NVML says: GPU 0: GPU is lost"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Host:
    machine = Host()
    monkeypatch.setattr(discovery, "facts", machine.facts)
    monkeypatch.setattr(gpus, "POLL", 0.01)
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return machine


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Host) -> Project:
    config = tmp_path / "config.toml"
    config.write_text(f'gpu_leases = "{tmp_path / "leases"}"\n')
    monkeypatch.setenv("REPROKIT_CONFIG", str(config))
    return Project(tmp_path)


class Intervals:
    """Runs the toy, and notes when two trials have the same GPU. The first end once so many GPUs are ``busy``."""

    def __init__(self, busy: int = 0) -> None:
        self.lock = threading.Lock()
        self.wanted, self.reached = busy, threading.Event()
        self.busy: set[str] = set()
        self.seen: list[tuple[str, ...]] = []
        self.twice: list[str] = []
        self.most = 0

    def __call__(self, trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        with self.lock:
            self.twice += [gpu for gpu in trial.gpus if gpu in self.busy]
            self.busy |= set(trial.gpus)
            self.seen.append(trial.gpus)
            self.most = max(self.most, len(self.busy))
            if self.most >= self.wanted:
                self.reached.set()
        self.reached.wait(60)
        threading.Event().wait(0.02)
        with self.lock:
            self.busy -= set(trial.gpus)
        return toy(trial, sink)


def test_trials_take_turns_on_the_only_gpu_and_the_record_names_it(project: Project, machine: Host) -> None:
    machine.gpus = GPUS[:1]
    project.session = project.new_session()
    project.case.write_text(ONE)
    project.engine.behave = seen = Intervals()
    assert project.run(jobs=4) == 0
    assert (seen.seen, seen.twice) == ([("GPU-0",)] * 4, [])
    environment = project.cells[0].environment
    assert environment is not None
    assert (environment.gpu, environment.driver) == (("GPU 0: Tesla V100",), "535.104.05")
    assert {trial.labels["org.reprokit.gpus"] for trial in project.engine.trials} == {"GPU-0"}


def test_as_many_run_as_there_are_gpus_and_two_that_want_two_never_block(project: Project) -> None:
    project.case.write_text(CASE + "resources: {gpus: 2}\n")
    project.engine.behave = seen = Intervals(busy=4)
    assert project.run(jobs=4, trials=3) == 0
    assert (seen.twice, seen.most, len(seen.seen)) == ([], 4, 12)


def test_gpu_memory_decides_which_gpus_qualify(project: Project) -> None:
    project.case.write_text(
        CASE + "resources: {gpus: 1, gpu_memory: \"{% if a == '2' %}40g{% else %}8g{% endif %}\"}\n"
    )
    project.engine.behave = seen = Intervals()
    assert project.run(jobs=2) == 0
    large = {trial.gpus for trial in project.engine.trials if trial.env["A"] == "2"}
    small = {trial.gpus for trial in project.engine.trials if trial.env["A"] == "1"}
    assert large == {("GPU-3",)}
    assert ("GPU-3",) not in small
    assert not seen.twice


def test_the_model_of_the_gpu_can_be_an_axis(project: Project, machine: Host) -> None:
    machine.gpus = (*GPUS[:2], replace(GPUS[2], name="NVIDIA H200"), replace(GPUS[3], name="NVIDIA A100-SXM4-80GB"))
    project.session = project.new_session()
    text = CASE.replace("b: [x, y]", "b: [v100, H200, A10]")
    assert text != CASE
    project.case.write_text(text + 'resources: {gpus: 1, gpu_model: "{{ b }}"}\n')
    project.run(jobs=2)
    had = {(trial.env["B"], trial.gpus) for trial in project.engine.trials}
    assert {gpus for b, gpus in had if b == "H200"} == {("GPU-2",)}
    assert {gpus for b, gpus in had if b == "v100"} <= {("GPU-0",), ("GPU-1",)}
    refused = {cell.reason for cell in project.cells if cell.cell["b"] == "A10"}
    [reason] = refused
    assert reason.startswith("the case asks for 1 GPU of the model A10; this host has 0 of it (its GPUs: Tesla V100, ")


def test_cells_that_wait_for_a_gpu_do_not_hold_up_those_that_need_none(project: Project, tmp_path: Path) -> None:
    project.case.write_text(CASE + "resources: {gpus: \"{% if b == 'x' %}4{% else %}0{% endif %}\"}\n")
    holder = Leases(tmp_path / "leases", run="other", in_use=lambda gpu, died: "").claim(GPUS, 1)
    assert holder.attempt()
    done: list[str] = []

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        done.append(trial.env["B"])
        if done.count("y") == 2:
            holder.close()  # only now is a GPU free
        return toy(trial, sink)

    project.engine.behave = behave
    assert project.run(jobs=1) == 0
    assert done == ["y", "y", "x", "x"]


def test_a_cell_on_a_gpu_keeps_its_place_between_its_trials(project: Project) -> None:
    project.case.write_text(CASE + "resources: {gpus: \"{% if b == 'y' %}1{% else %}0{% endif %}\"}\n")
    order: list[str] = []

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        order.append(trial.env["A"] + trial.env["B"])
        threading.Event().wait(0.02)  # others come to stand in line
        return toy(trial, sink)

    project.engine.behave = behave
    assert project.run(jobs=1, trials=3) == 0
    assert "1y 1y 1y" in " ".join(order), "no program that needs no GPU comes in between while one is held"
    assert "2y 2y 2y" in " ".join(order)


def test_images_that_gpus_wait_for_are_built_first(project: Project) -> None:
    project.case.write_text(
        CASE.replace("command: toy", "environment: {setup: 'echo {{ a }}{{ b }}'}\ncommand: toy")
        + "resources: {gpus: \"{% if a == '2' %}1{% else %}0{% endif %}\"}\n"
    )
    texts: list[str] = []
    build = project.engine.build

    def noting(request, *rest):  # type: ignore[no-untyped-def]
        texts.append(next(a + b for a in "12" for b in "xy" if f"echo {a}{b}" in str(request)))
        return build(request, *rest)

    project.engine.build = noting  # type: ignore[method-assign]
    assert project.run(jobs=1) == 0
    assert texts == ["2x", "2y", "1x", "1y"]


def test_who_is_waited_for_is_said(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.case.write_text(ONE)
    monkeypatch.setattr(gpus, "TELL_AFTER", 0.05)
    holder = Leases(tmp_path / "leases", run="other", in_use=lambda gpu, died: "").claim(GPUS, 4)
    assert holder.attempt()
    monkeypatch.setattr(gpus.os, "getpid", lambda: -1)  # another process holds it

    def let_go() -> None:
        for _ in range(6000):
            if "waits" in project.output.getvalue():
                break
            threading.Event().wait(0.01)
        holder.close()

    threading.Thread(target=let_go).start()
    assert project.run() == 0
    note = next(line for line in project.output.getvalue().splitlines() if "waits" in line)
    assert note.startswith("note: toy waits for a GPU: GPU 0 (GPU-0) is held by pid ")
    assert "(run other)" in note


def test_a_wait_can_be_interrupted(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.case.write_text(ONE)
    holder = Leases(tmp_path / "leases", run="other", in_use=lambda gpu, died: "").claim(GPUS, 4)
    assert holder.attempt()
    attempt = LeaseRequest.attempt

    def interrupted(request: LeaseRequest) -> bool:
        monkeypatch.setattr(LeaseRequest, "attempt", attempt)
        os.kill(os.getpid(), signal.SIGINT)
        return attempt(request)

    monkeypatch.setattr(LeaseRequest, "attempt", interrupted)
    assert project.run() == 130
    assert project.verdicts == ["cancelled"] * 4
    holder.close()
    again = Leases(tmp_path / "leases", run="", in_use=lambda gpu, died: "").claim(GPUS, 4)
    assert again.attempt(), "nothing stays taken"


def test_a_container_that_outlived_its_process_is_removed_before_its_gpu_is_leased(project: Project) -> None:
    project.case.write_text(ONE)
    swept: list[str] = []

    def sweep() -> list[str]:
        if not project.engine.using:
            return []
        swept.append(project.engine.using.pop("GPU-0"))
        return swept[-1:]

    project.engine.using = {"GPU-0": "container abc"}
    first = project.engine.sweep
    project.engine.sweep = lambda: first() if not project.engine.built else sweep()  # type: ignore[method-assign]
    assert project.run(jobs=1) == 0
    assert swept == ["container abc"]
    assert "left behind by a run that was killed, removed: container abc" in project.output.getvalue()


def test_a_container_that_cannot_be_removed_keeps_its_gpu(project: Project) -> None:
    project.case.write_text(ONE)
    project.engine.using = {"GPU-0": "container abc", "GPU-1": "container def"}
    project.engine.behave = seen = Intervals()
    assert project.run(jobs=4) == 0
    used = {gpu for gpus in seen.seen for gpu in gpus}
    assert used
    assert used <= {"GPU-2", "GPU-3"}  # one alone, where its cell is done before the next one comes


def test_a_lost_gpu_is_not_a_finding_and_the_trial_runs_once_more_on_another(project: Project, machine: Host) -> None:
    project.case.write_text(ONE)

    def loses(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.gpus == ("GPU-0",):
            machine.lose("GPU-0")
            sink(b"boom\n")  # even what the signature asks for: the GPU is gone
            return Ending(exit_code=3)
        return toy(trial, sink)

    project.engine.behave = loses
    assert project.run(jobs=1) == 0
    assert project.verdicts == ["not-reproduced", "not-reproduced", "reproduced", "reproduced"]
    assert [trial.gpus for trial in project.engine.trials] == [("GPU-0",), *[("GPU-1",)] * 4]
    said = project.output.getvalue()
    assert said.count("GPU 0 (GPU-0) was lost during the trial (NVML says: GPU 0: GPU is lost); not leased again") == 1
    assert len(list(project.folder.rglob("trial-1.lost.log"))) == 1


def test_a_gpu_that_is_lost_twice_is_an_engine_error_and_the_others_go_on(project: Project, machine: Host) -> None:
    project.case.write_text(ONE)

    def loses(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.gpus in {("GPU-0",), ("GPU-1",)}:
            machine.lose(*trial.gpus)
            return Ending(exit_code=1)
        return toy(trial, sink)

    project.engine.behave = loses
    assert project.run(jobs=1) == 3
    assert project.verdicts == ["engine-error", "not-reproduced", "reproduced", "reproduced"]
    assert "and once more in a fresh container: GPU 1 (GPU-1) was lost" in project.cells[0].reason


def test_when_no_gpu_is_left_no_one_waits_for_one(project: Project, machine: Host) -> None:
    machine.gpus = GPUS[:1]
    project.session = project.new_session()
    project.case.write_text(ONE)

    def loses(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        machine.lose("GPU-0")
        raise EngineError("nvidia-container-cli: device error: GPU-0: unknown device")

    project.engine.behave = loses
    assert project.run(jobs=2) == 3
    assert project.verdicts == ["engine-error"] * 4
    assert all("GPU 0 (GPU-0) was lost" in cell.reason for cell in project.cells)
    assert len(project.engine.trials) == 2, "one retry, in a fresh container"


def test_a_gpu_that_its_holder_loses_while_another_cell_reaches_for_it_is_not_leased(
    project: Project, machine: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.gpus = GPUS[:1]
    project.session = project.new_session()
    project.case.write_text(ONE)
    attempt, given_back = LeaseRequest.attempt, threading.Event()

    def late(claim: LeaseRequest) -> bool:
        if project.engine.trials:
            given_back.wait(60)
        return attempt(claim)

    def close(allocation: gpus.GpuAllocation) -> None:
        allocation._claim.close()
        given_back.set()

    def loses(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        threading.Event().wait(0.1)  # the next cell is at its attempt by now
        machine.lose("GPU-0")
        raise EngineError("nvidia-container-cli: device error: GPU-0: unknown device")

    monkeypatch.setattr(LeaseRequest, "attempt", late)
    monkeypatch.setattr(gpus.GpuAllocation, "close", close)
    project.engine.behave = loses
    assert project.run(jobs=2) == 3
    assert project.verdicts == ["engine-error"] * 4
    assert len(project.engine.trials) == 2


@pytest.mark.parametrize(("silent", "first"), [(1, "not-reproduced"), (2, "engine-error")])
def test_a_driver_that_does_not_answer_is_not_a_finding_and_takes_no_gpu_away(
    project: Project, machine: Host, silent: int, first: str
) -> None:
    project.case.write_text(ONE)

    def fails(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if len(project.engine.trials) == 1:
            machine.silent = silent
        return Ending(exit_code=1) if len(project.engine.trials) <= silent else toy(trial, sink)

    project.engine.behave = fails
    project.run(jobs=1)
    assert project.verdicts == [first, "not-reproduced", "reproduced", "reproduced"]
    assert {trial.gpus for trial in project.engine.trials} == {("GPU-0",)}
    if silent == 2:
        assert project.cells[0].reason.startswith("the driver no longer answers for GPU 0 (GPU-0) (NVML failed: no ans")


def test_words_that_only_a_lost_gpu_gives_lead_to_one_retry_with_the_same_gpu(project: Project) -> None:
    project.case.write_text(ONE)
    tries: list[str] = []

    def once(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        tries.append(trial.env["A"] + trial.env["B"])
        if tries.count(tries[-1]) == 1:
            sink(b"Failed to initialize NVML: Unknown Error\n")
            return Ending(exit_code=255)
        return toy(trial, sink)

    project.engine.behave = once
    assert project.run(jobs=1) == 0
    assert len(tries) == 8
    assert {trial.gpus for trial in project.engine.trials} == {("GPU-0",)}


def test_such_words_are_a_finding_where_the_signature_asks_for_them(project: Project) -> None:
    project.case.write_text(ONE.replace("output: boom", "output: Failed to initialize NVML"))

    def says(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        sink(b"Failed to initialize NVML: Unknown Error\n")
        return Ending(exit_code=3)

    project.engine.behave = says
    project.run(jobs=1)
    assert project.verdicts == ["reproduced"] * 4
    assert len(project.engine.trials) == 4


class Reported(XidWatch):
    """A driver that reports what a test says."""

    def start(self) -> None:
        pass

    def report(self, uuid: str, xid: int) -> None:
        self._heard.append((uuid, xid))


@pytest.mark.parametrize(("xid", "trials"), [(79, 8), (31, 4)])
def test_an_xid_of_a_gpu_that_failed_leads_to_one_retry_and_one_of_a_program_is_recorded(
    project: Project, monkeypatch: pytest.MonkeyPatch, xid: int, trials: int
) -> None:
    watch = Reported()
    monkeypatch.setattr(gpus, "XidWatch", lambda: watch)
    project.case.write_text(ONE)
    tries: list[str] = []

    def once(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        tries.append(trial.env["A"] + trial.env["B"])
        if tries.count(tries[-1]) == 1:
            watch.report(trial.gpus[0], xid)
            watch.report("GPU-3", 48)
            sink(b"CUDA error\n")
            return Ending(exit_code=1)
        return toy(trial, sink)

    project.engine.behave = once
    project.run(jobs=1)
    assert len(tries) == trials
    for cell in project.cells:
        (trial,) = cell.trials
        assert trial.usage is not None
        assert trial.usage.gpus[0].xids == ((31,) if xid == 31 else ())
        assert ("Xid 31" in usage_words(trial.usage)) == (xid == 31)


def test_an_xid_is_a_finding_where_the_failure_matches_the_signature(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Reported()
    monkeypatch.setattr(gpus, "XidWatch", lambda: watch)
    project.case.write_text(ONE)

    def booms(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        watch.report(trial.gpus[0], 94)
        sink(b"boom\n")
        return Ending(exit_code=3)

    project.engine.behave = booms
    project.run(jobs=1)
    assert project.verdicts == ["reproduced"] * 4
    assert project.cells[0].trials[0].usage.gpus[0].xids == (94,)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "words", ["CUDA error: device-side assert triggered", "an illegal memory access was encountered", "out of memory"]
)
def test_a_cuda_error_of_the_program_is_never_retried(project: Project, words: str) -> None:
    project.case.write_text(ONE)

    def fails(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        sink(words.encode() + b"\n")
        return Ending(exit_code=1)

    project.engine.behave = fails
    project.run(jobs=1)
    assert project.verdicts == ["different-failure"] * 4
    assert len(project.engine.trials) == 4


def test_an_engine_that_fails_with_its_gpu_in_place_is_not_asked_twice(project: Project) -> None:
    project.case.write_text(ONE)

    def gone(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        raise EngineError("the engine went away")

    project.engine.behave = gone
    assert project.run(jobs=1) == 3
    assert len(project.engine.trials) == 4


def test_a_list_of_devices_that_does_not_fit_is_said_and_passed_on_as_written(project: Project) -> None:
    project.case.write_text(ONE.replace("env: {A", 'env: {CUDA_VISIBLE_DEVICES: "0,1", A'))
    assert project.run() == 0
    assert {trial.env["CUDA_VISIBLE_DEVICES"] for trial in project.engine.trials} == {"0,1"}
    assert project.output.getvalue().count("note: toy: CUDA_VISIBLE_DEVICES=0,1 names GPU 1, resources.gpus is 1") == 1


def test_what_the_host_hides_is_not_leased(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    project.case.write_text(ONE)
    assert project.run() == 3
    assert project.verdicts == ["unsupported"] * 4
    words = (
        "this host leases no GPU (GPU 0, 1, 2, 3 not leased: CUDA_VISIBLE_DEVICES= in the environment); the case asks"
    )
    assert project.cells[0].reason.startswith(words)


@pytest.mark.parametrize(("boot", "given"), [("", "GPU-1"), ('"boot": "earlier", "was": ', "GPU-0")])
def test_a_process_that_a_killed_holder_left_on_the_gpu_keeps_it(
    boot: str, given: str, project: Project, machine: Host
) -> None:
    """One that runs after a restart of the machine was not left by what held the GPU before."""
    machine.gpus = (replace(GPUS[0], processes=(os.getpid(),)), *GPUS[1:])
    project.session = project.new_session()
    folder = project.folder / "leases"
    claim = Leases(folder, run="", in_use=lambda gpu, died: "").claim(GPUS, 1)
    assert claim.attempt()
    told = (folder / "GPU-0").read_text().replace('"since": ', '"since": 0, "then": ')
    (folder / "GPU-0").write_text(told.replace('"boot": ', boot or '"boot": '))
    for file in claim._files.values():  # as its death would
        os.close(file)
    project.case.write_text(ONE)
    project.engine.behave = seen = Intervals()
    assert project.run(jobs=1) == 0
    assert set(seen.seen) == {(given,)}


def test_a_trial_records_the_gpu_that_it_had(project: Project, machine: Host) -> None:
    state = GpuState(compute_mode="exclusive-process", ecc=True, uncorrected=2, clock=1980, throttled=("power cap",))
    machine.gpus = tuple(replace(gpu, state=state) for gpu in GPUS[:1])
    project.session = project.new_session()
    project.case.write_text(ONE)
    assert project.run(jobs=1) == 0
    (trial,) = project.cells[0].trials
    assert trial.usage is not None
    (gpu,) = trial.usage.gpus
    assert (gpu.name, gpu.uuid, gpu.driver, gpu.memory) == ("Tesla V100", "GPU-0", "535.104.05", 16 << 30)
    assert str(gpu) == (
        "Tesla V100, driver 535.104.05, 1980 MHz, ECC on, 2 uncorrected ECC errors, compute mode exclusive-process, "
        "throttled: power cap"
    )
    assert f"; on {gpu}" in usage_words(trial.usage)


FOREIGN = 4194305
"""More than any pid of Linux."""


def test_a_gpu_that_another_program_uses_is_leased_once_that_has_ended(project: Project, machine: Host) -> None:
    machine.gpus = (replace(GPUS[0], processes=(FOREIGN,)),)
    (project.folder / "config.toml").write_text((project.folder / "config.toml").read_text() + 'gpu_others = "wait"\n')
    project.session = project.new_session()
    project.case.write_text(ONE)
    asked = []

    def facts() -> HostFacts:
        asked.append(machine.gpus)
        if len(asked) > 2:
            machine.gpus = GPUS[:1]
        return HostFacts(gpus=machine.gpus, driver="535.104.05")

    machine.facts = facts  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "facts", facts)
        patch.setattr("reprokit.engine.gpus.leases.ANSWER_HOLDS", 0.01)
        assert project.run(jobs=1) == 0
    assert {trial.gpus for trial in project.engine.trials} == {("GPU-0",)}
    assert len(asked) > 3


@pytest.mark.parametrize(("count", "verdict"), [(1, "unsupported"), (2, "reproduced")])
def test_a_gpu_that_another_program_goes_on_using_is_refused(
    count: int, verdict: str, project: Project, machine: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.gpus = (replace(GPUS[0], processes=(FOREIGN,)), *GPUS[1:count])
    (project.folder / "config.toml").write_text(
        (project.folder / "config.toml").read_text() + 'gpu_others = "refuse"\n'
    )
    monkeypatch.setattr("reprokit.engine.gpus.leases.ANSWER_HOLDS", 0.01)
    monkeypatch.setattr(gpus, "ANSWER_HOLDS", 0.0)
    project.session = project.new_session()
    project.case.write_text(ONE)
    project.run(jobs=1)
    assert project.verdicts[-1] == verdict
    if count == 1:
        assert f"process {FOREIGN} computes on it, which no run of reprokit started" in project.cells[0].reason
    else:
        assert {trial.gpus for trial in project.engine.trials} == {("GPU-1",)}


def test_a_gpu_that_another_program_uses_is_shared_unless_configured_and_recorded(
    project: Project, machine: Host
) -> None:
    machine.gpus = (replace(GPUS[0], processes=(FOREIGN,)),)
    project.session = project.new_session()
    project.case.write_text(ONE)
    assert project.run(jobs=1) == 0
    usage = project.cells[0].trials[0].usage
    assert usage is not None
    assert usage.gpus[0].others == 1
