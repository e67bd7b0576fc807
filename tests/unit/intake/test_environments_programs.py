"""Outputs of single programs, and lists of packages."""

from __future__ import annotations

import pytest

from reprokit.intake import environments
from reprokit.intake.environments import find_blocks

SMI = """\
```
Mon Mar  6 10:11:12 2023
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:00:1E.0 Off |                    0 |
| N/A   34C    P0    38W / 300W |      0MiB / 16384MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  On   | 00000000:00:1F.0 Off |                    0 |
| N/A   34C    P0    38W / 300W |      0MiB / 16384MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
```
"""


def test_what_the_driver_supports_is_never_the_cuda_axis() -> None:
    (found,) = find_blocks(SMI)
    assert (found.kind, dict(found.axes)) == ("nvidia-smi", {})
    assert (found.driver, found.driver_cuda) == ("525.60.13", "12.0")
    assert found.gpus == ("Tesla V100-SXM2... (16384 MiB)",) * 2
    assert found.notes == ("the driver supports CUDA up to 12.0; the report does not say which CUDA was installed",)
    # Nor for whoever reads the values later: no key of theirs is CUDA.
    assert list(found.values) == ["nvidia-smi", "GPU"]
    (typed,) = find_blocks("NVIDIA-SMI 470.82.01\nDriver Version: 470.82.01\nCUDA Version: 11.4\n")
    assert (dict(typed.axes), typed.driver_cuda) == ({}, "11.4")
    (typed,) = find_blocks("- GPU: Tesla T4\n- Driver supports CUDA Version: 11.4\n- Python: 3.8\n")
    assert dict(typed.axes) == {"python": "3.8"}


def test_a_version_is_of_the_module_and_not_of_its_short_name() -> None:
    (found,) = find_blocks(">>> import wobbler as wb\n>>> wb.__version__\n'1.8.1'\n")
    assert dict(found.packages) == {"wobbler": "1.8.1"}


def test_uname_gives_the_system_but_not_the_host() -> None:
    (found,) = find_blocks("Linux box42 5.15.0-50-generic #56-Ubuntu SMP Tue x86_64 GNU/Linux\n")
    assert (found.system, found.axes) == ("linux", {})
    assert found.values == {"uname": "Linux 5.15.0-50-generic #56-Ubuntu SMP Tue x86_64 GNU/Linux"}


def test_pip_list_freeze_and_requirements() -> None:
    (listed,) = find_blocks(
        "Package    Version\n---------- -------\nabsl-py    1.3.0\nBrotli     1.0.9   /opt/x\n\nthat was it\n"
    )
    assert (listed.kind, dict(listed.packages)) == ("pip", {"absl-py": "1.3.0", "brotli": "1.0.9"})
    (frozen,) = find_blocks(
        "attrs==22.1.0\n-e git+https://example.org/a/b.git@0a1b#egg=b\n"
        "nvidia_cudnn_cu11==8.5.0.96\ntorch==1.13.1+cu117\n"
    )
    assert dict(frozen.packages) == {"attrs": "22.1.0", "nvidia-cudnn-cu11": "8.5.0.96", "torch": "1.13.1+cu117"}
    assert frozen.requirements == ("-e git+https://example.org/a/b.git@0a1b#egg=b",)
    assert dict(frozen.axes) == {"cudnn": "8.5.0.96", "cuda": "11.7"}
    (asked,) = find_blocks("torch>=1.9\nnumpy<1.24,>=1.20\ntqdm==4.64.0\nopencv-python\n")
    assert (asked.kind, asked.requirements) == (
        "requirements",
        ("torch>=1.9", "numpy<1.24,>=1.20", "tqdm==4.64.0", "opencv-python"),
    )
    assert dict(asked.packages) == {"tqdm": "4.64.0"}
    assert find_blocks("it\nfails\nhere\nagain\n") == []


def test_conda_list_separates_packages_that_are_not_for_python() -> None:
    text = """\
# packages in environment at /opt/conda/envs/x:
#
# Name                    Version                   Build  Channel
_libgcc_mutex             0.1                        main
openssl                   1.1.1s               h7f8727e_0
python                    3.9.15               h7a1cb2a_2
pytorch                   1.13.0          py3.9_cuda11.6_cudnn8.3.2_0    pytorch
numpy                     1.23.4           py39h14f4228_0
thop                      0.1.1                    pypi_0    pypi
gcc_linux-64              9.5.0               h4258300_12    conda-forge
"""
    (found,) = find_blocks(text)
    assert dict(found.axes) == {"python": "3.9.15", "cuda": "11.6", "cudnn": "8.3.2", "gcc": "9.5.0"}
    assert dict(found.packages) == {"torch": "1.13.0", "numpy": "1.23.4", "thop": "0.1.1"}


def test_sql_and_prose_are_not_a_dockerfile() -> None:
    assert find_blocks("SELECT a\nFROM users\nWHERE b\n") == []
    assert find_blocks("FROM my point of view\n") == []


@pytest.mark.parametrize(
    ("row", "words"), [({}, "'starts'"), ({"starts": "("}, r"missing \)"), ({"starts": "a", "blanks": "b"}, "'b'")]
)
def test_a_wrong_row_is_named(row: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=rf"environments\.yaml, programs, frob: .*{words}"):
        environments._compile_program({"kind": "frob", **row})
