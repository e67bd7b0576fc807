"""What the probe printed in real images (probes/), as it is read, worded and compared with what a cell asks."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.core.errors import EngineError
from reprokit.engine.protocol import ImageInfo, Trial
from reprokit.environment import probe
from reprokit.environment.axes import BY_NAME
from reprokit.environment.catalog import OURS
from reprokit.environment.comparing import compare, lacking_libraries
from reprokit.environment.measured import Measured, ProbeError
from reprokit.evidence.model import Ending
from reprokit.run.measuring import run_probe
from tests.unit.environment.builders import cell

PROBES = Path(__file__).parent / "probes"


def recorded(name: str) -> Measured:
    return Measured.parse((PROBES / f"{name}.txt").read_text())


def test_a_full_toolkit_of_the_distribution() -> None:
    seen = recorded("debian-11-cuda-11.2")
    assert (seen.os, seen.python, seen.gcc, seen.glibc) == ("debian-11", "3.9.2", "9.3.0", "2.31")
    assert (seen.cuda, seen.cuda_build, seen.cudnn) == ("11.2", "11.2.152", None)
    assert seen.nvcc == "Build cuda_11.2.r11.2/compiler.29618528_0"
    assert seen.packages["apt"]["gcc-9"] == "9.3.0-22"
    assert seen.packages["pip"]["setuptools"] == "44.1.1"


def test_ptxas_alone_tells_the_cuda_version() -> None:
    seen = recorded("debian-12-cudnn-8.9")
    assert (seen.cuda, seen.cuda_build, seen.cudnn, seen.nvcc) == ("12.0", "12.0.140", "8.9.7", None)
    assert seen.ptxas == "Build cuda_12.0.r12.0/compiler.32267302_0"


def test_the_report_block_uses_the_words_of_bug_reports() -> None:
    assert recorded("debian-13-cuda-13.5").report() == (
        "platform: Linux-5.15.0-72-generic-x86_64-with-glibc2.41\n"
        "Python: 3.13.5 (main, Aug 10 2026, 12:06:59) [GCC 14.2.0]\n"
        "NVCC: Build cuda_13.5.r13.5/compiler.39125733_0\n"
        "cudnn: none\n"
        "GPUs used: 0\n"
        "CUDA_VISIBLE_DEVICES: None\n"
        "GPU: []\n"
        "GCC: gcc (Debian 14.2.0-19) 14.2.0\n"
    )


FRAMEWORKS = """##visible
0,1
##gpu
0, GPU-1, Tesla V100-SXM2-16GB, 16384, 7.0, 525.60.13
##python
/opt/venv/lib/x.py:1: DeprecationWarning: old
{"version": "3.11.2", "words": "3.11.2 (main) [GCC 12.2.0]", "packages": {"paddleseg": "2.8.0"}, "frameworks":
##end
"""


def test_frameworks_and_gpus_are_reported() -> None:
    text = FRAMEWORKS.replace(
        '"frameworks":',
        '"frameworks": {"paddle": {"full_version": "2.6.2", "cuda_version": "11.8"}, '
        '"torch": {"__version__": "2.13.0+cpu", "cuda": null}, "cv2": {"opencv_version": "4.5.5.64"}}}',
    )
    seen = Measured.parse(text)
    assert (seen.gpu, seen.driver) == (("GPU 0: Tesla V100-SXM2-16GB",), "525.60.13")
    block = seen.report()
    for line in (
        "Paddle compiled with cuda: True",
        "Torch compiled with cuda: False",
        "CUDA_VISIBLE_DEVICES: 0,1",
        "GPU: ['GPU 0: Tesla V100-SXM2-16GB']",
        "PaddleSeg: 2.8.0",
        "PaddlePaddle: 2.6.2",
        "OpenCV: 4.5.5",
    ):
        assert line + "\n" in block


@pytest.mark.parametrize(
    ("section", "cuda"),
    [
        ('##cuda-version\n{\n  "cuda": {"name": "CUDA SDK", "version": "11.8.20220929"}\n}', "11.8"),
        ("##cudart\n/usr/local/cuda/lib64/libcudart.so.12.0.107\n/usr/local/cuda/lib64/libcudart.so.12", "12.0"),
        # The soname 11.0 serves every 11.x: it says no more than the major version.
        ("##cudart\n/usr/local/cuda/lib64/libcudart.so.11.0", "11"),
        ("##cudart\n", None),
    ],
)
def test_cuda_without_a_compiler(section: str, cuda: str | None) -> None:
    assert Measured.parse(section + "\n##end\n").cuda == cuda


def test_the_runtime_library_tells_the_release_where_there_is_no_compiler() -> None:
    """As conda-forge's CUDA, whose releases up to 10.2 are numbered like that library."""
    seen = Measured.parse("##cudart\n/usr/local/cuda/lib64/libcudart.so.10.1.243\n##end\n").versions
    assert (seen["cuda"], seen["cuda_build"]) == ("10.1", "10.1.243")
    differs = BY_NAME["cuda"].differs
    assert not differs("10.1.243", seen, OURS)
    assert differs("10.1.105", seen, OURS) == "the cell asks for cuda 10.1.105, the image measures CUDA 10.1"
    assert Measured.parse("##cudart\n/usr/lib/libcudart.so.11.0\n##end\n").cuda_build is None


LIBRARIES = """##ptxas
Cuda compilation tools, release {release}, V{release}.1
##cuda-libraries
libcudart.so
libcusolver.so: libcusolver.so: cannot open shared object file: No such file or directory
libnvJitLink.so: libnvJitLink.so: cannot open shared object file: No such file or directory
##end
"""


@pytest.mark.parametrize(
    ("release", "lacks"),
    [("12.0", ["libcusolver.so", "libnvJitLink.so"]), ("11.8", ["libcusolver.so"]), ("10.1", [])],
)
def test_a_cuda_that_lacks_a_library_is_not_what_the_cell_asks_for(release: str, lacks: list[str]) -> None:
    """As far as its release has them: libnvJitLink came with 12.0, and before 11.0 there were fewer."""
    seen = Measured.parse(LIBRARIES.format(release=release))
    assert seen.cuda_libraries == {"libcudart.so": True, "libcusolver.so": False, "libnvJitLink.so": False}
    said = lacking_libraries(cell({"cuda": release}), seen)
    assert [name for name in seen.cuda_libraries if any(name in text for text in said)] == lacks
    # no library is asked for: by the case, by a cell without CUDA, of an image that the case names
    for other in (
        cell({"cuda": release}, cuda_libraries="none"),
        cell({"cuda": "none"}),
        cell({}),
        cell({"cuda": release}, image="own:1"),
    ):
        assert lacking_libraries(other, seen) == []
    assert lacking_libraries(cell({"cuda": release}), recorded("debian-11-cuda-11.2")) == []  # never looked at


def test_the_probe_opens_each_library_by_its_plain_name(tmp_path: Path) -> None:
    """A library that is there under its full name alone is not found by programs that open libcusolver.so."""
    own = tmp_path / "lib64"
    own.mkdir()
    libc = next(Path("/lib").glob("*-linux-gnu/libm.so.6"), None)
    if libc is None:
        pytest.skip("no libm.so.6 to stand in for a library")
    for name in ("libcusolver.so", "libcufft.so.10"):
        (own / name).symlink_to(libc)
    script = "section() { printf '##%s\\n' \"$1\"; }\n" + BY_NAME["cuda"].measure.script + "\nsection end\n"
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "CUDA_HOME": str(tmp_path)}
    run = subprocess.run(
        ["sh", "-c", script], env=environ | {"LD_LIBRARY_PATH": str(own)}, capture_output=True, text=True, check=False
    )
    opens = Measured.parse(run.stdout).cuda_libraries
    assert (opens["libcusolver.so"], opens["libcufft.so"]) == (True, False)


def test_an_image_without_anything() -> None:
    seen = Measured.parse(
        "##kernel\nLinux 5.15.0 x86_64\n##os\nID=alpine\nVERSION_ID=3.19.1\n##glibc\nmusl libc\n##end\n"
    )
    assert (seen.os, seen.glibc, seen.python, seen.gcc, seen.platform) == (
        "alpine-3.19.1",
        None,
        None,
        None,
        "Linux-5.15.0-x86_64",
    )
    assert seen.packages == {"pip": {}, "apt": {}}


def test_output_that_was_cut_is_not_a_measurement() -> None:
    with pytest.raises(ProbeError, match=r"did not reach its end.*exec format error"):
        Measured.parse("##kernel\nsh: exec format error\n")


@given(st.text())
def test_whatever_an_image_prints_is_read_or_refused(text: str) -> None:
    try:
        seen = Measured.parse(text + "\n##end\n")
    except ProbeError:
        return
    assert Measured.from_json(seen.to_json()) == seen


@pytest.mark.parametrize("path", sorted(PROBES.glob("*.txt")), ids=lambda path: path.stem)
def test_a_measurement_survives_the_record(path: Path) -> None:
    seen = Measured.parse(path.read_text())
    assert Measured.from_json({**seen.to_json(), "added_later": 1}) == seen
    assert {"python", "gcc", "cuda", "cudnn", "glibc", "platform", "packages"} <= set(seen.to_json())


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"os": "debian-12", "python": "3.11", "gcc": "12.2", "cuda": "12.0", "cudnn": "8.9"},
        {"cudnn": "8.x", "cuda": "12", "paddle": "2.6.2"},
        {"cuda": "12.0.1", "cudnn": "8.9.7.29", "python": "3.11.2"},
    ],
)
def test_an_image_that_is_what_the_cell_asks(asked: dict[str, str]) -> None:
    assert compare(asked, recorded("debian-12-cudnn-8.9")) == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"gcc": "11"}, "the cell asks for gcc 11, the image measures GCC 12.2.0"),
        ({"gcc": "none"}, "the cell asks for gcc none, the image measures GCC 12.2.0"),
        ({"cuda": "12.0.0"}, "the cell asks for cuda 12.0.0, the image measures CUDA 12.0"),
        ({"cuda": "11.8"}, "the cell asks for cuda 11.8, the image measures CUDA 12.0"),
        ({"cudnn": "8.6"}, "the cell asks for cudnn 8.6, the image measures cuDNN 8.9.7"),
        ({"python": "3.1"}, "the cell asks for python 3.1, the image measures Python 3.11.2"),
        ({"os": "ubuntu-22.04"}, "the cell asks for os ubuntu-22.04, the image is debian-12"),
    ],
)
def test_an_image_that_is_something_else(asked: dict[str, str], words: str) -> None:
    assert compare(asked, recorded("debian-12-cudnn-8.9")) == [words]


def test_what_is_missing_is_said() -> None:
    assert compare({"cudnn": "8"}, recorded("debian-13-cuda-13.5")) == [
        "the cell asks for cudnn 8, the image has no cuDNN"
    ]


@pytest.mark.system
def test_the_probe_runs_on_this_host() -> None:
    done = subprocess.run(probe.command(), capture_output=True, text=True, check=True, timeout=60)
    seen = Measured.parse(done.stdout)
    assert seen.platform
    assert seen.os


def test_framework_versions_are_read_without_importing(tmp_path: Path) -> None:
    for name, text in {
        "torch/version.py": "from typing import Optional\n__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n",
        "torch/__init__.py": "raise SystemError('imported')\n",
        "paddle/version/__init__.py": "full_version = '2.6.2'\ncuda_version = 'False'\n",
        "cv2/version.py": "def broken(:\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    script = probe.command()[-1]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    )
    seen = Measured.parse(f"##python\n{done.stdout}\n##end\n")
    assert seen.frameworks["torch"] == {"__version__": "2.13.0+cpu", "cuda": None}
    assert seen.frameworks["paddle"] == {"full_version": "2.6.2", "cuda_version": "False"}
    assert "cv2" not in seen.frameworks


class OneRun:
    """An engine that prints a text and ends."""

    def __init__(self, text: bytes, ending: Ending) -> None:
        self.text, self.ending, self.trial = text, ending, None

    def run(self, trial: Trial, sink: object, cancel: threading.Event) -> Ending:
        self.trial = trial
        sink(self.text)  # type: ignore[operator]
        return self.ending


IMAGE = ImageInfo(tag="reprokit/img:1", id="sha256:1")


def test_measuring_runs_without_network_in_the_image_itself() -> None:
    engine = OneRun((PROBES / "debian-12-cudnn-8.9.txt").read_bytes(), Ending(exit_code=0))
    seen = run_probe(engine, IMAGE, gpus=("GPU-1",), cancel=threading.Event())  # type: ignore[arg-type]
    assert seen.cuda == "12.0"
    assert engine.trial is not None
    assert (engine.trial.image, engine.trial.limits.network, engine.trial.limits.gpus) == ("sha256:1", "none", 1)


def test_an_image_that_cannot_run_the_probe() -> None:
    engine = OneRun(b"exec sh: no such file\n", Ending(exit_code=127))
    with pytest.raises(EngineError, match=r"cannot measure the image reprokit/img:1.*exit status 127.*no such file"):
        run_probe(engine, IMAGE, cancel=threading.Event())  # type: ignore[arg-type]
