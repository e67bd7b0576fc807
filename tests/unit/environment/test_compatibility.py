"""What cannot go together, said before anything is built: GCC and nvcc; and the site's own rows over our tables."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.core.errors import Unsupported, UsageError
from reprokit.environment import tables, versions
from reprokit.environment.catalog import OURS, Catalog, Compilers
from reprokit.environment.model import Cudnn, Environment
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from tests.conftest import as_files

HERE = Supply(base_source="bootstrap")
REGISTRY = Supply(base_source="registry")
DATA = Path(tables.__file__).parent / "data"


def cell(axes: dict[str, str], *, reproduces: bool = False, **parts: Any) -> CellSpec:
    environment = {key: parts.pop(key) for key in ("apt", "pip", "pip_options", "setup", "conflicts") if key in parts}
    defaults: dict[str, Any] = {"env": {}, "files": {}, "command": ("nvcc", "x.cu")}
    if "files" in parts:
        parts["files"] = as_files(parts["files"])
    return CellSpec(
        cell=axes,
        environment=EnvironmentSpec(**environment),
        sources={},
        datasets={},
        workdir="/workspace",
        limits=Limits(),
        reproduces=reproduces,
        **{**defaults, **parts},
    )


def refused(spec: CellSpec, supply: Supply = HERE) -> str:
    with pytest.raises(Unsupported) as caught:
        resolve(spec, supply)
    return str(caught.value)


TOOLKIT = {"apt": ("nvidia-cuda-toolkit",)}
TOO_NEW = {"os": "debian-12", "cuda": "11.8", "gcc": "12.2"}


def test_a_gcc_that_is_newer_than_nvcc_knows_is_refused_with_what_is_available() -> None:
    assert refused(cell(TOO_NEW, **TOOLKIT)) == (
        "gcc 12.2 is not supported by nvcc 11.8: at most GCC 11; --allow-unsupported-compiler in the case tries it all "
        "the same; nearest: gcc 11 on debian-12, or cuda 12.0 with gcc 12. To run it all the same: "
        "environment.conflicts: allow"
    )


def test_an_old_nvcc_has_no_flag_to_name() -> None:
    reason = refused(cell({"os": "ubuntu-20.04", "cuda": "10.1", "gcc": "9"}))
    assert reason.startswith("gcc 9 is not supported by nvcc 10.1: at most GCC 8; nearest: gcc 8 on ubuntu-20.04, or ")


def test_a_gcc_that_is_too_old_is_refused_as_well() -> None:
    reason = refused(cell({"os": "ubuntu-18.04", "gcc": "5", "cuda": "13.0"}))
    assert "gcc 5 is not supported by nvcc 13.0: at least GCC 6; nearest: gcc 8 on ubuntu-18.04, or cuda 11.3" in reason


@pytest.mark.parametrize(
    ("axes", "parts", "supply"),
    [
        ({"os": "debian-12", "cuda": "11.8", "gcc": "11"}, TOOLKIT, HERE),
        ({"os": "debian-12", "cuda": "11.8", "gcc": "12"}, {}, HERE),  # NVIDIA's wheels of 11 and 12 have no nvcc
        ({"os": "debian-12", "cuda": "13.0", "gcc": "12"}, {}, HERE),
        ({"os": "debian-12", "cuda": "11.8"}, TOOLKIT, HERE),  # the package brings the compiler that it wants
        ({"os": "ubuntu-22.04", "cuda": "11.8", "gcc": "11"}, {}, REGISTRY),
    ],
)
def test_what_goes_together_is_not_a_conflict(axes: dict[str, str], parts: dict[str, Any], supply: Supply) -> None:
    assert resolve(cell(axes, **parts), supply).notes == ()


def test_the_same_cell_differs_by_where_its_cuda_comes_from() -> None:
    axes = {"os": "ubuntu-22.04", "cuda": "11.8", "gcc": "12"}
    assert resolve(cell(axes), HERE).notes == ()
    assert "gcc 12 is not supported by nvcc 11.8" in refused(cell(axes), REGISTRY)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"conflicts": "allow"}, "the case allows it"),
        ({"reproduces": True}, "the case expects its failure here"),
    ],
)
def test_a_conflict_that_is_the_point_is_a_note(parts: dict[str, Any], why: str) -> None:
    [note] = resolve(cell(TOO_NEW, **TOOLKIT, **parts), HERE).notes
    assert note.startswith(f"conflict tolerated, {why}: gcc 12.2 is not supported by nvcc 11.8: at most GCC 11")


@pytest.mark.parametrize(
    "parts",
    [
        {"command": ("bash", "-c", "nvcc --allow-unsupported-compiler x.cu")},
        {"env": {"NVCC_APPEND_FLAGS": "-allow-unsupported-compiler"}},
        {"files": {"Makefile": "x:\n\tnvcc -allow-unsupported-compiler x.cu\n"}},
        {"setup": "nvcc -allow-unsupported-compiler x.cu"},
    ],
)
def test_the_flag_in_the_case_lifts_the_limit(parts: dict[str, Any]) -> None:
    assert resolve(cell(TOO_NEW, **TOOLKIT, **parts), HERE).notes == ()


@given(st.sampled_from(sorted(OURS._cuda()["gcc"])), st.integers(4, 20), st.integers(0, 5))
def test_the_supported_gcc_form_one_range(cuda: str, major: int, minor: int) -> None:
    compilers = OURS.host_gcc(cuda)
    assert compilers is not None
    assert compilers.takes(compilers.most)
    assert not compilers.takes(str(int(compilers.most) + 1))
    # Only the first number counts, and what lies between two that are taken is taken.
    assert compilers.takes(f"{major}.{minor}") is compilers.takes(str(major))
    assert compilers.takes(str(major)) is (int(compilers.least or 0) <= major <= int(compilers.most))


@given(st.sampled_from(sorted(OURS._cuda()["gcc"])), st.integers(0, 9))
def test_a_patch_release_has_the_limits_of_its_minor_release(cuda: str, patch: int) -> None:
    if cuda.count(".") == 1 and f"{cuda}.{patch}" not in OURS._cuda()["gcc"]:
        assert OURS.host_gcc(f"{cuda}.{patch}") == OURS.host_gcc(cuda)


def test_a_newer_cuda_takes_no_fewer_compilers() -> None:
    rows = sorted(OURS._cuda()["gcc"], key=versions.order)
    most = [int(OURS._cuda()["gcc"][cuda]["most"]) for cuda in rows if cuda != "11.4.0"]
    assert most == sorted(most)


def test_cuda_versions_that_the_table_does_not_know_stop_nothing() -> None:
    assert OURS.host_gcc("99.1") is None


@pytest.mark.parametrize("name", tables.SHAPES)
def test_our_own_tables_are_of_the_shape_that_is_asked_of_a_sites_file(name: str) -> None:
    path = DATA / f"{name}.yaml"
    node = yaml.compose(path.read_text(), Loader=yaml.BaseLoader)
    assert tables.read(path, node, tables.SHAPES[name]) == tables.table(name)


def test_every_table_has_a_shape() -> None:
    assert {path.stem for path in DATA.glob("*.yaml")} == set(tables.SHAPES)


def test_a_cudnn_that_no_wheel_has_may_be_in_an_image_of_nvidias() -> None:
    asked = cell({"os": "ubuntu-20.04", "cuda": "11.4", "cudnn": "8.2"})
    found = resolve(asked, REGISTRY)
    assert found.base.reference == "nvidia/cuda:11.4.3-cudnn8-devel-ubuntu20.04"
    assert found.served_by["cudnn"] == f"image {found.base.reference}"
    assert (found.cudnn, found.to_json()["cudnn"]) == (Cudnn(version="8.2.4.15", source="image"), "8.2.4.15")
    # a version that wheels have comes from these, beside the image without one
    of_wheels = resolve(cell({"os": "ubuntu-20.04", "cuda": "11.7", "cudnn": "8.5"}), REGISTRY)
    assert of_wheels.base.reference == "nvidia/cuda:11.7.1-devel-ubuntu20.04"
    reason = refused(cell({"os": "ubuntu-20.04", "cuda": "11.4", "cudnn": "8.3.1"}), REGISTRY)
    assert "cudnn 8.3.1 is not available for CUDA 11; NVIDIA's wheels nvidia-cudnn-cu11: 8.5" in reason
    assert "environment.image can be" not in reason
    alone = dataclasses.replace(REGISTRY, silent=("conda",))
    reason = refused(cell({"os": "ubuntu-22.04", "cuda": "11.5", "cudnn": "8.3"}), alone)
    assert "environment.image can be nvidia/cuda:11.5.2-cudnn8-devel-ubuntu18.04" in reason
    assert OURS.images_with_cudnn("9.1", "12.4") == (
        "nvidia/cuda:12.4.1-cudnn-devel-ubuntu20.04",
        "nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04",
    )


@pytest.mark.parametrize(
    ("cuda", "least", "own"), [("12.4", "525.60.13", "550.54.14"), ("11.8.0", "450.80.02", "520.61.05")]
)
def test_a_driver_is_known_for_the_major_and_for_the_minor_version(cuda: str, least: str, own: str) -> None:
    assert (OURS.driver_needed(cuda), OURS.toolkit_driver(cuda)) == (least, own)


def test_no_cuda_version_came_with_a_driver_on_which_it_does_not_run() -> None:
    for cuda, came_with in OURS.table("cuda")["toolkit_drivers"].items():
        assert versions.order(OURS.driver_needed(cuda) or "") <= versions.order(came_with), cuda


@pytest.mark.parametrize(("cuda", "driver"), [("12.8.1", "570.86.15"), ("13.0", "580.65.06"), ("13.4", "615.71.09")])
def test_a_driver_that_came_with_an_earlier_update_is_new_enough(cuda: str, driver: str) -> None:
    assert versions.order(OURS.toolkit_driver(cuda) or "") <= versions.order(driver)


@pytest.mark.parametrize(
    ("compute", "since", "until"), [("8.7", "11.4", ""), ("10.1", "12.8", "13.0"), ("11.0", "13.0", "")]
)
def test_the_gpus_of_jetson_are_known(compute: str, since: str, until: str) -> None:
    row = OURS.capabilities().get(compute)
    assert row is not None
    assert (row.since, row.until) == (since, until)


def test_every_cuda_version_has_a_driver_and_a_range_of_compilers() -> None:
    toolkits = {release.toolkit for release in OURS.releases().values()} - {""}
    imaged = {release for os in OURS.releases() for release in OURS.cuda_images(os)}
    for cuda in toolkits | imaged | set(OURS.cuda_wheels()):
        assert OURS.driver_needed(cuda)
        assert OURS.host_gcc(cuda)


def with_rows(own: Path, supply: Supply = HERE) -> Supply:
    return dataclasses.replace(supply, catalog=Catalog(own))


ROW = '{family: own, image: "own:1", python: ["3.9.1"], gcc: {"8": "8.5.0"}, glibc: "2.28", epoch: 0}'
"""A release of a site, as far as every one needs it."""


class TestASitesOwnRows:
    @pytest.fixture
    def own(self, tmp_path: Path) -> Path:
        return tmp_path / "compatibility.yaml"

    def resolved(self, text: str, own: Path) -> Environment:
        own.write_text(text)
        return resolve(cell(TOO_NEW, **TOOLKIT), with_rows(own))

    def test_win_over_ours_row_by_row(self, own: Path) -> None:
        found = self.resolved('cuda:\n  gcc:\n    "11.8": {most: "12"}\n', own)
        assert found.notes == ()
        assert Catalog(own).host_gcc("11.8") == Compilers(least="6", most="12")
        assert Catalog(own).host_gcc("11.7") == Compilers(least="6", most="11")

    def test_are_named_where_a_cell_is_refused(self, own: Path) -> None:
        own.write_text('cuda: {gcc: {"13.0": {most: "15"}}}')
        said = refused(cell(TOO_NEW, **TOOLKIT), with_rows(own))
        assert said.endswith(f"environment.conflicts: allow (rows of {own} count here)")

    def test_can_add_a_release(self, own: Path) -> None:
        rows = yaml.load((DATA / "releases.yaml").read_text(), Loader=yaml.BaseLoader)["debian-12"]
        own.write_text(yaml.safe_dump({"releases": {"debian-14": rows | {"gcc": {"15": "15.2.0"}}}}))
        found = resolve(cell({"os": "debian-14", "gcc": "15"}), with_rows(own))
        assert found.gcc is not None
        assert (found.os, found.gcc.version) == ("debian-14", "15.2.0")

    @pytest.mark.parametrize(
        ("table", "row", "axes"),
        [
            ("cmake", "wheels", {"cmake": "9.1"}),
            ("clang", "debian-12", {"clang": "9.1"}),
            ("nccl", "12", {"nccl": "9.1", "cuda": "12.4"}),
            ("cudnn", "12", {"cudnn": "9.1.9", "cuda": "12.4"}),
        ],
    )
    def test_can_add_versions_of_any_axis(self, own: Path, table: str, row: str, axes: dict[str, str]) -> None:
        asked = cell({"os": "debian-12", "python": "3.11", **axes})
        assert "is not available" in refused(asked)
        own.write_text(yaml.safe_dump({table: {row: ["9.1.9"]}}))
        found = resolve(asked, with_rows(own))
        assert (found.cudnn if table == "cudnn" else found.parts[table]).version == "9.1.9"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("cdua: {}\n", "compatibility.yaml:1: unknown key 'cdua' (did you mean 'cuda'?)"),
            (
                'cuda:\n  gcc:\n    "11.8": {mots: "12"}\n',
                "compatibility.yaml:3: cuda.gcc.11.8: unknown key 'mots' (did you mean 'most'?)",
            ),
            ('cuda:\n  gcc:\n    "11.8": 12\n', "compatibility.yaml:3: cuda.gcc.11.8: expected a mapping"),
            ("cudnn:\n  '12': 8.9\n", "compatibility.yaml:2: cudnn.12: expected a list of values"),
            ("cuda: [\n", "compatibility.yaml: is not YAML"),
            (
                'cuda:\n  gcc:\n    "11.8": {most: newest}\n',
                "compatibility.yaml:3: cuda.gcc.11.8.most: expected a version, found 'newest'",
            ),
            ("cudnn:\n  '12':\n  - 8.9\n  - latest\n", "yaml:4: cudnn.12: expected a version, found 'latest'"),
            ("cuda: {wheels: {'12.99.0': {runtime: '1'}}}\n", "compatibility.yaml: cuda.wheels.12.99.0 has no 'nvcc'"),
            ("releases: {debian-12: {python: []}}\n", "compatibility.yaml: releases.debian-12 has no 'python'"),
            ("releases: {debian-12: {epoch: x}}\n", "releases.debian-12.epoch: expected seconds since 1970, found 'x'"),
            ("releases:\n  debian-14: {family: debian}\n", "compatibility.yaml: releases.debian-14 has no 'image'"),
            (f"releases:\n  debian-14: {ROW}\n", "compatibility.yaml: releases.debian-14 has no 'codename'"),
            (f"releases:\n  suse-15: {ROW[:-1]}, manager: zypper}}\n", "expected apt or dnf, found 'zypper'"),
        ],
    )
    def test_errors_say_where_and_what(self, text: str, words: str, own: Path) -> None:
        with pytest.raises(UsageError) as caught:
            self.resolved(text, own)
        assert words in str(caught.value)

    def test_a_placeholder_that_is_unknown_is_an_error_of_the_file(self, own: Path) -> None:
        own.write_text("frameworks: {torch: {requirement: 'torch=={version}'}}\n")
        with pytest.raises(UsageError, match=r"compatibility\.yaml: frameworks\.torch: {release}"):
            tables.table("frameworks", own)

    def test_an_image_of_an_unknown_debian_is_an_error_of_the_file(self, own: Path) -> None:
        own.write_text("gcc: {images: {'99.1.0': sid}}\n")
        with pytest.raises(UsageError, match=r"compatibility\.yaml: gcc\.images names 'sid'"):
            resolve(cell({"gcc": "99"}), with_rows(own, REGISTRY))

    def test_a_file_that_is_not_there_is_named(self, own: Path) -> None:
        with pytest.raises(UsageError, match=r"compatibility\.yaml: cannot be read"):
            resolve(cell(TOO_NEW, **TOOLKIT), with_rows(own))


AXES_OF_12 = {"os": "debian-12", "python": "3.11", "cuda": "12.4"}


@pytest.mark.parametrize(
    ("axes", "pip", "contradicts"),
    [
        ({"cmake": "3.27"}, "cmake==4.0.0", True),
        ({"cmake": "3.27"}, "CMake == 3.27.4.1", False),
        ({"cmake": "3.27.4"}, "cmake==3.27.4.1", False),
        ({"cmake": "4.0"}, "cmake<4", True),
        ({"cmake": "3.27"}, "cmake>=3.18,<4", False),
        ({"cmake": "3.27"}, "cmake", False),
        ({"cmake": "3.27"}, "cmake==4.0.0; python_version < '3.8'", False),
        ({"cuda": "12.4"}, "nvidia-cuda-runtime-cu12==12.1.105", True),
        ({"cuda": "12.4"}, "nvidia_cuda_runtime_cu11==11.8.89", True),
        ({"cuda": "12.4.1"}, "nvidia-cuda-runtime-cu12==12.4.127", False),
        ({"cuda": "12"}, "cuda-toolkit==12.6.3", False),
        ({"cuda": "12.4"}, "cuda-toolkit[cudart]==13.0.0", True),
        ({"cuda": "12.4"}, "nvidia-cuda-runtime-cu12>=12.4.99", False),
        ({"cudnn": "9.1"}, "nvidia-cudnn-cu12==8.9.7.29", True),
        ({"cudnn": "9.1"}, "nvidia-cudnn-cu12==9.1.0.70", False),
        ({"nccl": "2.20"}, "nvidia-nccl-cu12==2.19.3", True),
        ({"nccl": "2.20"}, "nvidia-nccl-cu12<2.20", True),
        ({"nccl": "2.20"}, "nvidia-nccl-cu12==2.20.5", False),
    ],
)
def test_a_requirement_that_contradicts_an_axis_is_refused_unless_the_case_allows_it(
    axes: dict[str, str], pip: str, contradicts: bool
) -> None:
    spec = cell({**AXES_OF_12, **axes}, pip=("numpy", pip), command=("true",))
    if contradicts:
        [(axis, value)] = axes.items()
        words = refused(spec)
        assert f"contradicts {axis} {value}" in words
        assert "conflicts: allow" in words
        spec = dataclasses.replace(spec, environment=dataclasses.replace(spec.environment, image="own:1"))
        assert f"contradicts {axis} {value}" in refused(spec)
    else:
        assert resolve(spec, HERE).notes == ()
    allowed = cell({**AXES_OF_12, **axes}, pip=("numpy", pip), command=("true",), conflicts="allow")
    assert len(resolve(allowed, HERE).notes) == contradicts
