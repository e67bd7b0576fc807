"""The doctor's findings about GPUs, CUDA and networks."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.cli.doctor import gpus, indexes
from reprokit.engine.gpus import cdi
from reprokit.engine.gpus.leases import Leases
from reprokit.engine.site import Settings
from reprokit.environment.catalog import Catalog
from reprokit.environment.host import Gpu, HostFacts
from tests.unit.doctoring import engine, ground, program, rows
from tests.unit.serving import Quiet, serving

GIB = 1024**3


# -- GPUs and CUDA -----------------------------------------------------------------------------------------------------


def facts(*computes: str, driver: str = "550.54.15") -> HostFacts:
    found = tuple(
        Gpu(index=number, uuid=f"GPU-{number}", name=f"card {number}", memory=16 * GIB, compute=compute)
        for number, compute in enumerate(computes)
    )
    return HostFacts(gpus=found, driver=driver, asked="NVML")


def test_which_cuda_runs_and_why_not_the_others(tmp_path: Path) -> None:
    blackwell = rows(gpus.check_cuda(ground(tmp_path, facts=facts("12.0"))))
    assert [(status, text) for status, text, _ in blackwell[:2]] == [
        ("ok", "CUDA 12.8, 12.9 can run on this host"),
        (
            "info",
            (
                "CUDA 12.8, 12.9: newer than the driver, which is for CUDA up to 12.4. Programs run, but not with "
                "features new in that version, nor with PTX made by it"
            ),
        ),
    ]
    assert blackwell[2][1] == "not CUDA 7.5 to 12.6: card 0 (sm_120) needs CUDA >= 12.8"
    assert "needs an NVIDIA driver >= 580" in blackwell[3][1]
    assert "nvidia-driver" in blackwell[3][2]
    assert rows(gpus.check_cuda(ground(tmp_path)))[0][1].startswith(
        f"without a GPU: CUDA 7.5 to {gpus.list_cuda(Catalog())[-1]} can be built"
    )


@pytest.mark.parametrize(
    ("driver", "cuda_of_driver", "newer"),
    [
        # The first drivers of a CUDA version are as new as it needs.
        ("570.86.15", "", "12.9"),
        ("550.54.14", "12.4", "12.5 to 12.9"),
        ("580.65.06", "", "13.1 to"),
        ("580.65.06", "13.0", "13.1 to"),
    ],
)
def test_a_driver_is_as_new_as_the_cuda_that_it_came_with(
    tmp_path: Path, driver: str, cuda_of_driver: str, newer: str
) -> None:
    host = replace(facts("8.6", driver=driver), cuda=cuda_of_driver)
    (text,) = [text for _, text, _ in rows(gpus.check_cuda(ground(tmp_path, facts=host))) if "newer than" in text]
    assert text.startswith(f"CUDA {newer}")


def test_without_a_gpu_it_shows_why_none_was_found(tmp_path: Path) -> None:
    ((status, text, _),) = rows(gpus.check(ground(tmp_path, facts=HostFacts(note="nvidia-smi was not found"))))
    assert (status, text) == (
        "info",
        "no NVIDIA GPU: cells that ask for one are unsupported here (nvidia-smi was not found)",
    )
    ((status, text, fix),) = rows(
        gpus.check(ground(tmp_path, facts=HostFacts(asked="NVML", note="NVML failed: hangs")))
    )
    assert (status, text, bool(fix)) == ("warn", "NVML failed: hangs", True)


def test_which_process_holds_a_gpu_and_which_gpus_can_be_leased(tmp_path: Path) -> None:
    own = Settings(gpu_leases=tmp_path / "leases", gpus=("0", "1"))
    here = ground(tmp_path, facts=facts("9.0", "9.0", "7.0"), settings=own)
    desk = Leases(tmp_path / "leases", run="run-7", in_use=lambda *_: "")
    claim = desk.claim(here.facts.gpus[:1], 1)
    assert claim.attempt()
    died = desk.lock("GPU-1")
    assert died is not None
    desk.sign(died)
    os.close(died)  # as when the lease holder is killed: the lock is released, its name stays
    try:
        found = [(status, text) for status, text, _ in rows(gpus.check(here))]
    finally:
        claim.close()
    assert found[1][0] == "info"
    assert "(GPU-0) is leased to pid" in found[1][1]
    assert "(run run-7)" in found[1][1]
    assert "(GPU-1) was leased to pid" in found[2][1]
    assert "the lease holder exited" in found[2][1]
    assert found[3][0] == "ok"
    assert found[4] == ("info", "GPU 2 not leased: gpus = ['0', '1'] in the config")
    assert next(text for _, text, _ in rows(gpus.check_cuda(here))).startswith("CUDA 11.8 to")


def test_ranges_follow_the_versions_that_are_known() -> None:
    assert gpus.join_runs(["11.7", "11.8", "12.0", "12.8"]) == "11.7 to 12.0, 12.8"
    assert gpus.join_runs(["11.7", "11.8"]) == "11.7, 11.8"
    assert gpus.join_runs([]) == ""


@pytest.mark.parametrize(
    ("programs", "runtimes", "specification", "podman", "words"),
    [
        ((), {}, False, False, "the NVIDIA Container Toolkit is not installed"),
        (("nvidia-ctk",), {}, False, False, "no runtime nvidia"),
        (("nvidia-ctk",), {"nvidia": {}}, False, False, ""),
        ((), {}, True, False, ""),
        (("nvidia-ctk",), {"nvidia": {}}, False, True, "needs CDI for GPUs"),
        ((), {}, True, True, ""),
    ],
)
def test_how_containers_access_gpus(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: tuple[str, ...],
    runtimes: dict[str, Any],
    specification: bool,
    podman: bool,
    words: str,
) -> None:
    folder = tmp_path / "cdi"
    folder.mkdir()
    (folder / "other.yaml").write_text("kind: vendor.com/net\n")
    if specification:
        (folder / "nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: []\n")
    monkeypatch.setattr(cdi, "FOLDERS", (folder, tmp_path / "absent"))
    program(tmp_path, *programs)
    here = ground(tmp_path, facts=facts("9.0"), **engine("28.0.1", {"Runtimes": runtimes}, podman=podman))
    warnings = [(text, fix) for status, text, fix in rows(gpus.check(here)) if status != "ok"]
    assert len(warnings) == bool(words)
    assert all(words in text and fix for text, fix in warnings)


def test_a_cdi_description_of_another_driver_is_said_with_the_command_that_writes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia.yaml").write_text(
        "kind: nvidia.com/gpu\ndevices: [{name: all}]\n"
        "containerEdits: {mounts: [{hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14}]}\n"
    )
    monkeypatch.setattr(cdi, "FOLDERS", (tmp_path,))
    here = ground(tmp_path, facts=facts("9.0", driver="580.65.06"), **engine("29.1.3", {"Runtimes": {}}))
    ((text, fix),) = [(text, fix) for status, text, fix in rows(gpus.check(here)) if status == "warn"]
    assert "describes driver 550.54.14, and the driver is 580.65.06" in text
    assert fix == f"sudo nvidia-ctk cdi generate --output={tmp_path / 'nvidia.yaml'}"


# -- networks ----------------------------------------------------------------------------------------------------------


class _Index(Quiet):
    """Answers 503 below /broken/, 401 below /guarded/ without the password, else 404."""

    def do_GET(self) -> None:
        """Answer."""
        login = f"Basic {base64.b64encode(b'me:s3cr3tword').decode()}"
        locked = self.path.startswith("/guarded/") and self.headers.get("Authorization") != login
        self.send_error(503 if self.path.startswith("/broken/") else 401 if locked else 404)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An index on loopback, for a user without other settings."""
    with serving(_Index) as address:
        archive = SimpleNamespace(main=f"http://{address}")
        monkeypatch.setattr(indexes, "OFFICIAL", dict.fromkeys(("debian", "ubuntu"), archive))
        yield address


@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        ("http://{}/simple", "ok", "answers"),
        ("http://me:s3cr3tword@{}/guarded", "ok", "http://me:****@"),
        ("http://{}/guarded", "warn", "asks for a password"),
        ("http://{}/broken", "warn", "it answers 503; pip packages cannot be installed"),
        ("http://127.0.0.1:9/simple", "warn", "127.0.0.1:9 cannot be connected to: Connection refused"),
        ("https://{}/simple", "warn", "no"),
    ],
)
def test_indexes_are_tried_with_the_settings_of_builds(
    tmp_path: Path, index: str, url: str, status: str, words: str
) -> None:
    environ = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    here = ground(tmp_path, environ=environ, settings=Settings(pip_index_url=url.format(index)))
    found = rows(indexes.check(here))
    assert found[0][0] == status
    assert words in found[0][1]
    assert "s3cr3tword" not in str(found)
    assert [one[0] for one in found[1:]] == ["ok", "ok"]
    assert status == "ok" or found[0][2]


def test_folders_are_indexes_too(tmp_path: Path, index: str) -> None:
    (tmp_path / "wheels").mkdir()
    environ = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
    environ["PIP_FIND_LINKS"] = f"{tmp_path}/wheels {tmp_path}/absent"
    found = rows(indexes.check(ground(tmp_path, environ=environ)))
    assert [(status, text.partition(":")[0]) for status, text, _ in found[:2]] == [
        ("ok", "pip find-links"),
        ("warn", "pip find-links"),
    ]
