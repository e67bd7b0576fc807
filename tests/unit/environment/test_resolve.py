"""What cells resolve to, what is not available, and what the words say about it."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.cellspec import EnvironmentSpec, PipStepSpec
from reprokit.core.errors import Unsupported, UsageError
from reprokit.environment import versions
from reprokit.environment.catalog import OURS
from reprokit.environment.resolving import resolve, without_downloads, without_registry
from reprokit.environment.supply import Supply
from reprokit.environment.tables import CUDA_PARTS
from tests.unit.environment.builders import cell

BOOTSTRAP, REGISTRY = Supply(base_source="bootstrap"), Supply(base_source="registry")


@pytest.mark.parametrize(
    ("asked", "have", "fits"),
    [
        ("12", "12.2.0", True),
        ("12.2", "12.2.0", True),
        ("12.2", "12.20.0", False),
        ("1", "12.2.0", False),
        ("12.2.0", "12.2", False),
        ("8.x", "8.9.7.29", True),
        ("8.*", "9.0", False),
        ("none", None, True),
        ("none", "12.2.0", False),
        ("12", None, False),
        ("3.10", "3.1", False),
    ],
)
def test_a_version_asks_for_what_it_says(asked: str, have: str | None, fits: bool) -> None:
    assert versions.matches(asked, have) is fits


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.lists(st.integers(0, 30), max_size=3))
def test_a_version_accepts_itself_and_whatever_refines_it(parts: list[int], more: list[int]) -> None:
    asked = ".".join(map(str, parts))
    assert versions.matches(asked, ".".join(map(str, parts + more)))
    assert not versions.matches(asked, ".".join(map(str, [parts[0] + 1, *parts[1:], *more])))


def test_newest_counts_numbers_not_letters() -> None:
    assert versions.newest("8.9", ["8.9.2.26", "8.9.10.1", "8.10.0.0"]) == "8.9.10.1"
    assert versions.newest("7", ["8.9.2.26"]) is None


@pytest.mark.parametrize(
    ("release", "python", "gcc"),
    [("debian-11", "3.9.2", "10.2.1"), ("debian-12", "3.11.2", "12.2.0"), ("debian-13", "3.13.5", "14.2.0")],
)
def test_the_three_debian_releases(release: str, python: str, gcc: str) -> None:
    asked = {"os": release, "python": python.rsplit(".", 1)[0], "gcc": gcc.split(".")[0]}
    found = resolve(cell(asked), BOOTSTRAP)
    assert found.python is not None
    assert (found.base.reference, found.python.version) == (f"reprokit/base:{release}", python)
    assert found.gcc is not None
    assert (found.gcc.major, found.gcc.version) == (asked["gcc"], gcc)


@pytest.mark.parametrize(
    ("release", "asked", "version", "command", "packages", "pip"),
    [
        ("ubuntu-16.04", "3.5", "3.5.2", "python3", ("python3", "python3-venv"), "20.3.4"),
        ("ubuntu-18.04", "3.6", "3.6.9", "python3", ("python3", "python3-venv"), "21.3.1"),
        ("ubuntu-18.04", "3", "3.6.9", "python3", ("python3", "python3-venv"), "21.3.1"),
        ("ubuntu-18.04", "3.7", "3.7.5", "python3.7", ("python3.7", "python3.7-venv", "python3-distutils"), "24.0"),
        ("ubuntu-18.04", "3.8.0", "3.8.0", "python3.8", ("python3.8", "python3.8-venv", "python3-distutils"), "24.0"),
        ("ubuntu-20.04", "3.8", "3.8.10", "python3", ("python3", "python3-venv"), "24.0"),
        ("ubuntu-20.04", "3.9", "3.9.5", "python3.9", ("python3.9", "python3.9-venv", "python3-distutils"), "24.0"),
        ("debian-13", "3", "3.13.5", "python3", ("python3", "python3-venv"), "24.0"),
    ],
)
def test_a_release_may_have_several_pythons(
    release: str, asked: str, version: str, command: str, packages: tuple[str, ...], pip: str
) -> None:
    found = resolve(cell({"os": release, "python": asked}), BOOTSTRAP)
    assert found.python is not None
    assert (found.python.version, found.python.command, found.python.packages) == (version, command, packages)
    assert found.python.pip == pip
    assert found.served_by["python"] == f"{release} {command} {version}"


def test_who_asks_for_the_headers_of_python_gets_those_of_the_python_of_the_cell() -> None:
    older = resolve(cell({"os": "ubuntu-18.04", "python": "3.7"}, apt=["make", "python3-dev"]), BOOTSTRAP)
    assert older.packages == ("make", "python3.7-dev")
    own = resolve(cell({"os": "ubuntu-18.04", "python": "3.6"}, apt=["python3-dev"]), BOOTSTRAP)
    assert own.packages == ("python3-dev",)
    assert resolve(cell({"os": "ubuntu-18.04", "python": "3.7"}, apt=["make"]), BOOTSTRAP).packages == ("make",)


def test_dockers_image_serves_a_python_that_debian_lacks() -> None:
    asked = cell({"os": "debian-12", "python": "3.8", "gcc": "12", "cuda": "11.8"})
    found = resolve(asked, REGISTRY)
    assert (found.base.source, found.base.reference) == ("registry", "python:3.8.20-slim-bookworm")
    assert found.python is not None
    assert (found.python.source, found.python.packages, found.python.headers) == ("image", (), ())
    assert found.served_by["python"] == "python:3.8.20-slim-bookworm /usr/local/bin/python3 3.8.20"
    assert found.cuda is not None
    assert found.cuda.source == "wheels"
    packaged = resolve(cell({"os": "debian-12", "python": "3.11"}), REGISTRY)
    assert packaged.base.reference == "debian:bookworm-slim"
    newest = resolve(cell({"os": "debian-13", "python": "3.14"}), REGISTRY).python
    assert newest is not None
    assert newest.pip == "25.3"


WITHOUT_UV, WITHOUT_CONDA = ("distribution", "image"), ("distribution", "image", "uv")


@pytest.mark.parametrize(
    ("axes", "supply", "words"),
    [
        (
            {"os": "debian-12", "python": "3.8"},
            Supply(base_source="bootstrap", python=WITHOUT_UV),
            (
                "python 3.8 is not available on debian-12: its packages have 3.11.2 (packaged are 3.8.0 on "
                "ubuntu-18.04, "
                "3.8.10 on ubuntu-20.04); the image python:3.8.20-slim-bookworm would serve it, but base images come "
                "from no registry here (base source bootstrap); uv would serve 3.8.20, but python_providers leaves uv "
                "out; environment.image takes any other image"
            ),
        ),
        (
            {"os": "debian-12", "python": "3.6"},
            Supply(base_source="registry", python=WITHOUT_CONDA),
            (
                "python 3.6 is not available on debian-12: its packages have 3.11.2 (packaged are 3.6.9 on "
                "ubuntu-18.04); "
                "images that serve it are python:3.6.15-slim-bullseye on debian-11; "
                "uv has 3.8, 3.9, 3.10, 3.11, 3.12, 3.13, 3.14, 3.15; conda-forge would serve 3.6.15, but "
                "python_providers leaves conda out; environment.image takes any other image"
            ),
        ),
        (
            {"os": "ubuntu-22.04", "python": "3.7", "cuda": "11.8"},
            Supply(base_source="registry", python=WITHOUT_CONDA),
            "Docker's images do not apply, since the base is NVIDIA's image of ubuntu-22.04 here",
        ),
        (
            {"python": "3.4"},
            BOOTSTRAP,
            "(packaged are 3.9.2, 2.7.18 on debian-11, 3.11.2 on debian-12, 3.13.5 on debian-13, 3.5.2",
        ),
        ({"python": "3.4"}, BOOTSTRAP, "conda-forge serves 3.5, 3.6, 3.7; environment.image takes any other image"),
        (
            {"os": "debian-12", "python": "3.11"},
            Supply(base_source="bootstrap", python=("image",)),
            "its packages have 3.11.2, but python_providers leaves distribution out",
        ),
    ],
)
def test_a_python_that_no_one_has_is_said_to_be_elsewhere(axes: dict[str, str], supply: Supply, words: str) -> None:
    with pytest.raises(Unsupported) as caught:
        resolve(cell(axes), supply)
    assert words in str(caught.value)


def test_uv_serves_a_python_that_neither_the_release_nor_an_image_has() -> None:
    for supply in (BOOTSTRAP, REGISTRY):
        found = resolve(cell({"os": "ubuntu-20.04", "python": "3.11", "cuda": "11.8"}), supply)
        assert found.python is not None
        assert (found.python.source, found.python.version[:5]) == ("uv", "3.11.")
        assert found.python.command == f"/opt/python/{found.python.version}/bin/python3"
        assert found.tool is not None
        assert found.tool.command == "python3.9"  # the newest of the release's own, which uv itself runs on
        assert found.served_by["python"].startswith("uv==")
    assert found.base.reference == "nvidia/cuda:11.8.0-devel-ubuntu20.04"


def test_providers_are_asked_in_the_order_of_the_site() -> None:
    asked = cell({"os": "debian-12", "python": "3.11", "gcc": "12.2"})
    found = resolve(asked, Supply(base_source="registry", python=("uv", "image"), gcc=("conda", "distribution")))
    assert found.python is not None
    assert found.gcc is not None
    assert (found.python.source, found.gcc.source, found.base.reference) == ("uv", "conda", "debian:bookworm-slim")
    found = resolve(asked, Supply(base_source="registry", python=("image", "uv"), gcc=("image",)))
    assert found.python is not None
    assert found.gcc is not None
    assert (found.python.source, found.gcc.source) == ("image", "image")
    assert found.base.reference == f"python:{found.python.version}-slim-bookworm"


@pytest.mark.parametrize(
    ("release", "asked", "supply", "source", "version"),
    [
        ("ubuntu-20.04", "8.2", REGISTRY, "image", "8.2.0"),
        ("ubuntu-22.04", "8.2", REGISTRY, "image", "8.2.0"),
        ("ubuntu-20.04", "8", REGISTRY, "distribution", "8.4.0"),
        ("ubuntu-20.04", "12.2", REGISTRY, "image", "12.2.0"),
        ("ubuntu-20.04", "12.2", BOOTSTRAP, "conda", "12.2.0"),
        ("ubuntu-20.04", "12", REGISTRY, "image", "12.2.0"),  # 12.5.0's image is of a Debian with a newer glibc
        ("debian-12", "10", BOOTSTRAP, "conda", "10.4.0"),
        ("debian-12", "12.2", BOOTSTRAP, "distribution", "12.2.0"),
    ],
)
def test_a_gcc_comes_from_the_first_that_has_it(
    release: str, asked: str, supply: Supply, source: str, version: str
) -> None:
    found = resolve(cell({"os": release, "gcc": asked}), supply)
    assert found.gcc is not None
    assert (found.gcc.source, found.gcc.version, found.gcc.major) == (source, version, version.partition(".")[0])
    served = {
        "distribution": f"{release} gcc-{found.gcc.major} {version}",
        "image": f"image gcc:{version}",
        "conda": f"conda-forge gcc_impl_linux-64 {version}",
    }
    assert found.served_by["gcc"] == served[source]


@pytest.mark.parametrize(
    ("axes", "supply", "words"),
    [
        (
            {"os": "ubuntu-20.04", "gcc": "8.2"},
            BOOTSTRAP,
            (
                "gcc 8.2 is not available on ubuntu-20.04: its packages have 7 (7.5.0), 8 (8.4.0), 9 (9.4.0), 10 "
                "(10.5.0)"
                "; the image gcc:8.2.0 would serve it, but images come from no registry here (base source bootstrap); "
                "conda-forge has 8.5, 9.4, 9.5, 10.3"
            ),
        ),
        (
            {"os": "ubuntu-20.04", "gcc": "16.2"},
            REGISTRY,
            "the image gcc:16.2.0 is made of Debian trixie (glibc 2.41), too new for ubuntu-20.04 (glibc 2.31)",
        ),
        (
            {"os": "ubuntu-20.04", "gcc": "12.2"},
            Supply(base_source="bootstrap", gcc=("distribution",)),
            "conda-forge would serve 12.2.0, but gcc_providers leaves conda out",
        ),
    ],
)
def test_a_gcc_that_no_one_has_is_said_to_be_elsewhere(axes: dict[str, str], supply: Supply, words: str) -> None:
    with pytest.raises(Unsupported) as caught:
        resolve(cell(axes), supply)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (
            {"os": "ubuntu-20.04", "cuda": "11.8", "gcc": "10.2", "python": "3.11"},
            "and nothing serves the cell without a registry: gcc 10.2 is not available on ubuntu-20.04",
        ),
        (
            {"os": "ubuntu-20.04", "cuda": "11.8", "gcc": "9.4"},
            (
                "--base bootstrap makes ubuntu-20.04 from the distribution's packages instead, with CUDA 11.8.0 from "
                "NVIDIA's wheels"
            ),
        ),
        (
            {"os": "debian-12", "python": "3.8", "gcc": "10"},
            "instead, with Python 3.8.20 from uv and GCC 10.4.0 from conda-forge",
        ),
        ({"os": "debian-12"}, "--base bootstrap makes debian-12 from the distribution's packages instead"),
    ],
)
def test_what_would_serve_a_cell_without_a_registry_is_said(axes: dict[str, str], words: str) -> None:
    said = without_registry(cell(axes), REGISTRY, resolve(cell(axes), REGISTRY))
    assert words in said
    assert not without_registry(cell(axes), BOOTSTRAP, resolve(cell(axes, image="own:1"), REGISTRY))


@pytest.mark.parametrize(
    ("axes", "supply", "sources", "versions_"),
    [
        # what only conda-forge has, on whatever release
        (("ubuntu-16.04", "10.1", "7.6", "3.7"), REGISTRY, "conda conda conda", "10.1.243 7.6.5.32 3.7.12"),
        (("ubuntu-18.04", "10.0", "7.6.5", "3.6"), REGISTRY, "conda conda distribution", "10.0.130 7.6.5.32 3.6.9"),
        (("debian-12", "9.2", "7", "3.5"), BOOTSTRAP, "conda conda conda", "9.2.148 7.6.5.32 3.5.5"),
        (("debian-13", "10.2", "8", "none"), BOOTSTRAP, "conda conda -", "10.2.89 8.2.1.32 -"),
        # NVIDIA's images and wheels and the distribution's packages come first
        (("ubuntu-20.04", "11.2", "8.1", "3.7"), REGISTRY, "image image conda", "11.2.2 8.1.1.33 3.7.12"),
        (("ubuntu-20.04", "11.1", "8.0", "3.8"), REGISTRY, "image image distribution", "11.1.1 8.0.5.39 3.8.10"),
        (
            ("ubuntu-20.04", "10.1", "7.6", "3.8"),
            REGISTRY,
            "distribution conda distribution",
            "10.1.243 7.6.5.32 3.8.10",
        ),
        (("ubuntu-18.04", "11.0", "8.0", "3.7"), REGISTRY, "image conda distribution", "11.0.3 8.0.5.39 3.7.5"),
        (("ubuntu-18.04", "11.0", "8.0", "3.7"), BOOTSTRAP, "conda conda distribution", "11.0.3 8.0.5.39 3.7.5"),
        (
            ("debian-12", "11.8", "8.6", "3.11"),
            BOOTSTRAP,
            "wheels wheels distribution",
            "11.8.0 8.6.0.163 3.11.2",
        ),
        (
            ("debian-12", "11.8", "8.4", "3.11"),
            BOOTSTRAP,
            "wheels conda distribution",
            "11.8.0 8.4.1.50 3.11.2",
        ),
        (("debian-12", "11", "8.9.7", "3.6"), REGISTRY, "wheels conda conda", "11.8.0 8.9.7.29 3.6.15"),
        (("debian-11", "11.2", "8.2", "3.6"), REGISTRY, "distribution conda image", "11.2.2 8.2.1.32 3.6.15"),
    ],
)
def test_conda_forge_serves_what_no_one_else_has(
    axes: tuple[str, ...], supply: Supply, sources: str, versions_: str
) -> None:
    found = resolve(cell(dict(zip(("os", "cuda", "cudnn", "python"), axes, strict=True))), supply)
    parts = (found.cuda, found.cudnn, found.python)
    assert " ".join(part.source if part else "-" for part in parts) == sources
    assert " ".join(part.version if part else "-" for part in parts) == versions_
    assert found.cudnn is not None
    assert not any("cublas" in requirement for requirement in found.cudnn.requirements)  # it is the CUDA's own
    trees = [part.conda for part in parts if part and part.source == "conda"]
    assert {tree.folder for tree in trees if tree} == {
        tree.folder for tree in (found.conda.trees if found.conda else ())
    }
    for name, part in (("cuda", found.cuda), ("cudnn", found.cudnn), ("python", found.python)):
        assert found.served_by.get(name, "").startswith("conda-forge ") is (part is not None and part.source == "conda")


def test_the_stage_of_conda_runs_its_installer_where_a_python_can() -> None:
    old = resolve(
        cell({"os": "ubuntu-16.04", "cuda": "10.1", "gcc": "12.2"}), Supply(base_source="registry", gcc=("conda",))
    )
    assert old.conda is not None
    assert [tree.folder for tree in old.conda.trees] == ["/opt/cuda", "/opt/gcc"]
    assert (old.conda.base.reference, old.conda.tool.version) == ("debian:bookworm-slim", "3.11.2")
    assert (old.conda.glibc, old.base.reference) == ("2.23", "ubuntu:16.04")
    assert [image.reference for image in old.images] == ["ubuntu:16.04", "debian:bookworm-slim"]
    made = resolve(cell({"os": "ubuntu-16.04", "cuda": "10.1"}), BOOTSTRAP)
    assert [image.reference for image in made.images] == ["reprokit/base:ubuntu-16.04", "reprokit/base:debian-12"]
    new = resolve(cell({"os": "ubuntu-18.04", "cuda": "10.1"}), REGISTRY)
    assert new.conda is not None
    assert (new.conda.base, new.conda.tool.command) == (new.base, "python3.8")
    assert new.images == (new.base,)


@pytest.mark.parametrize(
    ("axes", "supply", "words"),
    [
        ({"cuda": "9.0"}, REGISTRY, "conda-forge serves 9.2, 10.0, 10.1, 10.2, 11.0, 11.1"),
        (
            {"os": "ubuntu-18.04", "cuda": "10.1"},
            dataclasses.replace(REGISTRY, silent=("conda",)),
            "conda-forge would serve 10.1.243, but its downloads are not available here (conda_channel of",
        ),
        ({"cuda": "10.1", "cudnn": "8.4"}, REGISTRY, "for CUDA 10.1 conda-forge has 7.6, 8.0"),
        ({"cuda": "12.0", "cudnn": "8.4"}, REGISTRY, "for CUDA 12.0 conda-forge has none"),
        (
            {"cuda": "11.8", "cudnn": "8.4"},
            dataclasses.replace(REGISTRY, silent=("conda",)),
            "conda-forge would serve 8.4.1.50, but its downloads are not available here (conda_channel of",
        ),
        (
            {"python": "3.7", "os": "ubuntu-22.04"},
            dataclasses.replace(REGISTRY, silent=("conda",)),
            "conda-forge would serve 3.7.12, but its downloads are not available here (conda_channel of",
        ),
        # nothing serves the combination: neither wheels nor conda-forge have a cuDNN for it
        ({"os": "ubuntu-18.04", "cuda": "9.1", "cudnn": "7.6"}, REGISTRY, "for CUDA 9.1 conda-forge has none"),
    ],
)
def test_what_conda_forge_has_is_said_where_nothing_serves(axes: dict[str, str], supply: Supply, words: str) -> None:
    with pytest.raises(Unsupported) as caught:
        resolve(cell(axes), supply)
    assert words in str(caught.value)


def test_conda_forges_cuda_has_no_nvcc() -> None:
    spec = dataclasses.replace(cell({"os": "ubuntu-18.04", "cuda": "10.1"}), command=("nvcc -c kernel.cu",))
    with pytest.raises(Unsupported, match=r"conda-forge would serve 10\.1\.243, without nvcc; ubuntu-20\.04 .* has it"):
        resolve(spec, REGISTRY)
    # so that no compiler is too new for it
    assert not resolve(cell({"os": "ubuntu-18.04", "cuda": "9.2", "gcc": "8"}), REGISTRY).notes


def test_an_unknown_provider_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"python provider 'pyenv': expected distribution, image, uv or conda"):
        Supply(base_source="bootstrap", python=("pyenv",))


def test_an_absent_axis_is_free() -> None:
    found = resolve(cell({"paddle": "2.6.2"}), REGISTRY)
    assert found.base.reference == "debian:bookworm-slim"
    assert (found.os, found.gcc, found.cuda, found.cudnn) == ("debian-12", None, None, None)
    assert found.python is not None
    assert found.python.version == "3.11.2"


def test_none_means_none_in_the_image() -> None:
    found = resolve(cell({"python": "none", "gcc": "none", "cuda": "none", "cudnn": "none"}), BOOTSTRAP)
    assert (found.python, found.gcc, found.cuda, found.cudnn) == (None, None, None, None)


COMPILERS = [
    ("11.7", ("nvidia-cuda-nvcc-cu11==11.7.99", "nvidia-cuda-runtime-cu11==11.7.99")),
    ("11.8", ("nvidia-cuda-nvcc-cu11==11.8.89", "nvidia-cuda-runtime-cu11==11.8.89")),
    ("12.0", ("nvidia-cuda-nvcc-cu12==12.0.140", "nvidia-cuda-runtime-cu12==12.0.146")),
    ("12.0.0", ("nvidia-cuda-nvcc-cu12==12.0.76", "nvidia-cuda-runtime-cu12==12.0.107")),
]


@pytest.mark.parametrize(("cuda", "compiler"), COMPILERS)
def test_cuda_comes_from_nvidias_wheels_with_all_its_libraries_or_none(cuda: str, compiler: tuple[str, ...]) -> None:
    whole = resolve(cell({"cuda": cuda}), BOOTSTRAP).cuda
    small = resolve(cell({"cuda": cuda}, cuda_libraries="none"), BOOTSTRAP).cuda
    assert whole is not None
    assert small is not None
    assert (whole.source, small.source, small.requirements) == ("wheels", "wheels", compiler)
    assert whole.requirements[:2] == compiler
    end = f"-cu{cuda[:2]}"
    libraries = {name.partition("==")[0].removesuffix(end) for name in whole.requirements[2:]}
    assert libraries == {
        *("nvidia-cublas", "nvidia-cufft", "nvidia-curand", "nvidia-cusolver", "nvidia-cusparse", "nvidia-npp"),
        *("nvidia-nvjpeg", "nvidia-cuda-cupti", "nvidia-cuda-nvrtc", "nvidia-nvtx"),
        *(["nvidia-nvjitlink"] if cuda.startswith("12") else []),
    }


def test_cuda_13_needs_the_parts_of_its_compiler() -> None:
    found = resolve(cell({"cuda": "13.0.2"}, cuda_libraries="none"), BOOTSTRAP).cuda
    assert found is not None
    assert [name.partition("==")[0] for name in found.requirements] == [
        "nvidia-cuda-nvcc",
        "nvidia-nvvm",
        "nvidia-cuda-crt",
        "nvidia-cuda-cccl",
        "nvidia-cuda-runtime",
    ]


def test_without_its_libraries_cuda_is_the_same_with_and_without_a_registry() -> None:
    axes = {"os": "ubuntu-22.04", "cuda": "11.8"}
    found = [resolve(cell(axes, cuda_libraries="none"), supply).cuda for supply in (REGISTRY, BOOTSTRAP)]
    assert found[0] == found[1]
    assert found[0] is not None
    assert found[0].source == "wheels"
    # What calls nvcc cannot do with these wheels.
    calls = dataclasses.replace(cell(axes, cuda_libraries="none"), command=("nvcc a.cu",))
    compiles = resolve(calls, REGISTRY).cuda
    assert compiles is not None
    assert compiles.source == "image"


def test_cudnn_needs_the_libraries_of_cuda() -> None:
    with pytest.raises(Unsupported, match=r"cuda_libraries: none leaves out"):
        resolve(cell({"cuda": "11.8", "cudnn": "8.6"}, cuda_libraries="none"), BOOTSTRAP)


def test_where_a_tag_is_gone_the_next_provider_is_asked() -> None:
    axes = {"os": "ubuntu-22.04", "cuda": "11.8"}
    before = resolve(cell(axes), REGISTRY)
    after = resolve(cell(axes), dataclasses.replace(REGISTRY, missing=frozenset({before.base.reference})))
    assert before.base.reference == "nvidia/cuda:11.8.0-devel-ubuntu22.04"
    assert after.cuda is not None
    assert (after.base.reference, after.cuda.source) == ("ubuntu:22.04", "wheels")


def test_cuda_that_only_the_distribution_has() -> None:
    found = resolve(cell({"os": "debian-11", "cuda": "11.2"}), BOOTSTRAP)
    assert found.cuda is not None
    assert (found.cuda.version, found.cuda.source) == ("11.2.2", "distribution")


def test_the_toolkit_package_is_taken_as_cuda() -> None:
    found = resolve(cell({}, apt=("libgl1", "nvidia-cuda-toolkit")), BOOTSTRAP)
    assert found.cuda is not None
    assert (found.cuda.version, found.cuda.source, found.packages) == ("11.8.0", "distribution", ("libgl1",))
    with pytest.raises(Unsupported, match=r"cuda 12\.0 contradicts environment\.apt.*CUDA 11\.8\.0 on debian-12"):
        resolve(cell({"cuda": "12.0"}, apt=("nvidia-cuda-toolkit",)), BOOTSTRAP)


def test_nvidias_image_serves_ubuntu_where_a_registry_answers() -> None:
    asked = cell({"os": "ubuntu-22.04", "cuda": "11.8", "cudnn": "8.6"})
    found = resolve(asked, REGISTRY)
    assert found.base.reference == "nvidia/cuda:11.8.0-devel-ubuntu22.04"
    assert found.cuda is not None
    assert found.cuda.source == "image"
    assert found.cudnn is not None
    assert found.cudnn.requirements == ("nvidia-cudnn-cu11==8.6.0.163",)
    offline = resolve(asked, BOOTSTRAP)
    assert offline.base.reference == "reprokit/base:ubuntu-22.04"
    assert offline.cuda is not None
    assert offline.cuda.source == "wheels"


def test_the_flagship_resolves() -> None:
    for cuda, cudnn in (("11.8", "8.6.0.163"), ("12.0", "8.9.7.29")):
        axes = {"os": "debian-12", "cuda": cuda, "cudnn": cudnn[:3], "python": "3.11", "gcc": "12.2"}
        found = resolve(cell(axes), BOOTSTRAP)
        assert found.cudnn is not None
        assert found.cudnn.version == cudnn
        assert set(found.served_by) == {"base", "python", "gcc", "cuda", "cudnn"}


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"gcc": "8.4"}, "gcc 8.4 is not available on debian-12: its packages have 11 (11.3.0), 12 (12.2.0)"),
        ({"gcc": "12.9"}, "gcc 12.9 is not available on debian-12: its packages have 11 (11.3.0), 12 (12.2.0)"),
        ({"python": "3.4"}, "python 3.4 is not available on debian-12: its packages have 3.11.2 "),
        ({"os": "debian-9"}, "os debian-9 is not among the available releases: debian-10, debian-11, debian-12"),
        ({"os": "debain-12"}, "did you mean debian-12?"),
        ({"cuda": "12.7"}, "cuda 12.7 is not available on debian-12; NVIDIA's wheels serve 11.7, 11.8, 12.0"),
        ({"cuda": "9.0"}, "the package nvidia-cuda-toolkit serves 11.8.0"),
        ({"cudnn": "8"}, "cudnn 8 needs CUDA, and this cell has none"),
        ({"cudnn": "8", "cuda": "none"}, "cudnn 8 needs CUDA, and this cell has none"),
        ({"cudnn": "7", "cuda": "11.8"}, "nvidia-cudnn-cu11: 8.5, 8.6, 8.7, 8.8, 8.9, 9.0"),
        ({"python": "none", "cuda": "11.8"}, "need an interpreter with pip"),
    ],
)
def test_what_is_not_available_is_unsupported_with_what_can(axes: dict[str, str], words: str) -> None:
    with pytest.raises(Unsupported) as caught:
        resolve(cell(axes), BOOTSTRAP)
    assert words in str(caught.value)


def test_an_image_of_the_case_overrides_everything() -> None:
    axes = {"os": "rocky-9", "python": "3.6", "gcc": "4.8"}
    found = resolve(cell(axes, image="registry.example/own:1", pip=("six",)), BOOTSTRAP)
    assert (found.base.source, found.base.reference) == ("image", "registry.example/own:1")
    assert (found.os, found.python, found.gcc, found.pip) == ("", None, None, (PipStepSpec(requirements=("six",)),))


def test_an_unknown_base_source_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="base source 'auto': expected registry or bootstrap"):
        Supply(base_source="auto")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "os": st.sampled_from(OURS.known_os()),
            "python": st.sampled_from(["none", "3", "3.6", "3.7", "3.9", "3.11", "3.13"]),
            "gcc": st.sampled_from(["none", "10", "12", "12.2", "14"]),
            "cuda": st.sampled_from(["none", "11", "11.2", "11.8", "12.0", "12", "13"]),
            "cudnn": st.sampled_from(["none", "8", "8.9", "9"]),
        },
    ),
    st.sampled_from(["registry", "bootstrap"]),
)
def test_what_is_chosen_is_what_was_asked(axes: dict[str, str], source: str) -> None:
    try:
        found = resolve(cell(axes), Supply(base_source=source))
    except Unsupported as error:
        said = str(error)
        found = None
    if found is None:
        assert any(f"{axis} {value}" in said for axis, value in axes.items())
        return
    chosen = found.to_json()
    for axis, asked in axes.items():
        assert versions.matches(asked, chosen[axis]) or axis == "os", (axis, asked, chosen[axis])


def test_the_catalogue_is_whole() -> None:
    for name, release in OURS.releases().items():
        assert name.startswith(release.family)
        assert all(versions.matches(major, version) for major, version in release.gcc.items())
        assert len({version.rpartition(".")[0] for version in release.pythons}) == len(release.pythons)
        images = OURS.python_images(name)
        assert list(images) == sorted(images, key=versions.order)
        # An image of Docker's and one of NVIDIA's cannot both be the base.
        assert not (images and OURS.cuda_images(name))
    for known in (OURS.uv_pythons(), OURS.gcc_conda(), OURS.conda_pythons(), OURS.conda_cudas()):
        assert list(known) == sorted(set(known), key=versions.order)
    assert not set(OURS.conda_pythons()) & set(OURS.uv_pythons())
    for version in OURS.conda_cudas():
        known = OURS.conda_cudnns(version)
        assert list(known) == sorted(known, key=versions.order)
        assert known, f"conda-forge has no cuDNN for CUDA {version}"
    assert all(OURS.debian_glibc(debian) for debian in OURS.gcc_images().values())
    for version, wheels in OURS.cuda_wheels().items():
        lacks = {"nvvm", "crt", "cccl"} if version < "13" else set()
        assert set(wheels) == set(CUDA_PARTS) - lacks - ({"nvjitlink"} if version < "12" else set()), version
        assert wheels["nvcc"].split(".")[:2] == version.split(".")[:2]
        assert OURS.driver_needed(version)
    for major in ("11", "12", "13"):
        found = OURS.rows("cudnn", major)
        assert list(found) == sorted(found, key=versions.order)


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ("ptxas --gpu-name sm_90 kernel.ptx", "wheels"),
        ("nvcc --version; ptxas --gpu-name sm_90 kernel.ptx", "wheels"),
        ("cd src && nvcc -c kernel.cu", "distribution"),
        ("nvcc $FLAGS -c kernel.cu", "distribution"),
    ],
)
def test_a_case_that_compiles_with_nvcc_gets_a_toolkit_that_has_it(command: str, source: str) -> None:
    spec = dataclasses.replace(cell({"cuda": "11.8"}), command=("bash", "-eo", "pipefail", "-c", command))
    cuda = resolve(spec, BOOTSTRAP).cuda
    assert cuda is not None
    assert cuda.source == source


def test_a_case_that_compiles_with_nvcc_is_reported_where_none_is_available() -> None:
    spec = dataclasses.replace(cell({"cuda": "12.0"}), command=("nvcc -c kernel.cu",))
    with pytest.raises(Unsupported, match=r"cuda 12\.0 with nvcc, which the case calls, .* wheels serve 13\.0"):
        resolve(spec, BOOTSTRAP)
    own = dataclasses.replace(spec, environment=EnvironmentSpec(pip=("nvidia-cuda-nvcc==13.0.88",)))
    cuda = resolve(own, BOOTSTRAP).cuda
    assert cuda is not None
    assert cuda.source == "wheels"


def test_a_provider_whose_downloads_are_not_available_serves_nothing() -> None:
    spec = cell({"python": "3.12", "gcc": "10"})
    chosen = resolve(spec, BOOTSTRAP)
    why = without_downloads(spec, BOOTSTRAP, chosen)
    assert re.match(
        r"python 3\.12 is not available on debian-12: its packages have 3\.11\.2 .*; uv would serve 3\.12", why
    )
    assert "but its downloads are not available here (uv_python_mirror of the configuration names another place)" in why
    compiler = cell({"gcc": "10"})
    assert "conda_channel" in without_downloads(compiler, BOOTSTRAP, resolve(compiler, BOOTSTRAP))
    libraries = cell({"cuda": "10.2", "cudnn": "7.6"})
    assert re.match(
        r"cuda 10\.2 is not available on debian-12; .* conda-forge would serve 10\.2\.89, but its downloads are not",
        without_downloads(libraries, BOOTSTRAP, resolve(libraries, BOOTSTRAP)),
    )
    packaged = cell({"python": "3.11", "gcc": "12"})
    assert without_downloads(packaged, BOOTSTRAP, resolve(packaged, BOOTSTRAP)) == ""
