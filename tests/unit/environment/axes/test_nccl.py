"""NCCL: NVIDIA's wheels below /usr/local/cuda, for the CUDA of the cell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reprokit.core.errors import Unsupported
from reprokit.environment.axes.nccl import read_wording
from reprokit.environment.catalog import OURS
from reprokit.environment.comparing import compare
from reprokit.environment.lock import GROUPS
from reprokit.environment.versions import order
from tests.unit.environment.builders import artefact, measured, on_host, pins, rendered, resolved, script


@pytest.mark.parametrize(
    ("cuda", "nccl", "wheel"),
    [("11.8", "2.16", "cu11==2.16.5"), ("12.1", "2.18", "cu12==2.18.3"), ("13.0", "2.27", "cu13==2.27.7")],
)
def test_the_wheel_for_the_cuda_of_the_cell(cuda: str, nccl: str, wheel: str) -> None:
    axes = {"cuda": cuda, "nccl": nccl}
    assert resolved(axes).parts["nccl"].tree == (f"nvidia-nccl-{wheel}",)
    assert f"--target /usr/local/cuda/wheels/nccl nvidia-nccl-{wheel} \\\n" in rendered(axes).dockerfile
    assert f'--target "$CUDA/wheels/nccl" nvidia-nccl-{wheel}\ntree "$CUDA/wheels/nccl"\n' in script(axes)


def test_wheels_are_listed_oldest_first() -> None:
    for found in OURS.table("nccl").values():
        assert list(found) == sorted(found, key=order)


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ({"nccl": "2.18"}, "nccl 2.18 needs CUDA, and this cell has none: give the cuda axis a version"),
        (
            {"nccl": "2.22", "cuda": "11.8"},
            "nccl 2.22 is not available for CUDA 11: the versions of NVIDIA's wheels nvidia-nccl-cu11 are 2.13, 2.14",
        ),
        ({"nccl": "2.18", "cuda": "12.1", "python": "none"}, "nccl 2.18.3 from wheels need an interpreter with pip"),
    ],
)
def test_what_cannot_be_installed_is_refused(axes: dict[str, str], reason: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(reason)):
        resolved(axes)


def test_a_virtual_environment_cannot_take_away_the_hosts_own() -> None:
    with pytest.raises(Unsupported, match=re.escape("nccl none: this host has NCCL 2.18.3")):
        on_host({"nccl": "none"}, measured={"nccl": "2.18.3"})


def test_a_lock_has_a_group_of_its_files() -> None:
    assert GROUPS == ("pip_itself", "cuda", "cudnn", "nccl", "pip")
    held = pins(trees={"nccl": (artefact("nvidia-nccl-cu12", "2.18.3"),)}, apt={"python3": "3.11"})
    image = rendered({"cuda": "12.1", "nccl": "2.18"}, held)
    assert b"nvidia-nccl-cu12==2.18.3 --hash=" in bytes(image.context["reprokit/axis_nccl.lock"])  # type: ignore[arg-type]


def test_it_is_measured_by_its_header(tmp_path: Path) -> None:
    include = tmp_path / "cuda" / "include"
    include.mkdir(parents=True)
    (include / "nccl.h").write_text("#define NCCL_MAJOR 2\n#define NCCL_MINOR 18\n#define NCCL_PATCH 3\n")
    seen = measured(tmp_path)
    assert seen.further["nccl"] == "2.18.3"
    assert compare({"nccl": "2.18"}, seen) == []
    assert compare({"nccl": "2.16"}, seen) == ["the cell asks for nccl 2.16, the image measures NCCL 2.18.3"]


def test_it_is_measured_by_the_name_of_the_library_without_a_header(tmp_path: Path) -> None:
    libraries = tmp_path / "cuda" / "lib64"
    libraries.mkdir(parents=True)
    for name in ("libnccl.so.2", "libnccl.so.2.18.3"):
        (libraries / name).touch()
    assert measured(tmp_path).further["nccl"] == "2.18.3"


@pytest.mark.parametrize("text", ["2.18.3", "NCCL version 2.18.3+cuda12.1", "(2, 18, 3)", "21803"])
def test_how_reports_write_it(text: str) -> None:
    assert (read_wording(text), read_wording("Could not collect")) == ("2.18.3", "")
