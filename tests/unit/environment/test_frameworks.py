"""Frameworks against the cell's CUDA and Python: before anything is built, and as they measure in the image."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.scripts import compatibility_tables
from reprokit.case.cellspec import CellSpec, PipStepSpec
from reprokit.core.errors import Unsupported
from reprokit.environment import frameworks, probe, versions
from reprokit.environment.catalog import OURS
from reprokit.environment.comparing import broken_pins, compare_builds
from reprokit.environment.measured import Measured
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from tests.unit.environment.test_compatibility import cell

HERE = Supply(base_source="bootstrap")
PADDLE_PAGE = "--find-links https://www.paddlepaddle.org.cn/whl/linux/mkl/avx/stable.html"
PADDLE_INDEX = "--extra-index-url https://www.paddlepaddle.org.cn/packages/stable/cu120/"


def refusal(cuda: str, pip: str, *options: str, python: str = "3.11", **parts: Any) -> str:
    axes = {"os": "debian-12", "python": python} | ({"cuda": cuda} if cuda else {})
    try:
        resolve(cell(axes, pip=(pip,), pip_options=options, **parts), HERE)
    except Unsupported as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("cuda", "pip", "options", "words"),
    [
        (
            "12.0",
            "paddlepaddle-gpu==2.6.2",
            (),
            (
                "paddlepaddle-gpu 2.6.2, the wheel on Python's index, is built for CUDA 11.8; "
                "the cell asks for cuda 12.0. "
                f"For CUDA 12.0: paddlepaddle-gpu==2.6.2.post120 with pip_options {PADDLE_INDEX}. "
                "To run it all the same: environment.conflicts: allow"
            ),
        ),
        (
            "11.8",
            "paddlepaddle-gpu==2.6.2.post120",
            (PADDLE_INDEX,),
            (
                "paddlepaddle-gpu==2.6.2.post120 is built for CUDA 12.0; the cell asks for cuda 11.8. "
                "For CUDA 11.8: paddlepaddle-gpu==2.6.2 from Python's index."
            ),
        ),
        (
            "11.8.0",
            "torch==2.1.0",
            (),
            (
                "is built for CUDA 12.1; the cell asks for cuda 11.8.0. "
                "For CUDA 11.8: torch==2.1.0+cu118 with pip_options "
                "--extra-index-url https://download.pytorch.org/whl/cu118."
            ),
        ),
        # The page of PaddlePaddle ends at 2.6.1, and its 2.5.2 for CUDA 12.0 was never on the server.
        ("12.0", "paddlepaddle-gpu==2.6.1", (), f"paddlepaddle-gpu==2.6.1.post120 with pip_options {PADDLE_PAGE}."),
        ("12.0", "paddlepaddle-gpu==2.6", (), f"paddlepaddle-gpu==2.6.post120 with pip_options {PADDLE_PAGE}."),
        ("12.0", "paddlepaddle-gpu==2.5.2", (), "2.5.2 is built for CUDA 10.2, 11.2, 11.6, 11.7, 11.8."),
        ("12.4", "torch==2.1.0+cu118", (), "torch 2.1.0 is built for CUDA 11.8, 12.1."),
        ("11.8", "torch==2.1.0+cu12", (), "torch==2.1.0+cu12 is built for CUDA 12; the cell"),
        ("12.6", "torch==2.6.0", ("--index-url https://download.pytorch.org/whl/cu124",), "index in pip_options is"),
        ("11.8", "tensorflow==2.15", (), "tensorflow 2.15 is built for CUDA 12.2."),
        ("11.8", "jax[cuda12]==0.4.30", (), "jax[cuda12]==0.4.30 is built for CUDA 12; the cell asks for cuda 11.8"),
        ("11.8", "jaxlib==0.4.20+cuda12.cudnn89", (), "jaxlib==0.4.20+cuda12.cudnn89 is built for CUDA 12; the cell"),
    ],
)
def test_a_build_for_another_cuda_is_refused_with_the_right_requirement(
    cuda: str, pip: str, options: tuple[str, ...], words: str
) -> None:
    assert words in refusal(cuda, pip, *options)


@pytest.mark.parametrize(
    ("cuda", "pip", "options"),
    [
        ("11.8", "paddlepaddle-gpu==2.6.2", ()),
        ("12.0", "paddlepaddle-gpu==2.6.2.post120", (PADDLE_INDEX,)),
        ("12", "torch==2.1.0", ()),
        ("11.8", "torch==2.1.0", ("--extra-index-url https://download.pytorch.org/whl/cu118",)),
        ("12.2", "tensorflow[and-cuda]==2.15.0", ()),
        ("12.4", "jax[cuda12]==0.4.30", ()),
        # A CPU build by name is what is wanted.
        ("11.8", "torch==2.1.0+cpu", ()),
        ("11.8", "torch==2.1.0", ("--index-url https://download.pytorch.org/whl/cpu",)),
        ("11.8", "paddlepaddle==2.6.2", ()),
        ("11.8", "tensorflow-cpu==2.15.0", ()),
        # Unknown: another index, several of them, no pin, a release that the tables do not have, another build, a file.
        ("11.8", "torch==2.1.0", ("--index-url https://mirror.example/simple",)),
        ("11.8", "torch==2.1.0", ("-f https://a.example/cu118", "-f https://a.example/cu121")),
        ("11.8", "torch==2.1.0", ("-i https://mirror.example/simple",)),
        ("11.8", "torch", ()),
        ("11.8", "torch==2.1.*", ()),
        ("11.8", "torch>=2.1,<2.2", ()),
        ("11.8", "torch==99.0", ()),
        ("11.8", "torch==2.1.0+rocm5.6", ()),
        # Its last digit is cuDNN's: this is CUDA 11.0 at most, and not 11.7.
        ("11.8", "paddlepaddle-gpu==1.8.5.post107", ()),
        ("11.8", "torch==2.1.0; python_version < '3'", ()),
        ("11.8", "https://a.example/torch-2.1.0-cp311-cp311-linux_x86_64.whl", ()),
        ("11.8", "-r requirements.txt", ()),
        ("11.8", "torchvision==0.16.0", ()),
        # Without a CUDA version the cell asks for none in particular.
        ("", "torch==2.1.0", ()),
        ("none", "torch==2.1.0", ()),
    ],
)
def test_the_right_build_and_whatever_is_unknown_pass(cuda: str, pip: str, options: tuple[str, ...]) -> None:
    assert refusal(cuda, pip, *options) == ""


def test_a_release_without_a_wheel_for_the_python_is_refused_with_the_nearest() -> None:
    assert refusal("", "torch==1.12.1").startswith(
        "torch 1.12.1 has no wheel for Python 3.11 on Python's index, only for 3.7, 3.8, 3.9, 3.10; "
        "nearest: torch 1.13.0"
    )


def test_an_index_among_the_requirements_counts_as_one_among_the_options() -> None:
    spec = cell({"os": "debian-12", "cuda": "11.8"}, pip=("--extra-index-url https://a.example/cu118", "torch==2.1.0"))
    assert resolve(spec, HERE).notes == ()


def test_pythons_of_builds_from_elsewhere_are_unknown() -> None:
    assert refusal("", "torch==1.12.1+cu116") == ""
    assert refusal("", "torch==1.12.1", "--find-links https://wheels.example/") == ""


def test_a_conflict_that_is_the_point_passes() -> None:
    assert refusal("11.8", "torch==2.1.0", conflicts="allow") == ""
    assert refusal("11.8", "torch==2.1.0", reproduces=True) == ""
    # nvcc's flag is about GCC alone.
    assert refusal("11.8", "torch==2.1.0", env={"F": "-allow-unsupported-compiler"}) != ""


@given(
    st.sampled_from([(package, release) for package, rows in OURS.builds().items() for release in rows]),
    st.sampled_from(["10.2", "11.2", "11.7", "11.8", "12.0", "12.1", "12.4", "12.6", "12.8", "13.0"]),
)
def test_what_is_offered_is_itself_accepted(built: tuple[str, str], cuda: str) -> None:
    package, release = built
    [one] = frameworks.asked([f"{package}=={release}"], [])
    text = frameworks._other_cuda(one, cuda)
    row = OURS.build(package, release)
    assert row is not None
    fits = not row.cuda or row.cuda == versions.NONE or row.cuda.startswith(cuda)
    assert bool(text) is not (fits or package not in frameworks.GPU_PACKAGES)
    if ". For CUDA " in text:
        offer = text.split(f". For CUDA {cuda}: ")[1].removesuffix(" from Python's index")
        requirement, _, options = offer.partition(" with pip_options ")
        [offered] = frameworks.asked([requirement], [options])
        assert offered.cuda
        assert frameworks._other_cuda(offered, cuda) == ""


def measured(frameworks: dict[str, Any], **pip: str) -> Measured:
    return Measured(frameworks=frameworks, packages={"pip": pip, "apt": {}})


TORCH_CPU = {"torch": {"__version__": "2.13.0+cpu", "cuda": None}}
TORCH_121 = {"torch": {"__version__": "2.1.0+cu121", "cuda": "12.1"}}
TF_CPU = {"tensorflow": {"build_info": {"is_cuda_build": False}}}
TF_122 = {"tensorflow": {"build_info": {"is_cuda_build": True, "cuda_version": "12.2"}}}
PADDLE_CPU = {"paddle": {"full_version": "2.6.2", "cuda_version": "False"}}


@pytest.mark.parametrize(
    ("pip", "seen", "words"),
    [
        ("torch==2.13.0", measured(TORCH_CPU), "torch 2.13.0+cpu is a CPU build; the cell asks for cuda 11.8"),
        ("torch; python_version > '3.8'", measured(TORCH_CPU), "torch 2.13.0+cpu is a CPU build"),
        ("torch", measured(TORCH_121), "torch 2.1.0+cu121 is built for CUDA 12.1; the cell asks for cuda 11.8"),
        ("tensorflow", measured(TF_CPU, tensorflow="2.15.0"), "tensorflow 2.15.0 is a CPU build"),
        ("tensorflow", measured(TF_122, tensorflow="2.15.0"), "tensorflow 2.15.0 is built for CUDA 12.2"),
        ("paddlepaddle-gpu", measured(PADDLE_CPU), "paddlepaddle-gpu 2.6.2 is a CPU build"),
        ("jax[cuda11_pip]", measured({}, jax="0.4.30", jaxlib="0.4.30"), "jax 0.4.30 is a CPU build"),
        (
            "jax[cuda11_pip]",
            measured({}, jax="0.4.30", **{"jax-cuda12-plugin": "0.4.30"}),
            "jax 0.4.30 is built for CUDA 12",
        ),
    ],
)
def test_a_build_that_measures_otherwise_is_a_mismatch(pip: str, seen: Measured, words: str) -> None:
    [difference] = compare_builds(cell({"cuda": "11.8"}, pip=(pip,)), seen)
    assert words in difference
    assert "environment.conflicts: allow" in difference
    assert compare_builds(cell({"cuda": "none"}, pip=(pip,)), seen) == []
    assert compare_builds(cell({}, pip=(pip,)), seen) == []
    assert compare_builds(cell({"cuda": "11.8"}, pip=(pip,), conflicts="allow"), seen) == []


@pytest.mark.parametrize(
    ("pip", "seen"),
    [
        ("torch==2.13.0+cpu", measured(TORCH_CPU)),
        ("paddlepaddle", measured(PADDLE_CPU)),
        ("jax", measured({}, jax="0.4.30", jaxlib="0.4.30")),
        ("torch", measured({})),  # not there, or an unknown layout
        ("torch", measured({"torch": {"cuda": "11.8"}})),
        ("jax[cuda11_pip]", measured({}, jax="0.4.20", jaxlib="0.4.20+cuda11.cudnn86")),
    ],
)
def test_what_was_asked_for_is_not_a_mismatch(pip: str, seen: Measured) -> None:
    assert compare_builds(cell({"cuda": "11.8"}, pip=(pip,)), seen) == []


def test_the_probe_reads_the_builds_of_frameworks_without_importing_them(tmp_path: Path) -> None:
    texts = {
        "tensorflow/python/platform/build_info.py": "import collections\nraise_on_import = 1/0\n"
        "build_info = collections.OrderedDict([('cuda_version', '12.2'), ('is_cuda_build', True)])\n",
        "torch/version.py": "from typing import Optional\n__version__ = '2.1.0+cu118'\ncuda: Optional[str] = '11.8'\n",
        "jaxlib/version.py": "_version = '0.4.30'\n__version__ = _get(_version)\n",
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    script = Path(probe.__file__).with_name("probe_inside.py")
    done = subprocess.run(
        [sys.executable, "-S", script], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, check=True
    )
    found = json.loads(done.stdout)["frameworks"]
    assert found["tensorflow"]["build_info"] == {"cuda_version": "12.2", "is_cuda_build": True}
    assert found["torch"]["cuda"] == "11.8"
    assert found["jaxlib"] == {"_version": "0.4.30"}
    assert [frameworks.build_cuda(found[name]) for name in ("tensorflow", "torch", "jaxlib")] == ["12.2", "11.8", None]


@pytest.mark.system
def test_what_the_index_has_is_asked_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tag in ("1.4.0-cp36-cp36m", "2.1.0-cp310-cp310", "2.1.0+cpu-cp310-cp310", "2.2.0rc1-cp310-cp310"):
        (tmp_path / f"thing-{tag}-manylinux1_x86_64.whl").write_bytes(b"")
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    assert compatibility_tables.available("thing", "3.10") == ["2.1.0"]
    assert compatibility_tables.available("thing", "3.6") == ["1.4.0"]


def _pinned(*steps: tuple[str, ...], **parts: Any) -> CellSpec:
    pip = tuple(PipStepSpec(requirements=step) for step in steps)
    return cell({"os": "debian-12", "python": "3.11"}, pip=pip, **parts)


INSTALLED = {
    "six": "1.17.0",
    "zope.interface": "6.0",
    "Typing_Extensions": "4.12.0",
    "paddlepaddle-gpu": "2.6.2.post120",
    "torch": "2.1.0+cu118",
    "opencv-python": "4.5.5.64",
    "pre": "1.0rc1",
    "tree": "9.9.dev0",
    "numpy": "1.26.4",
}


@pytest.mark.parametrize(
    ("steps", "broken"),
    [
        ([("six==1.15.0",)], "six"),
        ([("six == 1.15.*",)], "six"),
        ([("SIX===1.15.0",)], "SIX"),
        ([("gone==1.0",)], "gone"),
        ([("torch==2.1.0+cu121",)], "torch"),
        ([("paddlepaddle-gpu==2.6.2",)], "paddlepaddle-gpu"),
        ([("numpy[all]==2.0.0",)], "numpy"),
        ([("six==1.15.0; python_version >= '3'",)], "six"),
        ([("six==1.17.0",), ("six==1.15.0",)], "six"),
        ([("six==1.17",)], ""),
        ([("six==1.17.*", "six<2")], ""),
        ([("six>=2",)], ""),  # no pin
        ([("Zope_Interface==6.0", "typing.extensions==4.12")], ""),
        ([("torch==2.1.0", "torch == 2.1.0+cu118", "torch[opt-einsum]==2.1")], ""),
        ([("paddlepaddle-gpu==2.6.2.post120", "opencv-python==4.5.5.64", "pre==1.0rc1")], ""),
        ([("six==1.15.0; python_version < '3'", "six==1.17.0; python_version >= '3'")], ""),
        ([("six==1.15.0; extra == 'test'", "six==1.15.0; sys_platform == 'win32'")], ""),
        ([("tree==1.0",)], ""),
        ([("six==1.15.0",), ("six",)], ""),  # a later step asks for another one
        ([("six==1.15.0",), ("six @ https://a.example/six-1.17.0.zip",)], ""),
        ([("six==1.15.0",), ("./six-1.17.0-py2.py3-none-any.whl",)], ""),
        ([("six==1.15.0", "--target /opt/other")], ""),
        ([("git+https://a.example/six.git", "-r more.txt", "six @ https://a.example/six.zip")], ""),
    ],
)
def test_a_pin_that_measures_otherwise_is_a_mismatch(steps: list[tuple[str, ...]], broken: str) -> None:
    seen = Measured(python="3.11.2", packages={"pip": INSTALLED, "apt": {}}, source_trees=("tree",))
    found = broken_pins(_pinned(*steps), seen)
    assert [text.split("==")[0].split("asks for ")[1] for text in found] == ([broken] if broken else [])
    assert broken_pins(_pinned(*steps), Measured()) == []  # without an interpreter nothing is known


def test_a_package_that_pip_put_elsewhere_is_not_missing() -> None:
    seen = Measured(python="3.11.2", packages={"pip": {"pip": "24.0"}, "apt": {}})
    assert broken_pins(_pinned(("gone==1.0",)), seen)
    spec = _pinned(("gone==1.0",))
    assert not broken_pins(replace(spec, environment=replace(spec.environment, image="debian:12")), seen)
    assert not broken_pins(_pinned(("gone==1.0",), pip_options=("--prefix=/opt/x",)), seen)
