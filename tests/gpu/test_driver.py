"""What NVML says of GPUs: the same questions to the fake library and to the driver of this host."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from reprokit.engine.gpus import discovery, nvml
from tests.gpu.conftest import H100, STATE, Driver, within


def test_each_gpu_says_what_it_is(driver: Driver) -> None:
    facts = driver.facts()
    assert (facts["asked"], facts["note"]) == ("NVML", "")
    assert re.fullmatch(r"\d{3}\.\d+(\.\d+)?", facts["driver"])
    assert re.fullmatch(r"\d+\.\d+", facts["cuda"])
    assert [gpu["index"] for gpu in facts["gpus"]] == list(range(len(facts["gpus"])))
    assert len({gpu["uuid"] for gpu in facts["gpus"]}) == len(facts["gpus"])
    for gpu in facts["gpus"]:
        assert re.fullmatch(r"GPU-[0-9A-Za-z-]+", gpu["uuid"])
        assert gpu["name"]
        assert gpu["memory"] == 0 or gpu["memory"] > 1 << 30
        assert re.fullmatch(r"\d+\.\d", gpu["compute"])


def test_each_gpu_says_how_it_is_set(driver: Driver) -> None:
    for gpu in driver.facts()["gpus"]:
        state = gpu["state"]
        assert state["compute_mode"] in nvml.COMPUTE_MODES
        assert state["ecc"] in (True, False, None)
        assert (state["uncorrected"] is None) == (not state["ecc"])
        assert state["clock"] > 0
        assert state["memory_clock"] > 0
        assert set(state["throttled"]) <= set(nvml._THROTTLES.values())


def test_a_process_that_computes_is_listed_while_it_does(driver: Driver) -> None:
    def pids() -> list[int]:
        return list(driver.facts()["gpus"][0]["processes"])

    with driver.program() as pid:
        assert within(60, lambda: pid in pids()), f"the driver lists {pids()}, not {pid}"
    assert within(60, lambda: pid not in pids())


@pytest.mark.parametrize("state", [{"mode": 3, "ecc": 1, "errors": 7, "sm": 1980, "mem": 3201, "reasons": 0x4 | 0x40}])
def test_the_fake_driver_says_what_its_state_is(driver: Driver, state: dict[str, int]) -> None:
    if driver.fake is None:
        pytest.skip("no test sets a real GPU")
    words = " ".join(f"{name}={value}" for name, value in state.items())
    driver.fake.gpus(f"GPU-0|{H100}|ok||{words}", f"GPU-1|{H100}|mig|7|{STATE}", "GPU-2|NVIDIA GB10|0|12.1|ok")
    first, second, third = driver.facts()["gpus"]
    assert first["state"] == {
        "compute_mode": "exclusive-process",
        "ecc": True,
        "uncorrected": 7,
        "clock": 1980,
        "memory_clock": 3201,
        "throttled": ["power cap", "hardware thermal slowdown"],
    }
    assert (first["processes"], second["processes"], second["mig"]) == ([], [7], True)
    assert third["state"]["compute_mode"] == ""
    assert third["state"]["ecc"] is None


@pytest.mark.gpu
def test_nvidia_smi_says_the_same_as_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = discovery.facts()
    if not facts.gpus or not shutil.which("nvidia-smi"):
        pytest.skip(f"needs an NVIDIA GPU and nvidia-smi: {facts.note}")
    monkeypatch.setattr(nvml, "library", lambda: False)
    other = discovery.facts()
    assert other.asked == "nvidia-smi"
    assert other.driver == facts.driver
    assert [(gpu.uuid, gpu.name, gpu.compute) for gpu in other.gpus] == [
        (gpu.uuid, gpu.name, gpu.compute) for gpu in facts.gpus
    ]
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    assert all(gpu.uuid in listed for gpu in facts.gpus)
