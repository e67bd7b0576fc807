"""What the launcher ``kubernetes`` asks of the API and reads in its answers. A run: tests/integration."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.core.errors import EngineError, UsageError
from reprokit.run.launch import kubernetes
from reprokit.run.launch.job import Job
from reprokit.run.launch.kubernetes import KubernetesLauncher
from reprokit.run.launch.launcher import Phase
from reprokit.run.launch.opening import open_launcher
from tests.kubernetes_api import kubernetes_api

pytest.importorskip("kubernetes", reason="needs the client of Kubernetes: pip install '.[kubernetes]'")
TEMPLATE = "{spec: {containers: [{name: main, image: x, resources: {limits: {amd.com/gpu: 1, memory: 9Gi}}}]}}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pod.yaml").write_text(TEMPLATE)
    (tmp_path / "job").mkdir()
    (tmp_path / "job/cells.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path


def launcher_in(place: Path, where: str = "lab/lab?template=pod.yaml") -> KubernetesLauncher:
    found = open_launcher(f"kubernetes:{where}")
    assert isinstance(found, KubernetesLauncher)
    return found


def test_a_pod_has_the_gpus_of_its_cells_and_their_files(place: Path) -> None:
    with kubernetes_api(place, {}):
        launcher = launcher_in(place)
    for gpus, limits in ((2, {"memory": "9Gi", "amd.com/gpu": "2"}), (0, {"memory": "9Gi"})):
        job = Job(id="reprokit-1", folder=place / "job", seconds=60, gpus=gpus, memory=2**30)
        pod = launcher._job(job, "A" * 150_000)["spec"]["template"]["spec"]
        assert pod["containers"][0]["resources"]["limits"] == limits
        assert pod["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": str(2**30)}
        assert [len(piece) for piece in pod["containers"][0]["args"]] == [100_000, 50_000]
        # Kubernetes takes $(NAME) for a variable of the container, and $$ for $.
        assert pod["containers"][0]["command"][-1].replace("$$", "\0").count("$") == 0
    (place / "job/large").write_bytes(os.urandom(600_000))
    with pytest.raises(EngineError, match=r"the files of this job are 801 kB"):
        launcher.start(job)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("lab/lab", "no template"),
        ("lab/lab?template=none.yaml", "none.yaml: No such file"),
        ("lab/lab?template=kubeconfig", "kubeconfig: it is not a Pod"),
        ("other/lab?template=pod.yaml", "other"),
    ],
)
def test_what_is_not_a_place_or_a_template_is_refused(place: Path, where: str, message: str) -> None:
    with kubernetes_api(place, {}), pytest.raises((UsageError, EngineError), match=message):
        launcher_in(place, where)


def test_what_the_api_refuses_is_said_in_its_words(place: Path) -> None:
    job = Job(id="reprokit-1", folder=place / "job", seconds=60)
    with kubernetes_api(place, {}) as api:
        with pytest.raises(EngineError, match=r"it did not take the job: jobs.batch is forbidden"):
            launcher_in(place, "lab/other?template=pod.yaml").start(job)
        api.jobs["reprokit-1"] = {}  # its answer was lost, and it was asked again
        launcher = launcher_in(place)
        assert launcher.start(job) == "lab reprokit-1"
        launcher.cancel("lab reprokit-2")
    with pytest.raises(EngineError, match="it does not answer"):
        launcher.states(["lab reprokit-1"])


def _job(*conditions: tuple[str, str, str], suspend: bool = False) -> Any:
    found = [
        SimpleNamespace(type=kind, status="True", reason=reason, message=said) for kind, reason, said in conditions
    ]
    return SimpleNamespace(status=SimpleNamespace(conditions=found), spec=SimpleNamespace(suspend=suspend))


def _pod(phase: str, reason: str = "", held: str = "", unplaced: str = "") -> Any:
    placed = SimpleNamespace(type="PodScheduled", status="False" if unplaced else "True", message=unplaced)
    waiting = SimpleNamespace(waiting=SimpleNamespace(reason=held, message="") if held else None)
    status = SimpleNamespace(phase=phase, reason=reason, message="", conditions=[placed])
    status.container_statuses = [SimpleNamespace(state=waiting)]
    return SimpleNamespace(status=status, spec=SimpleNamespace(node_name="n1"))


FAILED = ("Failed", "BackoffLimitExceeded", "it has reached its limit")


@pytest.mark.parametrize(
    ("job", "pod", "phase", "words"),
    [
        (None, None, Phase.ENDED, "does not know the job"),
        (_job(suspend=True), None, Phase.WAITING, "suspended"),
        (_job(), _pod("Pending", unplaced="0/3 nodes: Insufficient nvidia.com/gpu"), Phase.WAITING, "Insufficient"),
        (_job(), _pod("Pending", held="ImagePullBackOff"), Phase.WAITING, "ImagePullBackOff"),
        (_job(), _pod("Pending", held="InvalidImageName"), Phase.LOST, "InvalidImageName"),
        (_job(), _pod("Failed"), Phase.RUNNING, ""),  # the job's own word comes
        (_job(("Complete", "", "")), _pod("Succeeded"), Phase.ENDED, ""),
        (_job(FAILED), _pod("Failed", reason="DeadlineExceeded"), Phase.ENDED, "limit: DeadlineExceeded"),
    ],
)
def test_a_state_of_kubernetes_becomes_a_phase(job: Any, pod: Any, phase: Phase, words: str) -> None:
    state = kubernetes._state(job, pod)
    assert state.phase is phase
    assert words in state.words
